# SPDX-License-Identifier: Apache-2.0
"""The order of a file's ops with which the stock runtime, left to itself, allocates the smallest arena."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from edgedeploy_partitioner.memory.arena import ALIGNMENT_BYTES, Arena, ExecutedNode, arena
from edgedeploy_partitioner.memory.downsets import Jobs, least_peak
from edgedeploy_partitioner.memory.order import called_by, jobs_of
from edgedeploy_partitioner.memory.release import Release
from edgedeploy_partitioner.memory.stored import stored_otherwise
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.reorder import with_order
from edgedeploy_partitioner.plan import Machine
from edgedeploy_partitioner.runtime.census import xnnpack_claims
from edgedeploy_partitioner.runtime.replay import file_plan, replay
from edgedeploy_partitioner.solver.problem import XNNPACK
from edgedeploy_profiles.schema import Runtime

MOST_STATES = 200_000
MOST_REPLAYS = 400
NODES_REPLAYED = 40_000
"""Replays of the planner times nodes, so that the time for large graphs stays bounded."""


@dataclass(frozen=True, slots=True)
class Arranged:
    """One subgraph: ``order`` are its op indices in the new order, arenas are those of the stock runtime.

    No order that leaves XNNPACK's partitions as they are has an arena below ``bound_bytes``.
    """

    subgraph: int
    order: tuple[int, ...]
    arena_bytes: int
    new_arena_bytes: int
    bound_bytes: int
    is_exact: bool

    @property
    def is_changed(self) -> bool:
        return self.order != tuple(range(len(self.order)))


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry point: its arena with those of the subgraphs that it runs, before and after."""

    subgraph: int
    arena_bytes: int
    new_arena_bytes: int


@dataclass(frozen=True, slots=True)
class Reordering:
    """All subgraphs that run, and the entry points. ``orders`` is empty where nothing is to be gained."""

    subgraphs: tuple[Arranged, ...]
    entries: tuple[Entry, ...]

    @property
    def orders(self) -> Mapping[int, tuple[int, ...]]:
        gains = any(e.new_arena_bytes < e.arena_bytes for e in self.entries)
        return {a.subgraph: a.order for a in self.subgraphs if a.is_changed} if gains else {}


def reordering(
    graph: Graph,
    runtime: Runtime,
    *,
    xnnpack: bool,
    threads: int = 1,
    machine: Machine = "x86_64",
    states: int = MOST_STATES,
    replays: int = MOST_REPLAYS,
) -> Reordering:
    """The best order found for each subgraph; none has a larger arena than it had.

    ``machine`` is what the runtime is built for. ``states`` and ``replays`` bound the search for orders and for small
    arenas.
    """
    executed = {sub.index: stock_nodes(graph, sub.index, runtime, xnnpack=xnnpack) for sub in graph.subgraphs}
    mains = sorted({0, *(s.subgraph for s in graph.signatures)})
    running = _running(graph, executed, mains)
    found = {i: _Search(graph, i, runtime, xnnpack, threads, machine).arranged(states, replays) for i in running}
    before = {i: a.arena_bytes for i, a in found.items()}
    after = {i: a.new_arena_bytes for i, a in found.items()}
    entries = (
        Entry(main, _with_callees(graph, executed, before, main), _with_callees(graph, executed, after, main))
        for main in mains
    )
    return Reordering(tuple(found.values()), tuple(entries))


def stock_nodes(graph: Graph, subgraph: int, runtime: Runtime, *, xnnpack: bool) -> tuple[ExecutedNode, ...]:
    """What the stock runtime executes, without any delegate but XNNPACK."""
    within = graph.subgraphs[subgraph]
    claims = [xnnpack_claims(graph, subgraph, range(len(within.ops)), runtime)] if xnnpack else []
    return tuple(
        ExecutedNode(
            op=step.op if step.call is None else None,
            members=step.members,
            inputs=step.inputs,
            outputs=step.outputs,
            delegate=None if step.call is None else XNNPACK,
        )
        for step in replay(file_plan(within), claims)
    )


