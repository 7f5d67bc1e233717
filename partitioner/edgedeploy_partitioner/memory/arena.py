# SPDX-License-Identifier: Apache-2.0
"""TFLite's memory planner replayed: where each tensor of a subgraph lies, and how many bytes that takes.

The runtime places tensors that live for the whole run first, by id, then the others by size, largest first, each
into the smallest gap that fits among the tensors alive with it, at a multiple of 64 bytes.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from edgedeploy_partitioner.memory.libstdcxx import sort
from edgedeploy_partitioner.memory.liveness import FOREVER, Block, ExecutedNode, Lifetimes, lifetimes
from edgedeploy_partitioner.memory.release import LITERT_2_3, Release
from edgedeploy_partitioner.memory.rounding import up
from edgedeploy_partitioner.model.graph import Graph, Subgraph

__all__ = ["Arena", "ExecutedNode", "arena", "place"]

ALIGNMENT_BYTES = 64
_PAGE_BYTES = 4096


@dataclass(frozen=True)
class Arena:
    """The arenas of one subgraph after its first run. Positions are those of the executed nodes.

    ``offsets`` has the tensors in the arena, and temporaries of kernels as ids past the tensors. ``live_bytes`` is
    what is alive during each node, without padding; its largest value bounds every planner from below.
    """

    bytes: int
    persistent_bytes: int
    offsets: Mapping[int, int]
    live_bytes: tuple[int, ...]
    blocks: tuple[Block, ...]
    unknown_scratch: tuple[int, ...]
    dynamic: tuple[int, ...]
    unwritten_bytes: int
    """Of both, whole pages that lie between what is written: they take no memory."""
    on_heap_bytes: int
    """Results that get their size at run time, as large as they are stored."""
    growth_bytes: int
    """By which it takes more than in the end while it grows, where it is planned in stages: what was there is copied
    before it is freed."""

    @property
    def exact(self) -> bool:
        """Nothing that the runtime allocates is left out or guessed."""
        return not self.unknown_scratch and not self.dynamic

    def alive(self, position: int) -> tuple[int, ...]:
        """Ids of what is alive during a node, largest first."""
        here = [b for b in self.blocks if b.first <= position <= b.last]
        return tuple(b.tensor for b in sorted(here, key=lambda b: (-b.bytes, b.tensor)))


def arena(
    graph: Graph, subgraph: Subgraph, nodes: Sequence[ExecutedNode], threads: int = 1, release: Release = LITERT_2_3
) -> Arena:
    """What the runtime allocates to run ``nodes`` in that order with ``threads`` threads."""
    lives = lifetimes(graph, subgraph, nodes, threads, release)
    stages = [sort(stage, _rank) for stage in _by_stage(lives)]
    staged = [b for stage in stages for b in stage]
    blocks = tuple(b for b in staged if b.home == "arena")
    kept = tuple(replace(b, last=FOREVER) for b in staged if b.home == "persistent")
    (offsets, size), (kept_offsets, kept_size) = place(blocks), place(kept)
    return Arena(
        bytes=size,
        persistent_bytes=kept_size,
        offsets=offsets,
        live_bytes=_live_bytes(blocks, len(nodes)),
        blocks=blocks,
        unknown_scratch=lives.unknown_scratch,
        dynamic=lives.dynamic,
        unwritten_bytes=_unwritten_bytes(blocks, offsets, size) + _unwritten_bytes(kept, kept_offsets, kept_size),
        on_heap_bytes=lives.on_heap_bytes,
        growth_bytes=_growth_bytes(stages, offsets, size),
    )


def _by_stage(lives: Lifetimes) -> Iterator[list[Block]]:
    """The runtime places what it can plan for, runs, and then places what it knows the size of by then."""
    bounds = (0, *lives.stages, FOREVER)
    for start, end in pairwise(bounds):
        yield [b for b in lives.blocks if start <= b.first < end]


def _rank(block: Block) -> tuple[int, int, int]:
    if block.first == 0 and block.last == FOREVER:
        return 0, block.tensor, 0
    return 1, -block.bytes, block.first


def place(blocks: Iterable[Block]) -> tuple[Mapping[int, int], int]:
    """Place ``blocks`` in the given order: the offset of each, by tensor, and the size of the arena."""
    placed: list[tuple[int, int, Block]] = []
    offsets: dict[int, int] = {}
    size = 0
    for block in blocks:
        offset = _best_fit(block, placed)
        offsets[block.tensor] = offset
        insort(placed, (offset, len(offsets), block))
        size = max(size, offset + block.bytes)
    return offsets, size


def _best_fit(block: Block, placed: Sequence[tuple[int, int, Block]]) -> int:
    best: int | None = None
    best_gap = 0
    end = 0
    for offset, _, other in placed:
        if other.last < block.first or other.first > block.last:
            continue
        start = up(end, ALIGNMENT_BYTES)
        if start + block.bytes <= offset and (best is None or offset - start < best_gap):
            best = start
            best_gap = offset - end  # from the unaligned end, as the runtime has it
        end = max(end, offset + other.bytes)
    return up(end, ALIGNMENT_BYTES) if best is None else best


def _growth_bytes(stages: Sequence[Sequence[Block]], offsets: Mapping[int, int], final_bytes: int) -> int:
    """Only of what is there before the first run, as later sizes are not known."""
    first = [b for b in stages[0] if b.home == "arena"]
    size = max((offsets[b.tensor] + b.bytes for b in first), default=0)
    if size == final_bytes:
        return 0
    return max(0, 2 * size - _unwritten_bytes(first, offsets, size) - final_bytes)


def _unwritten_bytes(blocks: Iterable[Block], offsets: Mapping[int, int], size: int) -> int:
    """Whole pages in the gaps that no written block covers. Where an arena starts in a page is not known: on average
    a gap loses one to its ends."""
    total = reached = 0
    for offset, block in sorted(((offsets[b.tensor], b) for b in blocks if b.written), key=lambda pair: pair[0]):
        total += max(0, offset - reached - _PAGE_BYTES)
        reached = max(reached, offset + block.bytes)
    return total + max(0, size - reached - _PAGE_BYTES)


def _live_bytes(blocks: Iterable[Block], nodes: int) -> tuple[int, ...]:
    change = [0] * (nodes + 1)
    for block in blocks:
        change[min(block.first, nodes)] += block.bytes
        if block.last < nodes:
            change[block.last + 1] -= block.bytes
    live, result = 0, []
    for step in change[:nodes]:
        live += step
        result.append(live)
    return tuple(result)
