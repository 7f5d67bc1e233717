# SPDX-License-Identifier: Apache-2.0
"""On arm64 the arena is predicted to the byte too, and XNNPACK takes what it takes here."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_profiles.load import load_core
from support.arenas import compared, real_bytes
from support.random_model import random_dag
from support.runtime import Answer, inspect_all
from support.runtimes import HERE
from support.scratch_cases import with_scratch
from support.userland import Userland

pytestmark = pytest.mark.board

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.tflite"))
REFUSED = "custom_erf.int8.tflite"  # has an op that the runtime does not know
MODELS = {p.name: p.read_bytes() for p in EXAMPLES if p.name != REFUSED}
MODELS |= {f"dag {seed}": random_dag(seed, 40) for seed in range(6)}


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("xnnpack", [True, False])
def test_the_arena_is_that_which_is_predicted(board: Userland, xnnpack: bool, threads: int) -> None:
    runtime = board.runtime(load_core("cortex-a76"))
    answers = inspect_all(MODELS.values(), xnnpack=xnnpack, threads=threads, run=True, runtime=runtime)
    exact = 0
    for (name, model), answer in zip(MODELS.items(), answers, strict=True):
        for plan, predicted in compared(read_bytes(model), answer, threads, runtime):
            if predicted.exact:
                exact += 1
                assert (predicted.bytes, predicted.persistent_bytes) == real_bytes(plan), (name, plan["subgraph"])
    assert exact > len(MODELS) // 2


@pytest.mark.parametrize(("core", "threads"), [("cortex-a53", 4), ("cortex-a76", 1)])
def test_kernels_ask_for_the_scratch_that_is_predicted(board: Userland, core: str, threads: int) -> None:
    runtime = board.runtime(load_core(core))
    cases = list(with_scratch(Random(threads)))[threads::6]
    answers = inspect_all((c.model for c in cases), xnnpack=False, threads=threads, run=True, runtime=runtime)
    for made, answer in zip(cases, answers, strict=True):
        for plan, predicted in compared(read_bytes(made.model), answer, threads, runtime):
            assert predicted.exact, made.name
            assert (predicted.bytes, predicted.persistent_bytes) == real_bytes(plan), made.name


@pytest.mark.parametrize("core", ["cortex-a53", "cortex-a76"])
def test_xnnpack_takes_the_same_ops_as_here(board: Userland, core: str) -> None:
    here, there = (inspect_all(MODELS.values(), runtime=r) for r in (HERE, board.runtime(load_core(core))))
    assert any(answer.claimed() for answer in there)
    for name, a, b in zip(MODELS, here, there, strict=True):
        assert members(a) == members(b), name


def members(answer: Answer) -> list[list[list[int] | None]]:
    assert answer.subgraphs is not None, answer.failure
    return [[node["members"] for node in plan["nodes"]] for plan in answer.subgraphs]
