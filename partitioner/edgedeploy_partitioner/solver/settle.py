# SPDX-License-Identifier: Apache-2.0
"""From the program's answer to what the runtime will really execute, and back, until nothing changes.

The integer program needs an execution order; TFLite makes its own from the claims, by the epoch rule. So: solve for an
order, replay the claims, take the order that results, solve again. The best replay of all start orders is the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from edgedeploy_partitioner.runtime.replay import Step, replay, topological
from edgedeploy_partitioner.solver.problem import XNNPACK, Group, Price, Problem, allowed, price, runs
from edgedeploy_partitioner.solver.solve import Solution, solve

MAX_ROUNDS = 8


@dataclass(frozen=True)
class Stage:
    """One subgraph, ready to be planned.

    ``problem`` has only what may be chosen; ``full`` also the CPU kernel that an op gets when XNNPACK does not take it
    after all. ``travels_with`` maps a folded op to the ops that read what it unpacks. ``xnnpack`` says which of the
    ops that are still there XNNPACK claims.
    """

    problem: Problem
    full: Problem
    plan: tuple[Step, ...]
    travels_with: Mapping[int, frozenset[int]]
    xnnpack: Callable[[frozenset[int]], frozenset[int]]
    builtin_lane: int
    xnnpack_lane: int

    @cached_property
    def position(self) -> Mapping[int, int]:
        """Op index -> position in ``problem.nodes``."""
        return {node.op: i for i, node in enumerate(self.problem.nodes)}

    def positions(self, ops: Iterable[int]) -> tuple[int, ...]:
        return tuple(self.position[op] for op in ops if op in self.position)


@dataclass(frozen=True)
class Schedule:
    """What the runtime executes: ``steps`` after all claims, ``groups`` and ``lanes`` as the price sees them."""

    steps: tuple[Step, ...]
    groups: tuple[Group, ...]
    lanes: tuple[int, ...]
    price: Price

    unpacking: tuple[Step, ...] = ()
    """Delegate nodes that hold folded ops alone: XNNPACK unpacks there what a later node of its own reads."""

    @cached_property
    def order(self) -> tuple[int, ...]:
        return tuple(i for group in self.groups for i in group.members)


@dataclass(frozen=True)
class Settled:
    """A schedule with what is proved of it: ``bound_ns`` is the program's on the schedule's own order.

    ``others`` are the further schedules that were replayed, cheapest first, with the names of their start orders.
    """

    schedule: Schedule
    bound_ns: int
    is_optimal: bool
    order: str
    orders_tried: tuple[str, ...]
    others: tuple[tuple[Schedule, str], ...] = ()


def execute(stage: Stage, partitions: Sequence[Collection[int]], lanes: Sequence[int]) -> Schedule | None:
    """Replay one claim per partition (positions in ``problem.nodes``), then XNNPACK's.

    A claim that comes back as several delegate nodes becomes several claims, and claims are made in the order in
    which their nodes run. A folded op, ready from the start, may come back in a node of its own: then it is left to
    the built-in kernel. None if that does not come to rest.
    """
    claims = [frozenset(stage.problem.nodes[i].op for i in part) for part in partitions]
    left_behind: frozenset[int] = frozenset()
    for _ in range(len(stage.plan) + MAX_ROUNDS):
        steps = replay(stage.plan, [_with_folded(stage, ops) - left_behind for ops in claims])
        lone = [s.members for s in steps if s.call is not None and stage.position.keys().isdisjoint(s.members)]
        if lone:
            left_behind = left_behind.union(*lone)
            continue
        steps = _with_xnnpack(stage, steps, len(claims))
        made = [(s.call, frozenset(s.members) & stage.position.keys()) for s in steps if s.call is not None]
        nodes = [ops for call, ops in made if call < len(claims)]
        if nodes == claims:
            return _schedule(stage, steps, len(claims), lanes)
        claims = nodes
    return None


def stock(stage: Stage, lanes: Sequence[int], most: int | None = None) -> Schedule:
    """What a delegate that claims everything it can gets: one call with all ops in delegated lanes.

    Of the nodes that come of it a delegate with a limit keeps the first ``most`` in execution order; the ops of the
    others stay on the CPU. Its price may have stranded nodes.
    """
    wanted = [i for i, lane in enumerate(lanes) if stage.full.lanes[lane].delegate not in (None, XNNPACK)]
    ops = frozenset(stage.problem.nodes[i].op for i in wanted)
    steps = replay(stage.plan, [_with_folded(stage, ops)])
    greedy = _schedule(stage, _with_xnnpack(stage, steps, 1), 1, lanes)
    parts = _partitions(greedy.groups)
    if most is None or len(parts) <= most:
        return greedy
    # Fewer claims may come back as other nodes than the same among more; none at all always come to rest.
    fewer = (execute(stage, parts[:count], lanes) for count in range(max(most, 0), -1, -1))
    return next(s for s in fewer if s is not None and s.price.partitions <= most)


def settle(stage: Stage, stock_lanes: Sequence[int] | None, cpu_only: Sequence[int]) -> Settled | None:
    """The best plan over several start orders; None if no assignment is allowed.

    ``stock_lanes``/``cpu_only``: the baselines' lanes. They lend their orders, and themselves where they are allowed:
    every limit of the problem is kept and no node is stranded.
    """
    search = _Search(stage)
    all_cpu = execute(stage, [], cpu_only)
    starts: dict[str, tuple[int, ...]] = {"file": stage.positions(s.op for s in topological(stage.plan))}
    starts["depth_first"] = depth_first(stage.problem, starts["file"])
    if all_cpu is not None:
        starts["all_cpu"] = all_cpu.order
        search.offer(all_cpu, "all_cpu")
    if stock_lanes is not None:
        delegates = {stage.full.lanes[n].delegate for n in stock_lanes} - {None, XNNPACK}
        limits = [most for who, most in stage.problem.limits.items() if who in delegates]
        if stage.problem.max_partitions is not None:
            limits.append(stage.problem.max_partitions)
        greedy = stock(stage, stock_lanes, min(limits, default=None))
        starts["stock_delegate"] = greedy.order
        search.offer(execute(stage, _partitions(greedy.groups), stock_lanes), "stock_delegate")
    for name, order in starts.items():
        search.follow(order, name)
    while search.offered and search.best[0].order not in search.solved:
        search.follow(*_order_of(search.best))
    return search.result()


def settled_as(stage: Stage, schedule: Schedule, name: str, orders_tried: tuple[str, ...]) -> Settled:
    """``schedule`` as the plan, with the bound of its own order."""
    return _judged(schedule, name, orders_tried, solve(stage.problem, schedule.order))


@dataclass
class _Search:
    stage: Stage
    offered: list[tuple[Schedule, str]] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    solved: dict[tuple[int, ...], Solution | None] = field(default_factory=dict)

    @property
    def best(self) -> tuple[Schedule, str]:
        """The cheapest; of equals the first offered."""
        return min(self.offered, key=lambda offer: offer[0].price.total_ns)

    def offer(self, schedule: Schedule | None, name: str) -> None:
        if schedule is not None and self._allowed(schedule):
            self.offered.append((schedule, name))

    def follow(self, order: tuple[int, ...], name: str) -> None:
        """Solve and replay from one start order until the order repeats."""
        if name not in self.tried:
            self.tried.append(name)
        for _ in range(MAX_ROUNDS):
            if order in self.solved:
                return
            solution = self.solved[order] = solve(self.stage.problem, order)
            if solution is None:
                return
            groups = runs(self.stage.problem, order, solution.lanes)
            schedule = execute(self.stage, _partitions(groups), solution.lanes)
            if schedule is None:
                return
            self.offer(schedule, name)
            order = schedule.order

    def result(self) -> Settled | None:
        if not self.offered:
            return None
        schedule, name = self.best
        judged = _judged(schedule, name, tuple(self.tried), self.solved[schedule.order])
        others = sorted((o for o in self.offered if o[0] != schedule), key=lambda offer: offer[0].price.total_ns)
        return replace(judged, others=tuple(others))

    def _allowed(self, schedule: Schedule) -> bool:
        """Does the schedule respect what may be chosen? (Which CPU kernel runs an op is derived, not chosen.)"""
        problem = self.stage.problem
        cpu = {self.stage.builtin_lane, self.stage.xnnpack_lane}
        return allowed(problem, schedule.groups, schedule.price) and all(
            any(node.costs[n] is not None for n in (cpu if lane in cpu else {lane}))
            for node, lane in zip(problem.nodes, schedule.lanes, strict=True)
        )


def _order_of(offer: tuple[Schedule, str]) -> tuple[tuple[int, ...], str]:
    return offer[0].order, offer[1]


def _judged(schedule: Schedule, name: str, tried: tuple[str, ...], solution: Solution | None) -> Settled:
    total = schedule.price.total_ns
    bound = min(solution.bound_ns, total) if solution else total
    proved = solution is not None and solution.is_proved and solution.value_ns == total
    return Settled(schedule, bound, proved, name, tried)


def depth_first(problem: Problem, order: Sequence[int]) -> tuple[int, ...]:
    """A topological order that follows one branch to its end before the next, starting as ``order`` does."""
    waiting = {
        i: sum(t in problem.producer for t in dict.fromkeys(problem.nodes[i].inputs)) for i in range(len(problem.nodes))
    }
    readers: dict[int, list[int]] = {}
    for i in order:
        for t in dict.fromkeys(problem.nodes[i].inputs):
            if t in problem.producer:
                readers.setdefault(problem.producer[t], []).append(i)
    stack = [i for i in reversed(order) if not waiting[i]]
    result: list[int] = []
    while stack:
        i = stack.pop()
        result.append(i)
        ready = []
        for j in readers.get(i, []):
            waiting[j] -= 1
            if not waiting[j]:
                ready.append(j)
        stack += reversed(ready)
    return tuple(result) if len(result) == len(order) else tuple(order)


def _partitions(groups: Iterable[Group]) -> list[tuple[int, ...]]:
    return [group.members for group in groups if group.delegate not in (None, XNNPACK)]


def _with_folded(stage: Stage, ops: frozenset[int]) -> frozenset[int]:
    """The claim with the folded ops that only its ops read: without them the delegate would lose its constants."""
    return ops | {folded for folded, readers in stage.travels_with.items() if readers and readers <= ops}


def _with_xnnpack(stage: Stage, steps: Sequence[Step], call: int) -> tuple[Step, ...]:
    """The plan after XNNPACK, which comes last, has made its call for what is left."""
    left = frozenset(step.op for step in steps if step.call is None)
    return replay(steps, [stage.xnnpack(left)], first=call)


def _schedule(stage: Stage, steps: tuple[Step, ...], xnnpack_call: int, lanes: Sequence[int]) -> Schedule:
    final = list(lanes)
    groups: list[Group] = []
    for step in steps:
        members = stage.positions(step.members)
        if not members:
            continue
        if step.call is None or step.call == xnnpack_call:
            for i in members:
                final[i] = stage.builtin_lane if step.call is None else stage.xnnpack_lane
        groups.append(Group(stage.full.lanes[final[members[0]]].delegate, members))
    unpacking = tuple(s for s in steps if s.call is not None and stage.position.keys().isdisjoint(s.members))
    return Schedule(steps, tuple(groups), tuple(final), price(stage.full, groups, final), unpacking)
