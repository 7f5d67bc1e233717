# SPDX-License-Identifier: Apache-2.0
"""What must hold of any problem's optimum, on problems drawn by hypothesis."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from edgedeploy_partitioner.solver.problem import Border, Node, Problem, allowed, price, runs
from edgedeploy_partitioner.solver.solve import Solution, solve
from support.problem_strategies import arenas, problems
from support.problems import in_file_order

_QUICK = settings(max_examples=40, deadline=None, derandomize=True)


def optimum(problem: Problem) -> int | None:
    """The proved optimum in file order; the answer has to be allowed and worth what it says."""
    found = solve(problem, range(len(problem.nodes)))
    if found is None:
        return None
    assert found.is_proved
    return _checked(problem, found).value_ns


def _checked(problem: Problem, found: Solution) -> Solution:
    groups = runs(problem, range(len(problem.nodes)), found.lanes)
    priced = price(problem, groups, found.lanes)
    assert allowed(problem, groups, priced)
    assert priced.total_ns == found.value_ns
    return found


def no_better(first: int | None, second: int | None) -> bool:
    """Whether ``second`` is no better than ``first``; None is worse than all."""
    return second is None or (first is not None and second >= first)


def with_nodes(problem: Problem, change: Callable[[Node], Node]) -> Problem:
    return dataclasses.replace(problem, nodes=tuple(change(node) for node in problem.nodes))


@_QUICK
@given(st.data())
def test_indifferent_to_file_order_on_an_imposed_order(data: st.DataObject) -> None:
    problem = data.draw(problems())
    order = range(len(problem.nodes))
    shuffled = data.draw(st.permutations(order))
    here, there = solve(problem, order), solve(in_file_order(problem, shuffled), [shuffled.index(i) for i in order])
    assert (here.value_ns if here else None) == (there.value_ns if there else None)


@_QUICK
@given(st.data())
def test_dearer_is_never_cheaper(data: st.DataObject) -> None:
    problem = data.draw(problems())
    more = st.integers(0, 4_000)

    def dearer_border(border: Border) -> Border:
        e, v, c = data.draw(st.tuples(more, more, more))
        return Border(
            tuple(n + e for n in border.enter_ns),
            tuple(n + v for n in border.leave_ns),
            tuple(tuple(n and n + c for n in row) for row in border.internal_ns),
        )

    raised = with_nodes(
        problem,
        lambda n: dataclasses.replace(n, costs=tuple(c if c is None else c + data.draw(more) for c in n.costs)),
    )
    raised = dataclasses.replace(raised, borders={t: dearer_border(b) for t, b in problem.borders.items()})
    assert no_better(optimum(problem), optimum(raised))


@_QUICK
@given(st.data())
def test_less_support_is_never_cheaper(data: st.DataObject) -> None:
    problem = data.draw(problems())
    less = with_nodes(
        problem,
        lambda n: dataclasses.replace(
            n, costs=(*n.costs[:2], *(c if data.draw(st.booleans()) else None for c in n.costs[2:]))
        ),
    )
    less = dataclasses.replace(less, fusions=problem.fusions)
    assert no_better(optimum(problem), optimum(less))


@_QUICK
@given(st.data())
def test_tighter_limits_are_never_cheaper(data: st.DataObject) -> None:
    problem = data.draw(problems())
    arena = data.draw(arenas(problem))
    problem = dataclasses.replace(problem, arena=arena, limits={"edgedeploy": 2})
    tighter = dataclasses.replace(
        problem,
        arena=dataclasses.replace(arena, limit_bytes=arena.limit_bytes - data.draw(st.integers(0, 20))),
        limits={"edgedeploy": data.draw(st.integers(0, 2)), "teflon": data.draw(st.integers(0, 2))},
        max_partitions=data.draw(st.none() | st.integers(0, 3)),
    )
    assert no_better(optimum(problem), optimum(tighter))


@_QUICK
@given(problems())
def test_a_fusion_helps_by_what_it_saves_at_most(problem: Problem) -> None:
    """And one that an op needs never helps."""
    free = dataclasses.replace(problem, fusions=())
    optional = tuple(dataclasses.replace(f, required=False) for f in problem.fusions)
    needed = tuple(dataclasses.replace(f, required=True, saves_ns=0) for f in problem.fusions)
    base = optimum(free)
    assert base is not None
    helped = optimum(dataclasses.replace(problem, fusions=optional))
    assert helped is not None
    assert base - sum(f.saves_ns for f in problem.fusions) <= helped <= base
    assert no_better(base, optimum(dataclasses.replace(problem, fusions=needed)))
