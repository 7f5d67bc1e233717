# SPDX-License-Identifier: Apache-2.0
"""The GNU C library's malloc replayed for large blocks: what of them is resident, also once they are free again.

A block of at least ``M_MMAP_THRESHOLD`` bytes that fits nowhere is mapped for itself, and is gone when it is freed; the
threshold then rises to its size (mallopt(3)). Others lie in the heap, each in the smallest free gap that fits. Pages
there stay with the process until the top of the heap is free for twice the threshold. What posix_memalign cuts off
around an aligned block goes to the thread's cache of small blocks, as far as that has room, and keeps large ones apart
that are free.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from edgedeploy_partitioner.memory.rounding import up

_PAGE_BYTES = 4096
_UNIT_BYTES = 16
_HEADER_BYTES = 8  # of a block in use; a free or aligned one starts twice that before what the caller gets
_LEAST_BYTES = 32  # of a block with its header
_ALIGNMENT_BYTES = 64
_CACHED = 7  # blocks of a size that the cache holds
STARTS = (0, 16, 32, 48)
_CUT_BYTES = 112  # asked for beside an aligned block: the alignment, the least block and the header, rounded up
_TOP_PAD_BYTES = 128 << 10  # M_TOP_PAD: stays when the top is trimmed
_MOST_THRESHOLD_BYTES = 32 << 20


@dataclass(slots=True, eq=False)
class Block:
    """What was asked for, with its header. ``written`` bytes of it are resident, from its start."""

    start: int
    bytes: int
    is_mapped: bool
    written: int = 0


class Malloc:
    """``peak_bytes``: the most that was resident at once, in whole pages. The heap starts ``start`` bytes after a
    multiple of 64, one of :data:`STARTS`."""

    def __init__(self, threshold_bytes: int, start: int = 0) -> None:
        self.peak_bytes = 0
        self._threshold, self._trim = threshold_bytes, 2 * threshold_bytes
        self._free: dict[int, int] = {}  # start -> size of the gaps below the top
        self._top = self._end = start
        self._touched: set[int] = set()  # pages of the heap
        self._mapped = 0
        self._cached = Counter[int]()  # by size, blocks in the thread's cache

    def allocate(self, size: int, *, is_aligned: bool = False, written: int | None = None) -> Block:
        """``size`` bytes, of which ``written`` (all, if None) are written at once; ``is_aligned``: to 64 bytes."""
        needed = up(size + _HEADER_BYTES, _UNIT_BYTES) + (_CUT_BYTES if is_aligned else 0)
        gap = min((g for g in self._free.items() if g[1] >= needed), key=lambda g: (g[1], g[0]), default=None)
        if gap is None and needed >= self._threshold and self._top + needed + _LEAST_BYTES > self._end:
            block = Block(0, up(needed, _PAGE_BYTES), is_mapped=True)
        else:
            start = self._top if gap is None else gap[0]
            first, last = self._aligned(start, start + needed) if is_aligned else (start, start + needed)
            block = Block(first, last - first, is_mapped=False)
            if gap is None:
                self._top += needed
                if self._top + _LEAST_BYTES > self._end:
                    self._end = up(self._top + _LEAST_BYTES + _TOP_PAD_BYTES, _PAGE_BYTES)
            else:
                del self._free[start]
                if gap[1] - needed >= _LEAST_BYTES:
                    self._free[start + needed] = gap[1] - needed
        self.write(block, size if written is None else written)
        return block

    def write(self, block: Block, size: int) -> None:
        """``size`` bytes from its start on, if they were not written before."""
        if size <= block.written:
            return
        if block.is_mapped:
            self._mapped += up(size, _PAGE_BYTES) - up(block.written, _PAGE_BYTES)
        else:
            last = block.start + min(size, block.bytes) - 1
            self._touched.update(range(block.start // _PAGE_BYTES, last // _PAGE_BYTES + 1))
        block.written = size
        self.peak_bytes = max(self.peak_bytes, self._mapped + len(self._touched) * _PAGE_BYTES)

    def free(self, block: Block) -> None:
        if block.is_mapped:
            self._mapped -= up(block.written, _PAGE_BYTES)
            if self._threshold < block.bytes <= _MOST_THRESHOLD_BYTES:
                self._threshold, self._trim = block.bytes, 2 * block.bytes
            return
        self._give_back(block.start, block.start + block.bytes)

    def _aligned(self, start: int, end: int) -> tuple[int, int]:
        """Where an aligned block lies in the room from ``start`` to ``end``."""
        before = -(start + 2 * _HEADER_BYTES) % _ALIGNMENT_BYTES
        before += _ALIGNMENT_BYTES if 0 < before < _LEAST_BYTES else 0
        after = _CUT_BYTES - before
        after = after if after > _LEAST_BYTES else 0
        for cut, at in ((before, start), (after, end - after)):
            if cut and self._cached[cut] == _CACHED:
                self._free[at] = cut
            elif cut:
                self._cached[cut] += 1
        return start + before, end - after

    def _give_back(self, start: int, end: int) -> None:
        end += self._free.pop(end, 0)
        before = next((s for s, size in self._free.items() if s + size == start), start)
        self._free.pop(before, 0)
        if end < self._top:
            self._free[before] = end - before
            return
        self._top = before
        if self._end - before >= self._trim:
            self._end = up(before + _LEAST_BYTES + _TOP_PAD_BYTES, _PAGE_BYTES)
            self._touched = {page for page in self._touched if page < self._end // _PAGE_BYTES}
