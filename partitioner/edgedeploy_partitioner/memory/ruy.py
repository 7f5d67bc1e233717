# SPDX-License-Identifier: Apache-2.0
"""google/ruy, which multiplies matrices for TFLite's built-in kernels: what it copies, and the buffer it copies to.

Both operands are copied into blocks: padded to the tile of the kernel that the core has, for integers with the sum of
each row. From ``kernel_x86.h``, ``kernel_arm.h``, ``create_trmul_params.cc`` and ``allocator.cc`` of the library, and
read off what single ops and whole models allocate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from edgedeploy_partitioner.memory.malloc import Block, Malloc
from edgedeploy_partitioner.memory.rounding import up

_ALIGNMENT_BYTES = 64
_PERIOD_BYTES = 1024
"""Of a cache: rows of a multiple of it get 64 bytes more, and a block room to be shifted by half of it."""
_INT32_BYTES = _FLOAT_BYTES = 4


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


_AVX2 = Layout(Tile(8, 8, 4), None)
_AVX512 = Layout(Tile(16, 16, 4), None)
_ARM64 = Layout(Tile(4, 2, 16), Tile(8, 8, 1))
_ARM64_DOTPROD = Layout(Tile(8, 8, 4), Tile(8, 8, 1))


def layout(isa: Collection[str]) -> Layout:
    """How ruy lays its operands out on a core with these extensions."""
    if "asimd" not in isa:
        return _AVX512 if "avx512" in isa else _AVX2
    return _ARM64_DOTPROD if "dotprod" in isa else _ARM64


class Product(NamedTuple):
    """A product of a matrix of ``left`` rows and one of ``right`` rows, both of ``depth`` columns."""

    left: int
    right: int
    depth: int
    is_float: bool = False
    by_gemmlowp: bool = False


def blocks(product: Product, how: Layout) -> Iterator[int]:
    """Bytes of each block that ``product`` needs while it runs."""
    tile = how.floats if product.is_float and how.floats else how.small
    element = _FLOAT_BYTES if product.is_float else 1
    row = up(product.depth, tile.depth) * element
    row += _ALIGNMENT_BYTES if row % _PERIOD_BYTES == 0 else 0
    for rows in (up(product.left, tile.left), up(product.right, tile.right)):
        yield up(rows * row + _PERIOD_BYTES, _ALIGNMENT_BYTES)
        if not product.is_float:
            yield up(rows * _INT32_BYTES, _ALIGNMENT_BYTES)


class Buffer:
    """The buffer of all products, which only grows: what does not fit is allocated apart, and added afterwards.

    The blocks apart are freed once the larger buffer is there.
    """

    def __init__(self, malloc: Malloc) -> None:
        self.bytes = 0
        self._malloc = malloc
        self._block: Block | None = None

    def multiply(self, product: Product, how: Layout) -> None:
        used = missing = 0
        apart: list[Block] = []
        for size in blocks(product, how):
            if used + size <= self.bytes:
                used += size
            else:
                apart.append(self._malloc.allocate(size, is_aligned=True))
                missing += size
        if self._block is not None:
            self._malloc.write(self._block, used)
        if apart:
            if self._block is not None:
                self._malloc.free(self._block)
            self.bytes += missing
            self._block = self._malloc.allocate(self.bytes, is_aligned=True, written=0)
            for block in apart:
                self._malloc.free(block)
