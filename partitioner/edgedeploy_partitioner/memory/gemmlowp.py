# SPDX-License-Identifier: Apache-2.0
"""google/gemmlowp, which multiplies uint8 matrices for the built-in kernels of tflite-runtime on x86-64.

Both operands and the result in 32 bits lie in one buffer, whose size is rounded up to a power of two. From
``block_params.h``, ``single_thread_gemm.h`` and ``allocator.h`` of the library.
"""

from __future__ import annotations

from edgedeploy_partitioner.memory.malloc import Block, Malloc
from edgedeploy_partitioner.memory.rounding import up
from edgedeploy_partitioner.memory.ruy import Product

_ALIGNMENT_BYTES = 64
_REGISTER_BYTES = 16
_INT32_BYTES = 4
_CACHE_BYTES = 4 << 20  # what the library takes for the last cache of any x86-64
_TILE_ROWS = 4


class Buffer:
    """The buffer of all products, which only grows: freed and allocated again."""

    def __init__(self, malloc: Malloc) -> None:
        self.bytes = 0
        self._malloc = malloc
        self._block: Block | None = None

    def multiply(self, product: Product) -> None:
        used = needed_bytes(product)
        if used > self.bytes or self._block is None:
            if self._block is not None:
                self._malloc.free(self._block)
            self.bytes = 1 << (used - 1).bit_length()
            self._block = self._malloc.allocate(self.bytes, is_aligned=True, written=0)
        self._malloc.write(self._block, used)


def needed_bytes(product: Product) -> int:
    """What is written of the buffer. The wider operand is the left one, whole; the other in blocks that fit the
    cache."""
    depth = up(product.depth, _REGISTER_BYTES)
    rows, columns = max(product.left, product.right), min(product.left, product.right)
    blocks = -(-columns // max(1, _CACHE_BYTES // depth))
    rows, columns = up(rows, _TILE_ROWS), up(-(-columns // blocks), _TILE_ROWS)
    sides = [n for width in (rows, columns) for n in (width * depth, width * _INT32_BYTES)]
    return sum(up(n, _ALIGNMENT_BYTES) for n in (*sides, rows * columns * _INT32_BYTES))
