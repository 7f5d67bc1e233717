# SPDX-License-Identifier: Apache-2.0
"""Every shape rule alone: against the stock runtime, against numpy, and with inputs that do not fit."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from hypothesis import given
from hypothesis import strategies as st

from edgedeploy_partitioner.model.build import Array, Model, Subgraph
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Span, Tensor
from edgedeploy_partitioner.model.graph import Subgraph as GraphSubgraph
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.model.shapes import RULES, ShapeMismatch, propagate
from support.kernel_cases import In, Out, case
from support.runtime import inspect_all
from support.scratch_cases import detection
from support.trials import run_all

WRONG = (7,)
"""The shape that the models here store for computed tensors: none of them has it in truth."""


def shapes(graph: Graph) -> dict[int, tuple[int, ...]]:
    return {t.id: t.shape for t in graph.subgraphs[0].tensors}


Make = Callable[[Subgraph], list[int]]


def op(code: str, *inputs: tuple[int, ...] | Array | np.generic, results: str = "float32", **options: Any) -> Make:
    """A model of one op: a tuple is the shape of a float input, else it is a constant; ``results`` are their types."""
    options = dict(options)
    stored = options.pop("stored", WRONG)

    def make(g: Subgraph) -> list[int]:
        ids = [g.input(i) if isinstance(i, tuple) else g.constant(np.asarray(i)) for i in inputs]
        made = [g.tensor(stored, dtype) for dtype in results.split()]
        g.op(code, ids, made, **options)
        return made

    return make


def ints(*values: int) -> Array:
    return np.array(values, np.int32)


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


SAME: dict[str, Any] = {"padding": "SAME", "stride_w": 2, "stride_h": 3}
VALID: dict[str, Any] = {"padding": "VALID", "stride_w": 2, "stride_h": 1}
VALID |= {"dilation_w_factor": 2, "dilation_h_factor": 3}
POOL: dict[str, Any] = {"padding": "VALID", "stride_w": 2, "stride_h": 3, "filter_width": 2, "filter_height": 4}
CUBE: dict[str, Any] = {"padding": "SAME", "stride_d": 2, "stride_w": 1, "stride_h": 3}

CASES: dict[str, Make] = {
    "unary": op("TANH", (2, 3)),
    "cast": op("CAST", (2, 3), results="int32", in_data_type="FLOAT32", out_data_type="INT32"),
    "softmax": op("SOFTMAX", (2, 3), beta=1.0),
    "cumsum": op("CUMSUM", (2, 3), np.int32(1)),
    "reverse": op("REVERSE_V2", (2, 3), ints(1)),
    "broadcast": op("ADD", (4, 1, 3), (5, 1)),
    "broadcast scalar": op("MUL", (4, 2), ()),
    "compare": op("LESS", (4, 1), (1, 3), results="bool"),
    "prelu": op("PRELU", (2, 4, 4, 3), zeros(1, 1, 3)),
    "select_v2": op("SELECT_V2", np.ones((1, 3), bool), (2, 3), (1, 3)),
    "select": op("SELECT", np.ones(2, bool), (2, 3), (2, 3)),
    "add_n": op("ADD_N", (2, 3), (2, 3), (2, 3)),
    "broadcast_to": op("BROADCAST_TO", (1, 3), ints(4, 2, 3), op_version=2),
    "broadcast_args": op("BROADCAST_ARGS", ints(1, 3), ints(4, 2, 1), results="int32"),
    "conv same": op("CONV_2D", (2, 9, 8, 4), zeros(5, 3, 2, 4), zeros(5), **SAME),
    "conv valid dilated": op("CONV_2D", (2, 19, 18, 4), zeros(5, 3, 2, 4), zeros(5), **VALID),
    "conv grouped": op("CONV_2D", (2, 9, 8, 4), zeros(6, 3, 2, 2), zeros(6), **SAME),
    "depthwise": op("DEPTHWISE_CONV_2D", (2, 9, 8, 4), zeros(1, 3, 2, 8), zeros(8), depth_multiplier=2, **SAME),
    "conv 3d": op("CONV_3D", (1, 7, 8, 9, 2), zeros(3, 2, 1, 2, 5), **CUBE),
    "conv 3d transpose": op("CONV_3D_TRANSPOSE", ints(1, 8, 24, 9, 5), zeros(3, 2, 1, 5, 2), (1, 4, 8, 9, 2), **CUBE),
    "transpose conv": op("TRANSPOSE_CONV", ints(1, 9, 8, 5), zeros(5, 3, 2, 4), (1, 3, 4, 4), **SAME),
    "average pool": op("AVERAGE_POOL_2D", (2, 9, 8, 4), **POOL),
    "max pool same": op("MAX_POOL_2D", (2, 9, 8, 4), **{**POOL, "padding": "SAME"}),
    "l2 pool": op("L2_POOL_2D", (2, 9, 8, 4), **POOL),
    "fully connected": op("FULLY_CONNECTED", (2, 3, 4), zeros(5, 4), zeros(5)),
    "fully connected flat": op("FULLY_CONNECTED", (2, 3, 4), zeros(5, 12), zeros(5)),
    "fully connected kept": op("FULLY_CONNECTED", (2, 3, 4), zeros(5, 4), zeros(5), keep_num_dims=True),
    "batch matmul": op("BATCH_MATMUL", (2, 1, 3, 4), (5, 4, 6)),
    "batch matmul transposed": op("BATCH_MATMUL", (2, 4, 3), (2, 6, 4), adj_x=True, adj_y=True),
    "reshape": op("RESHAPE", (2, 3, 4), ints(4, 6), new_shape=[4, 6]),
    "reshape to fit": op("RESHAPE", (2, 3, 4), ints(-1, 6), new_shape=[-1, 6]),
    "reshape by option": op("RESHAPE", (2, 3, 4), new_shape=[3, -1, 2]),
    "reshape to scalar": op("RESHAPE", (1, 1), np.zeros(0, np.int32), new_shape=[]),
    "squeeze all": op("SQUEEZE", (1, 3, 1, 4)),
    "squeeze some": op("SQUEEZE", (1, 3, 1, 4), squeeze_dims=[-2]),
    "expand dims": op("EXPAND_DIMS", (2, 3), np.int32(-2)),
    "transpose": op("TRANSPOSE", (2, 3, 4), ints(2, 0, 1)),
    "concatenation": op("CONCATENATION", (2, 3, 4), (2, 5, 4), axis=-2),
    "pack": op("PACK", (2, 3), (2, 3), (2, 3), values_count=3, axis=-1),
    "unpack": op("UNPACK", (2, 3, 4), results="float32 " * 3, num=3, axis=1),
    "split": op("SPLIT", np.int32(-1), (2, 6), results="float32 " * 3, num_splits=3),
    "split_v": op("SPLIT_V", (2, 9), ints(2, -1, 3), np.int32(1), results="float32 " * 3, num_splits=3),
    "pad": op("PAD", (2, 3), ints(1, 0, 2, 3).reshape(2, 2)),
    "padv2": op("PADV2", (2, 3), ints(1, 0, 2, 3).reshape(2, 2), np.float32(1)),
    "mirror pad": op("MIRROR_PAD", (2, 3), ints(1, 0, 2, 1).reshape(2, 2), mode="REFLECT"),
    "tile": op("TILE", (2, 3), ints(4, 2)),
    "space to depth": op("SPACE_TO_DEPTH", (1, 4, 6, 3), block_size=2),
    "depth to space": op("DEPTH_TO_SPACE", (1, 4, 6, 12), block_size=2),
    "space to batch": op("SPACE_TO_BATCH_ND", (1, 4, 5, 3), ints(2, 3), ints(0, 0, 1, 0).reshape(2, 2)),
    "batch to space": op("BATCH_TO_SPACE_ND", (6, 2, 2, 3), ints(2, 3), ints(0, 1, 1, 0).reshape(2, 2)),
    "resize bilinear": op("RESIZE_BILINEAR", (1, 4, 5, 3), ints(8, 9)),
    "resize nearest": op("RESIZE_NEAREST_NEIGHBOR", (1, 4, 5, 3), ints(2, 7)),
    "slice": op("SLICE", (4, 5, 6), ints(1, 0, 2), ints(2, -1, 3), stored=(2, 5, 3)),
    "strided slice": op("STRIDED_SLICE", (8, 9), ints(1, -1), ints(7, 0), ints(2, -2)),
    "strided slice masks": op(
        "STRIDED_SLICE", (4, 5, 6), ints(9, 1, 0), ints(9, 2, 0), ints(1, 1, 1),
        begin_mask=1, end_mask=5, shrink_axis_mask=2,
    ),
    "strided slice ellipsis": op(
        "STRIDED_SLICE", (4, 5, 6), ints(0, 0, 1), ints(0, 0, 3), ints(1, 1, 1), ellipsis_mask=1, new_axis_mask=2
    ),
    "gather": op("GATHER", (4, 5, 6), ints(1, 0, 2, 3).reshape(2, 2), axis=1),
    "gather batched": op("GATHER", (2, 5, 6), ints(1, 0, 2, 3, 1, 0).reshape(2, 3), axis=1, batch_dims=1),
    "gather_nd": op("GATHER_ND", (4, 5, 6), ints(1, 0, 2, 3).reshape(2, 2)),
    "embedding lookup": op("EMBEDDING_LOOKUP", ints(1, 0, 1), (4, 5)),
    "mean": op("MEAN", (2, 3, 4), ints(-1, 0)),
    "sum kept": op("SUM", (2, 3, 4), ints(1), keep_dims=True),
    "reduce max": op("REDUCE_MAX", (2, 3, 4), np.int32(2)),
    "arg max": op("ARG_MAX", (2, 3, 4), np.int32(-2), results="int32", output_type="INT32"),
    "top k": op("TOPK_V2", (2, 9), np.int32(4), results="float32 int32"),
    "segment sum": op("SEGMENT_SUM", (4, 3), ints(0, 0, 1, 2)),
    "unsorted segment": op("UNSORTED_SEGMENT_SUM", (2, 2, 3), ints(0, 1, 2, 2).reshape(2, 2), np.int32(5)),
    "shape": op("SHAPE", (2, 3, 4), results="int32", out_type="INT32"),
    "rank": op("RANK", (2, 3, 4), results="int32"),
    "fill": op("FILL", ints(2, 5), np.float32(1)),
    "range": op("RANGE", np.int32(3), np.int32(17), np.int32(4), results="int32"),
    "range of floats": op("RANGE", np.float32(1), np.float32(2), np.float32(0.3)),
    "range down": op("RANGE", np.int32(10), np.int32(1), np.int32(-4), results="int32"),
    "one hot": op("ONE_HOT", ints(1, 2), np.int32(4), np.float32(1), np.float32(0), axis=0),
    "matrix diag": op("MATRIX_DIAG", (2, 3)),
    "sparse to dense": op("SPARSE_TO_DENSE", ints(1, 2), ints(5), zeros(2), np.float32(0)),
    "scatter_nd": op("SCATTER_ND", ints(1, 2).reshape(2, 1), (2, 3), ints(5, 3)),
    "nms v4": op(
        "NON_MAX_SUPPRESSION_V4", (6, 4), (6,), np.int32(3), np.float32(0.5), np.float32(0), results="int32 int32"
    ),
    "nms v5": op(
        "NON_MAX_SUPPRESSION_V5", (6, 4), (6,), np.int32(3), np.float32(0.5), np.float32(0), np.float32(0),
        results="int32 float32 int32"
    ),
    "rfft2d": op("RFFT2D", (2, 4, 8), ints(4, 8), results="complex64"),
    "lstm": lambda g: _lstm(g, 2),
    "sequence rnn": lambda g: _rnn(g, "UNIDIRECTIONAL_SEQUENCE_RNN", (2, 5, 3)),
    "rnn": lambda g: _rnn(g, "RNN", (2, 3)),
    "svdf": lambda g: _svdf(g),
    "dynamic update slice": op("DYNAMIC_UPDATE_SLICE", (4, 5), zeros(2, 2), ints(1, 1)),
}  # fmt: skip


def _lstm(g: Subgraph, batch: int) -> list[int]:
    """Two batches of 5 steps of 3 numbers into 4 cells, weights as converters write them."""
    x = g.input((2, 5, 3))
    weights = [g.constant(zeros(4, 3)) for _ in range(4)] + [g.constant(zeros(4, 4)) for _ in range(4)]
    biases = [g.constant(zeros(4)) for _ in range(4)]
    state = [g.tensor((batch, 4), variable=True) for _ in range(2)]
    result = g.tensor(WRONG)
    inputs = [x, *weights, -1, -1, -1, *biases, -1, -1, *state, -1, -1, -1, -1]
    g.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [result], fused_activation_function="TANH")
    return [result]


def _rnn(g: Subgraph, code: str, shape: tuple[int, ...]) -> list[int]:
    x, state = g.input(shape), g.tensor((2, 4), variable=True)
    result = g.tensor(WRONG)
    weights = [g.constant(zeros(4, 3)), g.constant(zeros(4, 4)), g.constant(zeros(4))]
    g.op(code, [x, *weights, state], [result], fused_activation_function="TANH")
    return [result]


def _svdf(g: Subgraph) -> list[int]:
    x, state = g.input((2, 3)), g.tensor((2, 40), variable=True)
    result = g.tensor(WRONG)
    weights = [g.constant(zeros(8, 3)), g.constant(zeros(8, 5)), g.constant(zeros(4))]
    g.op("SVDF", [x, *weights, state], [result], rank=2, fused_activation_function="RELU")
    return [result]


def _built(make: Make) -> bytes:
    model = Model()
    g = model.subgraph()
    g.outputs(*make(g))
    return model.build()


def test_each_rule_agrees_with_the_runtime(tmp_path: Path) -> None:
    models = {name: _built(make) for name, make in CASES.items()}
    answers = run_all(tmp_path, list(models.values()), arguments=[["--tensors"]] * len(models), xnnpack=False)
    refused = {name: a["error"] for name, a in zip(models, answers, strict=True) if a["error"]}
    assert not refused, refused
    for (name, model), answer in zip(models.items(), answers, strict=True):
        found = shapes(propagate(read_bytes(model)))
        told = {int(t): tuple(shape) for t, shape in answer["tensors"].items()}
        assert found == {t: shape for t, shape in told.items() if t in found}, name


# --- what does not fit ----------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (op("ADD", (2, 3), (2, 4)), ["op 0 ADD", "[2,3]", "[2,4]", "tensor 1", "broadcast"]),
        (op("RESHAPE", (32, 1000), ints(1, 16000)), ["op 0 RESHAPE", "32000 elements", "[1,16000]", "tensor 0"]),
        (op("RESHAPE", (2, 3), ints(-1, -1)), ["op 0 RESHAPE", "[-1,-1]"]),
        (op("CONV_2D", (1, 8, 8, 3), zeros(4, 3, 3, 2), zeros(4), **SAME), ["CONV_2D", "3 input channels", "take 2"]),
        (op("CONV_2D", (1, 2, 8, 2), zeros(4, 3, 3, 2), zeros(4), **VALID), ["CONV_2D", "7 does not fit into 2"]),
        (op("CONV_2D", (8, 8, 2), zeros(4, 3, 3, 2), zeros(4), **SAME), ["CONV_2D", "4 dimensions", "[8,8,2]"]),
        (op("CONCATENATION", (2, 3), (3, 3), axis=1), ["op 0 CONCATENATION", "[2,3]", "[3,3]"]),
        (op("SPLIT", np.int32(1), (2, 5), results="float32 float32", num_splits=2), ["op 0 SPLIT", "axis 1"]),
        (op("MEAN", (2, 5), ints(2)), ["op 0 MEAN", "axis 2"]),
        (op("SLICE", (4, 5), ints(1, 3), ints(1, 4)), ["op 0 SLICE", "outside"]),
        (op("BATCH_MATMUL", (2, 3), (4, 5)), ["op 0 BATCH_MATMUL", "3 columns", "4 rows"]),
        (op("ADD", (2, 3)), ["op 0 ADD", "input 1 is missing"]),
        (lambda g: _lstm(g, 1), ["op 0 UNIDIRECTIONAL_SEQUENCE_LSTM", "batch of a state", "[1,4]"]),
    ],
)  # fmt: skip
def test_a_mismatch_names_op_tensors_and_shapes_and_the_runtime_refuses_it(
    make: Make, words: list[str], tmp_path: Path
) -> None:
    model = _built(make)
    with pytest.raises(ShapeMismatch) as caught:
        propagate(read_bytes(model))
    assert [w for w in words if w not in caught.value.message] == []
    assert caught.value.message.count("\n") == 0
    assert caught.value.exit_code == 2
    [answer] = run_all(tmp_path, [model], xnnpack=False)
    assert answer["stage"] != "done"


@pytest.mark.parametrize(
    "make", [op("FULLY_CONNECTED", (2, 5), zeros(3, 4), zeros(3)), op("TRANSPOSE", (2, 3), ints(0, 0))]
)
def test_what_the_runtime_computes_nonsense_for_is_a_mismatch_too(make: Make) -> None:
    with pytest.raises(ShapeMismatch):
        propagate(read_bytes(_built(make)))


# --- against numpy ----------

SIZES = st.integers(1, 4)


@given(st.lists(SIZES, max_size=4), st.lists(SIZES, max_size=4))
def test_broadcasting_is_that_of_numpy(a: list[int], b: list[int]) -> None:
    graph = read_bytes(_built(op("ADD", tuple(a), tuple(b))))
    try:
        expected = np.broadcast_shapes(tuple(a), tuple(b))
    except ValueError:
        with pytest.raises(ShapeMismatch):
            propagate(graph)
    else:
        assert shapes(propagate(graph))[2] == expected


@given(st.data())
def test_strided_slices_are_those_of_numpy(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    bounds = st.lists(st.integers(-7, 7), min_size=len(shape), max_size=len(shape))
    begin, end = data.draw(bounds), data.draw(bounds)
    step = data.draw(st.lists(st.sampled_from([-2, -1, 1, 3]), min_size=len(shape), max_size=len(shape)))
    mask = st.integers(0, 2 ** len(shape) - 1)
    begin_mask, end_mask = data.draw(mask), data.draw(mask)
    index = tuple(
        slice(None if begin_mask >> i & 1 else b, None if end_mask >> i & 1 else e, s)
        for i, (b, e, s) in enumerate(zip(begin, end, step, strict=True))
    )
    make = op("STRIDED_SLICE", shape, ints(*begin), ints(*end), ints(*step), begin_mask=begin_mask, end_mask=end_mask)
    assert shapes(propagate(read_bytes(_built(make))))[4] == np.zeros(shape)[index].shape


_TENSOR = st.tuples(st.lists(st.sampled_from([0, 1, 2, 3, 2**31 - 1]), max_size=5), st.booleans())


@given(st.sampled_from(sorted(RULES)), st.lists(_TENSOR, max_size=6), st.integers(0, 3))
def test_no_graph_makes_a_rule_fail_otherwise(code: str, tensors: list[tuple[list[int], bool]], outputs: int) -> None:
    """Any op with any inputs: shapes, or one line that says what does not fit."""
    ids = tuple(range(len(tensors)))
    made = tuple(range(len(ids), len(ids) + outputs))
    values = np.arange(4, dtype=np.int32).tobytes()
    every = [_tensor(i, tuple(shape), small and math.prod(shape) <= 4) for i, (shape, small) in enumerate(tensors)]
    every += [_tensor(i, (1,), False) for i in made]
    sub = GraphSubgraph(0, "", tuple(every), (Op(0, 0, code, ids, made),), (), ())
    graph = Graph("", 0, 3, "", (sub,), source=memoryview(values))
    with contextlib.suppress(ShapeMismatch):
        assert all(d >= 0 for t in propagate(graph).subgraphs[0].tensors for d in t.shape)


def _tensor(index: int, shape: Sequence[int], is_constant: bool) -> Tensor:
    data = Span(0, 16) if is_constant else None
    return Tensor(index, str(index), tuple(shape), DType.INT32, data=data)


# --- options of a custom op ------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_detections_have_the_shapes_that_the_options_say(seed: int) -> None:
    data = detection(Random(seed), "float32", stored=False, regular=False).model
    graph = read_bytes(data)
    [answer] = inspect_all([data])
    assert answer.subgraphs is not None
    real = [tuple(answer.subgraphs[0]["tensors"][t]["shape"]) for t in graph.subgraphs[0].outputs]
    assert [shapes(propagate(graph))[t] for t in graph.subgraphs[0].outputs] == real


@pytest.mark.parametrize("options", [b"", b"\0", b"\1\2\3", bytes(range(200)), bytes(flexbuffers.Dumps([1, 2]))])
def test_detections_without_options_keep_the_stored_shapes(options: bytes) -> None:
    made = case("TFLite_Detection_PostProcess", [In((1, 9, 4)), In((1, 9, 2))], Out((1, 3, 4)), custom=options)
    graph = read_bytes(made.model)
    [output] = graph.subgraphs[0].outputs
    assert shapes(propagate(graph))[output] == (1, 3, 4)
