# SPDX-License-Identifier: Apache-2.0
"""The planner for runtimes that cannot be installed here: arenas byte for byte, and plans from end to end."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
import pytest

from edgedeploy import partition
from edgedeploy_agent import footprint
from edgedeploy_partitioner.edp import encode
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.plan import Plan
from edgedeploy_profiles import ProfileError
from support.arenas import compared, real_bytes, real_offsets
from support.heaps import heaps
from support.random_model import random_dag
from support.runtime import inspect_all
from support.runtimes import OTHERS, SWITCHED, Runtime, any_or_skip

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.tflite"))
REFUSED = "custom_erf.int8.tflite"  # has an op that no runtime knows
SHAPE = (1, 4, 4, 6)


@pytest.fixture(params=(*OTHERS, SWITCHED), ids="-".join)
def runtime(request: pytest.FixtureRequest) -> Runtime:
    return any_or_skip(*request.param)


@pytest.mark.runtimes
@pytest.mark.parametrize("xnnpack", [True, False])
@pytest.mark.parametrize("threads", [1, 4])
def test_arenas_of_the_examples(threads: int, xnnpack: bool, runtime: Runtime) -> None:
    models = {path.name: path.read_bytes() for path in EXAMPLES if path.name != REFUSED}
    assert len(models) >= 9
    answers = inspect_all(models.values(), xnnpack=xnnpack, run=True, threads=threads, runtime=runtime)
    for (name, model), answer in zip(models.items(), answers, strict=True):
        for plan, predicted in compared(read_bytes(model), answer, threads, runtime):
            assert predicted.exact, name
            assert (predicted.bytes, predicted.persistent_bytes) == real_bytes(plan), (name, plan["subgraph"])


@pytest.mark.runtimes
@pytest.mark.parametrize("xnnpack", [True, False])
@pytest.mark.parametrize("threads", [1, 4])
def test_arenas_of_random_graphs(threads: int, xnnpack: bool, runtime: Runtime) -> None:
    """Every tensor lies where the runtime puts it. Among them weights that one XNNPACK node unpacks for another."""
    models = [random_dag(1000 * ops + seed, ops) for ops in (8, 30, 90) for seed in range(12)]
    answers = inspect_all(models, xnnpack=xnnpack, run=True, threads=threads, runtime=runtime)
    for model, answer in zip(models, answers, strict=True):
        for plan, predicted in compared(read_bytes(model), answer, threads, runtime):
            assert predicted.exact
            assert (predicted.bytes, predicted.persistent_bytes) == real_bytes(plan)
            real = real_offsets(plan)
            assert {t: at for t, at in predicted.offsets.items() if t in real}.items() <= real.items()


@pytest.mark.runtimes
@pytest.mark.parametrize("xnnpack", ["default", "off"])
@pytest.mark.parametrize("path", [p for p in EXAMPLES if p.name != REFUSED], ids=lambda p: p.name)
def test_the_arena_of_a_plan_is_the_runtimes(path: Path, xnnpack: str, runtime: Runtime) -> None:
    if runtime.is_switched and xnnpack == "off":
        pytest.skip("with the switch XNNPACK is on")
    switch = "switch" if runtime.is_switched else xnnpack
    plan = planned(path, f"{runtime.name}=={runtime.version}", switch)
    with_xnnpack = xnnpack == "default"
    answers = inspect_all([path.read_bytes()], xnnpack=with_xnnpack, plans=[encode(plan)], run=True, runtime=runtime)
    assert answers[0].subgraphs is not None, answers[0].failure
    assert plan.memory.arena_exact == (len(answers[0].subgraphs) == 1)  # with control flow it is a sum
    if plan.memory.arena_exact:
        assert (plan.memory.arena_bytes, plan.memory.persistent_bytes) == real_bytes(answers[0].subgraphs[0])
    assert plan.memory.baseline_bytes is not None


def planned(model: Path, runtime: str, xnnpack: str = "default") -> Plan:
    return partition(model, "local", runtime=runtime, xnnpack=xnnpack, threads=1)


def test_an_unknown_runtime_is_refused_with_those_that_are_known() -> None:
    known = r"ai-edge-litert==2\.1\.0, ai-edge-litert==2\.3\.0, tflite-runtime==2\.14\.0"
    with pytest.raises(ProfileError, match=f"no runtime 'tflite-runtime==2.13.0'; known: {known}"):
        planned(EXAMPLES[0], "tflite-runtime==2.13.0")
    with pytest.raises(InputError, match=f"say which version, of {known}"):
        planned(EXAMPLES[0], "tflite-runtime")


def transposed(dtype: str) -> Model:
    model = Model()
    g = model.subgraph()
    order = g.constant(np.array([0, 2, 1, 3], np.int32))
    g.outputs(
        g.apply("TRANSPOSE", [g.input(SHAPE, dtype), order], SHAPE, dtype), g.apply("ABS", [g.input(SHAPE)], SHAPE)
    )
    return model


def shaped_by_input() -> Model:
    model = Model()
    g = model.subgraph()
    shaped = g.apply("RESHAPE", [g.input((4,)), g.input((2,), "int32")], (2, 2))
    g.outputs(shaped, g.apply("ABS", [g.input(SHAPE)], SHAPE))
    return model


@pytest.mark.parametrize(
    ("model", "reason"), [(transposed("int32"), "fails on TRANSPOSE"), (shaped_by_input(), "RESHAPE")]
)
def test_a_plan_says_what_keeps_xnnpack_from_the_graph(model: Model, reason: str) -> None:
    """ABS is XNNPACK's in LiteRT and would be in 2.14."""
    graph = read_bytes(model.build())
    for runtime, is_stopped in (("tflite-runtime==2.14.0", True), ("ai-edge-litert==2.1.0", False)):
        plan = partition(graph, "rpi5", runtime=runtime)
        [absolute] = [op for op in plan.ops if graph.subgraphs[0].ops[op.index].code == "ABS"]
        assert (absolute.kernel == "builtin") == is_stopped
        told = [w.message for w in plan.warnings if w.code == "xnnpack_claims_nothing"]
        assert len(told) == is_stopped
        assert not told or reason in told[0]
    alone = partition(read_bytes(transposed("float32").build()), "rpi5", runtime="tflite-runtime==2.14.0")
    assert {op.kernel for op in alone.ops} == {"xnnpack"}


