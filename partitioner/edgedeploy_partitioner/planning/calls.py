# SPDX-License-Identifier: Apache-2.0
"""Which subgraphs run, in what role, and how often per inference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgedeploy_partitioner.errors import InputError, NotDeployable
from edgedeploy_partitioner.model.graph import Graph, Op
from edgedeploy_partitioner.plan import SubgraphUse

MAX_TIMES = 1_000_000
_ROLES: dict[str, dict[str, str]] = {
    "IF": {"then_subgraph_index": "branch", "else_subgraph_index": "branch"},
    "WHILE": {"cond_subgraph_index": "condition", "body_subgraph_index": "body"},
    "CALL_ONCE": {"init_subgraph_index": "call_once"},
    "STABLEHLO_COMPOSITE": {"decomposition_subgraph_index": "decomposition"},
}
"""Op -> option -> role; any other op that calls a subgraph runs it as a body."""


@dataclass(frozen=True)
class Use:
    role: str
    times: int


def main_subgraph(graph: Graph, signature: str | None) -> int:
    """The subgraph of a signature, or the first. Raises :class:`InputError` listing the keys."""
    keys = {s.key: s.subgraph for s in graph.signatures}
    if signature is not None:
        if signature not in keys:
            listed = ", ".join(keys) or "none"
            raise InputError(f"--signature {signature}: the model has {listed}")
        return keys[signature]
    if len({*keys.values()}) > 1:
        raise InputError(f"the model has several signatures; choose one with --signature: {', '.join(keys)}")
    return next(iter(keys.values()), 0)


def callees(op: Op) -> tuple[tuple[int, str], ...]:
    """(subgraph index, role) of what an op calls."""
    roles = _ROLES.get(op.code)
    if roles is None:
        return tuple((index, "body") for index in op.callees)
    called = ((op.options.get(option), role) for option, role in roles.items())
    return tuple((index, role) for index, role in called if isinstance(index, int))


def reached(graph: Graph, main: int, is_whole: Callable[[Op], bool]) -> frozenset[int]:
    """``main`` and every subgraph that can run because of it."""
    found, stack = {main}, [main]
    while stack:
        called = {c for op in graph.subgraphs[stack.pop()].ops if not is_whole(op) for c, _ in callees(op)}
        stack += sorted(called - found)
        found |= called
    return frozenset(found)


def uses(graph: Graph, main: int, value_ns: Mapping[int, int], is_whole: Callable[[Op], bool]) -> Mapping[int, Use]:
    """Role and times of every subgraph. ``value_ns`` is each subgraph's own cost: of an IF the dearer branch counts.

    ``is_whole``: the runtime takes this composite as one op, so its decomposition does not run.
    """
    order = _callers_first(graph, main)
    deep: dict[int, int] = {}
    for index in reversed(order):
        deep[index] = value_ns.get(index, 0)
        for op in graph.subgraphs[index].ops:
            deep[index] += sum(deep[callee] for callee in _running(op, deep, is_whole))
    roles: dict[int, str] = {main: "main"}
    times = dict.fromkeys(order, 0) | {main: 1}
    for index in order:
        for op in graph.subgraphs[index].ops:
            for callee, role in callees(op):
                roles.setdefault(callee, role)
            for callee in _running(op, deep, is_whole):
                times[callee] += times[index]
        if times[index] > MAX_TIMES:
            raise NotDeployable(f"subgraph {index} runs more than {MAX_TIMES} times per inference")
    return {sub.index: Use(roles.get(sub.index, "unused"), times.get(sub.index, 0)) for sub in graph.subgraphs}


def bounds(
    graph: Graph, main: int, own_ns: Mapping[int, tuple[int, int]], is_whole: Callable[[Op], bool]
) -> tuple[int, int | None]:
    """Low and high time of ``main`` with all it calls: the cheaper and the dearer branch of an IF; a WHILE may stop
    before its first trip and has no upper bound. ``own_ns``: (low, high) of each subgraph on its own."""
    low: dict[int, int] = {}
    high: dict[int, int | None] = {}
    for index in reversed(_callers_first(graph, main)):
        low[index] = own_ns[index][0]
        highest: int | None = own_ns[index][1]
        for op in graph.subgraphs[index].ops:
            called = [] if is_whole(op) else [(c, role) for c, role in callees(op) if role != "call_once"]
            lows = [low[c] for c, role in called if role != "body"]
            low[index] += min(lows, default=0) if op.code == "IF" else sum(lows)
            highs = [high[c] for c, _ in called]
            if op.code == "WHILE" or None in highs:
                highest = None
            elif highest is not None:
                known = [h for h in highs if h is not None]
                highest += max(known, default=0) if op.code == "IF" else sum(known)
        high[index] = highest
    return low[main], high[main]


def _running(op: Op, deep: Mapping[int, int], is_whole: Callable[[Op], bool]) -> list[int]:
    """The subgraphs that one run of ``op`` runs once, by the plan's convention."""
    called = [] if is_whole(op) else [callee for callee, role in callees(op) if role != "call_once"]
    return [max(called, key=lambda c: (deep[c], -c))] if op.code == "IF" and called else called


def _callers_first(graph: Graph, main: int) -> list[int]:
    """The subgraphs that ``main`` reaches, each after all that call it. The reader lets no cycle through."""
    calls = {sub.index: [callee for op in sub.ops for callee, _ in callees(op)] for sub in graph.subgraphs}
    reached, stack = {main}, [main]
    while stack:
        for callee in calls[stack.pop()]:
            if callee not in reached:
                reached.add(callee)
                stack.append(callee)
    waiting = dict.fromkeys(reached, 0)
    for index in reached:
        for callee in calls[index]:
            waiting[callee] += 1
    ready, order = [main], []
    while ready:
        order.append(ready.pop())
        for callee in calls[order[-1]]:
            waiting[callee] -= 1
            if not waiting[callee]:
                ready.append(callee)
    return order


def entry(graph: Graph, index: int, use: Use, order: tuple[int, ...]) -> SubgraphUse:
    return SubgraphUse(
        index=index,
        name=graph.subgraphs[index].name,
        role=use.role,  # type: ignore[arg-type]
        times=use.times,
        order=order,
    )
