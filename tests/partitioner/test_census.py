# SPDX-License-Identifier: Apache-2.0
"""Claims predicted from the file alone against those of the runtimes."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from edgedeploy_partitioner.model.build import Model, Subgraph, per_tensor
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes, read_model
from edgedeploy_partitioner.runtime.census import Found, kernel_of, xnnpack_claims
from edgedeploy_profiles.load import load_runtime, load_switched
from edgedeploy_profiles.schema import Runtime
from support.delegates import library
from support.random_model import random_dag
from support.runtime import Answer, inspect_all
from support.runtimes import EVERY, HERE, SWITCHED_TOO, any_or_skip
from support.runtimes import Runtime as Asked

TOOLS = Path(__file__).parents[2] / "tools"
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.tflite"))
RANDOM_MODELS = 300
SHAPE = (1, 4, 4, 6)


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    census = load_runtime("ai-edge-litert", "2.3.0")
    if metadata.version("ai-edge-litert") != census.version:
        pytest.skip(f"the census is of {census.version}, installed is {metadata.version('ai-edge-litert')}")
    return census


@pytest.fixture(params=(*EVERY, SWITCHED_TOO), ids="-".join)
def asked(request: pytest.FixtureRequest) -> Asked:
    """Each runtime there is a census of, and with XNNPACK switched on by the library."""
    return any_or_skip(*request.param)


def census_of(asked: Asked) -> Runtime:
    if (asked.name, asked.version) == (HERE.name, HERE.version) and HERE.version != "2.3.0":
        pytest.skip(f"there is no census of {HERE.title}")
    runtime = load_runtime(asked.name, asked.version)
    return runtime.switched(load_switched(asked.name, asked.version)) if asked.is_switched else runtime


def predicted(graph: Graph, runtime: Runtime, without: frozenset[int] = frozenset()) -> list[frozenset[int]]:
    """Claims by subgraph when others own the ops ``without`` of the main one."""
    left = [frozenset(range(len(s.ops))) - (without if s.index == 0 else frozenset()) for s in graph.subgraphs]
    return [xnnpack_claims(graph, i, ops, runtime) for i, ops in enumerate(left)]


def real(answer: Answer, graph: Graph) -> list[frozenset[int]]:
    return [answer.claimed(i) for i in range(len(graph.subgraphs))]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_claims_on_real_models(path: Path, asked: Asked) -> None:
    graph, census = read_model(path), census_of(asked)
    [answer] = inspect_all([path.read_bytes()], runtime=asked)
    if not census.graph_rules["dynamic_turns_off"] or not answer.failure:  # there, what fails had not got to XNNPACK
        assert predicted(graph, census) == real(answer, graph)


def test_claims_on_random_models(asked: Asked) -> None:
    models, census = [random_dag(seed, 15) for seed in range(RANDOM_MODELS)], census_of(asked)
    graphs = [read_bytes(model) for model in models]
    answers = inspect_all(models, runtime=asked)
    assert [predicted(g, census) for g in graphs] == [real(a, g) for a, g in zip(answers, graphs, strict=True)]
    assert sum(len(real(a, g)[0]) for a, g in zip(answers, graphs, strict=True)) > RANDOM_MODELS


def test_claims_on_what_another_delegate_leaves(asked: Asked) -> None:
    """Every third op is somebody else's: among them unpackers without their readers and the other way round."""
    if asked.is_switched:
        pytest.skip("the library applies XNNPACK after its own claims: kernels/test_xnnpack_switch.py")
    models, census = [random_dag(seed, 15, "float32") for seed in range(100)], census_of(asked)
    graphs = [read_bytes(model) for model in models]
    owned = [frozenset(range(i % 3, len(g.subgraphs[0].ops), 3)) for i, g in enumerate(graphs)]
    answers = inspect_all(models, claims=[[sorted(ops)] for ops in owned], runtime=asked)
    for graph, ops, answer in zip(graphs, owned, answers, strict=True):
        assert predicted(graph, census, without=ops)[0] == real(answer, graph)[0] - ops


