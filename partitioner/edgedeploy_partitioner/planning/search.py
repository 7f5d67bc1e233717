# SPDX-License-Identifier: Apache-2.0
"""The schedules of all subgraphs: the best one, the baselines, and what if more were supported."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.planning.calls import reached
from edgedeploy_partitioner.planning.placement import OpKey, Placement, placement
from edgedeploy_partitioner.planning.request import Request
from edgedeploy_partitioner.planning.stages import Scene, scene
from edgedeploy_partitioner.planning.target import Candidate, Target
from edgedeploy_partitioner.planning.whole import Whole
from edgedeploy_partitioner.solver.settle import Schedule, Settled, execute, settle, settled_as, stock


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
        """Every subgraph on its own; limits on partitions go to the main one first. Raises :class:`InputError`."""
        left, of_delegate = self.request.max_partitions, dict(self.limits)
        found: dict[int, Settled] = {}
        for index in sorted(range(len(scenes)), key=lambda i: (i != self.main, i)):
            scn = scenes[index]
            if index not in self.running:
                found[index] = settled_as(scn.stage, self.on_cpu(scn), "all_cpu", ())
                continue
            settled = settle(scn.with_limits(left, of_delegate), scn.stock_lanes, scn.cpu_lanes)
            if settled is None:
                raise InputError(self._no_plan())
            if index != self.main and (left is not None or of_delegate):
                settled = _without_limit_bound(settled, scn)
            if left is not None:
                left -= settled.schedule.price.partitions
            for delegate in of_delegate:
                of_delegate[delegate] -= sum(g.delegate == delegate for g in settled.schedule.groups)
            found[index] = settled
        return tuple(found[i] for i in range(len(scenes)))

    def _no_plan(self) -> str:
        limit = self.request.max_partitions
        if limit is None and not self.limits:
            forced = ", ".join(f"--force {what}" for what in self.request.force)
            return f"{forced}: one of these ops only runs inside another, which the options keep elsewhere"
        option = "the back end's own limit" if limit is None else f"--max-partitions {limit}"
        return f"{option}: the forced ops need more partitions than that"

    @cached_property
    def limits(self) -> Mapping[str, int]:
        """Most partitions by delegate, where its compiler or runtime has a limit."""
        tables = self.target.tables.values()
        return {table.delegate: table.max_partitions for table in tables if table.max_partitions is not None}

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
        most = self.target.backend.max_partitions
        schedules = [
            stock(scn.stage, scn.stock_lanes, most) if scn.stock_lanes and i in self.running else self.on_cpu(scn)
            for i, scn in enumerate(scenes)
        ]
        return self.whole(scenes, schedules)

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
        found = self.whole(scenes, [s.schedule for s in self.settle(scenes)])
        # More freedom never makes the best plan worse, but the search over orders may miss it.
        return min(found, whole, key=lambda w: w.latency_ns)


def _without_limit_bound(limited: Settled, scn: Scene) -> Settled:
    """How a limit is best shared among subgraphs is not searched: past the main one only the bound without it holds."""
    free = settled_as(scn.with_limits(None), limited.schedule, limited.order, limited.orders_tried)
    return dataclasses.replace(limited, bound_ns=free.bound_ns, is_optimal=limited.is_optimal and free.is_optimal)