@pytest.mark.runtimes
@pytest.mark.skipif(footprint.heap_bytes() is None, reason="the heap is asked of glibc 2.33 or newer")
@pytest.mark.parametrize("options", [(), ("--xnnpack", "off")], ids=["xnnpack", "builtin"])
def test_the_heap_is_near_what_is_predicted(runtime: Runtime, options: tuple[str, ...], tmp_path: Path) -> None:
    """At the median to 6 %, and to 30 %: operands of older kernels, XNNPACK's workspace, what the interpreter keeps."""
    models = [(p.name, p.read_bytes()) for p in EXAMPLES if p.name != REFUSED]
    found = heaps(models, tmp_path, *options, runtime=runtime)
    errors = {h.name: (h.packed + h.structures) / (h.loaded + h.own) - 1 for h in found}
    assert statistics.median(abs(error) for error in errors.values()) < 0.06
    assert {name: error for name, error in errors.items() if abs(error) > 0.3} == {}


def test_no_arena_is_exact_once_xnnpack_is_undone() -> None:
    """The runtime then frees nothing, which is not replayed."""
    model = Model()
    g = model.subgraph()
    turned = g.apply("TRANSPOSE", [g.input((2, 3), "int32"), g.constant(np.array([1, 0], np.int32))], (3, 2), "int32")
    g.outputs(turned, g.apply("SIN", [g.apply("SIN", [g.input((64,))], (64,))], (64,)))
    plans = [
        partition(read_bytes(model.build()), "rpi5", runtime="tflite-runtime==2.14.0", xnnpack=xnnpack)
        for xnnpack in ("default", "off")
    ]
    assert [plan.memory.arena_exact for plan in plans] == [False, True]
    assert plans[0].memory.peak_high_bytes is None
    assert "frees nothing" in " ".join(w.message for w in plans[0].warnings)
