# SPDX-License-Identifier: Apache-2.0
"""How often does each subgraph run in one inference? By the plan's convention a loop makes one trip, the dearer
branch of an IF is taken, CALL_ONCE is not counted, and a composite that is run whole leaves its decomposition out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from edgedeploy_partitioner.checker.view import Fault, Scope, View
from edgedeploy_partitioner.model.graph import Op

_CALLED_AS = {
    ("IF", "then_subgraph_index"): "branch",
    ("IF", "else_subgraph_index"): "branch",
    ("WHILE", "cond_subgraph_index"): "condition",
    ("WHILE", "body_subgraph_index"): "body",
    ("CALL_ONCE", "init_subgraph_index"): "call_once",
    ("STABLEHLO_COMPOSITE", "decomposition_subgraph_index"): "decomposition",
}


def check_times(view: View) -> Iterator[Fault]:
    main = [use for use in view.plan.subgraphs if use.role == "main"]
    if [use.index for use in main] != [view.main] or main[0].times != 1:
        yield Fault("times", f"subgraph {view.main} is the main one and runs once, the plan says otherwise")
    try:
        cost_ns = _costs_ns(view)
    except CycleError:
        yield Fault("times", "the model's subgraphs call each other in a circle")
        return
    runs: Counter[int] = Counter()
    roles: dict[int, set[str]] = {}
    for scope in view.scopes:
        for op in scope.subgraph.ops:
            for called, role in _calls(view, op):
                roles.setdefault(called, set()).add(role)
            for called in _run_by(view, scope, op, cost_ns):
                runs[called] += view.use[scope.index].times
    for use in view.plan.subgraphs:
        if use.role == "main":
            continue
        if use.times != runs[use.index]:
            yield Fault("times", f"subgraph {use.index} runs {runs[use.index]} times, not {use.times}")
        if use.role not in roles.get(use.index, {"unused"}) | {"unused"}:
            yield Fault("times", f"subgraph {use.index} is no {use.role}")
    if view.plan.predicted.high_ns is not None and any(_loops(view, scope) for scope in view.scopes):
        yield Fault("bounds", "the model has a loop, its latency has no upper bound")


def _loops(view: View, scope: Scope) -> bool:
    return view.use[scope.index].times > 0 and any(op.code == "WHILE" for op in scope.subgraph.ops)


def _calls(view: View, op: Op) -> list[tuple[int, str]]:
    """Other ops that call subgraphs (StableHLO's reducers and the like) run them as bodies."""
    if op.code not in {code for code, _ in _CALLED_AS}:
        return [(s, "body") for s in op.callees]
    called = [(op.options.get(option), role) for (code, option), role in _CALLED_AS.items() if code == op.code]
    return [(s, role) for s, role in called if isinstance(s, int) and 0 <= s < len(view.graph.subgraphs)]


def _run_by(view: View, scope: Scope, op: Op, cost_ns: Mapping[int, int]) -> list[int]:
    """The subgraphs that one execution of ``op`` counts once."""
    called = [s for s, role in _calls(view, op) if role != "call_once"]
    if op.code == "IF":
        return sorted(called, key=lambda s: (-cost_ns[s], s))[:1]
    if op.code == "STABLEHLO_COMPOSITE" and scope.entry(op.index).kernel != "builtin":
        return []
    return called


def _costs_ns(view: View) -> dict[int, int]:
    """One run of each subgraph with everything it calls. Raises :class:`CycleError` if one calls itself."""
    calls = {
        scope.index: {called for op in scope.subgraph.ops for called, _ in _calls(view, op)} for scope in view.scopes
    }
    found: dict[int, int] = {}
    for index in TopologicalSorter(calls).static_order():
        scope = view.scopes[index]
        called = [s for op in scope.subgraph.ops for s in _run_by(view, scope, op, found)]
        found[index] = _own_cost_ns(view, index) + sum(found[s] for s in called)
    return found


def _own_cost_ns(view: View, subgraph: int) -> int:
    plan = view.plan
    ids = {p.id for p in view.scopes[subgraph].partitions}
    return (
        sum(op.predicted_ns for op in plan.ops if op.subgraph == subgraph)
        + sum(t.predicted_ns for t in plan.transitions if t.subgraph == subgraph)
        + sum(p.handover_ns for p in plan.partitions if p.subgraph == subgraph)
        + sum(s.handover_ns for s in plan.segments if s.partition in ids)
    )
