# SPDX-License-Identifier: Apache-2.0
"""From settled schedules to the entries of the plan: ops, partitions, segments, transitions, bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from edgedeploy_partitioner.cost import FREE, Cost
from edgedeploy_partitioner.model.graph import Op
from edgedeploy_partitioner.model.work import work
from edgedeploy_partitioner.plan import OpEntry, Partition, Segment, Transition
from edgedeploy_partitioner.planning.candidate import Candidate
from edgedeploy_partitioner.planning.stages import FIRST_CHOSEN_LANE, Scene
from edgedeploy_partitioner.planning.target import BUILTIN_KERNEL, CPU, NHWC
from edgedeploy_partitioner.runtime.replay import Step
from edgedeploy_partitioner.solver.problem import XNNPACK, Crossing, Group, segments
from edgedeploy_partitioner.solver.settle import Schedule


@dataclass(frozen=True)
class Sums:
    """Time of one subgraph on its own: value and bounds in nanoseconds."""

    ns: int
    low_ns: int
    high_ns: int


@dataclass(frozen=True)
class Entries:
    """What one subgraph adds to the plan."""

    order: tuple[int, ...]
    ops: tuple[OpEntry, ...]
    partitions: tuple[Partition, ...]
    segments: tuple[Segment, ...]
    transitions: tuple[Transition, ...]
    sums: Sums


def entries(scene: Scene, schedule: Schedule, first_partition: int, first_segment: int) -> Entries:
    """The entries of one subgraph; ids go on from the given ones, ascending by execution order."""
    builder = _Builder(scene, schedule, first_partition, first_segment)
    partitions, cut = builder.partitions()
    ops = builder.ops(partitions, cut)
    transitions = builder.transitions(partitions)
    return Entries(
        order=_order(scene, schedule.steps),
        ops=ops,
        partitions=tuple(partitions.values()),
        segments=tuple(cut),
        transitions=transitions,
        sums=_sums(schedule, ops, transitions, builder.handovers()),
    )


@dataclass(frozen=True)
class _Builder:
    scene: Scene
    schedule: Schedule
    first_partition: int
    first_segment: int

    def partitions(self) -> tuple[dict[int, Partition], list[Segment]]:
        """Partitions by group number, and all segments."""
        found: dict[int, Partition] = {}
        cut: list[Segment] = []
        for number, group in enumerate(self.schedule.groups):
            if group.delegate is None:
                continue
            part = self.first_partition + len(found)
            ids = []
            for members in segments(group, self.schedule.lanes):
                ids.append(self.first_segment + len(cut))
                cut.append(self._segment(ids[-1], part, members))
            lane = self.scene.lanes[self.schedule.lanes[group.members[0]]]
            found[number] = Partition(part, self.scene.subgraph.index, group.delegate, tuple(ids), lane.partition_ns)
        return found, cut

    def _segment(self, number: int, partition: int, members: Sequence[int]) -> Segment:
        problem, subgraph = self.scene.stage.full, self.scene.subgraph
        lane = self.scene.lanes[self.schedule.lanes[members[0]]]
        inside = set(members)
        made = [t for i in members for t in problem.nodes[i].outputs]
        needed = {t for i, node in enumerate(problem.nodes) if i not in inside for t in node.inputs} | problem.outputs
        return Segment(
            id=number,
            partition=partition,
            backend=lane.backend,
            layout=lane.layout,
            ops=tuple(problem.nodes[i].op for i in members),
            inputs=tuple(
                dict.fromkeys(t for i in members for t in problem.nodes[i].inputs if subgraph.producer.get(t) is None
                              or problem.producer[t] not in inside)
            ),
            outputs=tuple(t for t in made if t in needed),
            handover_ns=lane.segment_ns,
        )  # fmt: skip

    def ops(self, partitions: Mapping[int, Partition], cut: Iterable[Segment]) -> tuple[OpEntry, ...]:
        partition_of = {
            i: partitions[number].id
            for number, group in enumerate(self.schedule.groups)
            for i in group.members
            if number in partitions
        }
        segment_of = {op: segment.id for segment in cut for op in segment.ops}
        claimed = {op: step for step in self.schedule.steps if step.call is not None for op in step.members}
        position = self.scene.stage.position
        found = []
        for op in self.scene.subgraph.ops:
            if op.index in position:
                i = position[op.index]
                found.append(self._entry(op, i, partition_of.get(i), segment_of.get(op.index)))
            else:
                host = next((position[m] for m in _members(claimed, op.index) if m in position), None)
                found.append(self._folded(op, host, partition_of.get(host) if host is not None else None))
        return tuple(found)

    def candidate(self, i: int) -> Candidate:
        return self.scene.choices[i][self.schedule.lanes[i]]

    def _entry(self, op: Op, i: int, partition: int | None, segment: int | None) -> OpEntry:
        chosen = self.candidate(i)
        host = self.schedule.price.fused.get(i)
        cost = (chosen.cost if host is None else chosen.fused) or FREE
        found = self._op(op, cost, chosen.backend, chosen.kernel, chosen.layout, partition, segment)
        fused_into = None if host is None else self.scene.ops[host].index
        return structs.replace(found, variant=chosen.variant, fused_into=fused_into)

    def _folded(self, op: Op, host: int | None, partition: int | None) -> OpEntry:
        """A folded op runs where its consumers run, at no cost; else once as a built-in op."""
        if host is None:
            return self._op(op, FREE, CPU, BUILTIN_KERNEL, NHWC, None, None)
        chosen = self.candidate(host)
        return self._op(op, FREE, chosen.backend, chosen.kernel, chosen.layout, partition, None)

    def _op(
        self, op: Op, cost: Cost, backend: str, kernel: str, layout: str, partition: int | None, segment: int | None
    ) -> OpEntry:
        done = work(self.scene.target.graph, op)
        return OpEntry(
            subgraph=op.subgraph,
            index=op.index,
            op=op.code,
            custom_code=op.custom_code,
            inputs=op.inputs,
            outputs=op.outputs,
            folded=op.index not in self.scene.stage.position,
            backend=backend,
            kernel=kernel,
            variant=None,
            layout=layout,
            partition=partition,
            segment=segment,
            predicted_ns=cost.ns,
            low_ns=cost.low_ns,
            high_ns=cost.high_ns,
            provenance=cost.provenance,
            bound=cost.bound,
            macs=done.macs,
            bytes=done.bytes,
            candidates=tuple(c.entry() for c in self.scene.candidates.get(op.index, ())),
        )

    def transitions(self, partitions: Mapping[int, Partition]) -> tuple[Transition, ...]:
        return tuple(
            self._transition(crossing, partitions[crossing.group].id)
            for crossing in self.schedule.price.crossings
            if self.schedule.groups[crossing.group].delegate != XNNPACK
        )

    def _transition(self, crossing: Crossing, partition: int) -> Transition:
        tensor = self.scene.subgraph.tensors[crossing.tensor]
        layout_from = NHWC if crossing.lane_from is None else self.scene.lanes[crossing.lane_from].layout
        layout_to = NHWC if crossing.lane_to is None else self.scene.lanes[crossing.lane_to].layout
        target = self.scene.target
        if crossing.kind == "enter":
            cost = target.enter(tensor, self._backend(crossing.lane_to), layout_to)
        elif crossing.kind == "leave":
            cost = target.leave(tensor, self._backend(crossing.lane_from), layout_from)
        else:
            cost = target.internal(tensor, layout_from, layout_to)
        return Transition(
            subgraph=self.scene.subgraph.index,
            tensor=tensor.id,
            kind=crossing.kind,
            partition=partition,
            layout_from=layout_from,
            layout_to=layout_to,
            bytes=tensor.nbytes,
            predicted_ns=cost.ns,
            low_ns=cost.low_ns,
            high_ns=cost.high_ns,
            provenance=cost.provenance,
            path=cost.path,
        )

    def _backend(self, lane: int | None) -> str:
        assert lane is not None
        return self.scene.lanes[lane].backend

    def handovers(self) -> Sums:
        """All partition and segment hand-overs together."""
        costs = [cost for group in self.schedule.groups for cost in self._handover(group)]
        return Sums(
            ns=sum(c.ns for c in costs),
            low_ns=sum(c.low_ns for c in costs),
            high_ns=sum(c.ns if c.high_ns is None else c.high_ns for c in costs),
        )

    def _handover(self, group: Group) -> list[Cost]:
        target, lanes = self.scene.target, self.schedule.lanes
        if group.delegate is None:
            return []
        if lanes[group.members[0]] < FIRST_CHOSEN_LANE:
            return [target.xnnpack_handover]
        parts = segments(group, lanes)
        return [
            target.partition_handover(group.delegate),
            *(target.segment_handover(self._backend(lanes[part[0]])) for part in parts),
        ]


def _members(claimed: Mapping[int, Step], op: int) -> tuple[int, ...]:
    return claimed[op].members if op in claimed else ()


def _order(scene: Scene, steps: Sequence[Step]) -> tuple[int, ...]:
    """Ops as they run. A folded op is left out inside a delegate node, which only reads its constant."""
    return tuple(op for s in steps for op in s.members if s.call is None or op in scene.stage.position)


def _sums(schedule: Schedule, ops: Sequence[OpEntry], transitions: Sequence[Transition], handovers: Sums) -> Sums:
    timed = [(o.predicted_ns, o.low_ns, o.high_ns) for o in ops]
    timed += [(t.predicted_ns, t.low_ns, t.high_ns) for t in transitions]
    total = Sums(
        ns=handovers.ns + sum(ns for ns, _, _ in timed),
        low_ns=handovers.low_ns + sum(low for _, low, _ in timed),
        high_ns=handovers.high_ns + sum(ns if high is None else high for ns, _, high in timed),
    )
    assert total.ns == schedule.price.total_ns, "the entries do not add up to the price of the schedule"
    return total
