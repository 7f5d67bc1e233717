# SPDX-License-Identifier: Apache-2.0
"""What built-in kernels ask for, against real runtimes: models of one op and of many, run once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from edgedeploy_partitioner.memory.liveness import lifetimes
from edgedeploy_partitioner.memory.release import Release
from edgedeploy_partitioner.memory.temporaries import RULES, WITHOUT_SCRATCH, Scratch, added, temporaries
from edgedeploy_partitioner.model.build import Model, Subgraph
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_profiles import load_runtime
from support.arenas import compared, executed_nodes, real_bytes, real_offsets
from support.kernel_cases import Const, In, Operand, Out, Q, case, ones
from support.plain_cases import plain, programs
from support.runtime import Answer, inspect_all
from support.runtimes import EVERY, HERE, Runtime, any_or_skip
from support.scratch_cases import with_scratch

WITH_SCRATCH = {threads: list(with_scratch(Random(threads))) for threads in (1, 4)}
WITHOUT = list(plain())

# Kernels that are not run here, and why.
NOT_RUN = {
    "NumericVerify": "fails on what it is there to find: a float that differs from its quantised form",
    **dict.fromkeys(("ASSIGN_VARIABLE", "READ_VARIABLE", "VAR_HANDLE", "CALL_ONCE"), "in the examples, with a state"),
    **dict.fromkeys(
        ("IF", "WHILE", "STABLEHLO_COMPOSITE", "DENSIFY"), "in the examples and models with more subgraphs"
    ),
    "EMBEDDING_LOOKUP_SPARSE": "sizes its result by values that are fed",
}


@pytest.fixture(params=EVERY, ids="-".join)
def runtime(request: pytest.FixtureRequest) -> Runtime:
    return any_or_skip(*request.param)


def asked(answer: Answer) -> list[tuple[int, bool]]:
    """(bytes, persistent) of the temporaries of the first node that lie in an arena."""
    assert answer.subgraphs is not None
    tensors, node = answer.subgraphs[0]["tensors"], answer.subgraphs[0]["nodes"][0]
    arenas = {"arena_rw": False, "arena_rw_persistent": True}
    found = [tensors[t] for t in node["temporaries"]]
    return [(t["bytes"], arenas[t["allocation"]]) for t in found if t["allocation"] in arenas and t["bytes"]]


def predicted(graph: Graph, answer: Answer, threads: int, release: Release) -> list[tuple[int, bool]] | None:
    """The same as predicted, None if it is not known."""
    assert answer.subgraphs is not None
    subgraph = graph.subgraphs[0]
    lives = lifetimes(graph, subgraph, executed_nodes(answer.subgraphs[0]), threads, release)
    made = sorted((b for b in lives.blocks if b.tensor >= len(subgraph.tensors)), key=lambda b: b.tensor)
    return None if lives.unknown_scratch else [(b.bytes, b.home == "persistent") for b in made]


def assert_equals(graph: Graph, answer: Answer, threads: int, runtime: Runtime, name: str) -> None:
    for plan, its in compared(graph, answer, threads, runtime):
        assert its.exact, name
        assert (its.bytes, its.persistent_bytes) == real_bytes(plan), name
        assert its.offsets == real_offsets(plan), name


@pytest.mark.parametrize("threads", [1, 4])
def test_scratch_is_what_the_runtime_allocates(runtime: Runtime, threads: int) -> None:
    cases, release = WITH_SCRATCH[threads], runtime.release
    answers = inspect_all((c.model for c in cases), xnnpack=False, run=True, threads=threads, runtime=runtime)
    ran: Counter[str] = Counter()
    for made, answer in zip(cases, answers, strict=True):
        if runtime is not HERE and (answer.subgraphs is None or answer.failure):
            continue  # an older one does not have every form
        assert answer.subgraphs is not None, (made.name, answer.failure)
        assert not answer.failure, (made.name, answer.failure)
        graph = read_bytes(made.model)
        its = predicted(graph, answer, threads, release)
        if its is None:
            assert runtime is not HERE, made.name
            continue
        assert its == asked(answer), made.name
        plan, subgraph = answer.subgraphs[0], graph.subgraphs[0]
        asks = (Scratch(0),) * len(plan["nodes"][0]["temporaries"])
        count = added(subgraph.ops[0], asks, release)
        assert len(plan["tensors"]) - len(subgraph.tensors) == count, made.name
        assert_equals(graph, answer, threads, runtime, made.name)
        ran[made.op] += 1
    assert set(ran) >= set(RULES) - set(NOT_RUN) - ({"STABLEHLO_REDUCE_WINDOW"} if runtime is not HERE else set())
    assert sum(ran.values()) >= 0.8 * len(cases)


LAYERS = ("lstm", "svdf", "total", "rnn", "dense", "product", "sum")


def _layers(rng: Random) -> dict[str, Callable[[Subgraph, int], int]]:
    """Layers from [2, 8] to [2, 8], each of a kernel that adds tensors to the subgraph, some more than it uses."""
    dtype = rng.choice(["float32", "int8"])

    def weights(g: Subgraph, *shape: int, kind: str = dtype) -> int:
        made = ones(*shape, dtype=kind)
        return g.constant(np.asarray(made.value).astype(kind), kind, None if kind == "float32" else Q)

    def state(g: Subgraph, *shape: int) -> int:
        return g.tensor(shape, variable=True)

    def floats(g: Subgraph, *shape: int) -> int:
        return weights(g, *shape, kind="float32")

    def lstm(g: Subgraph, x: int) -> int:
        gates = [*[weights(g, 8, 8)] * 8, -1, -1, -1, *[floats(g, 8)] * 4, -1, -1, state(g, 2, 8), state(g, 2, 8)]
        return g.apply("LSTM", [x, *gates], (2, 8), op_version=3, fused_activation_function="TANH", kernel_type="FULL")

    def svdf(g: Subgraph, x: int) -> int:
        operands = [x, weights(g, 8, 8), floats(g, 8, 3), floats(g, 8), state(g, 2, 24)]
        return g.apply("SVDF", operands, (2, 8), op_version=3, rank=1)

    def total(g: Subgraph, x: int) -> int:
        axis = g.constant(np.array([0], np.int32))
        return g.apply("ADD", [x, g.apply("SUM", [x, axis], (1, 8), keep_dims=True)], (2, 8))

    return {
        "lstm": lstm,
        "svdf": svdf,
        "total": total,
        "rnn": lambda g, x: g.apply(
            "RNN", [x, weights(g, 8, 8), weights(g, 8, 8), floats(g, 8), state(g, 2, 8)], (2, 8), op_version=3
        ),
        "dense": lambda g, x: g.apply("FULLY_CONNECTED", [x, weights(g, 8, 8), -1], (2, 8), op_version=3),
        "product": lambda g, x: g.apply("BATCH_MATMUL", [x, weights(g, 8, 8)], (2, 8), op_version=4),
        "sum": lambda g, x: g.apply("ADD_N", [x] * 4, (2, 8)),
    }


@pytest.mark.parametrize("threads", [1, 4])
def test_temporaries_get_the_ids_of_the_runtime(runtime: Runtime, threads: int) -> None:
    """Kernels add more tensors than they use, as the model is loaded or as they are prepared; ids decide where equals
    lie."""
    models = []
    for seed in range(20):
        rng = Random(seed)
        model = Model()
        g = model.subgraph()
        made = [g.input((2, 8))]
        for _ in range(12):
            made.append(_layers(rng)[rng.choice(LAYERS)](g, rng.choice(made[-3:])))
        g.outputs(made[-1])
        models.append(model.build())
    answers = inspect_all(models, xnnpack=False, run=True, threads=threads, runtime=runtime)
    for seed, (model_bytes, answer) in enumerate(zip(models, answers, strict=True)):
        assert_equals(read_bytes(model_bytes), answer, threads, runtime, str(seed))


def test_kernels_that_are_said_to_need_no_scratch_ask_for_none(runtime: Runtime) -> None:
    cases = [*WITHOUT, *programs()]
    answers = inspect_all((c.model for c in cases), xnnpack=False, run=True, runtime=runtime)
    loaded = 0
    for made, answer in zip(cases, answers, strict=True):
        assert runtime is not HERE or answer.subgraphs is not None, (made.name, answer.failure)
        if answer.subgraphs is None:
            continue
        loaded += 1
        assert not any(node["temporaries"] for node in answer.subgraphs[0]["nodes"]), made.name
        graph = read_bytes(made.model)
        for op in graph.subgraphs[0].ops:
            assert temporaries(graph, op, 1, ()) == (), made.name
        if answer.failure:  # some of the inputs, which are whatever was in memory
            continue
        for plan, its in compared(graph, answer, 1, runtime):
            if its.exact and plan["subgraph"] == 0:
                assert (its.bytes, its.persistent_bytes) == real_bytes(plan), made.name
    assert loaded >= 0.85 * len(cases)


def test_every_kernel_of_the_runtime_is_known_and_run() -> None:
    profile = load_runtime("ai-edge-litert", "2.3.0")
    kernels = {*profile.builtin_kernels, *profile.custom_kernels}
    assert kernels <= WITHOUT_SCRATCH | set(RULES)
    assert not WITHOUT_SCRATCH & set(RULES)
    graphs = (read_bytes(made.model) for made in (*WITH_SCRATCH[1], *WITHOUT, *programs()))
    assert kernels - set(NOT_RUN) == {op.name for graph in graphs for op in graph.subgraphs[0].ops}


@pytest.mark.parametrize("code", ["Erf", "FlexErf", "CUSTOM"])
def test_an_unseen_kernel_is_not_guessed(code: str) -> None:
    made = case(code, [In((2, 8, 8)), Const([8, 8])], Out((2, 8, 5)))
    graph = read_bytes(made.model)
    assert temporaries(graph, graph.subgraphs[0].ops[0], 1, ()) is None


def test_a_sparse_hybrid_weight_is_not_guessed() -> None:
    model = Model()
    g = model.subgraph()
    weights = g.sparse_constant(np.eye(4, 16, dtype=np.int8), quant=Q)
    g.outputs(g.apply("FULLY_CONNECTED", [g.input((3, 16)), weights, -1], (3, 4), op_version=8))
    graph = read_bytes(model.build())
    assert temporaries(graph, graph.subgraphs[0].ops[0], 1, ()) is None


@pytest.mark.parametrize("code", ["CONV_2D", "BATCH_MATMUL", "SVDF", "LSTM", "RFFT2D"])
@pytest.mark.parametrize("inputs", [[], [None, None], [In(())], [In((0,)), In((0, 0), "int8")]])
def test_a_malformed_op_is_not_known(code: str, inputs: list[Operand]) -> None:
    graph = read_bytes(case(code, inputs, Out(())).model)
    assert temporaries(graph, graph.subgraphs[0].ops[0], 1, ()) is None
