# SPDX-License-Identifier: Apache-2.0
"""A small real model with a complete plan written by hand: every kind of partition, segment and transition once.

0 DEQUANTIZE  folded, weights of op 1        partition 0
1 CONV_2D     rknn, NC1HWC2/8                partition 0, segment 0
2 GELU        neon, NHWC                     partition 0, segment 1
3 CONV_2D     rknn, NC1HWC2/8                partition 0, segment 2
4 CUMSUM      cpu, built-in kernel
5 ADD         cpu, XNNPACK                   partition 1, segment 3   (reads what op 1 made)
6 CONV_2D     rknn, NC1HWC2/8                partition 2, segment 4   (its output and that of op 4 are returned)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
import numpy as np

from edgedeploy_partitioner import plan as p
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.fingerprint import fingerprints
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes

SHAPE = (1, 8, 8, 16)
NPU = "NC1HWC2/8"
NPU_NS, NEON_NS, XNNPACK_NS, BUILTIN_NS, MOVE_NS = 10_001, 4_003, 6_007, 8_011, 1_013

NOT_MODELLED = ("packed_bytes", "delegate_internal_bytes", "npu_pool_bytes", "baseline_bytes")

Json = dict[str, Any]
Role = Literal["main", "branch", "condition", "body", "call_once", "decomposition", "unused"]
Uses = Mapping[int, tuple[Role, int]]
"""Subgraph -> its role, and how often it runs."""


def model() -> bytes:
    written = Model()
    g = written.subgraph()
    x = g.input(SHAPE)
    stored = g.constant(np.zeros((16, 1, 1, 16), np.float16))
    weights = g.apply("DEQUANTIZE", [stored], (16, 1, 1, 16))
    plain = g.constant(np.zeros((16, 1, 1, 16), np.float32))
    bias = g.constant(np.zeros(16, np.float32))
    axis = g.constant(np.array([3], np.int32))
    conv: Json = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
    a = g.apply("CONV_2D", [x, weights, bias], SHAPE, **conv)
    b = g.apply("GELU", [a], SHAPE)
    c = g.apply("CONV_2D", [b, plain, bias], SHAPE, **conv)
    d = g.apply("CUMSUM", [c, axis], SHAPE)
    e = g.apply("ADD", [d, a], SHAPE)
    f = g.apply("CONV_2D", [e, plain, bias], SHAPE, **conv)
    g.outputs(f, d)
    return written.build()


def graph() -> Graph:
    return read_bytes(model())


def plan() -> p.Plan:
    """The plan of :func:`graph`; the checker has nothing to say about it."""
    g = graph()
    ops = g.subgraphs[0].ops
    x, (a, b, c, d, e, f) = ops[1].inputs[0], (op.outputs[0] for op in ops[1:])
    npu, neon = ("rknn", "npu", NPU), ("neon", "gelu_f32", "NHWC")
    places = [(*npu, 0, None), (*npu, 0, 0), (*neon, 0, 1), (*npu, 0, 2),
              ("cpu", "builtin", "NHWC", None, None), ("cpu", "xnnpack", "NHWC", 1, 3), (*npu, 2, 4)]  # fmt: skip
    entries = tuple(_entry(g, i, *place) for i, place in enumerate(places))
    partitions = (
        p.Partition(0, 0, "edgedeploy", (0, 1, 2), 2_017),
        p.Partition(1, 0, "xnnpack", (3,), 503),
        p.Partition(2, 0, "edgedeploy", (4,), 2_017),
    )
    segments = (
        p.Segment(0, 0, "rknn", NPU, (1,), (x,), (a,), 307),
        p.Segment(1, 0, "neon", "NHWC", (2,), (a,), (b,), 0),
        p.Segment(2, 0, "rknn", NPU, (3,), (b,), (c,), 307),
        p.Segment(3, 1, "cpu", "NHWC", (5,), (d, a), (e,), 0),
        p.Segment(4, 2, "rknn", NPU, (6,), (e,), (f,), 307),
    )
    transitions = (
        _move("enter", x, 0, "NHWC", NPU),
        _move("internal", a, 0, NPU, "NHWC"),
        _move("internal", b, 0, "NHWC", NPU),
        _move("leave", a, 0, NPU, "NHWC"),
        _move("leave", c, 0, NPU, "NHWC"),
        _move("enter", e, 2, "NHWC", NPU),
        _move("leave", f, 2, NPU, "NHWC"),
    )
    total = 20_011 + 3 * NPU_NS + NEON_NS + XNNPACK_NS + BUILTIN_NS + 7 * MOVE_NS + 2 * 2_017 + 503 + 3 * 307
    tensor_bytes = 4 * 8 * 8 * 16
    return p.Plan(
        schema="edgedeploy.plan/1",
        tool=p.Tool("0"),
        inputs=p.Inputs(
            p.ModelInput("hand.tflite", g.sha256, g.size, "float16-weights", fingerprints(g)),
            p.BoardInput("rk3588", "0" * 64, "rknn"),
            p.RuntimeInput("ai-edge-litert", "2.3.0", "0" * 64, "default", "x86_64"),
            {"rknn": p.TableInput("0" * 64, "2.3.2")},
            "0" * 64,
            None,
            p.Options(4, "4-7", None, None, (), (), "refused", None, {}),
        ),
        solver=p.Solver("optimal", total, total, "file", ("file", "depth_first")),
        predicted=p.Predicted(total, total // 2, 2 * total, None, None, ()),
        baselines=p.Baselines(p.Baseline(2 * total, None, 0), p.Baseline(total + 5, None, 2)),
        backends=(
            p.BackendUse("rknn", "librknnrt.so", {"core_mask": "auto"}, "2.3.2"),
            p.BackendUse("neon", None, {}, None),
        ),
        subgraphs=(p.SubgraphUse(0, g.subgraphs[0].name, "main", 1, (1, 2, 3, 4, 5, 6)),),
        ops=entries,
        partitions=partitions,
        segments=segments,
        transitions=transitions,
        overhead_ns=20_011,
        memory=p.Memory(
            arena_bytes=4 * tensor_bytes, arena_exact=True, persistent_bytes=0, packed_bytes=None,
            delegate_internal_bytes=None, npu_pool_bytes=None, handover_bytes=100, model_bytes=g.size,
            peak_bytes=4 * tensor_bytes + 100 + g.size, peak_low_bytes=4 * tensor_bytes + 100 + g.size,
            peak_high_bytes=None, baseline_bytes=None, peak_op=(0, 4), peak_tensors=(x, a, c, d),
            lowest_arena_bytes=4 * tensor_bytes,
            timeline=(
                p.TimelineStep(0, None, 0, 3 * tensor_bytes),
                p.TimelineStep(0, 4, None, 4 * tensor_bytes),
                p.TimelineStep(0, None, 1, 4 * tensor_bytes),
                p.TimelineStep(0, None, 2, 4 * tensor_bytes),
            ),
        ),
        warnings=tuple(p.Warn("line_not_modelled", f"{line} is not modelled") for line in NOT_MODELLED),
    )  # fmt: skip


def all_builtin(g: Graph, orders: Mapping[int, tuple[int, ...]] | None = None, uses: Uses | None = None) -> p.Plan:
    """Every op of ``g`` on its built-in kernel at 1 us. ``orders`` default to the file's, ``uses`` to one main."""
    roles = uses or {0: ("main", 1)}
    candidate = p.CandidateEntry("cpu", "builtin", "NHWC", "supported", "", "", "", None, 1000, 900, 1100, "analytical")
    entries = tuple(
        p.OpEntry(
            s.index, op.index, op.code, op.custom_code, op.inputs, op.outputs, False, "cpu", "builtin", None, "NHWC",
            None, None, 1000, 900, 1100, "analytical", "memory", 0, 0, (candidate,),
        )
        for s in g.subgraphs
        for op in s.ops
    )  # fmt: skip
    total = sum(roles[e.subgraph][1] * e.predicted_ns for e in entries)
    order = {s.index: (orders or {}).get(s.index, tuple(range(len(s.ops)))) for s in g.subgraphs}
    steps = tuple(p.TimelineStep(i, op, None, 0) for i, ops in order.items() if roles[i][1] for op in ops)
    first = next(((step.subgraph, op) for step in steps if (op := step.op) is not None), None)
    base = plan()
    return msgspec.structs.replace(
        base,
        inputs=msgspec.structs.replace(
            base.inputs, model=p.ModelInput("m", g.sha256, g.size, "float32", fingerprints(g))
        ),
        solver=p.Solver("optimal", total, total, "file", ("file",)),
        predicted=p.Predicted(total, total * 9 // 10, None if uses else total * 11 // 10, None, None, ()),
        baselines=p.Baselines(p.Baseline(total, None, 0), None),
        backends=(),
        subgraphs=tuple(p.SubgraphUse(s.index, s.name, *roles[s.index], order[s.index]) for s in g.subgraphs),
        ops=entries,
        partitions=(),
        segments=(),
        transitions=(),
        overhead_ns=0,
        memory=p.Memory(0, False, 0, 0, 0, 0, 0, g.size, g.size, g.size, None, 0, first, (), 0, steps),
        warnings=(),
    )


def variables() -> bytes:
    """Two variables, read and written in turn; the handles come first."""
    written = Model()
    g = written.subgraph()
    x = g.input((1, 8))
    handles = [g.apply("VAR_HANDLE", [], (), "resource", shared_name=name) for name in "ab"]
    for handle in handles:
        g.op("ASSIGN_VARIABLE", [handle, x], [])
    g.outputs(*(g.apply("READ_VARIABLE", [handle], (1, 8)) for handle in handles))
    return written.build()


def measured_arena(subgraph: dict[str, Any]) -> int:
    """Bytes from the first to the last one that the runtime's arena uses."""
    used = [t for t in subgraph["tensors"] if t["allocation"] == "arena_rw" and t["address"] and t["bytes"]]
    return int(max(t["address"] + t["bytes"] for t in used) - min(t["address"] for t in used))


def edited(value: p.Plan, change: Callable[[Json], object]) -> p.Plan:
    """``value`` with ``change`` made to its JSON. Raises :class:`InputError` if that is no plan any more."""
    raw = json.loads(p.to_json(value))
    change(raw)
    return p.from_json(json.dumps(raw))


def _entry(g: Graph, index: int, backend: str, kernel: str, layout: str, partition: int | None,
           segment: int | None) -> p.OpEntry:  # fmt: skip
    op = g.subgraphs[0].ops[index]
    ways = {
        ("rknn", "npu", NPU): NPU_NS, ("neon", "gelu_f32", "NHWC"): NEON_NS, ("cpu", "xnnpack", "NHWC"): XNNPACK_NS,
        ("cpu", "builtin", "NHWC"): BUILTIN_NS,
    }  # fmt: skip
    folded = op.code == "DEQUANTIZE"
    ns = 0 if folded else ways[backend, kernel, layout]
    candidates = () if folded else tuple(_candidate(op.code, *way, ns) for way, ns in ways.items())
    return p.OpEntry(
        0, index, op.code, "", op.inputs, op.outputs, folded, backend, kernel, "a76" if backend == "neon" else None,
        layout, partition, segment, ns, ns // 2, 2 * ns, "analytical", "memory", 100, 200, candidates,
    )  # fmt: skip


def _candidate(code: str, backend: str, kernel: str, layout: str, ns: int) -> p.CandidateEntry:
    refused = (code, kernel) in {("CUMSUM", "npu"), ("CUMSUM", "xnnpack"), ("CUMSUM", "gelu_f32"), ("ADD", "gelu_f32")}
    return p.CandidateEntry(
        backend, kernel, layout, "refused" if refused else "supported", f"{kernel} has no {code}" if refused else "",
        "no_rule" if refused else "rule", "table", "2.3.2" if backend == "rknn" else None, ns, ns // 2, 2 * ns,
        "analytical",
    )  # fmt: skip


def _move(kind: str, tensor: int, partition: int, layout_from: str, layout_to: str) -> p.Transition:
    return p.Transition(
        0, tensor, kind, partition, layout_from, layout_to, 4096, MOVE_NS, MOVE_NS // 2, 2 * MOVE_NS, "analytical"  # type: ignore[arg-type]
    )  # fmt: skip