@dataclass(frozen=True, slots=True)
class _Search:
    graph: Graph
    index: int
    runtime: Runtime
    xnnpack: bool
    threads: int
    machine: Machine

    def arranged(self, states: int, replays: int) -> Arranged:
        subgraph, nodes = self.graph.subgraphs[self.index], self._nodes(self.graph)
        as_is = tuple(range(len(subgraph.ops)))
        first = self._arena(self.graph, nodes)
        jobs = jobs_of(self.graph, subgraph, nodes, self.threads, self._release, in_epochs=True)
        starts, bound = ([as_is], max(first.live_bytes, default=0)) if jobs is None else _start_orders(jobs, states)
        unpacks_alone = any(node.op is None and subgraph.folded.issuperset(node.members) for node in nodes)
        found = Arranged(
            subgraph=self.index,
            order=as_is,
            arena_bytes=first.bytes,
            new_arena_bytes=first.bytes,
            bound_bytes=bound,
            is_exact=first.exact and not unpacks_alone and not stored_otherwise(self.graph, [self.index]),
        )
        if jobs is None or len(nodes) < 2 or first.bytes <= bound:
            return found

        def replayed(order: Sequence[int]) -> int:
            return self._arena(self.graph, [nodes[i] for i in order]).bytes

        order = _smallest(starts, jobs, replayed, bound, replays)
        file_order = tuple(op for i in order for op in sorted(nodes[i].members))
        # Whatever was reckoned so far, what counts is the new file read as the runtime reads it.
        new = with_order(self.graph, {self.index: file_order})
        new_nodes = self._nodes(new)
        second = self._arena(new, new_nodes)
        is_smaller = second.bytes < first.bytes and second.persistent_bytes <= first.persistent_bytes
        if not is_smaller or _partitions(new_nodes, file_order) != _partitions(nodes, as_is):
            return found
        return replace(found, order=file_order, new_arena_bytes=second.bytes)

    @property
    def _release(self) -> Release:
        return Release.of(self.runtime.name, self.runtime.version, self.machine)

    def _arena(self, graph: Graph, nodes: Sequence[ExecutedNode]) -> Arena:
        return arena(graph, graph.subgraphs[self.index], nodes, self.threads, self._release)

    def _nodes(self, graph: Graph) -> tuple[ExecutedNode, ...]:
        return stock_nodes(graph, self.index, self.runtime, xnnpack=self.xnnpack)


def _partitions(nodes: Sequence[ExecutedNode], old: Sequence[int]) -> list[tuple[int, ...]]:
    """The delegate nodes by the indices that their ops had in the file as given."""
    return [tuple(old[m] for m in node.members) for node in nodes if node.op is None]


def _start_orders(jobs: Jobs, states: int) -> tuple[list[tuple[int, ...]], int]:
    """The given order, those with the least alive at once without and with padding, and what no arena is below.

    Of what is alive at one time all but the topmost take whole multiples of the alignment.
    """
    plain, padded = least_peak(jobs, states), least_peak(jobs.padded(ALIGNMENT_BYTES), states)
    topmost = max((-item.bytes % ALIGNMENT_BYTES for item in jobs.items), default=0)
    bound = max(plain.bound_bytes, padded.bound_bytes - topmost)
    return [tuple(range(len(jobs.before))), padded.order, plain.order], bound


def _smallest(
    starts: Sequence[Sequence[int]], jobs: Jobs, replayed: Callable[[Sequence[int]], int], bound: int, replays: int
) -> tuple[int, ...]:
    """The order with the smallest arena of ``starts`` and what is found by moving single nodes of the best of them.

    Of equals the first: nothing moves without gain. The same every time: the moves are drawn with a fixed seed.
    """
    size, order = min(((replayed(start), tuple(start)) for start in starts), key=lambda found: found[0])
    rng = random.Random(len(order))
    current, current_size = list(order), size
    for _ in range(min(replays, NODES_REPLAYED // len(order))):
        if size <= bound:
            break
        moved = _moved(current, jobs, rng)
        if moved is None:
            continue
        if (new_size := replayed(moved)) <= current_size:
            current, current_size = moved, new_size
            if new_size < size:
                size, order = new_size, tuple(moved)
    return order


def _moved(order: list[int], jobs: Jobs, rng: random.Random) -> list[int] | None:
    """One node elsewhere between those it comes after and those that come after it; None if it has no other place."""
    at = rng.randrange(len(order))
    job = order[at]
    low = at
    while low and not jobs.before[job] >> order[low - 1] & 1:
        low -= 1
    high = at
    while high + 1 < len(order) and not jobs.before[order[high + 1]] >> job & 1:
        high += 1
    if low == high:
        return None
    to = rng.randrange(low, high)
    others = order[:at] + order[at + 1 :]
    others.insert(to if to < at else to + 1, job)
    return others


# --- several subgraphs ---


def _running(graph: Graph, executed: Mapping[int, Sequence[ExecutedNode]], mains: Sequence[int]) -> tuple[int, ...]:
    found = dict.fromkeys(mains)
    todo = list(mains)
    while todo:
        index = todo.pop()
        new = {c for node in executed[index] for c in called_by(graph, index, node, executed)} - found.keys()
        found |= dict.fromkeys(sorted(new))
        todo += sorted(new)
    return tuple(sorted(found))


def _with_callees(
    graph: Graph, executed: Mapping[int, Sequence[ExecutedNode]], own: Mapping[int, int], main: int
) -> int:
    """The arena of ``main`` and, for the op that needs most, of what it runs: condition and body of a WHILE together,
    of an IF the larger branch."""
    deep: dict[int, int] = {}
    todo = [main]
    while todo:
        index = todo[-1]
        calls = [(node, called_by(graph, index, node, executed)) for node in executed[index]]
        missing = {c for _, called in calls for c in called} - deep.keys()
        if missing:
            todo += sorted(missing)
            continue
        todo.pop()
        most = 0
        for node, called in calls:
            sizes = [deep[c] for c in called]
            is_choice = node.op is not None and graph.subgraphs[index].ops[node.op].code == "IF"
            most = max(most, max(sizes, default=0) if is_choice else sum(sizes))
        deep[index] = own[index] + most
    return deep[main]
