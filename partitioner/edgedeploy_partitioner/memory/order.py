# SPDX-License-Identifier: Apache-2.0
"""Operator order: the least memory alive at once over all orders of the executed nodes, with a proof or a bound.

An order is possible if data is made before it is read. Ops with an effect beyond their outputs keep their order:
control flow, custom ops, ops on resources, and ops on the same variable tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from edgedeploy_partitioner.memory.downsets import Item, Jobs, least_peak
from edgedeploy_partitioner.memory.liveness import FOREVER, ExecutedNode, lifetimes, owners
from edgedeploy_partitioner.memory.release import LITERT_2_3, Release
from edgedeploy_partitioner.model.graph import Graph, Subgraph
from edgedeploy_partitioner.runtime.replay import file_plan

STATES = 20_000
"""How many sets of done nodes are tried in each part of a subgraph; a tenth of a second."""


@dataclass(frozen=True, slots=True)
class Lowest:
    """The best order found: ``order`` are positions of the nodes as given, ``live_bytes`` the most that is alive then.

    No possible order has less than ``bound_bytes`` alive at its worst node, and so no arena is smaller.
    """

    order: tuple[int, ...]
    live_bytes: int
    bound_bytes: int

    @property
    def is_proved(self) -> bool:
        """Is there no better order?"""
        return self.live_bytes == self.bound_bytes


def lowest(
    graph: Graph,
    subgraph: Subgraph,
    nodes: Sequence[ExecutedNode],
    threads: int = 1,
    release: Release = LITERT_2_3,
    *,
    states: int = STATES,
    in_epochs: bool = False,
    called_bytes: Mapping[int, int] | None = None,
) -> Lowest:
    """The order of ``nodes`` with the least memory alive at once; the given one where none is better.

    ``in_epochs`` keeps every delegate node where it is among the others, as the order in a file leaves it.
    ``called_bytes``: what runs inside a node takes besides, by position. Nodes that cannot run in the given order
    (a tensor is read before it is made, or made twice) keep it.
    """
    jobs = jobs_of(graph, subgraph, nodes, threads, release, in_epochs=in_epochs, called_bytes=called_bytes)
    if jobs is None:
        live = _live_as_given(graph, subgraph, nodes, threads, release)
        return Lowest(tuple(range(len(nodes))), live, live)
    found = least_peak(jobs, states)
    return Lowest(found.order, found.peak_bytes, found.bound_bytes)


def lowest_of_model(
    graph: Graph,
    executed: Mapping[int, Sequence[ExecutedNode]],
    main: int,
    threads: int = 1,
    release: Release = LITERT_2_3,
    *,
    states: int = STATES,
) -> Lowest:
    """The same for subgraph ``main`` with all that it runs: of a node that calls others, what the largest has alive
    counts while it runs. An initialisation (``CALL_ONCE``), whose memory the runtime gives back, is left out."""
    found: dict[int, Lowest] = {}
    todo = [main]
    while todo:
        index = todo[-1]
        called = {
            position: callees
            for position, node in enumerate(executed[index])
            if (callees := called_by(graph, index, node, executed))
        }
        missing = {c for callees in called.values() for c in callees} - found.keys()
        if missing:
            todo += sorted(missing)
            continue
        todo.pop()
        if index not in found:
            found[index] = _with_callees(graph, index, executed[index], threads, release, states, called, found)
    return found[main]


def _with_callees(
    graph: Graph,
    index: int,
    nodes: Sequence[ExecutedNode],
    threads: int,
    release: Release,
    states: int,
    called: Mapping[int, tuple[int, ...]],
    found: Mapping[int, Lowest],
) -> Lowest:
    """The order is that for the callees' memory as found; their bounds give the bound."""
    subgraph = graph.subgraphs[index]
    live = {at: max(found[c].live_bytes for c in callees) for at, callees in called.items()}
    bound = {at: max(found[c].bound_bytes for c in callees) for at, callees in called.items()}
    result = lowest(graph, subgraph, nodes, threads, release, states=states, called_bytes=live)
    if live == bound:
        return result
    least = lowest(graph, subgraph, nodes, threads, release, states=states, called_bytes=bound)
    return replace(result, bound_bytes=least.bound_bytes)


def called_by(
    graph: Graph, subgraph: int, node: ExecutedNode, executed: Mapping[int, Sequence[ExecutedNode]]
) -> tuple[int, ...]:
    """The subgraphs that ``node`` runs in every inference."""
    op = None if node.op is None else graph.subgraphs[subgraph].ops[node.op]
    if op is None or op.code == "CALL_ONCE":
        return ()
    return tuple(c for c in op.callees if c in executed)


