# SPDX-License-Identifier: Apache-2.0
"""Solve and replay to a fixed point, on random problems small enough to try every assignment."""

from __future__ import annotations

import dataclasses
import random

import pytest

from edgedeploy_partitioner.runtime.replay import Step
from edgedeploy_partitioner.solver.problem import XNNPACK, Problem, price, runs
from edgedeploy_partitioner.solver.settle import Stage, depth_first, execute, settle, stock
from support.problems import assignments, brute_force, random_problem

BUILTIN, XNN = 0, 1


def stage_of(problem: Problem) -> Stage:
    """A stage whose XNNPACK takes what the problem lets run in its lane; the other CPU kernel costs 60 us."""
    takes = frozenset(n.op for n in problem.nodes if n.costs[XNN] is not None)
    full = dataclasses.replace(
        problem,
        nodes=tuple(
            dataclasses.replace(n, costs=(*(60_000 if c is None else c for c in n.costs[:2]), *n.costs[2:]))
            for n in problem.nodes
        ),
    )
    steps = tuple(Step(n.op, (n.op,), n.inputs, n.outputs) for n in problem.nodes)
    return Stage(problem, full, steps, {}, lambda available: available & takes, BUILTIN, XNN)


def cpu_lanes(problem: Problem) -> tuple[int, ...]:
    return tuple(BUILTIN if n.costs[BUILTIN] is not None else XNN for n in problem.nodes)


def stock_lanes(problem: Problem) -> tuple[int, ...]:
    cpu = cpu_lanes(problem)
    return tuple(2 if n.costs[2] is not None else cpu[i] for i, n in enumerate(problem.nodes))


@pytest.mark.parametrize("block", range(4))
def test_a_settled_plan(block: int) -> None:
    for seed in range(block * 30, block * 30 + 30):
        problem = random_problem(seed, random.Random(seed).randrange(2, 8), two_layouts=seed % 3 == 0)
        stage = stage_of(problem)
        greedy, cpu_only = stock(stage, stock_lanes(problem)), execute(stage, [], cpu_lanes(problem))
        settled = settle(stage, stock_lanes(problem), cpu_lanes(problem))
        assert settled is not None
        assert cpu_only is not None
        schedule = settled.schedule
        # Never worse than the baselines, and the bound is one.
        assert schedule.price.total_ns <= min(greedy.price.total_ns, cpu_only.price.total_ns), f"seed {seed}"
        assert settled.bound_ns <= schedule.price.total_ns
        # It is what its own claims replay to.
        parts = [g.members for g in schedule.groups if g.delegate not in (None, XNNPACK)]
        again = execute(stage, parts, schedule.lanes)
        assert again is not None
        assert again.groups == schedule.groups, f"seed {seed}"
        # Proved means that no assignment is better in that order.
        if settled.is_optimal:
            nodes = tuple(problem.nodes[i] for i in schedule.order)
            assert schedule.price.total_ns == brute_force(dataclasses.replace(problem, nodes=nodes)), f"seed {seed}"


def test_close_to_the_best_of_all_claims() -> None:
    """Every assignment, in the orders tried, replayed: the settled plan is nearly always the best of them."""
    missed = []
    for seed in range(60):
        problem = random_problem(seed, random.Random(seed).randrange(2, 7))
        stage = stage_of(problem)
        settled = settle(stage, stock_lanes(problem), cpu_lanes(problem))
        assert settled is not None
        totals = []
        order = tuple(range(len(problem.nodes)))
        for start in (order, depth_first(problem, order)):
            for lanes in assignments(problem):
                parts = [g.members for g in runs(problem, start, lanes) if g.delegate not in (None, XNNPACK)]
                schedule = execute(stage, parts, lanes)
                if schedule is not None:
                    totals.append(schedule.price.total_ns)
        if settled.schedule.price.total_ns > min(totals):
            missed.append(seed)
    assert len(missed) <= 2, f"seeds {missed}"


def test_a_limit_on_partitions_holds() -> None:
    for seed in range(40):
        problem = random_problem(seed, 7, max_partitions=1)
        settled = settle(stage_of(problem), stock_lanes(problem), cpu_lanes(problem))
        assert settled is not None
        assert settled.schedule.price.partitions <= 1, f"seed {seed}"


def test_nothing_allowed_is_no_plan() -> None:
    """Every op only on the NPU, and no partition allowed."""
    problem = random_problem(3, 5, max_partitions=0)
    nodes = tuple(dataclasses.replace(n, costs=(None, None, 1_000)) for n in problem.nodes)
    problem = dataclasses.replace(problem, nodes=nodes)
    assert settle(stage_of(problem), (2,) * 5, (BUILTIN,) * 5) is None


def test_depth_first_is_topological() -> None:
    for seed in range(40):
        problem = random_problem(seed, 15, reach=15)
        order = depth_first(problem, tuple(range(15)))
        place = {i: k for k, i in enumerate(order)}
        assert sorted(order) == list(range(15))
        for i, node in enumerate(problem.nodes):
            assert all(place[problem.producer[t]] < place[i] for t in node.inputs if t in problem.producer)


def test_the_price_of_a_schedule_counts_its_own_groups() -> None:
    """Two claims that the runtime keeps apart cost two hand-overs, even side by side."""
    problem = random_problem(11, 6)
    lanes = stock_lanes(problem)
    greedy = stock(stage_of(problem), lanes)
    assert greedy.price == price(stage_of(problem).full, greedy.groups, greedy.lanes)
