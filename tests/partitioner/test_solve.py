# SPDX-License-Identifier: Apache-2.0
"""The integer program against brute force and against dynamic programming, on random problems."""

from __future__ import annotations

import dataclasses
import random

import pytest

from edgedeploy_partitioner.solver.problem import price, runs
from edgedeploy_partitioner.solver.solve import solve
from support.problems import assignments, brute_force, cost_in_order, frontier_dp, random_problem


@pytest.mark.parametrize("block", range(8))
def test_equals_brute_force(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        rng = random.Random(seed)
        problem = random_problem(
            seed, rng.randrange(1, 8), two_layouts=seed % 2 == 1, max_partitions=rng.choice([None, None, 0, 1, 2])
        )
        found = solve(problem, range(len(problem.nodes)))
        best = brute_force(problem)
        assert (found.value_ns if found else None) == best, f"seed {seed}"
        assert found is None or found.is_proved, f"seed {seed}"


def test_price_equals_the_contract_read_op_by_op() -> None:
    for seed in range(150):
        problem = random_problem(seed, 5, two_layouts=seed % 2 == 1)
        for lanes in list(assignments(problem))[:200]:
            priced = price(problem, runs(problem, range(5), lanes), lanes)
            assert (priced.total_ns, priced.partitions) == cost_in_order(problem, lanes), f"seed {seed} {lanes}"


@pytest.mark.parametrize(
    ("seed", "ops", "reach", "fusions", "other_delegate"),
    [
        (1, 40, 6, False, False),
        (2, 120, 5, False, False),
        (3, 200, 4, False, False),
        (4, 60, 8, False, False),
        (5, 200, 4, True, False),
        (6, 60, 5, True, False),
        (7, 200, 3, False, True),
        (8, 120, 3, True, True),
    ],
)
def test_equals_frontier_dynamic_programming(
    seed: int, ops: int, reach: int, fusions: bool, other_delegate: bool
) -> None:
    problem = random_problem(seed, ops, reach=reach, fusions=fusions, other_delegate=other_delegate)
    found = solve(problem, range(ops))
    assert found is not None
    assert found.is_proved
    assert found.value_ns == frontier_dp(problem)


def test_frontier_dynamic_programming_equals_brute_force() -> None:
    for seed in range(60):
        problem = random_problem(seed, 6, other_delegate=seed % 3 == 0, fusions=seed % 2 == 0)
        assert frontier_dp(problem) == brute_force(problem), f"seed {seed}"


def test_long_skips_are_priced_exactly() -> None:
    """Tensors read again after 30 or more ops: their rows are added only where a solution breaks them."""
    for seed in range(6):
        problem = random_problem(seed, 70, reach=70)
        found = solve(problem, range(70))
        assert found is not None
        assert found.value_ns == price(problem, runs(problem, range(70), found.lanes), found.lanes).total_ns
        assert found.is_proved, f"seed {seed}"


def test_forcing_an_op_elsewhere_is_never_better_on_the_same_order() -> None:
    for seed in range(40):
        problem = random_problem(seed, 12, two_layouts=seed % 2 == 1)
        free = solve(problem, range(12))
        assert free is not None
        rng = random.Random(seed)
        i = rng.randrange(12)
        node = problem.nodes[i]
        for lane, cost in enumerate(node.costs):
            if cost is None:
                continue
            held = dataclasses.replace(node, costs=tuple(c if n == lane else None for n, c in enumerate(node.costs)))
            nodes = (*problem.nodes[:i], held, *problem.nodes[i + 1 :])
            forced = solve(dataclasses.replace(problem, nodes=nodes), range(12))
            assert forced is not None
            assert forced.value_ns >= free.value_ns, f"seed {seed} op {i} lane {lane}"


def test_a_dearer_op_never_makes_the_plan_cheaper() -> None:
    for seed in range(40):
        problem = random_problem(seed, 10)
        base = solve(problem, range(10))
        i = seed % 10
        node = problem.nodes[i]
        dearer = dataclasses.replace(node, costs=tuple(None if c is None else c + 700 for c in node.costs))
        nodes = (*problem.nodes[:i], dearer, *problem.nodes[i + 1 :])
        more = solve(dataclasses.replace(problem, nodes=nodes), range(10))
        assert base is not None
        assert more is not None
        assert base.value_ns <= more.value_ns <= base.value_ns + 700


def test_same_problem_same_answer() -> None:
    problem = random_problem(9, 60, two_layouts=True)
    assert solve(problem, range(60)) == solve(problem, range(60))


def test_one_node_of_search_gives_a_bound_that_holds() -> None:
    """Cut short, the answer is still a plan and the bound still a bound."""
    for seed in range(20):
        problem = random_problem(seed, 7, two_layouts=True)
        found = solve(problem, range(7), node_limit=0)
        best = brute_force(problem)
        assert found is not None
        assert best is not None
        assert found.bound_ns <= best <= found.value_ns, f"seed {seed}"


def test_nothing_to_plan() -> None:
    problem = dataclasses.replace(random_problem(0, 1), nodes=())
    found = solve(problem, ())
    assert found is not None
    assert (found.lanes, found.value_ns, found.is_proved) == ((), 0, True)


@pytest.mark.parametrize("factor", [10**8, 10**10, 10**11])
def test_times_of_hours_are_solved_and_end(factor: int) -> None:
    """Bounds are rounded by more than a nanosecond there: what is found is right, and the search ends."""
    for seed in range(20):
        small = random_problem(seed, 6)
        nodes = tuple(
            dataclasses.replace(n, costs=tuple(c if c is None else c * factor for c in n.costs)) for n in small.nodes
        )
        problem = dataclasses.replace(small, nodes=nodes)
        found = solve(problem, range(6))
        best = brute_force(problem)
        assert found is not None
        assert best is not None
        assert found.bound_ns <= best <= found.value_ns <= best * (1 + 1e-9)
