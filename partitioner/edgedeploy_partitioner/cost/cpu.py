# SPDX-License-Identifier: Apache-2.0
"""CPU cost of an op with the stock runtime's kernels, ``xnnpack`` or ``builtin``, on one cluster of a board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from edgedeploy_partitioner.cost.ranges import ZERO, Cost, Range, gb_s_us, roofline
from edgedeploy_partitioner.memory.rounding import up
from edgedeploy_partitioner.memory.tiles import Arithmetic, Tiles, tiles
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Tensor
from edgedeploy_partitioner.model.work import Work, multiplied, work
from edgedeploy_partitioner.plan import XNNPACK
from edgedeploy_profiles.schema import Board, Cluster, Core, KernelCosts, Quantity

_TILED = ("CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV", "BATCH_MATMUL")
_TILE_OF: Mapping[str, Arithmetic] = {"int8": "int8", "uint8": "uint8", "hybrid": "dynamic"}
_RUY_RESULTS = 8
FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


@dataclass(frozen=True)
class CpuCost:
    """Prices ops on ``cluster``. Times scale with the threads that have a core of their own (``parallel``), where the
    kernel uses them."""

    board: Board
    cluster: Cluster
    core: Core
    kernels: KernelCosts
    threads: int
    parallel: int

    @cached_property
    def _tiles(self) -> Tiles:
        return tiles(self.core)

    def op(self, graph: Graph, op: Op, kernel: str) -> Cost:
        """Time of one run of ``op``; ``kernel`` is ``xnnpack`` or ``builtin``."""
        done = work(graph, op)
        compute = self._cycles(graph, op, kernel, done).over(self._cycles_per_us(self._threads(op, kernel)))
        return roofline(
            overhead_us=Range.of(self.core.op_overhead_us[kernel]),
            compute_us=compute,
            memory_us=gb_s_us(done.bytes, self._bandwidth(self._threads(op, kernel), done.bytes)),
        )

    def loop(self, overhead_us: Range, instructions: Range, bytes_moved: Range, threads: int) -> Cost:
        """Time of a loop of so many instructions that moves so many bytes."""
        return roofline(
            overhead_us=overhead_us,
            compute_us=instructions.over(Range.of(self.core.ipc)).over(self._cycles_per_us(threads)),
            memory_us=bytes_moved.times(1e-3).over(self._bandwidth(threads, bytes_moved.value)),
        )

    def elements(self, graph: Graph, op: Op) -> int:
        """What instructions are counted by: elements of the outputs, or of the largest input."""
        ids = op.inputs if op.name in self.kernels.per_input else op.outputs
        tensors = _tensors(graph, op, ids)
        return (
            max((max(t.elements, 0) for t in tensors), default=0)
            if ids is op.inputs
            else sum(max(t.elements, 0) for t in tensors)
        )

    def _threads(self, op: Op, kernel: str) -> int:
        threaded = self.kernels.threaded[kernel]
        return self.parallel if "*" in threaded or op.name in threaded else 1

    def _cycles_per_us(self, threads: int) -> Range:
        efficiency = Range.of(self.core.thread_efficiency)
        speedup = Range.exact(1.0).plus(efficiency.times(threads - 1))
        return Range.of(self.cluster.clock_ghz).times(1000).times(speedup)

    def _bandwidth(self, threads: int, bytes_moved: float) -> Range:
        one, all_cores = Range.of(self.cluster.bandwidth_gb_s), Range.of(self.board.ram.bandwidth_gb_s)
        shared = Range(*(min(threads * a, max(a, b)) for a, b in zip(one, all_cores, strict=True)))
        # What fits into the last cache level can move faster than RAM; what does not is streamed, such as the weights
        # of a large FULLY_CONNECTED.
        cache = self.cluster.l3_bytes or self.cluster.l2_bytes
        can_be_cached = cache is None or bytes_moved <= cache
        return Range(shared.value, shared.low, shared.high * (2 if can_be_cached else 1))

    def _cycles(self, graph: Graph, op: Op, kernel: str, done: Work) -> Range:
        elements, ipc = self.elements(graph, op), Range.of(self.core.ipc)
        if not done.macs:
            return Range.of(self._instructions(kernel, op, _data_type(graph, op))).times(elements).over(ipc)
        arithmetic = _arithmetic(graph, op)
        rate = self._mac_rate(kernel, _mac_class(op), arithmetic)
        made = done.macs * self._made_for_each_result(graph, op, kernel, arithmetic)
        storing = self.kernels.instructions[kernel].get("output", {}).get("any")
        finish = ZERO if storing is None else Range.of(storing).times(elements).over(ipc)
        return Range.exact(made).over(rate).plus(finish)

    def _made_for_each_result(self, graph: Graph, op: Op, kernel: str, arithmetic: str) -> float:
        """Kernels of matrix products make whole tiles of results, however few of a tile are wanted.

        Seen in the instructions of 1x1 convolutions of 64 channels with 1 to 64 results, ai-edge-litert 2.3.0 on
        emulated A53 and A76: XNNPACK's are the same from 1 to 16 results of int8; floats below a tile it takes two at
        a time, at half the rate. The built-in kernels' (ruy) go in steps of 8. Each group of a convolution has tiles
        of its own: 3x3 of 64 channels takes XNNPACK more in 8 groups than in 4.
        """
        output = next(iter(_tensors(graph, op, op.outputs)), None)
        if op.code not in _TILED or output is None or not output.shape or output.shape[-1] < 1:
            return 1.0
        results = output.shape[-1]
        if kernel != XNNPACK:
            return up(results, _RUY_RESULTS) / results
        groups, is_product = _groups(graph, op)
        results = max(results // groups, 1)
        of = self._tiles.products if is_product else self._tiles.filters
        tile = of[_TILE_OF.get(arithmetic, "float32")].nr
        if arithmetic in ("float32", "float16") and results < tile:
            return min(tile, 2 * up(results, 2)) / results
        return up(results, tile) / results

    def _mac_rate(self, kernel: str, op_class: str, dtype: str) -> Range:
        """The row of the core's table; an unlisted type runs like the slowest listed one, and no faster than any.

        Without a row for float16, the core computes it as float32.
        """
        rates = self.core.macs_per_cycle[kernel][op_class]
        for known in (dtype, "float32") if dtype == "float16" else (dtype,):
            if known in rates:
                return Range.of(rates[known])
        slowest = min(rates.values(), key=lambda rate: rate.value)
        return Range(slowest.value, slowest.lowest / 10, slowest.highest)

    def _instructions(self, kernel: str, op: Op, dtype: str) -> Quantity:
        table = self.kernels.instructions[kernel]
        classes = (name for name, members in self.kernels.classes.items() if op.name in members)
        for key in (op.name, *classes, "other"):
            row = table.get(key, {})
            found = row.get(dtype) or row.get("any")
            if found is not None:
                return found
        raise KeyError(f"{kernel}.other.any")


def _tensors(graph: Graph, op: Op, ids: tuple[int, ...]) -> tuple[Tensor, ...]:
    tensors = graph.subgraphs[op.subgraph].tensors
    return tuple(tensors[t] for t in ids if t >= 0)


def _groups(graph: Graph, op: Op) -> tuple[int, bool]:
    """Of a convolution; and whether the op is a product of two matrices, as a plain 1x1 convolution is."""
    operands = [tensor.shape for tensor in _tensors(graph, op, op.inputs[:2])]
    if op.code != "CONV_2D" or [len(shape) for shape in operands] != [4, 4]:
        return 1, op.code != "TRANSPOSE_CONV"
    data, weights = operands
    groups = data[-1] // max(weights[-1], 1)
    strides = {op.options.get(key, 1) for key in ("stride_w", "stride_h")}
    return max(groups, 1), groups == 1 and weights[1:3] == (1, 1) and strides == {1}


def _mac_class(op: Op) -> str:
    return "depthwise" if op.code == "DEPTHWISE_CONV_2D" else "conv"


def _arithmetic(graph: Graph, op: Op) -> str:
    """The row of the table: ``int8``, ``uint8``, ``int16``, ``hybrid``, ``float16`` or ``float32``."""
    position = multiplied(op)
    if position is None or not 0 <= position[0] < len(op.inputs) or op.inputs[position[0]] < 0:
        return "float32"
    data = graph.tensor(op.subgraph, op.inputs[position[0]])
    if data.dtype not in FLOATS:
        return data.dtype.value
    weights = _tensors(graph, op, tuple(op.inputs[i] for i in position[1] if i < len(op.inputs)))
    if any(w.dtype not in FLOATS for w in weights):
        return "hybrid"
    return "float16" if data.dtype is DType.FLOAT16 else "float32"


def _data_type(graph: Graph, op: Op) -> str:
    tensors = _tensors(graph, op, op.inputs[:1]) or _tensors(graph, op, op.outputs[:1])
    return tensors[0].dtype.value if tensors else "any"
