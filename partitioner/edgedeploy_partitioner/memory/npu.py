# SPDX-License-Identifier: Apache-2.0
"""What an NPU's driver and the delegate in front of it hold for their part of the model.

Each run of ops that is compiled as one holds weights and activations in the NPU's form, its borders and its command
stream. How the stacks differ is in ``npu_stacks.py``, the numbers are in ``[stacks.*.memory]`` of the boards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgedeploy_partitioner.memory.inside import NEON, is_own, leaves, placed_inside, unpacked_bytes
from edgedeploy_partitioner.memory.line import Line
from edgedeploy_partitioner.memory.npu_stacks import NpuMemory, is_weight, npu_memory
from edgedeploy_partitioner.memory.platform import Platform
from edgedeploy_partitioner.model.graph import Graph, Subgraph
from edgedeploy_partitioner.plan import Segment, Warn

LIMIT = "pool_limit_bytes"


@dataclass(frozen=True, slots=True)
class NpuLines:
    delegate_internal: Line
    """CPU buffers of tensors inside delegate partitions."""
    npu_pool: Line
    """What the NPU's driver allocates."""
    handover: Line
    """Buffers in which tensors are converted at the borders of partitions."""


def npu_lines(graph: Graph, platform: Platform, partitions: Mapping[int, int]) -> NpuLines:
    """The lines of all delegate partitions together: what is loaded stays, and our own share one buffer.

    ``partitions`` has the subgraph of each delegate partition by id; XNNPACK's may be among them and are left out.
    """
    by_partition = [(graph.subgraphs[sub], platform.segments.get(number, ())) for number, sub in partitions.items()]
    found = [_of_partition(sub, platform, segments, _memory(graph, platform)) for sub, segments in by_partition]
    own = [(sub, segments) for sub, segments in by_partition if is_own(segments)]
    shared = max((placed_inside(sub, segments, platform.fused.get(sub.index, {})) for sub, segments in own), default=0)
    unpacked = sum(unpacked_bytes(sub, segments) for sub, segments in own)
    return NpuLines(
        Line.total([Line.exact(shared + unpacked), *(lines.delegate_internal for lines in found)]),
        Line.total(lines.npu_pool for lines in found),
        Line.total(lines.handover for lines in found),
    )


def pool_warnings(platform: Platform, lines: NpuLines) -> Iterator[Warn]:
    """``npu_pool_over_limit`` where the board is known to have less for the NPU."""
    limit = platform.stack.memory.get(LIMIT) if platform.stack else None
    if platform.stack is None or limit is None or lines.npu_pool.bytes <= limit.value:
        return
    yield Warn(
        "npu_pool_over_limit",
        f"the NPU's driver needs about {lines.npu_pool.bytes} bytes, {platform.stack.backend} has"
        f" {round(limit.value)} on this board: use a smaller model, or keep ops off the NPU with --forbid",
    )


def _memory(graph: Graph, platform: Platform) -> NpuMemory | None:
    if platform.stack is None or platform.backend is None:
        return None
    return npu_memory(platform.backend, platform.stack, graph)


def _of_partition(
    subgraph: Subgraph, platform: Platform, segments: Sequence[Segment], npu: NpuMemory | None
) -> NpuLines:
    pool = handover = Line.none()
    members = {op for segment in segments for op in segment.ops}
    for segment in segments:
        if npu is None or platform.backend is None or segment.backend != platform.backend.name:
            continue
        pool += npu.pool(subgraph, segment)
        handover += npu.handover(subgraph, segment, _crossing(subgraph, segment, members))
    mixed = Line.none() if is_own(segments) else _internal(subgraph, segments, members)
    return NpuLines(mixed, pool, handover)


def _crossing(subgraph: Subgraph, segment: Segment, members: set[int]) -> Iterator[int]:
    """Tensors that come from outside the partition or leave it."""
    for t in segment.inputs:
        if subgraph.producer.get(t) not in members and not is_weight(subgraph, t):
            yield t
    for t in segment.outputs:
        if leaves(subgraph, t, members):
            yield t


def _internal(subgraph: Subgraph, segments: Sequence[Segment], members: set[int]) -> Line:
    """Tensors that C kernels make or read between NPU segments, of which no runner exists yet: at most each in a buffer
    of its own, at least the largest. The NPU's own are in its pool."""
    sizes: dict[int, int] = {}
    for segment in segments:
        if segment.backend != NEON:
            continue
        made = (t for op in segment.ops for t in subgraph.ops[op].outputs if t >= 0)
        read = (t for t in segment.inputs if subgraph.producer.get(t) in members)
        sizes |= {t: subgraph.tensors[t].nbytes for t in (*made, *read) if not leaves(subgraph, t, members)}
    if not sizes:
        return Line.none()
    total = sum(sizes.values())
    return Line(total, max(sizes.values()), total, "assumed")
