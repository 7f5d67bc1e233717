# SPDX-License-Identifier: Apache-2.0
"""The Ethos-U model against the cycle estimates of Arm's own compiler, with that compiler's memory speeds.

    PYTHONPATH=tests python -m benchmarks.cost.vela          (needs ethos-u-vela)

Networks get random weights, which compress worse than trained ones. Both are estimates; which is nearer to a board is
told by ``benchmarks.cost.npu``.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.cost import npu as published
from edgedeploy_partitioner.cost import NpuCost
from edgedeploy_partitioner.cost.array import Site
from edgedeploy_partitioner.model.build import Array, Model
from edgedeploy_partitioner.model.graph import DType, Graph, Tensor
from edgedeploy_profiles.schema import Quantity
from support import vela

DRAM_GB_S = 3.75
"""Of ``Ethos_U65_High_End`` in Vela's ini."""


def to_bytes(graph: Graph) -> bytes:
    """The model as a file, with weights from a fixed seed."""
    model, main, rng = Model(), graph.subgraphs[0], np.random.default_rng(1)
    made = model.subgraph()
    ids = {}
    for t in main.tensors:
        if t.is_constant:
            ids[t.id] = made.constant(_value(graph, t, rng), t.dtype.value, t.quantization)
        elif t.id in main.inputs:
            ids[t.id] = made.input(t.shape, t.dtype.value, t.quantization)
        else:
            ids[t.id] = made.tensor(t.shape, t.dtype.value, t.quantization)
    for op in main.ops:
        options: dict[str, Any] = dict(op.options)
        made.op(op.code, [ids[t] for t in op.inputs], [ids[t] for t in op.outputs], **options)
    made.outputs(*(ids[t] for t in main.outputs))
    return model.build()


def _value(graph: Graph, t: Tensor, rng: np.random.Generator) -> Array:
    if t.dtype is not DType.INT32:
        return np.clip(rng.normal(0, 40, t.shape), -127, 127).astype(t.dtype.value)
    if t.quantization is not None or t.data is None:  # a bias
        return np.zeros(t.shape, np.int32)
    return np.frombuffer(graph.bytes_of(t.data), np.int32).reshape(t.shape)


def ratios() -> Iterator[tuple[str, float, float, dict[str, list[float]]]]:
    """Per network its name, our and Vela's milliseconds, and by kind of op the ratios of those ops that Vela gives
    1,000 cycles or more."""
    rows = [row for row in published.rows() if row.stack == "ethosu"]
    model = _alone(published.npu_of("imx93", "ethosu"))
    graphs = [published.graph_of(row.model, row.input, row.dtype) for row in rows]
    for row, graph, compiled in zip(rows, graphs, vela.compile_all(map(to_bytes, graphs)), strict=True):
        by_op: dict[int, int] = {}
        for layer in compiled.layers:
            if layer.op is not None:
                by_op[layer.op] = by_op.get(layer.op, 0) + layer.cycles
        own = {op.index: model.op(graph, op, "npu", "NHWC").ns for op in graph.subgraphs[0].ops}
        kinds: dict[str, list[float]] = {}
        for op in graph.subgraphs[0].ops:
            if by_op.get(op.index, 0) >= 1000:
                site = Site(graph, op)
                kind = "depthwise" if site.is_depthwise else "other MACs" if site.macs else "without MACs"
                kinds.setdefault(kind, []).append(own[op.index] / by_op[op.index])
        yield row.model, sum(own.values()) / 1e6, compiled.cycles / 1e6, kinds


def _alone(npu: NpuCost) -> NpuCost:
    """Without the time around each op, and with Vela's memory."""
    pinned = {"op_overhead_us": 0.0, "dram_bandwidth_gb_s": DRAM_GB_S, "weight_bandwidth_gb_s": DRAM_GB_S}
    costs = {**npu.stack.costs, **{name: Quantity(value, "assumed: Vela's") for name, value in pinned.items()}}
    stack = type(npu.stack)(npu.stack.backend, npu.stack.soc, (), costs)
    return replace(npu, stack=stack)


def main() -> None:
    if vela.version() is None:
        raise SystemExit("ethos-u-vela is not installed: pip install edgedeploy[ethosu]")
    whole: list[float] = []
    all_kinds: dict[str, list[float]] = {}
    for name, own, theirs, kinds in ratios():
        whole.append(own / theirs)
        print(f"{name:27} ours {own:7.3f} ms, Vela's {theirs:7.3f} ms, ratio {own / theirs:.2f}")
        for kind, found in kinds.items():
            all_kinds.setdefault(kind, []).extend(found)
    print(f"networks: median ratio {statistics.median(whole):.2f}")
    for kind, found in all_kinds.items():
        near = sum(0.5 <= ratio <= 2 for ratio in found)
        print(f"{kind}: {len(found)} ops, median ratio {statistics.median(found):.2f}, {near} within a factor of 2")


if __name__ == "__main__":
    main()
