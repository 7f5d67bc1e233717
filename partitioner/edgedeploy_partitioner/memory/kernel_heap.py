# SPDX-License-Identifier: Apache-2.0
"""What TFLite's built-in kernels take from the heap, beside the arena: a part of ``interpreter_bytes``.

Matrix products of small integers, on ARM also of floats, run in :mod:`ruy` or :mod:`gemmlowp`, which copy their
operands into buffers of their own. ``TRANSPOSE_CONV`` has tensors that are not in the arena, and some ops take room
only while they run. What is multiplied was read off the heap of ai-edge-litert 2.3.0 with single-op models, on x86-64
and on emulated arm64 with and without dot products; nothing ran on ARM hardware. What older releases do otherwise was
read off the heap of whole models on x86-64.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from statistics import median_low
from typing import NamedTuple

from edgedeploy_partitioner.memory import gemmlowp, ruy
from edgedeploy_partitioner.memory.liveness import ExecutedNode
from edgedeploy_partitioner.memory.malloc import STARTS, Malloc
from edgedeploy_partitioner.memory.release import LITERT_2_3, Release
from edgedeploy_partitioner.memory.rounding import up
from edgedeploy_partitioner.memory.ruy import Layout, Product, layout
from edgedeploy_partitioner.memory.temporaries.matrices import UNITS, packs
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Tensor
from edgedeploy_partitioner.model.shapes.detection import NAME as DETECTION

Executed = Mapping[int, Sequence[ExecutedNode]]

_CONTEXT_BYTES = 1000  # ruy's own, from its first product on
_RUNS = 2  # the buffer may grow once more in the second
_INT32_BYTES = _FLOAT_BYTES = 4
_SMALL = (DType.INT8, DType.UINT8)
_THRESHOLD_BYTES = {True: 212 << 10, False: 312 << 10}
"""From which on malloc maps a block for itself, by whether it is LiteRT: 128 KiB at first, which a process of Python
has raised while it loaded. The largest block that one with NumPy 2.4, which goes with LiteRT, and with 1.26 freed."""
_COPYING = ("CONV_2D", "DEPTHWISE_CONV_2D")


class KernelHeap(NamedTuple):
    """``kept_bytes`` stay for as long as the interpreter lives; ``lasting_bytes`` of them have nothing to do with
    products. ``peak_bytes`` of the rest, and of what each op takes and gives back, are resident at the most: also those
    that are free again, but not given back to the system."""

    kept_bytes: int
    lasting_bytes: int
    peak_bytes: int


def kernel_heap(graph: Graph, executed: Executed, isa: Collection[str], release: Release = LITERT_2_3) -> KernelHeap:
    """The heap that the built-in ops of ``executed`` take in the first runs."""
    ops = [graph.subgraphs[i].ops[node.op] for i, nodes in executed.items() for node in nodes if node.op is not None]
    lasting = sum(_unplanned_bytes(graph, op, release) for op in ops)
    how = layout(isa)
    products = ([p for p in _products(graph, op, release) if how.floats or not p.is_float] for op in ops)
    taken = [([*_passing_bytes(graph, op, release)], multiplied) for op, multiplied in zip(ops, products, strict=True)]
    taken = [(passing, multiplied) for passing, multiplied in taken if passing or multiplied]
    if not taken:
        return KernelHeap(lasting, lasting, 0)
    lasting += _CONTEXT_BYTES if any(multiplied for _, multiplied in taken) else 0
    # Where the heap starts is chance, and decides which blocks are merged once they are free.
    mallocs = [Malloc(_THRESHOLD_BYTES[release.is_litert], start) for start in STARTS]
    kept = {_run(taken, how, malloc) for malloc in mallocs}.pop()  # the same wherever it starts
    return KernelHeap(lasting + kept, lasting, median_low(malloc.peak_bytes for malloc in mallocs))


def _run(taken: Sequence[tuple[Sequence[int], Sequence[Product]]], how: Layout, malloc: Malloc) -> int:
    """What the buffers of the libraries have grown to after the first runs."""
    buffer, other = ruy.Buffer(malloc), gemmlowp.Buffer(malloc)
    for passing, products in [*taken] * _RUNS:
        blocks = [malloc.allocate(n) for n in passing]
        for product in products:
            if product.by_gemmlowp:
                other.multiply(product)
            else:
                buffer.multiply(product, how)
        for block in blocks:
            malloc.free(block)
    return buffer.bytes + other.bytes


# --- what each op multiplies ----------


@dataclass(frozen=True, slots=True)
class _Kernel:
    graph: Graph
    op: Op
    release: Release

    @property
    def multiplies_vectors(self) -> bool:
        """Integers by a single row: since LiteRT in place."""
        return self.release.is_litert

    @property
    def prefers_gemmlowp(self) -> bool:
        """tflite-runtime on x86-64: uint8 is multiplied by gemmlowp, and floats by int8 of a single scale in loops."""
        return not self.release.is_litert and not self.release.is_arm

    def input(self, position: int) -> Tensor:
        """The tensor there. Raises LookupError if the op has none."""
        return self.graph.operand(self.op, position)

    @property
    def output(self) -> Tensor:
        return self.graph.tensor(self.op.subgraph, self.op.outputs[0])


def _products(graph: Graph, op: Op, release: Release) -> tuple[Product, ...]:
    rule = _RULES.get(op.code)
    try:
        return rule(_Kernel(graph, op, release)) if rule is not None else ()
    except (LookupError, ValueError, ZeroDivisionError):  # fewer inputs or dimensions than such an op has
        return ()


def _conv_2d(kernel: _Kernel) -> tuple[Product, ...]:
    """The filters by the patches. A single patch is a vector, which needs no copy; groups run elsewhere."""
    x, filters = kernel.input(0), kernel.input(1)
    results, *taps = filters.shape
    pixels = prod(kernel.output.shape[:3])
    in_place = pixels == 1 and (kernel.multiplies_vectors or x.dtype is DType.FLOAT32)
    if x.shape[3] != filters.shape[3] or (in_place and x.dtype is filters.dtype):
        return ()
    if kernel.prefers_gemmlowp and x.dtype is not filters.dtype and not _has_scales(filters):
        return ()
    return _of(kernel, x, filters, results, pixels, prod(taps))


def _has_scales(filters: Tensor) -> bool:
    return filters.quantization is not None and len(set(filters.quantization.scales)) > 1


def _fully_connected(kernel: _Kernel) -> tuple[Product, ...]:
    x, weights = kernel.input(0), kernel.input(1)
    results, depth = weights.shape
    batch = x.elements // depth
    in_place = batch == 1 and (kernel.multiplies_vectors or x.dtype is DType.FLOAT32)
    return () if in_place or x.dtype is not weights.dtype else _of(kernel, x, weights, results, batch, depth)


def _transpose_conv(kernel: _Kernel) -> tuple[Product, ...]:
    """All filters by the pixels of one picture."""
    filters, x = kernel.input(1), kernel.input(2)
    results, height, width, depth = filters.shape
    if x.dtype is not filters.dtype:
        return ()
    return _of(kernel, x, filters, results * height * width, x.shape[1] * x.shape[2], depth)


def _batch_matmul(kernel: _Kernel) -> tuple[Product, ...]:
    """Of integers; floats are multiplied in place."""
    left, right = kernel.input(0), kernel.input(1)
    *_, rows, results = kernel.output.shape
    depth = left.shape[-2 if kernel.op.options.get("adj_x") else -1]
    return _of(kernel, left, right, results, rows, depth) if left.dtype is right.dtype is not DType.FLOAT32 else ()


def _of(kernel: _Kernel, x: Tensor, weights: Tensor, left: int, right: int, depth: int) -> tuple[Product, ...]:
    if weights.dtype in _SMALL and (x.dtype in _SMALL or x.dtype is DType.FLOAT32):
        is_unsigned = weights.dtype is x.dtype is DType.UINT8
        return (Product(left, right, depth, by_gemmlowp=is_unsigned and kernel.prefers_gemmlowp),)
    return (Product(left, right, depth, is_float=True),) if x.dtype is weights.dtype is DType.FLOAT32 else ()


_RULES: Mapping[str, Callable[[_Kernel], tuple[Product, ...]]] = {
    "CONV_2D": _conv_2d,
    "FULLY_CONNECTED": _fully_connected,
    "TRANSPOSE_CONV": _transpose_conv,
    "BATCH_MATMUL": _batch_matmul,
}


def _unplanned_bytes(graph: Graph, op: Op, release: Release) -> int:
    """Of ``TRANSPOSE_CONV``: each filter's share of each pixel, for integers their sums too, and the filter turned. Of
    ``FULLY_CONNECTED`` with weights of 4 bits, before LiteRT: these in blocks, and the sum of each row."""
    if op.code == "FULLY_CONNECTED":
        return _packed_bytes(graph, op, release)
    if op.code != "TRANSPOSE_CONV":
        return 0
    try:
        filters, x = graph.operand(op, 1), graph.operand(op, 2)
        shares = _INT32_BYTES * prod(filters.shape[:3]) * x.shape[1] * x.shape[2]
        sums = 0 if x.dtype is DType.FLOAT32 else _INT32_BYTES * graph.tensor(op.subgraph, op.outputs[0]).elements
    except (LookupError, ValueError):
        return 0
    return shares + sums + filters.nbytes


def _packed_bytes(graph: Graph, op: Op, release: Release) -> int:
    try:
        units, depth = graph.operand(op, 1).shape
        if release.is_litert or not packs(graph, op):
            return 0
    except (LookupError, ValueError):
        return 0
    return up(units, UNITS) * (depth // 2 + _INT32_BYTES)


def _block_size(graph: Graph, op: Op) -> int:
    quantization = graph.operand(op, 1).quantization
    return quantization.block_size if quantization else 0


def _passing_bytes(graph: Graph, op: Op, release: Release) -> Iterator[int]:
    """Of detection: the scores of all classes and boxes once more. Of int8 convolutions, before LiteRT, room to unpack
    filters of 4 bits, which is cleared also where they have 8 (``EvalQuantizedPerChannel``). Of 4-bit weights in
    blocks, since LiteRT, the scale of each as a float."""
    try:
        if op.name == DETECTION:
            yield _FLOAT_BYTES * graph.operand(op, 1).elements
        elif op.code in _COPYING and not release.is_litert and graph.operand(op, 0).dtype is DType.INT8:
            yield 2 * graph.operand(op, 1).nbytes
        elif op.code == "FULLY_CONNECTED" and release.is_litert and packs(graph, op) and _block_size(graph, op):
            yield _FLOAT_BYTES * (graph.operand(op, 1).elements // _block_size(graph, op))
    except (LookupError, ValueError, ZeroDivisionError):
        return
