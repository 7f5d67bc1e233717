# SPDX-License-Identifier: Apache-2.0
"""Schedules of all subgraphs together, and what they come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from edgedeploy_partitioner import plan as p
from edgedeploy_partitioner.cost import Range, fixed
from edgedeploy_partitioner.memory.lines import memory_lines, without_bound
from edgedeploy_partitioner.memory.liveness import ExecutedNode
from edgedeploy_partitioner.memory.platform import Platform
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.planning.assemble import Entries, entries
from edgedeploy_partitioner.planning.calls import Use, bounds, uses
from edgedeploy_partitioner.planning.stages import Scene
from edgedeploy_partitioner.planning.target import Target
from edgedeploy_partitioner.solver.settle import Schedule
from edgedeploy_partitioner.support.kernels import NEON
from edgedeploy_profiles import load_core


@dataclass(frozen=True)
class Whole:
    """Schedules of all subgraphs together, and what they come to."""

    graph: Graph
    main: int
    target: Target
    scenes: Sequence[Scene]
    schedules: Sequence[Schedule]

    @cached_property
    def entries(self) -> tuple[Entries, ...]:
        found: list[Entries] = []
        for scn, schedule in zip(self.scenes, self.schedules, strict=True):
            parts = sum(len(e.partitions) for e in found)
            segs = sum(len(e.segments) for e in found)
            found.append(entries(scn, schedule, parts, segs))
        return tuple(found)

    @cached_property
    def uses(self) -> Mapping[int, Use]:
        own = {i: e.sums.ns for i, e in enumerate(self.entries)}
        return uses(self.graph, self.main, own, self.target.takes_whole)

    @cached_property
    def overhead(self) -> tuple[int, int, int]:
        cost = fixed(Range.of(self.target.board.overhead_us))
        return cost.ns, cost.low_ns, cost.ns if cost.high_ns is None else cost.high_ns

    @cached_property
    def latency_ns(self) -> int:
        return self.overhead[0] + self.counted(lambda i: self.entries[i].sums.ns)

    @cached_property
    def bounds_ns(self) -> tuple[int, int | None]:
        """Low and high: the cheaper branch of an IF for the low one, no high one past a WHILE."""
        low, high = bounds(
            self.graph,
            self.main,
            {i: (e.sums.low_ns, e.sums.high_ns) for i, e in enumerate(self.entries)},
            self.target.takes_whole,
        )
        return self.overhead[1] + low, None if high is None else self.overhead[2] + high

    @cached_property
    def partitions(self) -> int:
        return sum(schedule.price.partitions for schedule in self.schedules)

    @cached_property
    def memory(self) -> tuple[p.Memory, tuple[p.Warn, ...]]:
        executed = {
            scn.subgraph.index: _executed(scn, schedule)
            for scn, schedule in zip(self.scenes, self.schedules, strict=True)
        }
        memory, warns = memory_lines(self.graph, executed, self.main, self.target.cpu.threads, self._platform)
        unmodelled = [
            *(["XNNPACK unpacks constants in a node of its own"] if any(s.unpacking for s in self.schedules) else []),
            *(["the runtime frees nothing once it undid XNNPACK"] if self.target.is_undone else []),
        ]
        if not unmodelled:
            return memory, warns
        told = p.Warn("arena_lower_bound", f"{' and '.join(unmodelled)}, which is not modelled")
        return without_bound(memory), (*warns, told)

    @property
    def _platform(self) -> Platform:
        target = self.target
        by_partition: dict[int, list[p.Segment]] = {}
        for segment in (s for e in self.entries for s in e.segments):
            by_partition.setdefault(segment.partition, []).append(segment)
        fused: dict[int, dict[int, int]] = {}
        for op in (op for e in self.entries for op in e.ops):
            if op.fused_into is not None and op.backend == NEON:
                fused.setdefault(op.subgraph, {})[op.index] = op.fused_into
        return Platform(
            runtime=target.runtime.name,
            version=target.runtime.version,
            stack=None if target.stack is None else target.board.stacks[target.stack],
            backend=target.backend,
            segments={number: tuple(found) for number, found in by_partition.items()},
            core=load_core(target.board.clusters[0].core),
            baseline=target.runtime.baseline_bytes,
            fused=fused,
            is_switched=target.xnnpack == "switch",
        )

    @property
    def stranded(self) -> bool:
        """Is there an op that can only run fused, and is not?"""
        return any(schedule.price.stranded for schedule in self.schedules)

    def cold_start_ns(self) -> int | None:
        """The first run with loading and compiling; None where the stack has no figures, or nothing runs on it."""
        target = self.target
        if target.backend is None:
            return None
        ops = {(s.index, op.index): op for s in self.graph.subgraphs for op in s.ops}
        parts = [
            [ops[part.subgraph, i] for i in segment.ops]
            for e in self.entries
            for part in e.partitions
            for segment in e.segments
            if segment.partition == part.id and segment.backend == target.backend.name
        ]
        cold = target.npu.cold_start(self.graph, parts) if parts else None
        return None if cold is None else self.latency_ns + cold.ns

    def counted(self, value: Callable[[int], int]) -> int:
        """Sum over the subgraphs, each as often as it runs."""
        return sum(use.times * value(index) for index, use in self.uses.items())

    def baseline(self) -> p.Baseline:
        return p.Baseline(self.latency_ns, self.memory[0].peak_bytes, self.partitions)


def _executed(scn: Scene, schedule: Schedule) -> tuple[ExecutedNode, ...]:
    """The steps as the memory planner sees them: who runs each node."""
    lane_of = {node.op: schedule.lanes[i] for i, node in enumerate(scn.stage.full.nodes)}
    nodes = []
    for step in schedule.steps:
        lane = next((lane_of[op] for op in step.members if op in lane_of), None)
        delegate = scn.lanes[lane].delegate if step.call is not None and lane is not None else None
        op = step.op if delegate is None else None
        nodes.append(ExecutedNode(op, step.members, step.inputs, step.outputs, delegate))
    return tuple(nodes)
