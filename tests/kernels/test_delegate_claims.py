# SPDX-License-Identifier: Apache-2.0
"""Plans of the real planner, carried out by libedgedeploy.so in the installed runtime: what is claimed, what comes out."""

from __future__ import annotations

import pytest

from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.plan import Plan
from support.delegates import Job, Ran, claims, executed, planned, run, same, scattered, steps
from support.random_model import random_dag
from support.runtimes import ROOT

EXAMPLES = {
    p.name: p.read_bytes() for p in sorted((ROOT / "examples").glob("*.tflite")) if p.name != "custom_erf.int8.tflite"
}
NOT_BY_STAND_IN = "TRANSPOSE_CONV"
"""The stand-in cannot run the runtime's own kernel of this op, which gets memory while it runs."""


def carried_out(plan: Plan, model: bytes, ran: Ran, name: str) -> None:
    """The report has exactly the planned claims, and the runtime executes what the plan says, XNNPACK's nodes too."""
    assert (ran.signal, ran.error) == (0, ""), f"{name}: {ran.stderr}"
    assert "edgedeploy" not in ran.stderr, name
    assert ran.report is not None
    assert ran.report["schema"] == "edgedeploy.report/1"
    for entry in ran.report["partitions"]:
        assert [sorted(node) for node in entry["delegate_nodes"]] == [sorted(entry["planned"])], name
    reported = [set(entry["planned"]) for entry in ran.report["partitions"] if entry["subgraph"] == 0]
    assert reported == claims(plan), name
    graph = read_bytes(model)
    assert executed(ran, graph) == steps(plan, graph), name


@pytest.mark.parametrize("block", range(6))
def test_random_graphs_run_as_planned(block: int) -> None:
    """Without XNNPACK, so that the outputs must be those of the stock kernels to the bit."""
    names, models, plans = [], [], []
    for seed in range(block * 20, block * 20 + 20):
        dtype, board = ("float32", "rpi5") if seed % 2 else ("int8", "imx8mp")
        models.append(random_dag(seed, 4 + seed % 30, dtype))
        plans.append(scattered(models[-1], board, seed, xnnpack="off"))
        names.append(f"{dtype} graph {seed} on {board}")
    mine = [Job(m, p, xnnpack=False, threads=1 + i % 3, seed=i, runs=2) for i, (m, p) in enumerate(zip(models, plans))]
    stock = [Job(m, xnnpack=False, seed=i, runs=2) for i, m in enumerate(models)]
    ran = run([*mine, *stock])
    assert sum(len(claims(p)) for p in plans) > len(plans), "hardly anything was claimed"
    for name, model, plan, a, b in zip(names, models, plans, ran, ran[len(mine) :], strict=False):
        carried_out(plan, model, a, name)
        assert b.error == "", name
        assert same(a.outputs, b.outputs), name


@pytest.mark.parametrize("block", range(4))
def test_xnnpack_takes_what_is_left(block: int) -> None:
    names, models, plans = [], [], []
    for seed in range(1000 + block * 20, 1020 + block * 20):
        dtype, board = ("float32", "rpi5") if seed % 2 else ("int8", "imx8mp")
        models.append(random_dag(seed, 4 + seed % 40, dtype))
        plans.append(scattered(models[-1], board, seed))
        names.append(f"{dtype} graph {seed} on {board}")
    for name, model, plan, ran in zip(
        names, models, plans, run([Job(m, p) for m, p in zip(models, plans)]), strict=True
    ):
        carried_out(plan, model, ran, name)


@pytest.mark.parametrize("board", ["rpi5", "imx8mp", "a311d"])
def test_example_models_run_as_planned(board: str) -> None:
    plans = {}
    for name, model in EXAMPLES.items():
        is_there = board != "rpi5" and any(op.code == NOT_BY_STAND_IN for op in read_bytes(model).subgraphs[0].ops)
        plans[name] = planned(model, board, xnnpack="off", forbid=(f"{NOT_BY_STAND_IN}=vx",) if is_there else ())
    mine = [Job(EXAMPLES[name], plan, xnnpack=False) for name, plan in plans.items()]
    stock = [Job(model, xnnpack=False) for model in EXAMPLES.values()]
    ran = run([*mine, *stock])
    assert any(map(claims, plans.values()))
    for (name, plan), a, b in zip(plans.items(), ran, ran[len(mine) :], strict=False):
        carried_out(plan, EXAMPLES[name], a, name)
        assert same(a.outputs, b.outputs), name
