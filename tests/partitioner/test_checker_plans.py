# SPDX-License-Identifier: Apache-2.0
"""Real plans against the checker and the runtime: made, written, read, claimed, executed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from edgedeploy_partitioner.checker import check
from edgedeploy_partitioner.edp import decode, encode
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes, read_model
from edgedeploy_partitioner.plan import XNNPACK, Plan
from edgedeploy_partitioner.planning import Request, partition
from edgedeploy_profiles import load_board, load_runtime
from support import plan_edits, runtime
from support.random_model import random_dag

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.tflite"))
RUNTIME = ("ai-edge-litert", "2.3.0")


def planned(graph: Graph, board: str = "rk3588", **options: Any) -> Plan:
    return partition(graph, load_board(board), Request(load_runtime(*RUNTIME), **options))


def on_the_npu(graph: Graph, seed: int, share: float) -> Plan:
    """A plan for RK3588 that forces about ``share`` of what its NPU takes there, and some of the rest elsewhere."""
    rng = random.Random(seed)
    possible = [op for op in planned(graph).ops if not op.folded]
    force = [
        f"{op.subgraph}:{op.index}=rknn"
        for op in possible
        if any(c.backend == "rknn" and c.verdict == "supported" for c in op.candidates) and rng.random() < share
    ]
    return planned(graph, force=tuple(force))


@pytest.mark.parametrize("board", ["rk3588", "rpi5", "local"])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_has_a_true_plan(path: Path, board: str) -> None:
    graph = read_model(path)
    for xnnpack in ("default", "off"):
        plan = planned(graph, board, xnnpack=xnnpack)
        assert check(plan, graph) == ()
        assert {op.partition for op in decode(encode(plan)).ops} <= {p.id for p in plan.partitions}


@cache
def forced_plans() -> tuple[tuple[bytes, Plan], ...]:
    """Examples and random models, cut into many partitions."""
    models = [path.read_bytes() for path in EXAMPLES] + [random_dag(seed, 5 + seed) for seed in range(20)]
    return tuple((model, on_the_npu(read_bytes(model), seed, 0.6)) for seed, model in enumerate(models))


def test_plans_with_many_partitions_are_true() -> None:
    for model, plan in forced_plans():
        assert check(plan, read_bytes(model)) == ()
    assert sum(len(plan.partitions) > 3 for _, plan in forced_plans()) > 5


def test_the_runtime_executes_what_plan_edp_claims() -> None:
    """The claims of the library's file, made on the real runtime, give the nodes and the order of the plan.

    XNNPACK's claim is made as the plan has it: whether it would make the same is the census's business.
    """
    plans = forced_plans()
    claims = [list(_claims(plan)) for _, plan in plans]
    answers = runtime.inspect_all([model for model, _ in plans], claims=claims, xnnpack=False)
    for (_, plan), answer in zip(plans, answers, strict=True):
        assert answer.subgraphs is not None, answer.failure
        assert list(_executed(plan, answer.subgraphs[0])) == list(_expected(plan))


def _claims(plan: Plan) -> Iterator[list[int]]:
    ops = [op for op in decode(encode(plan)).ops if op.subgraph == 0]
    for _, group in groupby(ops, key=lambda op: op.partition):
        yield [op.index for op in group]
    others = {p.id for p in plan.partitions if p.delegate == XNNPACK}
    yield [op.index for op in plan.ops if op.partition in others and op.subgraph == 0]


def _executed(plan: Plan, subgraph: dict[str, Any]) -> Iterator[tuple[bool, tuple[int, ...]]]:
    """(is it a delegate's, ops) of every node, constants' unpacking left out."""
    folded = {op.index for op in plan.ops if op.folded and op.subgraph == 0}
    for node in subgraph["nodes"]:
        ops = tuple(op for op in node["members"] or [node["op"]] if op not in folded)
        if ops:
            yield node["members"] is not None, ops


def _expected(plan: Plan) -> Iterator[tuple[bool, tuple[int, ...]]]:
    entry = {op.index: op for op in plan.ops if op.subgraph == 0}
    order = (op for op in plan.subgraphs[0].order if not entry[op].folded)
    for home, ops in groupby(order, key=lambda op: (entry[op].partition, entry[op].partition is None and op)):
        yield home[0] is not None, tuple(ops)


def test_no_value_of_a_real_plan_can_change_unnoticed() -> None:
    """A sample of the changes: of a plan that runs one subgraph, so that every cost in it counts."""
    fitting = ((m, p) for m, p in forced_plans() if len(p.partitions) > 3 and len(p.subgraphs) == 1)
    model, plan = min(fitting, key=lambda pair: len(pair[1].ops))
    graph = read_bytes(model)
    changed = list(plan_edits.every_change(plan, step=3))
    assert len(changed) > 100
    for what, other in changed:
        assert check(other, graph), what
