# SPDX-License-Identifier: Apache-2.0
"""Shape propagation, compared with what the stock runtime allocates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.build import Array, Model
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.graph import Subgraph as GraphSubgraph
from edgedeploy_partitioner.model.read import read_bytes, read_model
from edgedeploy_partitioner.model.shapes import RULES, ShapeMismatch, entry_point, propagate, with_input_shapes
from support.trials import run_all

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.tflite"))
WITH_RULES = [path for path in EXAMPLES if not path.name.startswith("custom_")]
WRONG = (7,)
"""The shape that the models here store for computed tensors: none of them has it in truth."""


def shapes(graph: Graph, subgraph: int = 0) -> dict[int, tuple[int, ...]]:
    return {t.id: t.shape for t in graph.subgraphs[subgraph].tensors}


@pytest.mark.parametrize("path", WITH_RULES, ids=lambda p: p.name)
def test_stored_shapes_of_the_examples_are_found_again(path: Path) -> None:
    graph = read_model(path)
    blank = replace(graph, subgraphs=tuple(_blank(sub) for sub in graph.subgraphs))
    found = propagate(blank)
    for sub in graph.subgraphs:
        assert shapes(found, sub.index) == shapes(graph, sub.index)


def _blank(sub: GraphSubgraph) -> GraphSubgraph:
    """The subgraph with the shape of everything that an op with a rule computes forgotten."""
    computed = {t for op in sub.ops if op.kind in RULES for t in op.outputs}
    if sub.index:  # shapes of a callee's inputs come from the caller
        computed |= set(sub.inputs)
    return replace(sub, tensors=tuple(replace(t, shape=WRONG) if t.id in computed else t for t in sub.tensors))


def test_new_input_shapes_give_the_shapes_that_the_runtime_gives(tmp_path: Path) -> None:
    asked = [
        ("dscnn_kws.int8", (3, 49, 10, 1)),
        ("dscnn_kws.int8", (1, 98, 20, 1)),
        ("dscnn_kws.fp16", (2, 60, 12, 1)),
        ("dscnn_kws.dyn", (1, 33, 10, 1)),
        ("dscnn_kws.int16x8", (4, 49, 10, 1)),
        ("mnv1_025_128.int8", (1, 224, 160, 3)),
        ("mnv1_025_128.int8", (2, 128, 128, 3)),
        ("unet_128.int8", (1, 64, 64, 3)),
        ("tfmr_64x128.int8", (2, 64, 128)),
        ("lstm_kws.fp32", (2, 49, 40)),
    ]
    graphs = [read_model(Path(EXAMPLES[0]).with_name(f"{name}.tflite")) for name, _ in asked]
    answers = run_all(
        tmp_path,
        [bytes(g.source) for g in graphs],
        arguments=[["--tensors", "--resize", f"0={','.join(map(str, shape))}"] for _, shape in asked],
        xnnpack=False,
    )
    refused = set[str]()
    for graph, (name, shape), answer in zip(graphs, asked, answers, strict=True):
        if answer["error"]:
            refused.add(name)
            with pytest.raises(ShapeMismatch):
                with_input_shapes(graph, {"0": shape})
            continue
        new = with_input_shapes(graph, {"0": shape})
        found = shapes(new)
        assert found == {t: shape for t, shape in _told(answer).items() if t in found}, (name, shape)
        assert not any(t.is_dynamic for t in new.subgraphs[0].tensors)
    assert refused == {"mnv1_025_128.int8", "unet_128.int8", "tfmr_64x128.int8", "lstm_kws.fp32"}


def _told(answer: dict[str, Any]) -> dict[int, tuple[int, ...]]:
    """Shapes of the file's tensors; the runtime adds temporaries behind them."""
    return {int(t): tuple(shape) for t, shape in answer["tensors"].items()}


def ints(*values: int) -> Array:
    return np.array(values, np.int32)


def _two_inputs() -> Model:
    model = Model()
    g = model.subgraph()
    a = g.input((1, 4), name="a", signature=(-1, 4))
    b = g.input((1, 4), name="b", signature=(-1, 4))
    g.outputs(g.apply("ADD", [a, b], (1, 4)))
    model.signature("main", {"left": a, "right": b}, {})
    return model


