# SPDX-License-Identifier: Apache-2.0
"""Tensors inside a partition that ``libedgedeploy.so`` runs by its own kernels: laid out here as the library lays them
out (``kernels_neon/src/delegate/placement.c``), to the byte."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from edgedeploy_partitioner.memory.arena import place
from edgedeploy_partitioner.memory.liveness import Block
from edgedeploy_partitioner.model.graph import Op, Subgraph
from edgedeploy_partitioner.plan import Segment

NEON = "neon"
_NOTHING: Mapping[int, int] = MappingProxyType({})


def is_own(segments: Sequence[Segment]) -> bool:
    """Do nothing but our own kernels run in the partition of these segments?"""
    return bool(segments) and all(segment.backend == NEON for segment in segments)


def leaves(subgraph: Subgraph, t: int, members: Collection[int]) -> bool:
    """Is a tensor that ``members`` make read by others, or a result?"""
    return t in subgraph.outputs or not set(members).issuperset(subgraph.consumers.get(t, ()))


def placed_inside(subgraph: Subgraph, segments: Sequence[Segment], fused: Mapping[int, int] = _NOTHING) -> int:
    """Bytes of the buffer of all tensors that are made in the partition and do not leave it.

    ``fused`` has the host of each op that runs inside another: one kernel computes both, and nothing lies between.
    """
    members = [i for segment in segments for i in segment.ops if i not in subgraph.folded]
    ops = [_with_host(subgraph, i, fused) for i in members if i not in fused.values()]
    first = {t: i for i, op in enumerate(ops) for t in op.outputs if t >= 0 and not leaves(subgraph, t, members)}
    last = first | {t: i for i, op in enumerate(ops) for t in op.inputs if t in first}
    blocks = [Block(t, max(subgraph.tensors[t].nbytes, 0), first[t], last[t]) for t in first]
    return place(sorted(blocks, key=lambda block: (-block.bytes, block.first, block.tensor)))[1]


def _with_host(subgraph: Subgraph, op: int, fused: Mapping[int, int]) -> Op:
    """The op; of one that is fused, reading what its host reads."""
    found = subgraph.ops[op]
    if op not in fused:
        return found
    host = subgraph.ops[fused[op]]
    return replace(found, inputs=(*host.inputs, *(t for t in found.inputs if t not in host.outputs)))


def unpacked_bytes(subgraph: Subgraph, segments: Sequence[Segment]) -> int:
    """Bytes of the constants that are claimed packed and that the partition's ops read."""
    members = {i for segment in segments for i in segment.ops if i not in subgraph.folded}
    read = {t for i in members for t in subgraph.ops[i].inputs if subgraph.producer.get(t) in subgraph.folded}
    claimed = (t for t in read if not leaves(subgraph, t, members))
    return sum(max(subgraph.tensors[t].nbytes, 0) for t in claimed)
