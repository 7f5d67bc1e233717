# SPDX-License-Identifier: Apache-2.0
"""``--memory-limit``: the cheapest plan whose replayed memory keeps it.

The program bounds live bytes, which is less than what the runtime's planner needs. So: solve within the limit, replay,
and where a replay is over, solve again within less than it has alive at once. The bound of the first of these programs
holds for every plan that keeps the limit on the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgedeploy_partitioner.errors import NotDeployable
from edgedeploy_partitioner.memory.liveness import sure_bytes
from edgedeploy_partitioner.planning.search import Search
from edgedeploy_partitioner.solver.problem import Arena, arena_floor
from edgedeploy_partitioner.solver.settle import Schedule, Settled, Stage, settle, settled_as

MAX_TIGHTENINGS = 16

Offer = tuple[Schedule, str]


def within_memory_limit(search: Search, settled: tuple[Settled, ...]) -> tuple[Settled, ...]:
    """``settled`` with the main subgraph planned to keep the limit. Raises :class:`NotDeployable`."""
    limit = search.request.memory_limit_bytes
    if limit is None:
        return settled
    memory = _Memory(search, settled)
    if memory.peak(settled[search.main].schedule) <= limit:
        return settled
    chosen = _tightened(search, settled[search.main], memory, limit)
    if chosen is None:
        raise NotDeployable(
            f"--memory-limit {limit} bytes: no plan found keeps it; the least peak of {len(memory.peaks)} tried is"
            f" {min(memory.peaks.values())} bytes, in the lines that are modelled"
        )
    return tuple(chosen if i == search.main else s for i, s in enumerate(settled))


def _tightened(search: Search, main: Settled, memory: _Memory, limit: int) -> Settled | None:
    scn = search.scenes[search.main]
    sizes, inputs = sure_bytes(scn.subgraph), frozenset(scn.subgraph.inputs)
    offers: list[Offer] = [(main.schedule, main.order), *main.others]
    tried = list(main.orders_tried)
    # What no placement changes; the least seen keeps the program's limit a necessary one.
    fixed = min(memory.peak(schedule) - memory.arena(schedule) for schedule, _ in offers)

    def stage(arena_bytes: int) -> Stage:
        arena = Arena(arena_bytes, sizes, inputs)
        return scn.with_limits(search.request.max_partitions, search.limits, arena)

    necessary = within = max(0, limit - fixed)
    for _ in range(MAX_TIGHTENINGS):
        found = settle(stage(within), scn.stock_lanes, scn.cpu_lanes)
        if found is None:
            break
        fresh = [(found.schedule, found.order), *found.others]
        tried += [name for name in found.orders_tried if name not in tried]
        offers += fresh
        best = min((s.price.total_ns for s, _ in offers if memory.peak(s) <= limit), default=None)
        over = [
            schedule
            for schedule, _ in fresh
            if memory.peak(schedule) > limit and (best is None or schedule.price.total_ns < best)
        ]
        if not over or not within:
            break
        # The next program must not allow these: each has at least its floor alive at once.
        floors = (arena_floor(stage(within).problem, schedule.groups) for schedule in over)
        within = max(0, min(within, *floors) - 1)
    fitting = [offer for offer in offers if memory.peak(offer[0]) <= limit]
    if not fitting:
        return None
    schedule, name = min(fitting, key=lambda offer: offer[0].price.total_ns)
    return settled_as(stage(necessary), schedule, name, tuple(tried))


class _Memory:
    """Peak and arena of the model with another schedule of its main subgraph."""

    def __init__(self, search: Search, settled: Sequence[Settled]) -> None:
        self.search, self.settled = search, settled
        self.peaks: dict[int, int] = {}
        self._arenas: dict[int, int] = {}
        self._seen: list[Schedule] = []

    def peak(self, schedule: Schedule) -> int:
        return self._of(schedule)[0]

    def arena(self, schedule: Schedule) -> int:
        return self._of(schedule)[1]

    def _of(self, schedule: Schedule) -> tuple[int, int]:
        if id(schedule) not in self.peaks:
            self._seen.append(schedule)  # keeps its id its own
            schedules = [schedule if i == self.search.main else s.schedule for i, s in enumerate(self.settled)]
            memory = self.search.whole(self.search.scenes, schedules).memory[0]
            self.peaks[id(schedule)], self._arenas[id(schedule)] = memory.peak_bytes, memory.arena_bytes
        return self.peaks[id(schedule)], self._arenas[id(schedule)]
