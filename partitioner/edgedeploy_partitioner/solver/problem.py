# SPDX-License-Identifier: Apache-2.0
"""The planning problem of one subgraph as numbers, and the exact price of a schedule.

Nothing here knows models, boards or names of ops. Solver, fixed point and the cross-checks in the tests all work
on these values. Times are integer nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Literal

from edgedeploy_partitioner.plan import XNNPACK as XNNPACK


@dataclass(frozen=True, slots=True)
class Lane:
    """A place where ops can run. ``delegate`` is who claims them in TFLite: None for built-in kernels."""

    delegate: str | None
    backend: str
    layout: str
    partition_ns: int = 0
    """Paid once per partition of ``delegate`` (equal in all its lanes)."""
    segment_ns: int = 0
    """Paid once per segment, a run of ops in this lane inside a partition."""


@dataclass(frozen=True, slots=True)
class Node:
    """One op: its index in the file, its computed inputs and outputs (tensor ids), and its cost per lane."""

    op: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    costs: tuple[int | None, ...]
    """Nanoseconds by lane; None where the op cannot run."""


@dataclass(frozen=True, slots=True)
class Border:
    """What it costs to move one tensor across borders, by lane of the segment it enters or leaves.

    Lanes of one delegate and layout have equal ``enter_ns``. ``internal_ns[a][b]``: from the layout of lane a to
    that of lane b inside one partition; empty means all zero.
    """

    enter_ns: tuple[int, ...]
    leave_ns: tuple[int, ...]
    internal_ns: tuple[tuple[int, ...], ...] = ()

    def internal(self, a: int, b: int) -> int:
        return self.internal_ns[a][b] if self.internal_ns else 0


@dataclass(frozen=True, slots=True)
class Fusion:
    """Node ``node`` (a position) in ``lane``, a delegate's, runs inside one of ``hosts``, when that is before it in
    the same segment."""

    node: int
    lane: int
    hosts: tuple[int, ...]
    """Positions of nodes; any of them will do, and the first in execution order is taken."""
    saves_ns: int = 0
    """How much less than its cost the node then takes; not negative."""
    required: bool = False
    """The node cannot run in this lane otherwise."""
    also: tuple[int, ...] = ()
    """Nodes that must be in the same segment too: they read what the host makes and run inside the node."""


@dataclass(frozen=True, slots=True)
class Arena:
    """A limit on the bytes of tensors that are alive at once outside delegates.

    A tensor is alive while each op runs from the one that makes it (without one: its first reader) to its last reader,
    or, if the problem's ``outputs`` has it, to the last op. It is outside unless the op that makes it and all its
    readers are in one partition (of XNNPACK too). The runtime keeps a tensor at least that long, since it starts and
    ends with whole partitions, so no arena of the same schedule is smaller than :func:`arena_floor`.
    """

    limit_bytes: int
    bytes: Mapping[int, int]
    """By tensor id; tensors that are not named do not count."""
    pinned: frozenset[int] = frozenset()
    """Tensors that keep their place from the first op to the last, such as inputs and outputs of the model."""


@dataclass(frozen=True)
class Problem:
    """``nodes`` are in file order. ``borders`` has every tensor that a node reads or writes."""

    lanes: tuple[Lane, ...]
    nodes: tuple[Node, ...]
    borders: Mapping[int, Border]
    outputs: frozenset[int]
    """Tensors that must lie in the NHWC arena at the end."""
    max_partitions: int | None = None
    """Limit on partitions of delegates other than XNNPACK, all together."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Limit on partitions by delegate."""
    fusions: tuple[Fusion, ...] = ()
    """At most one for each node and lane."""
    arena: Arena | None = None
    """A lower bound on what the runtime's arena needs must keep this limit."""

    @cached_property
    def producer(self) -> Mapping[int, int]:
        """Tensor id -> position in ``nodes`` of the op that writes it."""
        return {t: i for i, node in enumerate(self.nodes) for t in node.outputs}

    @cached_property
    def readers(self) -> Mapping[int, tuple[int, ...]]:
        """Tensor id -> positions in ``nodes`` of the ops that read it."""
        found: dict[int, list[int]] = {}
        for i, node in enumerate(self.nodes):
            for t in dict.fromkeys(node.inputs):
                found.setdefault(t, []).append(i)
        return {t: tuple(nodes) for t, nodes in found.items()}

    def life(self, tensor: int, at: Mapping[int, int]) -> range:
        """Places in an order during which ``tensor`` is alive, as :class:`Arena` defines it. ``at``: node -> place."""
        if self.arena is not None and tensor in self.arena.pinned:
            return range(len(self.nodes))
        places = [at[i] for i in self.readers.get(tensor, ())]
        if tensor in self.producer:
            places.append(at[self.producer[tensor]])
        if not places:
            return range(0)
        return range(min(places), len(self.nodes) if tensor in self.outputs else max(places) + 1)

    def can_be_internal(self, tensor: int) -> bool:
        """Whether a partition can keep ``tensor`` to itself."""
        pinned = self.arena is not None and tensor in self.arena.pinned
        return tensor in self.producer and tensor not in self.outputs and not pinned


