# SPDX-License-Identifier: Apache-2.0
"""Models with plans of the real planner, and what must hold when libedgedeploy.so carries them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.plan import Plan
from support.delegates import Job, Ran, claims, executed, planned, run, same, scattered, steps
from support.random_model import random_dag
from support.runtimes import HERE, ROOT, Runtime

EXAMPLES = {
    p.name: p.read_bytes() for p in sorted((ROOT / "examples").glob("*.tflite")) if p.name != "custom_erf.int8.tflite"
}
NOT_BY_STAND_IN = "TRANSPOSE_CONV"
"""The stand-in cannot run the runtime's own kernel of this op, which gets memory while it runs."""


@dataclass(frozen=True)
class Scene:
    name: str
    model: bytes
    plan: Plan


def random_scenes(seeds: range, runtime: Runtime = HERE, **options: Any) -> list[Scene]:
    found = []
    for seed in seeds:
        dtype, board = ("float32", "rpi5") if seed % 2 else ("int8", "imx8mp")
        model = random_dag(seed, 4 + seed % 20, dtype)
        plan = scattered(model, board, seed, runtime=runtime, **options)
        found.append(Scene(f"{dtype} graph {seed} on {board}", model, plan))
    assert sum(len(claims(scene.plan)) for scene in found) > len(found) // 2, "hardly anything is claimed"
    return found


def elementwise_dag(seed: int, ops: int) -> bytes:
    """A random graph of ops that our kernels of the tests take, but for some, on tensors of three sizes."""
    rng, model = Random(seed), Model()
    g = model.subgraph()
    values = {shape: [g.input(shape, "float32")] for shape in ((1, 6, 6, 4), (1, 3, 5, 7), (1, 40))}
    while len(g.value.operators) < ops:
        shape = rng.choice(list(values))
        known = values[shape]
        code = rng.choice(("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "ABS", "NEG", "RELU", "RELU6", "SIN"))
        count = 1 if code in ("ABS", "NEG", "RELU", "RELU6", "SIN") else 2
        operands = [rng.choice(known[-3:] if rng.random() < 0.6 else known) for _ in range(count)]
        known.append(g.apply(code, operands, shape))
    read = {t for op in g.value.operators for t in op.inputs}
    g.outputs(*(t for op in g.value.operators for t in op.outputs if t not in read or rng.random() < 0.1))
    return model.build()


def dense_scenes(seeds: range, runtime: Runtime = HERE) -> list[Scene]:
    """Partitions of many ops that our kernels run."""
    found = []
    for seed in seeds:
        model = elementwise_dag(seed, 10 + seed % 30)
        plan = scattered(model, "rpi5", seed, share=0.95, runtime=runtime, xnnpack="off")
        found.append(Scene(f"elementwise graph {seed}", model, plan))
    assert sum(len(max(claims(scene.plan), key=len)) > 6 for scene in found) > len(found) // 2, "partitions are small"
    return found


def example_scenes(board: str, runtime: Runtime = HERE) -> list[Scene]:
    found = []
    for name, model in EXAMPLES.items():
        is_there = board != "rpi5" and any(op.code == NOT_BY_STAND_IN for op in read_bytes(model).subgraphs[0].ops)
        forbid = (f"{NOT_BY_STAND_IN}=vx",) if is_there else ()
        found.append(Scene(name, model, planned(model, board, runtime=runtime, xnnpack="off", forbid=forbid)))
    return found


def check_claims(scene: Scene, ran: Ran) -> None:
    """The report has exactly the planned claims, and the runtime executes what the plan says, XNNPACK's nodes too."""
    assert (ran.signal, ran.error) == (0, ""), f"{scene.name}: {ran.stderr}"
    assert "edgedeploy" not in ran.stderr, scene.name
    assert ran.report is not None
    assert ran.report["schema"] == "edgedeploy.report/1"
    entries = ran.report["partitions"]
    assert all([sorted(node) for node in e["delegate_nodes"]] == [sorted(e["planned"])] for e in entries), scene.name
    assert [set(e["planned"]) for e in entries if e["subgraph"] == 0] == claims(scene.plan), scene.name
    graph = read_bytes(scene.model)
    assert executed(ran, graph) == steps(scene.plan, graph), scene.name
    internal = scene.plan.memory.delegate_internal_bytes
    assert max((e["internal_bytes"] for e in entries), default=0) == internal, scene.name


def check_same_as_stock(scenes: Sequence[Scene], runtime: Runtime = HERE) -> None:
    """Without XNNPACK, so that the outputs must be those of the stock kernels to the bit; on 1 to 3 threads."""
    mine = [Job(s.model, s.plan, xnnpack=False, threads=1 + i % 3, seed=i, runs=2) for i, s in enumerate(scenes)]
    stock = [Job(s.model, xnnpack=False, seed=i, runs=2) for i, s in enumerate(scenes)]
    ran = run([*mine, *stock], runtime)
    for scene, a, b in zip(scenes, ran[: len(mine)], ran[len(mine) :], strict=True):
        check_claims(scene, a)
        assert b.error == "", scene.name
        assert same(a.outputs, b.outputs), scene.name


def check_with_xnnpack(scenes: Sequence[Scene], runtime: Runtime = HERE) -> None:
    for scene, ran in zip(scenes, run([Job(s.model, s.plan) for s in scenes], runtime), strict=True):
        check_claims(scene, ran)