def jobs_of(
    graph: Graph,
    subgraph: Subgraph,
    nodes: Sequence[ExecutedNode],
    threads: int,
    release: Release = LITERT_2_3,
    *,
    in_epochs: bool = False,
    called_bytes: Mapping[int, int] | None = None,
) -> Jobs | None:
    """``nodes`` as jobs, numbered by position; None where their order cannot be run, and so none can be derived."""
    made_by = _makers(subgraph, nodes)
    if made_by is None:
        return None
    before = _after_makers(nodes, made_by)
    if before is None:
        return None
    effects = _with_effects(subgraph)
    _chain(before, [i for i, node in enumerate(nodes) if not effects.isdisjoint(node.members)])
    for users in _users_of_variables(subgraph, nodes):
        _chain(before, users)
    if in_epochs:
        _keep_epochs(before, nodes)
    owner = owners(subgraph, nodes)
    readers: dict[int, int] = {}
    for position, node in enumerate(nodes):
        for t in node.inputs:
            root = owner.get(t, t)
            readers[root] = readers.get(root, 0) | 1 << position
    scratch = [(called_bytes or {}).get(position, 0) for position in range(len(nodes))]
    items = []
    for block in lifetimes(graph, subgraph, nodes, threads, release).blocks:
        if block.home != "arena":
            continue
        if block.tensor >= len(subgraph.tensors):
            scratch[block.first] += block.bytes
        else:
            kept = block.last == FOREVER
            items.append(Item(block.bytes, made_by.get(block.tensor), 0 if kept else readers[block.tensor]))
    return Jobs(tuple(before), tuple(scratch), tuple(items))


def _live_as_given(
    graph: Graph, subgraph: Subgraph, nodes: Sequence[ExecutedNode], threads: int, release: Release
) -> int:
    change = [0] * (len(nodes) + 1)
    for block in lifetimes(graph, subgraph, nodes, threads, release).blocks:
        if block.home == "arena":
            change[min(block.first, len(nodes))] += block.bytes
            change[min(block.last + 1, len(nodes))] -= block.bytes
    live = most = 0
    for step in change[: len(nodes)]:
        live += step
        most = max(most, live)
    return most


# --- what must come before what ---


def _makers(subgraph: Subgraph, nodes: Sequence[ExecutedNode]) -> dict[int, int] | None:
    """Tensor -> the position that makes it; None if two do, or one that is there already is made."""
    there = {*subgraph.inputs, *(t.id for t in subgraph.tensors if t.is_constant or t.is_variable)}
    made_by: dict[int, int] = {}
    for position, node in enumerate(nodes):
        for t in node.outputs:
            if t in there or made_by.setdefault(t, position) != position:
                return None
    return made_by


def _after_makers(nodes: Sequence[ExecutedNode], made_by: Mapping[int, int]) -> list[int] | None:
    before = [0] * len(nodes)
    for position, node in enumerate(nodes):
        for t in node.inputs:
            maker = made_by.get(t, position)
            if maker > position:
                return None
            if maker < position:
                before[position] |= 1 << maker
    return before


def _with_effects(subgraph: Subgraph) -> frozenset[int]:
    """Ops that do more than make their outputs, or may: nobody knows what a custom op does."""
    known = {step.op for step in file_plan(subgraph) if step.has_side_effect}
    return frozenset(known | {op.index for op in subgraph.ops if op.code == "CUSTOM" or op.callees})


def _users_of_variables(subgraph: Subgraph, nodes: Sequence[ExecutedNode]) -> list[list[int]]:
    users: dict[int, list[int]] = {t.id: [] for t in subgraph.tensors if t.is_variable}
    if users:
        for position, node in enumerate(nodes):
            for t in dict.fromkeys(t for m in node.members for t in subgraph.ops[m].inputs):
                if t in users:
                    users[t].append(position)
    return list(users.values())


def _keep_epochs(before: list[int], nodes: Sequence[ExecutedNode]) -> None:
    """All nodes before a delegate node stay before it, all after it after it."""
    passed = 0
    for position, node in enumerate(nodes):
        if node.op is None:
            passed = (1 << position + 1) - 1
            before[position] |= passed >> 1
        else:
            before[position] |= passed


def _chain(before: list[int], positions: Sequence[int]) -> None:
    for earlier, later in pairwise(positions):
        before[later] |= 1 << earlier