@dataclass(frozen=True, slots=True)
class Group:
    """Ops that run in one go: a partition, or (``delegate`` None) one op with a built-in kernel."""

    delegate: str | None
    members: tuple[int, ...]
    """Positions in ``Problem.nodes``, in execution order."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """One transition that a schedule pays for. ``lane_from``/``lane_to`` is None for the NHWC arena."""

    kind: Literal["enter", "leave", "internal"]
    tensor: int
    group: int
    lane_from: int | None
    lane_to: int | None
    cost_ns: int


@dataclass(frozen=True)
class Price:
    total_ns: int
    partitions: int
    """Groups of delegates other than XNNPACK."""
    crossings: tuple[Crossing, ...]
    fused: Mapping[int, int] = field(default_factory=dict)
    """Node -> the host it runs inside, both as positions."""
    stranded: tuple[int, ...] = ()
    """Nodes that can only run fused and have no host in their segment: the schedule is not legal."""


def runs(problem: Problem, order: Sequence[int], lanes: Sequence[int]) -> tuple[Group, ...]:
    """The groups of an order: maximal runs of one delegate. ``lanes`` is by position in ``Problem.nodes``."""
    groups: list[Group] = []
    for i in order:
        delegate = problem.lanes[lanes[i]].delegate
        if groups and delegate is not None and groups[-1].delegate == delegate:
            groups[-1] = Group(delegate, (*groups[-1].members, i))
        else:
            groups.append(Group(delegate, (i,)))
    return tuple(groups)


def segments(group: Group, lanes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The members of ``group`` cut where the lane changes."""
    cut: list[list[int]] = []
    for i in group.members:
        if cut and lanes[cut[-1][-1]] == lanes[i]:
            cut[-1].append(i)
        else:
            cut.append([i])
    return tuple(tuple(part) for part in cut)


def fusions(
    problem: Problem, groups: Sequence[Group], lanes: Sequence[int]
) -> tuple[Mapping[int, int], tuple[int, ...]]:
    """(node -> host it is fused into, nodes that need a host and have none) of a schedule."""
    if not problem.fusions:
        return {}, ()
    parts = [part for group in groups if group.delegate is not None for part in segments(group, lanes)]
    place = {i: (number, at) for number, part in enumerate(parts) for at, i in enumerate(part)}
    fused: dict[int, int] = {}
    stranded = []
    for fusion in problem.fusions:
        if lanes[fusion.node] != fusion.lane:
            continue
        here = place[fusion.node]
        beside = [(place[h], h) for h in fusion.hosts if h in place and place[h][0] == here[0] and place[h] < here]
        if beside and all(i in place and place[i][0] == here[0] for i in fusion.also):
            fused[fusion.node] = min(beside)[1]
        elif fusion.required:
            stranded.append(fusion.node)
    return fused, tuple(stranded)


