# SPDX-License-Identifier: Apache-2.0
"""``--memory-limit``: the cheapest plan whose replayed memory keeps it.

The program bounds live bytes, which is less than what the runtime's planner needs. So: solve within the limit, replay,
and where a replay is over, solve again within less than it has alive at once. The bound of the first of these programs
holds for every plan that keeps the limit on the same order.

That is done for the main subgraph. The others keep their best schedules while it can meet the limit with them; if it
cannot, they give way one by one to the ones of theirs that need least.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice
from typing import TYPE_CHECKING

from edgedeploy_partitioner.errors import NotDeployable
from edgedeploy_partitioner.memory.liveness import sure_bytes
from edgedeploy_partitioner.planning.stages import Scene
from edgedeploy_partitioner.solver.problem import Arena, arena_floor
from edgedeploy_partitioner.solver.settle import Schedule, Settled, Stage, settle, settled_as

if TYPE_CHECKING:
    from edgedeploy_partitioner.planning.search import Search

MAX_TIGHTENINGS = 24
MAX_HALVINGS = 6
MIN_STEP_BYTES = 1024
MAX_HELD_OPS = 2_000
"""Ops of all the programs in which some are held, together."""
_FEW_PARTITIONS = (0, 1, 2, 3)
"""With few partitions little is alive at once: plans that the free program would come to late."""

Offer = tuple[Schedule, str]
Hold = tuple[int, int]
"""A node of the program, and its lane."""


def within_memory_limit(search: Search, scenes: Sequence[Scene], settled: tuple[Settled, ...]) -> tuple[Settled, ...]:
    """``settled``, or what keeps the limit instead. Raises :class:`NotDeployable`."""
    limit = search.request.memory_limit_bytes
    if limit is None:
        return settled
    memory = _Memory(search, scenes)
    if memory.of([s.schedule for s in settled])[0] <= limit:
        return settled
    leaner = [i for i in sorted(search.running) if i != search.main]
    while True:
        chosen = _tightened(search, scenes, settled, memory, limit)
        if chosen is not None:
            return _with(settled, search.main, chosen)
        if not leaner:
            break
        settled = _least(search, scenes, settled, memory, leaner.pop(0))
    raise NotDeployable(
        f"--memory-limit {limit} bytes: no plan found keeps it; the least peak of {len(memory.peaks)} tried is"
        f" {min(memory.peaks)} bytes, in the lines that are modelled; 'edgedeploy memory' shows what takes it"
    )


def _with(settled: tuple[Settled, ...], index: int, chosen: Settled) -> tuple[Settled, ...]:
    return (*settled[:index], chosen, *settled[index + 1 :])


def _least(
    search: Search, scenes: Sequence[Scene], settled: tuple[Settled, ...], memory: _Memory, index: int
) -> tuple[Settled, ...]:
    """``settled`` with the schedule of subgraph ``index`` that by itself needs the least of those that were found."""
    its = settled[index]
    on_cpu = search.on_cpu(scenes[index])

    def peak(offer: Offer) -> int:
        return memory.of([offer[0] if i == index else s.schedule for i, s in enumerate(settled)], index)[0]

    schedule, name = min([(its.schedule, its.order), *its.others, (on_cpu, "all_cpu")], key=peak)
    stage = scenes[index].with_limits(None)
    return _with(settled, index, settled_as(stage, schedule, name, tuple(dict.fromkeys((*its.orders_tried, name)))))


def _tightened(
    search: Search, scenes: Sequence[Scene], settled: tuple[Settled, ...], memory: _Memory, limit: int
) -> Settled | None:
    """The best schedule of the main subgraph that keeps the limit beside those of the others."""
    scn, main = scenes[search.main], settled[search.main]
    sizes, inputs = sure_bytes(search.graph, scn.subgraph), frozenset(scn.subgraph.inputs)
    offers: list[Offer] = [(main.schedule, main.order), *main.others]
    tried = list(main.orders_tried)

    def measured(schedule: Schedule) -> tuple[int, int]:
        return memory.of([schedule if i == search.main else s.schedule for i, s in enumerate(settled)])

    def peak(schedule: Schedule) -> int:
        return measured(schedule)[0]

    def stage(arena_bytes: int) -> Stage:
        arena = Arena(arena_bytes, sizes, inputs)
        return scn.with_limits(search.request.max_partitions, search.limits, arena)

    def over(schedules: Sequence[Schedule]) -> list[Schedule]:
        """Those that are cheaper than what fits so far, and do not fit."""
        best = min((s.price.total_ns for s, _ in offers if peak(s) <= limit), default=None)
        return [s for s in schedules if peak(s) > limit and (best is None or s.price.total_ns < best)]

    def solved(stage: Stage) -> list[Schedule] | None:
        found = settle(stage, scn.stock_lanes, scn.cpu_lanes)
        if found is None:
            return None
        tried.extend(name for name in found.orders_tried if name not in tried)
        offers.extend([(found.schedule, found.order), *found.others])
        return [found.schedule, *(s for s, _ in found.others)]

    # What no placement changes; the least seen keeps the program's limit a necessary one.
    fixed = min(measured(schedule)[1] for schedule, _ in offers)
    necessary = within = above = max(0, limit - fixed)
    for few in _FEW_PARTITIONS:
        most = search.request.max_partitions
        solved(scn.with_limits(few if most is None else min(few, most), search.limits, Arena(within, sizes, inputs)))
    for _ in range(MAX_TIGHTENINGS):
        fresh = solved(stage(within))
        still = over(fresh) if fresh else []
        if not still or not within:
            break
        # The next program must not allow the worst of these: it has at least its floor alive at once.
        above, within = within, max(arena_floor(stage(within).problem, s.groups) for s in still) - 1
    for _ in range(MAX_HALVINGS):  # the step down may have been too long
        if above - within < MIN_STEP_BYTES:
            break
        between = (above + within) // 2
        fresh = solved(stage(between))
        above, within = (between, within) if fresh and over(fresh) else (above, between)
    for held in islice(_holds(scn), MAX_HELD_OPS // max(1, len(scn.ops))):
        if not over([s for s, _ in offers]):
            break
        solved(_held(stage(necessary), held))
    fitting = [offer for offer in offers if peak(offer[0]) <= limit]
    if not fitting:
        return None
    schedule, name = min(fitting, key=lambda offer: offer[0].price.total_ns)
    return settled_as(stage(necessary), schedule, name, tuple(tried))


def _holds(scn: Scene) -> Iterator[tuple[Hold, ...]]:
    """Each op held to each of its lanes, then each two of them."""
    nodes = scn.stage.problem.nodes
    single = [(at, lane) for at, node in enumerate(nodes) for lane, cost in enumerate(node.costs) if cost is not None]
    yield from ((hold,) for hold in single)
    yield from ((a, b) for a, b in combinations(single, 2) if a[0] != b[0])


def _held(stage: Stage, holds: Iterable[Hold]) -> Stage:
    """``stage`` with some ops held to a lane each: another way to come to plans that need less."""
    nodes = list(stage.problem.nodes)
    for node, lane in holds:
        costs = tuple(c if n == lane else None for n, c in enumerate(nodes[node].costs))
        nodes[node] = replace(nodes[node], costs=costs)
    return replace(stage, problem=replace(stage.problem, nodes=tuple(nodes)))


class _Memory:
    """Peak of the whole model with given schedules, and what of it does not go with the placement of ops; each
    combination is measured once."""

    def __init__(self, search: Search, scenes: Sequence[Scene]) -> None:
        self.search, self.scenes = search, scenes
        self._known: dict[tuple[int, ...], tuple[int, int]] = {}
        self._seen: list[Schedule] = []

    @property
    def peaks(self) -> list[int]:
        return [peak for key, (peak, _) in self._known.items() if key[0] == self.search.main]

    def of(self, schedules: Sequence[Schedule], main: int | None = None) -> tuple[int, int]:
        """Of the model, or of the subgraph ``main`` by itself."""
        main = self.search.main if main is None else main
        key = (main, *map(id, schedules))
        if key not in self._known:
            self._seen += schedules  # keeps their ids their own
            whole = self.search.whole(self.scenes, schedules)
            memory = replace(whole, main=main).memory[0]
            self._known[key] = memory.peak_bytes, memory.model_bytes + (memory.persistent_bytes or 0)
        return self._known[key]