def test_the_table_gives_back_what_the_runtime_does_with_single_ops(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample of the census taken again: cases, verdicts and keys are the tool's, the answers are the runtime's."""
    monkeypatch.syspath_prepend(str(TOOLS))
    tool, ops, learn = map(importlib.import_module, ("xnnpack_census", "census_ops", "census_learn"))
    sample = random.Random(1).sample(list(ops.grid_cases()), 800)
    requests = list(tool.op_requests([*ops.base_cases(), *sample]))
    if asked.is_switched:
        requests = [tool.switched(request, library()) for request in requests]
    observed = list(tool.observations(zip(requests, tool.answers(requests, *asked.command), strict=True)))
    assert {o.verdict for o in observed} >= {"takes", "leaves", "unpacks"}
    assert learn.conflicts(observed, census_of(asked).census) == []


def built() -> tuple[Model, Subgraph]:
    model = Model()
    return model, model.subgraph()


def made_by_hand() -> Iterator[tuple[str, Model]]:
    """Models about the rules for graphs: what is shared, nested, stateful or of no fixed size."""
    model, g = built()
    w = g.apply("DEQUANTIZE", [g.constant(np.ones((6, 1, 1, 6), np.float16))], (6, 1, 1, 6))
    b = g.constant(np.zeros(6, np.float32))
    conv = g.apply("CONV_2D", [g.input(SHAPE), w, b], SHAPE, padding="SAME", stride_w=1, stride_h=1)
    g.outputs(conv, g.apply("REVERSE_V2", [w, g.constant(np.zeros(1, np.int32))], (6, 1, 1, 6)))
    yield "weights that an op XNNPACK does not take reads too", model

    model, g = built()
    w = g.apply("DEQUANTIZE", [g.constant(np.ones((6, 6), np.float16))], (6, 6))
    g.outputs(w, g.apply("ABS", [g.input(SHAPE)], SHAPE))
    yield "an unpacked constant that nothing reads", model

    model, g = built()
    half = g.apply("DENSIFY", [g.sparse_constant(np.eye(6, dtype=np.float16).reshape(6, 6))], (6, 6), "float16")
    w = g.apply("DEQUANTIZE", [half], (6, 6))
    g.outputs(g.apply("PRELU", [g.input((6, 6)), w], (6, 6)))
    yield "a chain of unpackers", model

    model, g = built()
    condition, x = g.input((), "bool"), g.input(SHAPE)
    g.outputs(g.apply("IF", [condition, x], SHAPE, then_subgraph_index=1, else_subgraph_index=2))
    for code in ("ABS", "NEG"):
        branch = model.subgraph(code)
        branch.outputs(branch.apply(code, [branch.input(SHAPE)], SHAPE))
    yield "branches", model

    model, g = built()
    y = g.tensor((4, 4), signature=(-1, -1))
    g.op("RESHAPE", [g.input((2, 8)), g.input((2,), "int32")], [y])
    g.outputs(g.apply("ABS", [y], (4, 4)))
    yield "a shape that the run decides", model

    model, g = built()
    handle = g.apply("VAR_HANDLE", [], (), "resource", shared_name="v")
    g.op("ASSIGN_VARIABLE", [handle, g.input(SHAPE)], [])
    g.outputs(g.apply("ABS", [g.apply("READ_VARIABLE", [handle], SHAPE)], SHAPE))
    yield "a variable", model

    model, g = built()
    handle = g.apply("VAR_HANDLE", [], (), "resource", shared_name="v")
    g.op("ASSIGN_VARIABLE", [handle, g.input((4,), "int32")], [])
    g.outputs(g.apply("READ_VARIABLE", [handle], (4,), "int32"))
    yield "a variable of integers", model

    model, g = built()
    order = g.constant(np.array([0, 2, 1, 3], np.int32))
    g.outputs(
        g.apply("TRANSPOSE", [g.input(SHAPE, "int32"), order], SHAPE, "int32"), g.apply("ABS", [g.input(SHAPE)], SHAPE)
    )
    yield "an op that XNNPACK of 2.14 fails on", model

    model, g = built()
    order, quant = g.constant(np.array([0, 2, 1, 3], np.int32)), per_tensor(1 / 64)
    g.outputs(g.apply("TRANSPOSE", [g.input(SHAPE, "int8", quant), order], SHAPE, "int8", quant))
    yield "no floats", model

    model, g = built()
    flag, x, shape = g.input((), "bool"), g.input(SHAPE), g.input((4,), "int32")
    chosen = g.apply("IF", [flag, x, shape], SHAPE, then_subgraph_index=1, else_subgraph_index=2)
    g.outputs(chosen, g.apply("ABS", [x], SHAPE))
    for code in ("ABS", "RESHAPE"):
        branch = model.subgraph(code)
        data, to = branch.input(SHAPE), branch.input((4,), "int32")
        branch.outputs(branch.apply(code, [data, to] if code == "RESHAPE" else [data], SHAPE))
    last = model.subgraph("last")
    last.outputs(last.apply("ABS", [last.input(SHAPE)], SHAPE))
    yield "a branch whose shape the run decides", model


BY_HAND = dict(made_by_hand())


@pytest.mark.parametrize("about", BY_HAND)
def test_claims_by_the_rules_for_graphs(about: str, asked: Asked) -> None:
    model = BY_HAND[about].build()
    graph = read_bytes(model)
    [answer] = inspect_all([model], runtime=asked)
    assert predicted(graph, census_of(asked)) == real(answer, graph)


def kernel(code: str, scale: float, runtime: Runtime, dtype: str = "int8") -> Found:
    model, g = built()
    quant = per_tensor(1.0) if dtype in ("int8", "uint8") else None
    x, y = g.input(SHAPE, dtype, per_tensor(scale) if quant else None), g.input(SHAPE, dtype, quant)
    g.outputs(g.apply(code, [x, y], SHAPE, dtype, quant))
    graph = read_bytes(model.build())
    return kernel_of(graph, graph.subgraphs[0].ops[0], runtime)


def test_limits_on_scales_are_where_xnnpack_documents_them(runtime: Runtime) -> None:
    """Its sources: ADD takes ratios in [2^-10, 2^8), MUL products in [2^-16, 2^8)."""
    assert [kernel("ADD", 2.0**k, runtime).verdict for k in (-11, -10, 7, 8)] == ["leaves", "takes", "takes", "leaves"]
    assert [kernel("MUL", 2.0**k, runtime).verdict for k in (-17, -16, 7, 8)] == ["leaves", "takes", "takes", "leaves"]


def test_an_op_is_known_once_the_census_tried_it(runtime: Runtime) -> None:
    assert kernel("ADD", 1.0, runtime, "float32") == Found("takes", kernel("ADD", 1.0, runtime, "float32").row, True)
    assert kernel("ADD", 1.0, runtime, "int32") == Found("leaves", None, True)
    model, g = built()
    g.outputs(g.apply("CUSTOM", [g.input(SHAPE)], SHAPE, custom_code="NobodyKnows"))
    graph = read_bytes(model.build())
    assert kernel_of(graph, graph.subgraphs[0].ops[0], runtime) == Found("leaves", None, False)


def test_what_xnnpack_claims_and_fails_on_ends_the_model(runtime: Runtime) -> None:
    """An int8 convolution whose output scale is 1,000 times too fine: claimed, then refused."""
    model, g = built()
    x = g.input(SHAPE, "int8", per_tensor(1.0))
    w = g.constant(np.ones((3, 1, 1, 6), np.int8), quant=per_tensor(1.0))
    b = g.constant(np.zeros(3, np.int32), quant=per_tensor(1.0))
    y = g.apply("CONV_2D", [x, w, b], (1, 4, 4, 3), "int8", per_tensor(1e-3), padding="SAME", stride_w=1, stride_h=1)
    g.outputs(y)
    graph = read_bytes(model.build())
    assert kernel_of(graph, graph.subgraphs[0].ops[0], runtime).verdict == "fails"
    assert predicted(graph, runtime) == [{0}]
    [answer] = inspect_all([model.build()])
    assert "TfLiteXNNPackDelegate" in answer.failure
    assert inspect_all([model.build()], xnnpack=False)[0].failure == ""


@pytest.mark.parametrize("code", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"])
def test_products_whose_scale_is_too_large_fail(code: str, asked: Asked) -> None:
    """XNNPACK finds it as it creates its runtime, after the claim, where the census tried the very op and where not."""
    cases = [(dtype, scale, biased, wide) for dtype in ("int8", "uint8") for scale in (0.5, 255.0, 256.0, 2000.0)
             for biased in (True, False) for wide in (1, 2) if biased or code == "TRANSPOSE_CONV"]  # fmt: skip
    models = [product(code, *case) for case in cases]
    failed = 0
    for case, model, answer in zip(cases, models, inspect_all(models, runtime=asked), strict=True):
        graph = read_bytes(model)
        verdict = kernel_of(graph, graph.subgraphs[0].ops[0], census_of(asked)).verdict
        claimed = answer.subgraphs is not None and answer.claimed() == {0}
        seen = "fails" if answer.failure else "takes" if claimed else "neither"
        assert verdict == seen or (seen == "neither" and verdict in ("leaves", "undoes")), case
        failed += seen == "fails"
    assert failed or asked.version == "2.14.0"


def product(code: str, dtype: str, scale: float, biased: bool, wide: int) -> bytes:
    """Of 6 channels and ``6 * wide``; its scale over that of its result is ``scale``."""
    model, g = built()
    channels = 6 * wide
    shapes = {"CONV_2D": (channels, 1, 1, 6), "DEPTHWISE_CONV_2D": (1, 3, 3, channels),
              "FULLY_CONNECTED": (channels, 6), "TRANSPOSE_CONV": (channels, 1, 1, 6)}  # fmt: skip
    quant, out = per_tensor(1 / 64), (*SHAPE[:3], channels)
    x, w = g.input(SHAPE, dtype, quant), g.constant(np.ones(shapes[code], dtype), quant=quant)
    b = [g.constant(np.zeros(channels, np.int32), quant=per_tensor(1 / 4096))] if biased else []
    options: dict[str, object] = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
    if code == "FULLY_CONNECTED":
        options = {"keep_num_dims": True}
    elif code == "DEPTHWISE_CONV_2D":
        options["depth_multiplier"] = wide
    operands = [x, w, *b]
    if code == "TRANSPOSE_CONV":
        operands = [g.constant(np.array(out, np.int32)), w, x, *b]
    g.outputs(g.apply(code, operands, out, dtype, per_tensor(1 / 4096 / scale), **options))
    return model.build()


def test_without_rules_for_graphs_only_the_main_subgraph_counts(runtime: Runtime) -> None:
    model, g = built()
    condition, x = g.input((), "bool"), g.input(SHAPE)
    g.outputs(g.apply("IF", [condition, x], SHAPE, then_subgraph_index=1, else_subgraph_index=1))
    branch = model.subgraph("branch")
    branch.outputs(branch.apply("ABS", [branch.input(SHAPE)], SHAPE))
    graph = read_bytes(model.build())
    assert runtime.graph_rules["all_subgraphs"]
    bare = Runtime(**{f: getattr(runtime, f) for f in runtime.__struct_fields__ if f != "graph_rules"})
    assert xnnpack_claims(graph, 1, {0}, runtime) == {0}
    assert xnnpack_claims(graph, 1, {0}, bare) == frozenset()


def test_what_xnnpack_takes_in_one_place_only_is_found(monkeypatch: pytest.MonkeyPatch, asked: Asked) -> None:
    """The answers of one runtime stand for those of two, with one that is not like the other."""
    monkeypatch.syspath_prepend(str(TOOLS))
    tool, ops, compare = map(importlib.import_module, ("xnnpack_census", "census_ops", "census_on_board"))
    requests = list(tool.op_requests(random.Random(2).sample(list(ops.base_cases()), 60)))
    here = list(zip(requests, tool.answers(requests, *asked.command), strict=True))
    seen = [verdict for _, verdict in compare._verdicts(here)]
    assert seen == list(tool.observations([*here, ({"about": "rule"}, {})]))
    assert compare.claims(here, here) == (len(seen), [])
    taken = next(i for i, (request, answer) in enumerate(here) if tool._verdict(answer) == "takes")
    left = {**here[taken][1], "subgraphs": here[taken][1]["subgraphs"] and [{"nodes": [], "tensors": []}]}
    there = [(request, left if i == taken else answer) for i, (request, answer) in enumerate(here)]
    both, [difference] = compare.claims(here, there)
    assert (both, difference.number, difference.here, difference.there) == (len(seen), taken, "takes", "undoes")
    assert compare.endings(here, there) == []
    assert len(compare.sampled(requests, 5)) < len(requests)
