# SPDX-License-Identifier: Apache-2.0
"""The schedules of all subgraphs: the best one, the baselines, and what if more were supported."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from edgedeploy_partitioner.errors import InputError, PlanningError
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.planning.calls import reached
from edgedeploy_partitioner.planning.candidate import Candidate
from edgedeploy_partitioner.planning.limit import within_memory_limit
from edgedeploy_partitioner.planning.placement import OpKey, Placement, placement
from edgedeploy_partitioner.planning.request import Request
from edgedeploy_partitioner.planning.stages import Scene, scene
from edgedeploy_partitioner.planning.target import Target
from edgedeploy_partitioner.planning.whole import Whole
from edgedeploy_partitioner.solver.settle import Schedule, Settled, execute, settle, settled_as, stock

MOST_FIRSTS = 3
"""Subgraphs besides the main one that are tried as the first to get the partitions that are allowed."""


@dataclass(frozen=True)
class Search:
    graph: Graph
    main: int
    target: Target
    request: Request

    @cached_property
    def scenes(self) -> tuple[Scene, ...]:
        """The scenes as the request has them."""
        return self.scenes_with(assume_supported=self.request.assume_unknown == "supported")

    def scenes_with(self, *, assume_supported: bool, supported: Collection[OpKey] = ()) -> tuple[Scene, ...]:
        """``supported``: ops that the NPU takes, whatever its table says."""
        return tuple(
            scene(
                self.target,
                sub.index,
                self._placement,
                assume_supported=assume_supported,
                candidates=self._candidates[sub.index],
                supported=supported,
            )
            for sub in self.graph.subgraphs
        )

    @cached_property
    def _placement(self) -> Placement:
        asked = self.request
        return placement(self.graph, self.main, asked.force, asked.forbid, self.target.backends)

    @cached_property
    def _candidates(self) -> tuple[Mapping[int, tuple[Candidate, ...]], ...]:
        return tuple(
            {op.index: self.target.candidates(op) for op in sub.ops if op.index not in sub.folded}
            for sub in self.graph.subgraphs
        )

    def settle(self, scenes: Sequence[Scene]) -> tuple[Settled, ...]:
        """Every subgraph on its own. Raises :class:`InputError`.

        Limits on partitions go to one subgraph first, then to the others as they come: to the main one, or where that
        is better to another.
        """
        found, wrong = [], None
        for first in self._firsts:
            try:
                found.append(self._settled(scenes, first))
            except InputError as error:
                wrong = wrong or error
        if not found:
            assert wrong is not None
            raise wrong
        return min(found, key=lambda settled: self.whole(scenes, [s.schedule for s in settled]).latency_ns)

    @cached_property
    def _firsts(self) -> list[int]:
        limited = self.request.max_partitions is not None or bool(self.limits)
        others = [i for i in sorted(self.running) if i != self.main]
        return [self.main, *(others[:MOST_FIRSTS] if limited else ())]

    def _settled(self, scenes: Sequence[Scene], first: int) -> tuple[Settled, ...]:
        left, of_delegate = self.request.max_partitions, dict(self.limits)
        found: dict[int, Settled] = {}
        for index in self._beginning_with(first):
            scn = scenes[index]
            if index not in self.running:
                found[index] = settled_as(scn.stage, self.on_cpu(scn), "all_cpu", ())
                continue
            settled = settle(scn.with_limits(left, of_delegate), scn.stock_lanes, scn.cpu_lanes)
            if settled is None:
                raise InputError(self._no_plan(scn))
            if index != first and (left is not None or of_delegate):
                settled = _without_limit_bound(settled, scn)
            if left is not None:
                left -= settled.schedule.price.partitions
            for delegate in of_delegate:
                of_delegate[delegate] -= sum(g.delegate == delegate for g in settled.schedule.groups)
            found[index] = settled
        if len(self._firsts) > 1:
            found[first] = _without_limit_bound(found[first], scenes[first])
        return tuple(found[i] for i in range(len(scenes)))

    def _no_plan(self, scn: Scene) -> str:
        """Why there is none: not for the limits, if there is none without them either."""
        limit = self.request.max_partitions
        if settle(scn.with_limits(None), scn.stock_lanes, scn.cpu_lanes) is None:
            forced = ", ".join(f"--force {what}" for what in self.request.force)
            return f"{forced}: one of these ops only runs inside another, which the options keep elsewhere"
        option = "the back end's own limit" if limit is None else f"--max-partitions {limit}"
        return f"{option}: the forced ops need more partitions than that"

    def _beginning_with(self, first: int) -> list[int]:
        return sorted(range(len(self.graph.subgraphs)), key=lambda i: (i != first, i != self.main, i))

    @cached_property
    def limits(self) -> Mapping[str, int]:
        """Most partitions by delegate, where its compiler or runtime has a limit."""
        tables = self.target.tables.values()
        return {table.delegate: table.max_partitions for table in tables if table.max_partitions is not None}

    def best(self, scenes: Sequence[Scene]) -> Whole:
        """The best plan of these scenes, within the limits of the request. Raises :class:`PlanningError`."""
        settled = within_memory_limit(self, scenes, self.settle(scenes))
        return self.whole(scenes, [s.schedule for s in settled])

    def whole(self, scenes: Sequence[Scene], schedules: Sequence[Schedule]) -> Whole:
        return Whole(self.graph, self.main, self.target, scenes, schedules)

    def all_cpu(self, scenes: Sequence[Scene]) -> Whole:
        return self.whole(scenes, [self.on_cpu(scn) for scn in scenes])

    def on_cpu(self, scn: Scene) -> Schedule:
        schedule = execute(scn.stage, [], scn.cpu_lanes)
        assert schedule is not None, "a plan without claims always replays"
        return schedule

    def stock(self, scenes: Sequence[Scene]) -> Whole | None:
        """What the stock delegate does when it is left to itself; None without an NPU."""
        if self.target.backend is None:
            return None
        left = self.target.backend.max_partitions
        found: dict[int, Schedule] = {}
        for i in self._beginning_with(self.main):
            lanes = scenes[i].stock_lanes
            found[i] = stock(scenes[i].stage, lanes, left) if lanes and i in self.running else self.on_cpu(scenes[i])
            if left is not None:
                left -= sum(g.delegate == self.target.backend.delegate for g in found[i].groups)
        return self.whole(scenes, [found[i] for i in range(len(scenes))])

    @cached_property
    def running(self) -> frozenset[int]:
        """Subgraphs that can run; of the others only the CPU's kernels are planned."""
        return reached(self.graph, self.main, self.target.takes_whole)

    def optimistic(self, whole: Whole) -> Whole | None:
        """The plan if every unknown verdict were a yes; None if there is no unknown one."""
        unknown = any(c.verdict == "unknown" for s in whole.scenes for cs in s.candidates.values() for c in cs)
        if not unknown or self.request.assume_unknown == "supported":
            return None
        scenes = self.scenes_with(assume_supported=True)
        try:
            found = self.best(scenes)
        except PlanningError:  # a limit on memory that the search over these plans did not meet
            return whole
        # More freedom never makes the best plan worse, but the search over orders may miss it.
        return min(found, whole, key=lambda w: w.latency_ns)


def _without_limit_bound(limited: Settled, scn: Scene) -> Settled:
    """How a limit is best shared among subgraphs is not searched: past the main one only the bound without it holds."""
    free = settled_as(scn.with_limits(None), limited.schedule, limited.order, limited.orders_tried)
    return dataclasses.replace(limited, bound_ns=free.bound_ns, is_optimal=limited.is_optimal and free.is_optimal)
