# SPDX-License-Identifier: Apache-2.0
"""The planning problem of one subgraph as numbers, and the exact price of a schedule.

Nothing here knows models, boards or names of ops. Solver, fixed point and the cross-checks in the tests all work
on these values. Times are integer nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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


@dataclass(frozen=True)
class Problem:
    """``nodes`` are in file order. ``borders`` has every tensor that a node reads or writes."""

    lanes: tuple[Lane, ...]
    nodes: tuple[Node, ...]
    borders: Mapping[int, Border]
    outputs: frozenset[int]
    """Tensors that must lie in the NHWC arena at the end."""
    max_partitions: int | None = None
    """Limit on partitions of delegates other than XNNPACK."""

    @cached_property
    def producer(self) -> Mapping[int, int]:
        """Tensor id -> position in ``nodes`` of the op that writes it."""
        return {t: i for i, node in enumerate(self.nodes) for t in node.outputs}


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


def price(problem: Problem, groups: Sequence[Group], lanes: Sequence[int]) -> Price:
    """The exact cost of running ``groups`` in this order with the given lanes.

    A tensor made in a partition and needed outside it leaves once; a tensor from outside enters once per
    partition and layout; a tensor made inside is converted once per further layout.
    """
    total = 0
    crossings: list[Crossing] = []
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
    )


def _arrival(problem: Problem, group: int, tensor: int, made_in: int | None, lane: int) -> Crossing:
    border = problem.borders[tensor]
    if made_in is None:
        return Crossing("enter", tensor, group, None, lane, border.enter_ns[lane])
    return Crossing("internal", tensor, group, made_in, lane, border.internal(made_in, lane))