def arena_floor(problem: Problem, groups: Sequence[Group]) -> int:
    """The most bytes that are alive at once outside delegates (see :class:`Arena`); 0 without a limit."""
    if problem.arena is None:
        return 0
    order = [i for group in groups for i in group.members]
    at = {i: k for k, i in enumerate(order)}
    home = {i: number for number, group in enumerate(groups) for i in group.members}
    change = [0] * (len(order) + 1)
    for t, size in problem.arena.bytes.items():
        life = problem.life(t, at)
        if problem.can_be_internal(t):
            own = home[problem.producer[t]]
            if groups[own].delegate is not None and all(home[i] == own for i in problem.readers.get(t, ())):
                continue
        if life:
            change[life.start] += size
            change[life.stop] -= size
    return max(accumulate(change))


def allowed(problem: Problem, groups: Sequence[Group], priced: Price) -> bool:
    """Whether a schedule keeps the limits of ``problem`` and strands no node. (Which lanes may be chosen is apart.)"""
    if priced.stranded:
        return False
    if problem.max_partitions is not None and priced.partitions > problem.max_partitions:
        return False
    if any(sum(g.delegate == who for g in groups) > most for who, most in problem.limits.items()):
        return False
    return problem.arena is None or arena_floor(problem, groups) <= problem.arena.limit_bytes


def price(problem: Problem, groups: Sequence[Group], lanes: Sequence[int]) -> Price:
    """The exact cost of running ``groups`` in this order with the given lanes.

    A tensor made in a partition and needed outside it leaves once; a tensor from outside enters once per
    partition and layout; a tensor made inside is converted once per further layout.
    """
    total = 0
    crossings: list[Crossing] = []
    fused, stranded = fusions(problem, groups, lanes)
    total -= sum(f.saves_ns for f in problem.fusions if f.node in fused and lanes[f.node] == f.lane)
    home = {i: number for number, group in enumerate(groups) for i in group.members}
    needed_outside = set(problem.outputs)
    for i, node in enumerate(problem.nodes):
        needed_outside.update(t for t in node.inputs if t in problem.producer and home[problem.producer[t]] != home[i])
    for number, group in enumerate(groups):
        if group.delegate is not None:
            total += problem.lanes[lanes[group.members[0]]].partition_ns
            total += sum(problem.lanes[lanes[part[0]]].segment_ns for part in segments(group, lanes))
        here: dict[int, int] = {}
        present: set[tuple[int, str]] = set()
        for i in group.members:
            node, lane = problem.nodes[i], lanes[i]
            cost = node.costs[lane]
            if cost is None:
                raise ValueError(f"op {node.op} cannot run in lane {lane}")
            total += cost
            if group.delegate is not None:
                layout = problem.lanes[lane].layout
                for t in dict.fromkeys(node.inputs):
                    if (t, layout) not in present:
                        present.add((t, layout))
                        crossings.append(_arrival(problem, number, t, here.get(t), lane))
                for t in node.outputs:
                    here[t] = lane
                    present.add((t, layout))
        crossings += [
            Crossing("leave", t, number, lane, None, problem.borders[t].leave_ns[lane])
            for t, lane in here.items()
            if t in needed_outside
        ]
    return Price(
        total_ns=total + sum(c.cost_ns for c in crossings),
        partitions=sum(group.delegate not in (None, XNNPACK) for group in groups),
        crossings=tuple(crossings),
        fused=fused,
        stranded=stranded,
    )


def _arrival(problem: Problem, group: int, tensor: int, made_in: int | None, lane: int) -> Crossing:
    border = problem.borders[tensor]
    if made_in is None:
        return Crossing("enter", tensor, group, None, lane, border.enter_ns[lane])
    return Crossing("internal", tensor, group, made_in, lane, border.internal(made_in, lane))
