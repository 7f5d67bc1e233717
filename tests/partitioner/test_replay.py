# SPDX-License-Identifier: Apache-2.0
"""The epoch rule as replayed, against the installed runtime and on small plans worked out by hand."""

from __future__ import annotations

import itertools
import random

import pytest

from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.runtime.replay import Step, claim, file_plan, replay, topological
from support.random_model import random_dag
from support.runtime import inspect_all


def step(op: int, inputs: tuple[int, ...], outputs: tuple[int, ...], *, side_effect: bool = False) -> Step:
    return Step(op, (op,), inputs, outputs, None, side_effect)


def shape(plan: tuple[Step, ...]) -> list[tuple[int, ...] | int]:
    """Ops as numbers, delegate nodes as tuples."""
    return [s.op if s.call is None else s.members for s in plan]


@pytest.mark.parametrize("block", range(4))
def test_equals_the_runtime_on_random_graphs_and_claims(block: int) -> None:
    models, calls = [], []
    for seed in range(block * 40, block * 40 + 40):
        model = random_dag(seed, random.Random(seed).randrange(3, 24))
        ops = len(read_bytes(model).subgraphs[0].ops)
        rng = random.Random(seed)
        models.append(model)
        count = rng.choice([1, 1, 2, 3])
        calls.append([sorted(rng.sample(range(ops), rng.randrange(1, ops + 1))) for _ in range(count)])
    for seed, (model, claims, answer) in enumerate(
        zip(models, calls, inspect_all(models, claims=calls, xnnpack=False), strict=True)
    ):
        assert answer.subgraphs is not None, answer.failure
        seen = [n["op"] if n["members"] is None else tuple(n["members"]) for n in answer.subgraphs[0]["nodes"]]
        replayed = shape(replay(file_plan(read_bytes(model).subgraphs[0]), claims))
        assert replayed == seen, f"model {block * 40 + seed}, claims {claims}"


def test_an_empty_claim_changes_nothing() -> None:
    plan = (step(0, (0,), (1,)), step(1, (1,), (2,)))
    assert claim(plan, [], 0) == plan
    assert claim(plan, [7], 0) == plan


def test_a_claim_around_an_unclaimed_op_becomes_two_nodes() -> None:
    plan = (step(0, (0,), (1,)), step(1, (1,), (2,)), step(2, (1, 2), (3,)))
    assert shape(claim(plan, [0, 2], 0)) == [(0,), 1, (2,)]


def test_the_first_ready_op_decides_and_later_branches_wait() -> None:
    """Two branches claim-free-claim: both heads join one node, both tails another."""
    plan = (
        step(0, (0,), (1,)), step(1, (1,), (2,)), step(2, (2,), (3,)),
        step(3, (0,), (4,)), step(4, (4,), (5,)), step(5, (5,), (6,)),
    )  # fmt: skip
    assert shape(claim(plan, [0, 2, 3, 5], 0)) == [(0, 3), 1, 4, (2, 5)]


def test_side_effects_keep_their_order() -> None:
    """Op 2 has its input but must wait for op 0, which waits for op 1 in file order behind it."""
    plan = (step(0, (2,), (3,), side_effect=True), step(1, (1,), (2,)), step(2, (1,), (4,), side_effect=True))
    assert shape(topological(plan)) == [1, 0, 2]


def test_every_op_comes_out_once_whatever_the_plan() -> None:
    """Even from a cycle, which no runtime runs."""
    plan = (step(0, (2,), (1,)), step(1, (1,), (2,)), step(2, (0,), (3,)))
    assert sorted(m for s in claim(plan, [0, 2], 0) for m in s.members) == [0, 1, 2]


def swept(plan: tuple[Step, ...], claimed: set[int]) -> list[tuple[int, ...] | int]:
    """The epoch rule as it is told: sweep after sweep over the whole plan."""
    made_by = {t: s for s in plan for t in s.outputs}
    effects = [s for s in plan if s.has_side_effect]
    needs = {s: {made_by[t] for t in s.inputs if t in made_by} for s in plan}
    for before, after in itertools.pairwise(effects):
        needs[after].add(before)
    done: list[Step] = []
    result: list[tuple[int, ...] | int] = []
    while len(done) < len(plan):
        epoch: list[Step] = []
        grew = True
        while grew:
            grew = False
            for s in plan:
                ready = s not in done and needs[s] <= set(done)
                if ready and (not epoch or (s.op in claimed) == (epoch[0].op in claimed)):
                    epoch.append(s)
                    done.append(s)
                    grew = True
        result += [tuple(s.op for s in epoch)] if epoch[0].op in claimed else [s.op for s in epoch]
    return result


def test_equals_sweeping_on_plans_in_order_and_out_of_order() -> None:
    for seed in range(400):
        rng = random.Random(seed)
        ops = rng.randrange(1, 14)
        plan = []
        for op in range(ops):
            inputs = tuple(sorted({rng.randrange(max(0, op - 4), op + 1) for _ in range(rng.choice([0, 1, 2, 3]))}))
            plan.append(step(op, inputs, (op + 1,), side_effect=seed % 3 == 0 and rng.random() < 0.3))
        if seed % 2 and not any(s.has_side_effect for s in plan):
            rng.shuffle(plan)
        claimed = {op for op in range(ops) if rng.random() < 0.5}
        assert shape(claim(tuple(plan), claimed, 0)) == (swept(tuple(plan), claimed) if claimed else shape(tuple(plan)))