@pytest.mark.parametrize("names", [("a", "b"), ("left", "right"), ("0", "1"), ("a", "1")])
def test_inputs_are_named_by_tensor_signature_or_position(names: tuple[str, str]) -> None:
    new = with_input_shapes(read_bytes(_two_inputs().build()), dict.fromkeys(names, (3, 4)))
    assert [t.shape for t in new.subgraphs[0].tensors] == [(3, 4)] * 3
    assert not any(t.is_dynamic for t in new.subgraphs[0].tensors)


def test_an_input_that_stays_open_keeps_what_follows_open() -> None:
    new = with_input_shapes(read_bytes(_two_inputs().build()), {"a": (1, 4)})
    assert [t.is_dynamic for t in new.subgraphs[0].tensors] == [False, True, True]


@pytest.mark.parametrize(
    ("shapes_", "words"),
    [
        ({"c": (1, 4)}, ["--input-shape c", "0 'a' (signature: 'left') [-1,4]", "1 'b'"]),
        ({"a": (0, 4)}, ["--input-shape a=0,4", "1 to"]),
        ({"a": (-1, 4)}, ["--input-shape a=-1,4"]),
        ({"a": (2**31, 4)}, ["--input-shape a"]),
        ({"a": (1, 4), "left": (2, 4)}, ["--input-shape left", "[1,4]"]),
        ({"a": (2, 4), "b": (3, 4)}, ["op 0 ADD"]),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_2(shapes_: dict[str, tuple[int, ...]], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        with_input_shapes(read_bytes(_two_inputs().build()), shapes_)
    assert [w for w in words if w not in caught.value.message] == []
    assert caught.value.exit_code == 2


def test_several_signatures_must_be_chosen_from() -> None:
    model = Model()
    for name in ("one", "two"):
        g = model.subgraph(name)
        x = g.input((1, 4), name="x")
        g.outputs(g.apply("RELU", [x], (1, 4)))
        model.signature(name, {"in": x}, {}, subgraph=g.index)
    graph = read_bytes(model.build())
    with pytest.raises(InputError, match="'one', 'two'"):
        with_input_shapes(graph, {"x": (2, 4)})
    with pytest.raises(InputError, match=r"'three'.*'one', 'two'"):
        entry_point(graph, "three")
    new = with_input_shapes(graph, {"in": (2, 4)}, "two")
    assert (shapes(new, 0)[1], shapes(new, 1)[1]) == ((1, 4), (2, 4))


# --- shapes that are computed, or not known ----------


def _computed_reshape(code: str = "SHAPE") -> Model:
    """x [n, 6] -> RESHAPE to [n, 2, 3], the target computed from the shape, or the numbers, of x."""
    model = Model()
    g = model.subgraph()
    x = g.input((1, 6), name="x", signature=(-1, 6))
    if code == "SHAPE":
        size = g.apply("SHAPE", [x], (2,), "int32", out_type="INT32")
    else:
        size = g.apply("CAST", [x], (1, 6), "int32", in_data_type="FLOAT32", out_data_type="INT32")
        size = g.apply("RESHAPE", [size, g.constant(ints(-1))], (6,), "int32")
    at = [g.constant(ints(v)) for v in (0, 1, 1)]
    first = g.apply("STRIDED_SLICE", [size, *at], (), "int32", shrink_axis_mask=1)
    rest = [g.constant(np.array(v, np.int32)) for v in (2, 3)]
    target = g.apply("PACK", [first, *rest], (3,), "int32", values_count=3)
    g.outputs(g.apply("RESHAPE", [x, target], (1, 2, 3)))
    return model


def test_a_target_computed_from_a_shape_is_followed() -> None:
    graph = read_bytes(_computed_reshape().build())
    new = with_input_shapes(graph, {"x": (5, 6)}).subgraphs[0]
    result = new.tensors[new.outputs[0]]
    assert (result.shape, result.is_dynamic) == ((5, 2, 3), False)
    old = propagate(graph).subgraphs[0]
    assert (old.tensors[old.outputs[0]].shape, old.tensors[old.outputs[0]].is_dynamic) == ((1, 2, 3), True)


def test_a_target_computed_from_numbers_is_dynamic() -> None:
    new = with_input_shapes(read_bytes(_computed_reshape("CAST").build()), {"x": (5, 6)}).subgraphs[0]
    assert new.tensors[new.outputs[0]].is_dynamic


@pytest.mark.parametrize(("size", "dynamic"), [(4, False), (6, True)])
def test_an_op_without_a_rule_keeps_its_shape_only_for_the_same_inputs(size: int, dynamic: bool) -> None:
    model = Model()
    g = model.subgraph()
    x = g.input((1, 4), name="x")
    y = g.apply("CUSTOM", [x], (1, 9), custom_code="Mine")
    g.outputs(g.apply("RELU", [y], (1, 9)))
    new = with_input_shapes(read_bytes(model.build()), {"x": (1, size)}).subgraphs[0]
    assert [t.shape for t in new.tensors[1:]] == [(1, 9), (1, 9)]
    assert [t.is_dynamic for t in new.tensors[1:]] == [dynamic, dynamic]


# --- called subgraphs ----------


def _loop(grow: bool) -> Model:
    """WHILE over x [1, 4]; with ``grow`` its body makes x longer at each trip."""
    model = Model()
    main, condition, body = model.subgraph("main"), model.subgraph("condition"), model.subgraph("body")
    x = main.input((1, 4), name="x")
    main.outputs(main.apply("WHILE", [x], (1, 4), cond_subgraph_index=1, body_subgraph_index=2))
    c = condition.input((1, 4))
    total = condition.apply("SUM", [c, condition.constant(ints(0, 1))], ())
    condition.outputs(condition.apply("LESS", [total, condition.constant(np.array(9, np.float32))], (), "bool"))
    b = body.input((1, 4))
    body.outputs(body.apply("CONCATENATION", [b, b], (2, 4), axis=0) if grow else body.apply("ADD", [b, b], (1, 4)))
    return model


def test_a_loop_carries_shapes_into_its_subgraphs() -> None:
    new = with_input_shapes(read_bytes(_loop(grow=False).build()), {"x": (3, 5)})
    assert [shapes(new, i)[0] for i in range(3)] == [(3, 5)] * 3
    assert shapes(new)[new.subgraphs[0].outputs[0]] == (3, 5)


def test_a_loop_that_changes_its_shape_is_dynamic() -> None:
    new = with_input_shapes(read_bytes(_loop(grow=True).build()), {"x": (3, 5)}).subgraphs[0]
    assert new.tensors[new.outputs[0]].is_dynamic


@pytest.mark.parametrize(("levels", "known"), [(40, True), (1000, False)])
def test_nested_calls_cost_little_and_very_deep_ones_are_not_followed(levels: int, known: bool) -> None:
    model = Model()
    for level in range(levels):
        g = model.subgraph()
        x = g.input((1, 4), name="x")
        if level == levels - 1:
            g.outputs(g.apply("RELU", [x], (1, 4)), g.apply("RELU", [x], (1, 4)))
        else:
            for _ in range(2):
                g.outputs(g.apply("STABLEHLO_COMPOSITE", [x], (1, 4), decomposition_subgraph_index=level + 1))
    new = with_input_shapes(read_bytes(model.build()), {"x": (3, 4)}).subgraphs[0]
    assert [t.is_dynamic for t in new.tensors[1:]] == [not known] * 2
    assert new.tensors[1].shape == ((3, 4) if known else (1, 4))


def test_branches_that_disagree_are_dynamic_and_those_that_agree_are_not() -> None:
    for axis, dynamic in ((0, True), (1, False)):
        model = Model()
        main, yes, no = (model.subgraph(n) for n in ("main", "yes", "no"))
        x = main.input((1, 4), name="x")
        flag = main.input((), "bool", name="flag")
        main.outputs(main.apply("IF", [flag, x], (1, 8), then_subgraph_index=1, else_subgraph_index=2))
        y = yes.input((1, 4))
        yes.outputs(yes.apply("CONCATENATION", [y, y], (1, 8), axis=1))
        n = no.input((1, 4))
        no.outputs(no.apply("CONCATENATION", [n, n], (1, 8), axis=axis))
        new = with_input_shapes(read_bytes(model.build()), {"x": (3, 4)}).subgraphs[0]
        result = new.tensors[new.outputs[0]]
        assert result.is_dynamic == dynamic
        assert dynamic or result.shape == (3, 8)
