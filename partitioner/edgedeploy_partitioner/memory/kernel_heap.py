# SPDX-License-Identifier: Apache-2.0
"""What TFLite's built-in kernels take from the heap, beside the arena: a part of ``interpreter_bytes``.

Matrix products of small integers, on ARM also of floats, run in google/ruy, which copies both operands into blocks of
its own: padded to its kernel's tile, for integers with the sum of each row. The blocks of all products lie in one
buffer, which only grows. ``TRANSPOSE_CONV`` has tensors that are not in the arena. The tiles and what is copied were
read off the heap of ai-edge-litert 2.3.0 with single-op models, on x86-64 and on emulated arm64 with and without dot
products; nothing ran on ARM hardware. What older releases do otherwise was read off the heap of whole models on x86-64.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from edgedeploy_partitioner.memory.liveness import ExecutedNode
from edgedeploy_partitioner.memory.release import LITERT_2_3, Release
from edgedeploy_partitioner.memory.rounding import up
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Tensor
from edgedeploy_partitioner.model.shapes.detection import NAME as DETECTION

Executed = Mapping[int, Sequence[ExecutedNode]]

_ALIGNMENT_BYTES = 64
_CONTEXT_BYTES = 4000  # ruy's own, from its first product on
_RUNS = 2  # the buffer may grow once more in the second
_INT32_BYTES = _FLOAT_BYTES = 4
_SMALL = (DType.INT8, DType.UINT8)


class Tile(NamedTuple):
    """Rows of the left operand, rows of the right one (its columns), and products of each, in a tile."""

    left: int
    right: int
    depth: int


@dataclass(frozen=True, slots=True)
class Layout:
    """``floats`` None: another library multiplies floats, and keeps nothing."""

    small: Tile
    floats: Tile | None


_X86_64 = Layout(Tile(8, 8, 4), None)
_ARM64 = Layout(Tile(4, 2, 16), Tile(8, 8, 1))
_ARM64_DOTPROD = Layout(Tile(8, 8, 4), Tile(8, 8, 1))


def layout(isa: Collection[str]) -> Layout:
    """How ruy lays its operands out on a core with these extensions."""
    if "asimd" not in isa:
        return _X86_64
    return _ARM64_DOTPROD if "dotprod" in isa else _ARM64


class Product(NamedTuple):
    """A product of a matrix of ``left`` rows and one of ``right`` rows, both of ``depth`` columns.

    ``sums_bytes`` are of its result before it is scaled, where that has a place of its own."""

    left: int
    right: int
    depth: int
    is_float: bool = False
    sums_bytes: int = 0


class KernelHeap(NamedTuple):
    """``kept_bytes`` stay for as long as the interpreter lives. The buffer's ``packed_bytes`` are part of them.
    ``passing_bytes`` are the most that one op takes and gives back. ``has_sums``: the buffer holds results, too.
    ``patches_bytes`` is the largest right operand."""

    kept_bytes: int
    packed_bytes: int
    passing_bytes: int
    has_sums: bool
    patches_bytes: int


def kernel_heap(graph: Graph, executed: Executed, isa: Collection[str], release: Release = LITERT_2_3) -> KernelHeap:
    """The heap that the built-in ops of ``executed`` keep after the first runs."""
    ops = [graph.subgraphs[i].ops[node.op] for i, nodes in executed.items() for node in nodes if node.op is not None]
    how = layout(isa)
    products = [p for op in ops for p in _products(graph, op, release) if how.floats or not p.is_float]
    packed = _grown(products, how)
    context = _CONTEXT_BYTES if products else 0
    return KernelHeap(
        kept_bytes=packed + context + sum(_unplanned_bytes(graph, op) for op in ops),
        packed_bytes=packed,
        passing_bytes=max((_passing_bytes(graph, op) for op in ops), default=0),
        has_sums=any(p.sums_bytes for p in products),
        patches_bytes=max((p.right * p.depth for p in products if p.right > 1), default=0),
    )


# --- ruy's buffer ----------


def _grown(products: Sequence[Product], how: Layout) -> int:
    """The buffer after all ``products`` in order. What does not fit is added to it afterwards."""
    size = 0
    for product in [*products] * _RUNS:
        used = missing = 0
        for block in _blocks(product, how):
            if used + block <= size:
                used += block
            else:
                missing += block
        size += missing
    return size


def _blocks(product: Product, how: Layout) -> Iterator[int]:
    tile = how.floats if product.is_float and how.floats else how.small
    depth = up(product.depth, tile.depth)
    for rows in (up(product.left, tile.left), up(product.right, tile.right)):
        yield up(rows * depth * (4 if product.is_float else 1), _ALIGNMENT_BYTES)
        if not product.is_float:
            yield up(rows * _INT32_BYTES, _ALIGNMENT_BYTES)
    yield up(product.sums_bytes, _ALIGNMENT_BYTES)


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
    return _of(kernel, x, filters, results, pixels, prod(taps))


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
        keeps_sums = weights.dtype is DType.UINT8 and not kernel.release.is_litert
        return (Product(left, right, depth, sums_bytes=_INT32_BYTES * left * right if keeps_sums else 0),)
    return (Product(left, right, depth, is_float=True),) if x.dtype is weights.dtype is DType.FLOAT32 else ()


_RULES: Mapping[str, Callable[[_Kernel], tuple[Product, ...]]] = {
    "CONV_2D": _conv_2d,
    "FULLY_CONNECTED": _fully_connected,
    "TRANSPOSE_CONV": _transpose_conv,
    "BATCH_MATMUL": _batch_matmul,
}


def _unplanned_bytes(graph: Graph, op: Op) -> int:
    """Of ``TRANSPOSE_CONV``: each filter's share of each pixel, for integers their sums too, and the filter turned."""
    if op.code != "TRANSPOSE_CONV":
        return 0
    try:
        filters, x = graph.operand(op, 1), graph.operand(op, 2)
        shares = _INT32_BYTES * prod(filters.shape[:3]) * x.shape[1] * x.shape[2]
        sums = 0 if x.dtype is DType.FLOAT32 else _INT32_BYTES * graph.tensor(op.subgraph, op.outputs[0]).elements
    except (LookupError, ValueError):
        return 0
    return shares + sums + filters.nbytes


def _passing_bytes(graph: Graph, op: Op) -> int:
    """Of detection: the scores of all classes and boxes once more."""
    if op.name != DETECTION or len(op.inputs) < 2 or op.inputs[1] < 0:
        return 0
    return _FLOAT_BYTES * graph.tensor(op.subgraph, op.inputs[1]).elements
