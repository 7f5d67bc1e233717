# SPDX-License-Identifier: Apache-2.0
"""Fusions, limits by delegate and the arena's limit in the program, against brute force over every assignment."""

from __future__ import annotations

import random

import pytest

from edgedeploy_partitioner.solver.problem import Problem, allowed, arena_floor, price, runs
from edgedeploy_partitioner.solver.solve import solve
from support.problems import (
    assignments,
    brute_force,
    cost_in_order,
    is_allowed,
    live_bytes,
    random_problem,
    with_arena,
)


def mixed_problem(seed: int) -> Problem:
    """Three to six lanes of one or two delegates, with some of every further condition."""
    rng = random.Random(f"mixed {seed}")
    more = rng.choice([(False, False), (True, False), (False, True), (True, True)])
    third = rng.random() < 0.3
    problem = random_problem(
        seed,
        rng.randrange(1, 9 - sum(more) - third),
        two_layouts=more[0],
        third_layout=third,
        other_delegate=more[1],
        max_partitions=rng.choice([None, None, 0, 1, 2]),
        limits=rng.choice([{}, {}, {"edgedeploy": 1}, {"edgedeploy": 1, "teflon": 0}, {"teflon": 1}]),
        fusions=rng.random() < 0.6,
        ahead=0.3,
    )
    return with_arena(problem, seed, rng.random()) if rng.random() < 0.5 else problem


@pytest.mark.parametrize("block", range(10))
def test_equals_brute_force(block: int) -> None:
    for seed in range(block * 60, block * 60 + 60):
        problem = mixed_problem(seed)
        found = solve(problem, range(len(problem.nodes)))
        assert (found.value_ns if found else None) == brute_force(problem), f"seed {seed}"
        assert found is None or found.is_proved, f"seed {seed}"


def test_some_of_these_problems_have_no_answer_and_most_have_one() -> None:
    """Otherwise the comparison above would say little about limits."""
    answers = [brute_force(mixed_problem(seed)) for seed in range(150)]
    assert 3 <= answers.count(None) <= 75


def test_what_is_allowed_and_what_it_costs_read_op_by_op() -> None:
    for seed in range(100):
        problem = mixed_problem(seed)
        order = range(len(problem.nodes))
        for lanes in random.Random(seed).choices(list(assignments(problem)), k=60):
            groups = runs(problem, order, lanes)
            priced = price(problem, groups, lanes)
            assert (priced.total_ns, priced.partitions) == cost_in_order(problem, lanes), f"seed {seed} {lanes}"
            assert allowed(problem, groups, priced) == is_allowed(problem, lanes), f"seed {seed} {lanes}"
            if problem.arena is not None:
                assert arena_floor(problem, groups) == live_bytes(problem, order, lanes), f"seed {seed} {lanes}"
