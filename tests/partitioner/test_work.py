# SPDX-License-Identifier: Apache-2.0
"""MACs and bytes: counted by hand, by brute force, and never an error."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedeploy_partitioner.model.build import Model, Subgraph, per_tensor
from edgedeploy_partitioner.model.graph import DType, Graph, Op, OptionValue, Tensor
from edgedeploy_partitioner.model.graph import Subgraph as GraphSubgraph
from edgedeploy_partitioner.model.read import read_bytes, read_model
from edgedeploy_partitioner.model.work import Work, work

EXAMPLES = Path(__file__).parents[2] / "examples"


def one_op(code: str, inputs: Sequence[tuple[int, ...] | None], output: tuple[int, ...], **options: Any) -> Work:
    """Work of a float op; ``None`` is an absent input."""
    model = Model()
    g = model.subgraph()
    ids = [-1 if shape is None else g.input(shape) for shape in inputs]
    g.outputs(g.apply(code, ids, output, **options))
    graph = read_bytes(model.build())
    return work(graph, graph.subgraphs[0].ops[0])


def products(image: tuple[int, int], kernel: tuple[int, int], stride: int) -> int:
    """Products of one channel pair of a convolution without padding, one by one."""
    spots = itertools.product(*(range(0, size - k + 1, stride) for size, k in zip(image, kernel, strict=True)))
    return sum(1 for _ in itertools.product(spots, range(kernel[0]), range(kernel[1])))


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 2), (5, 7)])
def test_convolutions_multiply_as_often_as_counting_says(kernel: tuple[int, int], stride: int) -> None:
    h, w = ((size - k) // stride + 1 for size, k in zip((9, 10), kernel, strict=True))
    pairs = products((9, 10), kernel, stride)
    options: dict[str, Any] = {"padding": "VALID", "stride_w": stride, "stride_h": stride}
    conv = one_op("CONV_2D", [(2, 9, 10, 4), (6, *kernel, 4), (6,)], (2, h, w, 6), **options)
    assert conv.macs == 2 * 4 * 6 * pairs
    grouped = one_op("CONV_2D", [(2, 9, 10, 4), (6, *kernel, 2), (6,)], (2, h, w, 6), **options)
    assert grouped.macs == conv.macs // 2
    depthwise = one_op("DEPTHWISE_CONV_2D", [(2, 9, 10, 4), (1, *kernel, 8), (8,)], (2, h, w, 8), **options)
    assert depthwise.macs == 2 * 8 * pairs
    back = one_op("TRANSPOSE_CONV", [(4,), (4, *kernel, 6), (2, h, w, 6)], (2, 9, 10, 4), **options)
    assert back.macs == conv.macs


@pytest.mark.parametrize(
    ("macs", "code", "inputs", "output", "options"),
    [
        (2 * 3 * 4 * 5, "FULLY_CONNECTED", [(2, 3, 4), (5, 4), None], (6, 5), {}),
        (5 * 2 * 3 * 4 * 6, "BATCH_MATMUL", [(2, 3, 4), (5, 2, 4, 6)], (5, 2, 3, 6), {}),
        (5 * 2 * 3 * 4 * 6, "BATCH_MATMUL", [(2, 4, 3), (5, 2, 4, 6)], (5, 2, 3, 6), {"adj_x": True}),
        (4 * 8 * 9 * 5 * 3 * 2 * 1 * 7, "CONV_3D", [(1, 7, 8, 9, 7), (3, 2, 1, 7, 5)], (1, 4, 8, 9, 5), {}),
        (8 * 9 * 2 * 3 * 2 * 1 * 5, "CONV_3D_TRANSPOSE", [(5,), (3, 2, 1, 5, 2), (1, 1, 8, 9, 2)], (1, 2, 8, 9, 5), {}),
        # per row of the input: 8 x 3 from the input, 8 x 5 over time
        (2 * (8 * 3 + 8 * 5), "SVDF", [(2, 3), (8, 3), (8, 5), (8,), (2, 40)], (2, 8), {"rank": 1}),
        (2 * (4 * 3 + 4 * 4), "RNN", [(2, 3), (4, 3), (4, 4), (4,), (2, 4)], (2, 4), {}),
        (2 * 7 * 28, "UNIDIRECTIONAL_SEQUENCE_RNN", [(2, 7, 3), (4, 3), (4, 4), (4,), (2, 4)], (2, 7, 4), {}),
        (2 * 16 * 7, "LSTM", [(2, 3), (2, 4), (16, 7), (16,), (2, 4)], (2, 4), {"kernel_type": "BASIC"}),
        (0, "ADD", [(2, 3), (2, 3)], (2, 3), {}),
        (0, "AVERAGE_POOL_2D", [(1, 4, 4, 3)], (1, 2, 2, 3), {"filter_width": 2, "filter_height": 2}),
    ],
)  # fmt: skip
def test_macs_of_each_family(
    macs: int, code: str, inputs: list[tuple[int, ...] | None], output: tuple[int, ...], options: dict[str, Any]
) -> None:
    assert one_op(code, inputs, output, **options).macs == macs


def _lstm_inputs(peephole: bool, projection: int | None) -> list[tuple[int, ...] | None]:
    cells, units = 5, projection or 5
    gates: list[tuple[int, ...] | None] = [(2, 7, 3), *[(cells, 3)] * 4, *[(cells, units)] * 4]
    gates += [(cells,) if peephole else None] * 3 + [(cells,)] * 4
    return [*gates, (projection, cells) if projection else None, None, (2, units), (2, cells), None, None, None, None]


def test_an_lstm_uses_each_weight_once_per_step() -> None:
    def lstm(peephole: bool, projection: int | None) -> int:
        inputs, output = _lstm_inputs(peephole, projection), (2, 7, projection or 5)
        return one_op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, output).macs

    assert lstm(False, None) == 2 * 7 * 4 * (5 * 3 + 5 * 5)
    assert lstm(True, None) == 2 * 7 * (4 * (5 * 3 + 5 * 5) + 3 * 5)
    assert lstm(False, 4) == 2 * 7 * (4 * (5 * 3 + 5 * 4) + 4 * 5)


def test_known_models() -> None:
    """Counted by hand from the published architectures; padding included, as the convention has it."""
    ds_cnn = 25 * 5 * 64 * 10 * 4 + 4 * 25 * 5 * (64 * 9 + 64 * 64) + 64 * 12
    assert _total(read_model(EXAMPLES / "dscnn_kws.int8.tflite")) == ds_cnn
    assert _total(read_model(EXAMPLES / "dscnn_kws.fp16.tflite")) == ds_cnn


def _total(graph: Graph) -> int:
    return sum(work(graph, op).macs for sub in graph.subgraphs for op in sub.ops)


# --- bytes ----------


def _work_of(code: str, build: Any) -> Work:
    model = Model()
    g = model.subgraph()
    build(g)
    graph = read_bytes(model.build())
    return next(work(graph, op) for op in graph.subgraphs[0].ops if op.code == code)


def test_bytes_are_inputs_once_constants_and_outputs() -> None:
    def build(g: Subgraph) -> None:
        x = g.input((1, 4, 4, 8), "int8", per_tensor(0.5))
        w = g.constant(np.zeros((16, 1, 1, 8), np.int8), "int8", per_tensor(0.5))
        b = g.constant(np.zeros(16, np.int32))
        g.outputs(g.apply("CONV_2D", [x, w, b], (1, 4, 4, 16), "int8", per_tensor(0.5)))

    done = _work_of("CONV_2D", build)
    assert (done.read_bytes, done.written_bytes) == (4 * 4 * 8 + 16 * 8 + 16 * 4, 4 * 4 * 16)
    assert done.intensity == done.macs / (done.read_bytes + done.written_bytes)
    assert one_op("MUL", [(2, 3), (2, 3)], (2, 3)).read_bytes == 2 * 24


def test_the_same_tensor_twice_is_read_once() -> None:
    def build(g: Subgraph) -> None:
        x = g.input((2, 3))
        g.outputs(g.apply("MUL", [x, x], (2, 3)))

    assert _work_of("MUL", build).read_bytes == 24


def test_a_folded_weight_is_read_as_the_runtime_keeps_it_and_unpacking_is_free() -> None:
    def build(g: Subgraph) -> None:
        x = g.input((1, 4))
        w = g.apply("DEQUANTIZE", [g.constant(np.zeros((3, 4), np.float16))], (3, 4))
        g.outputs(g.apply("FULLY_CONNECTED", [x, w, -1], (1, 3)))

    assert _work_of("FULLY_CONNECTED", build).read_bytes == 4 * 4 + 3 * 4 * 4
    assert _work_of("DEQUANTIZE", build) == Work(0, 0, 0)


def test_four_bit_weights_are_packed() -> None:
    def build(g: Subgraph) -> None:
        x = g.input((1, 5), "int8", per_tensor(0.5))
        w = g.constant(np.zeros((3, 5), np.int8), "int4", per_tensor(0.5))
        g.outputs(g.apply("FULLY_CONNECTED", [x, w, -1], (1, 3), "int8", per_tensor(0.5)))

    assert _work_of("FULLY_CONNECTED", build).read_bytes == 5 + 8


def test_lookups_and_slices_read_only_what_they_take() -> None:
    def lookup(g: Subgraph) -> None:
        ids, table = g.input((3,), "int32"), g.constant(np.zeros((1000, 8), np.float32))
        g.outputs(g.apply("EMBEDDING_LOOKUP", [ids, table], (3, 8)), g.apply("GATHER", [table, ids], (3, 8)))

    assert _work_of("EMBEDDING_LOOKUP", lookup).read_bytes == 12 + 3 * 8 * 4
    assert _work_of("GATHER", lookup).read_bytes == 12 + 3 * 8 * 4
    assert one_op("SHAPE", [(1000, 1000)], (2,)).read_bytes == 0


def test_state_is_read_and_written() -> None:
    def build(g: Subgraph) -> None:
        x, state = g.input((2, 3)), g.tensor((2, 4), variable=True)
        weights = [g.constant(np.zeros(s, np.float32)) for s in ((4, 3), (4, 4), (4,))]
        g.outputs(g.apply("RNN", [x, *weights, state], (2, 4)))

    assert _work_of("RNN", build).written_bytes == 2 * 4 * 4 * 2


def test_a_composite_has_the_macs_of_what_it_stands_for() -> None:
    model = Model()
    main, inner = model.subgraph(), model.subgraph("inner")
    x = main.input((1, 4))
    main.outputs(main.apply("STABLEHLO_COMPOSITE", [x], (1, 3), name="c", decomposition_subgraph_index=1))
    y = inner.input((1, 4))
    inner.outputs(inner.apply("FULLY_CONNECTED", [y, inner.constant(np.zeros((3, 4), np.float32)), -1], (1, 3)))
    graph = read_bytes(model.build())
    assert work(graph, graph.subgraphs[0].ops[0]).macs == 12


def test_composites_that_use_each_other_many_times_are_counted_once_each() -> None:
    model = Model()
    levels = 40
    for level in range(levels):
        g = model.subgraph()
        x = g.input((1, 4))
        if level == levels - 1:
            g.outputs(g.apply("FULLY_CONNECTED", [x, g.constant(np.zeros((3, 4), np.float32)), -1], (1, 3)))
            continue
        for _ in range(2):
            g.outputs(g.apply("STABLEHLO_COMPOSITE", [x], (1, 3), decomposition_subgraph_index=level + 1))
    graph = read_bytes(model.build())
    assert work(graph, graph.subgraphs[0].ops[0]).macs == 12 * 2 ** (levels - 2)


# --- any shapes ----------

_CODES = [
    "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "CONV_3D", "CONV_3D_TRANSPOSE", "FULLY_CONNECTED", "BATCH_MATMUL",
    "LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "RNN", "SVDF", "STABLEHLO_DOT_GENERAL",
    "STABLEHLO_CONVOLUTION", "STABLEHLO_COMPOSITE", "GATHER", "READ_VARIABLE", "ASSIGN_VARIABLE", "SHAPE", "ADD",
]  # fmt: skip

_OPTIONS: dict[str, OptionValue] = {
    "lhs_contracting_dimensions": (0, 9),
    "kernel_output_feature_dimension": 3,
    "decomposition_subgraph_index": 0,
}


@given(st.sampled_from(_CODES), st.lists(st.lists(st.integers(-1, 5), max_size=5), max_size=8), st.integers(0, 2))
def test_any_shapes_give_numbers(code: str, shapes: list[list[int]], outputs: int) -> None:
    count = len(shapes)
    inputs, made = tuple(range(-1, count - 1 - outputs)), tuple(range(max(count - outputs, 0), count))
    op = Op(0, 0, code, inputs, made, options=_OPTIONS)
    tensors = tuple(Tensor(i, "", tuple(s), DType.FLOAT32) for i, s in enumerate(shapes))
    graph = Graph("", 0, 3, "", (GraphSubgraph(0, "", tensors, (op,), (), ()),))
    done = work(graph, op)
    assert min(done.macs, done.read_bytes, done.written_bytes) >= 0
    assert math.isfinite(done.intensity)
