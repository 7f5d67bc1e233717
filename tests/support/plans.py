# SPDX-License-Identifier: Apache-2.0
"""Plans made by hand, for tests of what is shown. The numbers are invented and consistent: sums are exact."""

from __future__ import annotations

from collections.abc import Sequence

from edgedeploy_partitioner import plan as p
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Subgraph, Tensor

PATTERN = ("CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D", "ADD")


def sample(backends: Sequence[str], names: Sequence[str] = PATTERN, tensor_name: str = "t{}") -> tuple[p.Plan, Graph]:
    """A chain of ops, one per entry of ``backends`` (``rknn``, ``xnnpack`` or ``builtin``); runs become partitions."""
    codes = [names[i % len(names)] for i in range(len(backends))]
    partitions, segments, transitions, ops = [], [], [], []
    current: str | None = None
    for i, backend in enumerate(backends):
        if backend != current and backend != "builtin":
            partitions.append(backend)
        current = backend
        ops.append(_op(i, codes[i], backend, len(partitions) - 1 if backend != "builtin" else None))
    for id_, backend in enumerate(partitions):
        own = tuple(o.index for o in ops if o.partition == id_)
        npu = backend == "rknn"
        segments.append(
            p.Segment(id_, id_, "rknn" if npu else "cpu", "NC1HWC2/16" if npu else "NHWC", own, (), (), 8_000 * npu)
        )
        if npu:
            transitions += [_move(own[0], "enter", id_), _move(own[-1] + 1, "leave", id_)]
    built = tuple(
        p.Partition(i, 0, "edgedeploy" if b == "rknn" else "xnnpack", (i,), 90_000 if b == "rknn" else 0)
        for i, b in enumerate(partitions)
    )
    total = 20_000 + sum(o.predicted_ns for o in ops) + sum(t.predicted_ns for t in transitions)
    total += sum(x.handover_ns for x in built) + sum(s.handover_ns for s in segments)
    plan = p.Plan(
        schema="edgedeploy.plan/1",
        tool=p.Tool("0"),
        inputs=_inputs(),
        solver=p.Solver("optimal", total, total, "file", ("file",)),
        predicted=p.Predicted(total, total * 7 // 10, total * 3 // 2, None, None, ()),
        baselines=p.Baselines(p.Baseline(total * 5 // 2, None, 0), p.Baseline(total * 11 // 10, None, 3)),
        backends=(p.BackendUse("rknn", "libedgedeploy.so", {}, "2.3.2"),) if "rknn" in partitions else (),
        subgraphs=(p.SubgraphUse(0, "main", "main", 1, tuple(range(len(ops)))),),
        ops=tuple(ops),
        partitions=built,
        segments=tuple(segments),
        transitions=tuple(transitions),
        overhead_ns=20_000,
        memory=_memory(),
        warnings=(p.Warn("line_not_modelled", "npu_pool_bytes is not modelled"),),
    )
    return plan, _graph(codes, tensor_name)


def _op(i: int, code: str, backend: str, partition: int | None) -> p.OpEntry:
    npu = backend == "rknn"
    ns = 21_003 if npu else 64_007
    verdict: p.Status = "supported" if npu else "refused"
    reason = "" if npu else f"kernel {i + 9}x9 is larger than 7"
    way = p.CandidateEntry(
        "rknn", "npu", "NC1HWC2/16", verdict, reason, "max_kernel", "A.4.1", "2.3.2", 21_003, 1, 2, "analytical"
    )
    return p.OpEntry(
        0, i, code, "", (i,), (i + 1,), False, "rknn" if npu else "cpu", "npu" if npu else backend, None,
        "NC1HWC2/16" if npu else "NHWC", partition, partition, ns, ns // 2, 2 * ns, "analytical", "memory",
        1_200_000, 65_536, (way,),
    )  # fmt: skip


def _move(tensor: int, kind: str, partition: int) -> p.Transition:
    layouts = ("NHWC", "NC1HWC2/16") if kind == "enter" else ("NC1HWC2/16", "NHWC")
    return p.Transition(0, tensor, kind, partition, *layouts, 65_536, 12_000, 9_000, 20_000, "analytical")  # type: ignore[arg-type]


def _inputs() -> p.Inputs:
    return p.Inputs(
        p.ModelInput("net.tflite", "0" * 64, 1000, "int8", ("0" * 64,)),
        p.BoardInput("rk3588", "0" * 64, "rknn"),
        p.RuntimeInput("ai-edge-litert", "2.3.0", "0" * 64, "default", "x86_64"),
        {"rknn": p.TableInput("0" * 64, "2.3.2")},
        "0" * 64,
        None,
        p.Options(4, "big", None, None, (), (), "refused", None, {}),
    )


def _memory() -> p.Memory:
    return p.Memory(
        700_000, True, 0, None, None, None, None, 600_000, 1_300_000, 1_300_000, None, None, (0, 1), (1,), None, ()
    )


def _graph(codes: Sequence[str], tensor_name: str) -> Graph:
    tensors = tuple(Tensor(i, tensor_name.format(i), (1, 32, 32, 64), DType.INT8) for i in range(len(codes) + 1))
    ops = tuple(Op(0, i, code, (i,), (i + 1,)) for i, code in enumerate(codes))
    return Graph("0" * 64, 1000, 3, "", (Subgraph(0, "main", tensors, ops, (0,), (len(codes),)),))
