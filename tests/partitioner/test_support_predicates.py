# SPDX-License-Identifier: Apache-2.0
"""Every predicate at its boundary: a case where it just holds, one where it just does not, and what is then said."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import Quantization
from edgedeploy_partitioner.support.case import Case
from edgedeploy_partitioner.support.predicates import PREDICATES, find
from edgedeploy_profiles.schema import Backend, TransposeBound
from support.boundaries import Boundary
from support.single_op import Made, T, add, conv, ints, mean, resize, single_op, transpose, unary, weighted, weights

BACKEND = Backend(
    schema="edgedeploy.backend/1", name="toy", title="Toy", sdk_version="1", sources={}, delegate="toy", library="",
    cost_model="", kernels=("npu",), layouts={}, socs=("a",), rules=(), vendor_axes="NCHW",
    computes_as={"float32": "float16"},
    transposes=(
        TransposeBound((0, 1, 3, 2), "HW", less_than=100),
        TransposeBound((0, 1, 3, 2), "HW", less_than=50),
        TransposeBound((0, 1, 3, 2), "H", multiple_of=16, dtype="int8"),
        TransposeBound((0, 1, 3, 2), "H", multiple_of=8, dtype="float16"),
        TransposeBound((0, 2, 3, 1)),
    ),
)  # fmt: skip


def matmul(depth: int, **options: Any) -> Made:
    a = (depth, 2) if options.get("adj_x") else (2, depth)
    return single_op("BATCH_MATMUL", [T(a), T((depth, 3))], [T((2, 3))], **options)


def lstm(batch: int, time: int = 5, **options: Any) -> Made:
    shape = (time, batch, 2) if options.get("time_major") else (batch, time, 2)
    return single_op("UNIDIRECTIONAL_SEQUENCE_LSTM", [T(shape), weights(4, 2)], [T(shape)], **options)


def slices(*strides: int) -> Made:
    return single_op("STRIDED_SLICE", [T((8, 8)), ints(0, 0), ints(8, 8), ints(*strides)], [T((8, 8))])


def prelu(*slope: int) -> Made:
    image = T((1, 8, 8, 4))
    return single_op("PRELU", [image, weights(*slope)], [image])


def power(exponent: T) -> Made:
    return single_op("POW", [T((4,), "float32"), exponent], [T((4,), "float32")])


def pool(height: int) -> Made:
    return unary(T((1, 8, 8, 4)), "MAX_POOL_2D", filter_height=height, filter_width=1)


def transposed(kernel: int) -> Made:
    """SAME TRANSPOSE_CONV from 8x8 to 16x16."""
    inputs = [ints(1, 16, 16, 4), weights(4, kernel, kernel, 4), T((1, 8, 8, 4))]
    return single_op("TRANSPOSE_CONV", inputs, [T((1, 16, 16, 4))], padding="SAME", stride_h=2, stride_w=2)


def gather(indices: T) -> Made:
    return single_op("GATHER", [T((4, 4)), indices], [T((2, 4))])


def cast(source: str, to: str) -> Made:
    return single_op("CAST", [T((4,), source)], [T((4,), to)])


def dense_conv(bias: T) -> Made:
    return single_op("CONV_2D", [T((1, 4, 4, 4)), weights(6, 1, 1, 4), bias], [T((1, 4, 4, 6))])


def mismatched(*scales: float) -> Made:
    """RELU beside a tensor of those scales and one zero point."""
    graph, op = unary(T((4,)))
    [sub] = graph.subgraphs
    other = replace(sub.tensors[0], id=7, quantization=Quantization(scales, (0,), 0))
    return replace(graph, subgraphs=(replace(sub, tensors=(*sub.tensors, other)),)), op


def clamped(fused: str, dtype: str, zero_point: int, scale: float = 6 / 255) -> Made:
    out = T((4,), dtype, scales=(scale,), zero_point=zero_point)
    return single_op("ADD", [T((4,)), T((4,))], [out], fused_activation_function=fused)


def first(width: int, channels: int = 3, kernel: tuple[int, int] = (3, 3), fed: bool = True) -> Made:
    image = T((1, 8, width, channels))
    graph, op = single_op("CONV_2D", [image, weights(channels, *kernel, channels)], [image])
    return (graph if fed else replace(graph, subgraphs=(replace(graph.subgraphs[0], inputs=()),))), op


def summed(*order: str, fused: str = "NONE") -> Made:
    """ADD of x and y, whose makers come in that order; ``fused`` is the activation of that of x."""
    graph, op = single_op("ADD", [T((4,)), T((4,))], [T((4,))])
    [sub] = graph.subgraphs
    ids = dict(zip("xy", op.inputs, strict=True))
    options = {"x": {"fused_activation_function": fused}, "y": {}}
    ops = [
        replace(op, index=i, code="RELU", inputs=(), outputs=(ids[o],), options=options[o]) for i, o in enumerate(order)
    ]
    op = replace(op, index=len(ops))
    return replace(graph, subgraphs=(replace(sub, ops=(*ops, op)),)), op


def split(axis: int, parts: int = 2) -> Made:
    return single_op("SPLIT", [ints(axis), T((1, 4, 4, 4))], [T((1, 4, 4, 2))] * parts)


def pad(*paddings: int) -> Made:
    return single_op("PAD", [T((1, 4, 4, 4)), ints(*paddings)], [T((1, 4, 4, 4))])


IMAGE = T((1, 4, 4, 4))
BUFFER = {"width": 9000, "banks": 9, "kernel_banks": 3, "per_bank": {"int8": 1024}}
SQUARE = (1, 4, 4, 4)
BROADCAST = {"patterns": ["NC11", "N11W"], "limit": 9}
F = T((1,), "float32", (2.0,))
BOUNDARIES = [
    Boundary("static_shapes", True, unary(T((1, 4))), unary(T((1, 4), signature=(-1, 4))), "input 0 dim 0 is -1"),
    Boundary(
        "static_shapes", True, unary(T((), has_rank=True)), unary(T((), has_rank=False)),
        "input 0 has no known rank",
    ),
    Boundary("no_empty_tensors", True, unary(T((1, 1))), unary(T((1, 0))), "input 0 has shape 1x0"),
    Boundary("max_rank", 4, unary(T((1,) * 4)), unary(T((1,) * 5)), "input 0 has rank 5"),
    Boundary("input_rank", [2, 3], unary(T((1,) * 3)), unary(T((1,) * 4)), "input has rank 4"),
    Boundary("output_rank", [1, 1], unary(T((4,))), unary(T((4, 4))), "output has rank 2"),
    Boundary("max_sizes", {"C": 4, "W": 9}, unary(T((1, 99, 9, 4))), unary(T((1, 1, 1, 5))), "input C is 5"),
    Boundary("max_input_sizes", {"H": 7}, mean((1, 7, 9, 4), 1, 2), mean((1, 8, 7, 4), 1, 2), "input H is 8"),
    Boundary("max_dimension", 64, unary(T((64, 64))), unary(T((1, 65))), "input 0 has shape 1x65"),
    Boundary("element_types", ["int8"], unary(T((4,))), unary(T((4,), "int16")), "input 0 is int16"),
    Boundary("element_types", ["int8"], conv(), weighted(IMAGE, weights(4, 1, 1, 4, dtype="int4")), "weight is int4"),
    Boundary("input_types", ["int8"], cast("int8", "bool"), cast("bool", "int8"), "input 0 is bool"),
    Boundary("no_types", ["uint8"], unary(T((4,))), unary(T((4,), "uint8")), "input 0 is uint8"),
    Boundary("computed_types", ["float16"], unary(T((4,), "float32")), unary(T((4,))), "computed in int8"),
    Boundary(
        "same_type_weights", True, conv(), weighted(T(SQUARE, "float32"), weights(4, 1, 1, 4)),
        "weight is int8, data is float32",
    ),
    Boundary(
        "quantised", True, unary(T((4,), "float32")), unary(T((4,), scales=())),
        "input 0 is int8 without a scale",
    ),
    Boundary(
        "per_tensor_data", True, unary(T((2,), scales=(0.5, 0.5))), unary(T((2,), scales=(0.5, 0.25))),
        "input 0 has 2 scales",
    ),
    Boundary(
        "no_block_scales", True, conv(), weighted(IMAGE, weights(4, 1, 1, 4)._replace(block_size=2)),
        "weight is quantised in blocks of 2",
    ),
    Boundary("constant_inputs", [1, 2], conv(), add((4,), (4,), (4,)), "input 1 is computed"),
    Boundary(
        "present_inputs", [1], lstm(1), single_op("UNIDIRECTIONAL_SEQUENCE_LSTM", [T((1, 5, 2)), None], []),
        "input 1 is absent",
    ),
    Boundary(
        "absent_inputs", [2, 9], conv(), single_op("CONV_2D", [T((1, 4)), None, T((4,), "int32")], []),
        "input 2 is there",
    ),
    Boundary("dense", True, unary(T((4,))), unary(T((4,), is_sparse=True)), "input 0 is stored sparse"),
    Boundary("stateless", True, unary(T((4,))), unary(T((4,), is_variable=True)), "input 0 is a variable tensor"),
    Boundary(
        "options", {"beta": [1.0]}, unary(T((4,)), "SOFTMAX", beta=1.0), unary(T((4,)), "SOFTMAX", beta=2.0),
        "beta is 2.0",
    ),
    Boundary("kernel", [1, 31], conv(40, (31, 1)), conv(40, (1, 32)), "kernel 1x32"),
    Boundary("kernel", [1, 7], pool(7), pool(8), "kernel 8x1"),
    Boundary("kernel", [1, 7], conv(), single_op("CONV_2D", [T((4,)), None], [T((4,))]), "no kernel size is known"),
    Boundary("strides", [1, 7], conv(stride_h=7), conv(stride_h=1, stride_w=8), "stride 1x8"),
    Boundary("strides_among", [1, 2, 4, 8], conv(stride_h=4), conv(stride_h=3), "stride 3x3"),
    Boundary("dilation", [1, 31], conv(dilation_h_factor=31), conv(dilation_w_factor=32), "dilation 1x32"),
    Boundary("padding", [0, 15], conv(40, (31, 31)), conv(40, (32, 31)), "padding 15+16 by 15+15"),
    Boundary("padding", [0, 1], transposed(3), transposed(5), "padding 1+2 by 1+2"),
    Boundary("width_below_if_tall", 9, conv(8), conv(9), "width 9"),
    Boundary("width_below_if_tall", 9, conv(99, (1, 3)), conv(99, (2, 1)), "width 99"),
    Boundary(
        "broadcast", BROADCAST, add((1, 8, 9, 4), (4,), (1, 8, 9, 4)), add((1, 8, 9, 4), (8, 9, 1), (1, 8, 9, 4)),
        "input 1 of shape [1, 1, 8, 9] is repeated to [1, 4, 8, 9]",
    ),
    Boundary(
        "broadcast", BROADCAST, add((1, 9, 9, 4), (4,), (1, 9, 9, 4)), add((1, 9, 10, 4), (4,), (1, 9, 10, 4)),
        "input 1 is repeated to W = 10",
    ),
    Boundary(
        "broadcast", BROADCAST, add((2, 8, 8, 4), (1, 1), (2, 8, 8, 4)), add((2, 8, 8, 4), (1, 8, 8, 4), (2, 8, 8, 4)),
        "input 1 of shape [1, 4, 8, 8] is repeated to [2, 4, 8, 8]",
    ),
    Boundary("slope_per_channel", "C", prelu(1, 1, 4), prelu(8, 8, 4), "slope of shape [8, 8, 4]"),
    Boundary("slope_per_channel", "C", prelu(1), prelu(8, 1, 1), "slope of shape [8, 1, 1]"),
    Boundary("exponents", [2.0, 0.5], power(F), power(F._replace(value=(2.5,))), "exponent 2.5"),
    Boundary("exponents", [2.0], power(F), power(T((1,), "float32")), "exponent is computed"),
    Boundary("max_matmul_depth", 8192, matmul(8192), matmul(8193), "depth 8193"),
    Boundary("max_matmul_depth", 2, matmul(2, adj_x=True), matmul(3, adj_x=True), "depth 3"),
    Boundary("reduced_axes", "HW", mean((1, 8, 8, 4), 2, -3), mean((1, 8, 8, 4), 1, 3), "axes [1, 3] of rank 4"),
    Boundary("reduced_axes", "HW", mean((8, 4), 0, 1), mean((1, 8, 4), 1), "axes [1] of rank 3"),
    Boundary("batch_one_or_multiple", 4, lstm(8), lstm(6), "batch 6"),
    Boundary("batch_one_or_multiple", 4, lstm(1), lstm(2, time=4, time_major=True), "batch 2"),
    Boundary("gathered_indices_rank", [1, 1], gather(ints(1, 2)), gather(T((), "int32")), "indices have rank 0"),
    Boundary(
        "transposes", True, transpose((16, 3), 1, 0), transpose((8, 3), 1, 0),
        "permutation [0, 1, 3, 2] of [1, 1, 8, 3] (NCHW): H = 8 is not a multiple of 16",
    ),
    Boundary(
        "transposes", True, transpose((8, 3), 1, 0, dtype="float32"), transpose((4, 3), 1, 0, dtype="float32"),
        "permutation [0, 1, 3, 2] of [1, 1, 4, 3] (NCHW): H = 4 is not a multiple of 8",
    ),
    Boundary(
        "transposes", True, transpose((16, 3), 1, 0), transpose((16, 7), 1, 0),
        "permutation [0, 1, 3, 2] of [1, 1, 16, 7] (NCHW): H*W = 112 is not less than 50",
    ),
    Boundary(
        "transposes", True, transpose((2, 3, 5), 1, 2, 0), transpose((2, 3, 5), 2, 0, 1),
        "permutation [0, 3, 1, 2] of [1, 2, 3, 5] (NCHW)",
    ),
    Boundary(
        "transposes", True, transpose((2, 3, 5), 1, 2, 0),
        single_op("TRANSPOSE", [T((2, 3)), T((2,), "int32")], [T((3, 2))]), "the permutation is computed",
    ),
    Boundary("transposes", True, transpose((2, 3, 5), 1, 2, 0), transpose((2, 3, 5), 1, 2, 3), "permutation [1, 2, 3]"),
    Boundary("min_sizes", {"C": 2}, unary(T((1, 1, 1, 2))), unary(T((1, 4, 4, 1))), "input C is 1"),
    Boundary(
        "other_sizes", {"H": 8, "W": 8}, unary(T((1, 8, 7, 4))), unary(T((1, 8, 8, 9))), "input H is 8, W is 8"
    ),
    Boundary(
        "same_shapes", True, add((1, 4), (1, 4), (1, 4)), add((1, 4), (4,), (1, 4)),
        "input 1 has shape 4, output has 1x4",
    ),
    Boundary("vector_data", True, unary(T((1, 1, 9))), unary(T((1, 2, 9))), "input has shape 1x2x9"),
    Boundary("unsigned_bytes", True, conv(dtype="uint8"), conv(), "input 0 is int8"),
    Boundary(
        "unsigned_bytes", True, conv(dtype="uint8"), weighted(T(SQUARE, "uint8"), weights(4, 1, 1, 4)), "weight is int8"
    ),
    Boundary(
        "per_tensor_weights", True, weighted(IMAGE, weights(4, 1, 1, 4, scales=(0.5, 0.5))),
        weighted(IMAGE, weights(4, 1, 1, 4, scales=(0.5, 0.25))), "weight has 2 scales",
    ),
    Boundary(
        "per_tensor_weights", True, dense_conv(T((6,), "int32", constant=True, scales=(0.5,))),
        dense_conv(T((6,), "int32", constant=True, scales=(0.5, 0.25))), "bias has 2 scales",
    ),
    Boundary(
        "paired_zero_points", True, mismatched(0.5), mismatched(0.5, 0.25), "tensor 7 has 2 scales and 1 zero point"
    ),
    Boundary(
        "clamp_implied", ["lower"], clamped("RELU", "uint8", 0), clamped("RELU", "uint8", 1, 0.5),
        "fused RELU on an output that goes down to -0.5",
    ),
    Boundary(
        "clamp_implied", ["lower"], clamped("RELU", "int8", -128), clamped("RELU", "int8", 0, 0.5),
        "fused RELU on an output that goes down to -64",
    ),
    Boundary(
        "clamp_implied", ["upper"], clamped("RELU6", "int8", -128), clamped("RELU6", "int8", -128, 0.024),
        "fused RELU6 on an output that goes up to 6.12",
    ),
    Boundary(
        "clamp_implied", ["upper"], clamped("RELU", "uint8", 9, 1.0), clamped("RELU6", "uint8", 248, 1.0),
        "fused RELU6 on an output that goes up to 7",
    ),
    Boundary(
        "clamp_implied", ["upper"], clamped("NONE", "int16", 0), clamped("RELU6", "int16", 0),
        "fused RELU6 on int16 without one scale and zero point",
    ),
    Boundary(
        "computed_inputs", [0, 1], add((4,), (4,), (4,)), single_op("ADD", [T((4,)), weights(4)], [T((4,))]),
        "input 1 is constant",
    ),
    Boundary("computed_inputs", [0, 1], add((4,), (4,), (4,)), unary(T((4,)), "ADD"), "input 1 is absent"),
    Boundary("max_operands", 3, split(3, 3), split(3, 4), "2 inputs and 4 outputs"),
    Boundary(
        "equal_strides", True, conv(stride_h=2, stride_w=2), conv(stride_h=2, stride_w=1), "stride 2x1"
    ),
    Boundary("square_kernels", True, conv(9), conv(9, (3, 1)), "kernel 3x1"),
    Boundary("square_images", True, conv(9), unary(T((1, 4, 5, 4))), "input 0 is 4x5"),
    Boundary("square_images", True, unary(T((4, 5, 4))), unary(T((1, 5, 4, 4))), "input 0 is 5x4"),
    # 9 - 3 banks of 1024 values hold the three rows of the kernel.
    Boundary(
        "first_layer", BUFFER, first(2048), first(2049), "input width 2049, with this kernel 2048 fit"
    ),
    # 31x31 taps are 8 banks of 128: one is left, for 31 rows.
    Boundary(
        "first_layer", BUFFER, first(33, 1, (31, 31)), first(34, 1, (31, 31)), "input width 34, with this kernel 33 fit"
    ),
    Boundary(
        "first_layer", {"width": 4096}, first(4096), first(4097), "input width 4097, with this kernel 4096 fit"
    ),
    Boundary(
        "first_layer", BUFFER, first(2049, fed=False), first(9001, 4, (1, 1)),
        "input width 9001, with this kernel 6144 fit",
    ),
    Boundary("first_layer", BUFFER, first(2049, 5), first(2049, 1), "input width 2049, with this kernel 2048 fit"),
    Boundary("split_axis", [3, -1], split(-1), split(2), "axis 2"),
    Boundary(
        "split_axis", [3], split(3), single_op("SPLIT", [T((1,), "int32"), IMAGE], [IMAGE]), "the axis is computed"
    ),
    Boundary("max_padding", 2, pad(0, 0, 2, 0, 0, 2), pad(0, 0, 3, 0), "paddings [0, 0, 3, 0]"),
    Boundary("max_padding", 2, pad(0, 0, 0, 0), pad(0, 1, 0, 0), "paddings [0, 1, 0, 0]"),
    Boundary(
        "max_padding", 2, pad(0, 0), single_op("PAD", [IMAGE, T((4, 2), "int32")], [IMAGE]), "paddings are computed"
    ),
    Boundary(
        "addend_ready", True, summed("y", "x"), summed("x", "y"), "input 0 comes from op 0, input 1 only from op 1"
    ),
    Boundary(
        "linear_host", True, summed("y", "x"), summed("y", "x", fused="RELU6"), "input 0 is made with a fused RELU6"
    ),
    Boundary("addend_from", ["RELU"], summed("y", "x"), add((4,), (4,), (4,)), "no op makes input 1"),
    Boundary(
        "permuted_area", {"perms": [[0, 1, 3, 2]], "below": 64}, transpose((7, 9), 1, 0), transpose((8, 8), 1, 0),
        "permutation [0, 1, 3, 2] with H*W = 64",
    ),
    Boundary(
        "permuted_area", {"perms": [[0, 1, 3, 2]], "below": 64}, transpose((1, 8, 8, 4), 0, 3, 1, 2),
        transpose((1, 9, 8, 4), 0, 2, 1, 3), "permutation [0, 1, 3, 2] with H*W = 72",
    ),
    Boundary("unit_strides", True, slices(1, 1), slices(1, 2), "strides [1, 2]"),
    Boundary("upscale", [2, 8], resize(4, 32), resize(4, 36), "4x4 to 36x36"),
    Boundary("upscale", [2, 8], resize(1, 99), resize(4, 10), "4x4 to 10x10"),
    Boundary("sampling", ["align_corners"], resize(4, 8, align_corners=True), resize(4, 8), "asymmetric sampling"),
    Boundary(
        "sampling", ["half_pixel_centers"], resize(4, 8, half_pixel_centers=True), resize(4, 8, align_corners=True),
        "align_corners sampling",
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", BOUNDARIES, ids=lambda row: f"{row.name}-{row.found}")
def test_boundary(row: Boundary) -> None:
    predicate = find(row.name)
    assert predicate.violation(Case(*row.holds, BACKEND), row.parameter) is None
    assert predicate.violation(Case(*row.breaks, BACKEND), row.parameter) == row.found


@pytest.mark.parametrize("name", PREDICATES)
def test_the_docstring_is_a_rule(name: str) -> None:
    text = PREDICATES[name].text
    assert text
    assert not text.endswith(".")
    assert ("{}" in text) == (PREDICATES[name].parameter is not bool)


def test_a_flag_that_is_false_asks_for_nothing() -> None:
    assert find("dense").violation(Case(*unary(T((4,), is_sparse=True)), BACKEND), False) is None


@pytest.mark.parametrize(
    ("name", "parameter", "text"),
    [
        ("kernel", [1, 31], "a kernel of 1-31 per side"),
        ("input_rank", [4, 4], "an input of rank 4"),
        ("element_types", ["int8", "float16", "uint8"], "data of type int8, float16 or uint8"),
        ("max_sizes", {"C": 8, "H": 7}, "at most C 8, H 7 in size, input and output"),
        ("options", {"mode": ["REFLECT"]}, "options mode REFLECT"),
        (
            "broadcast", {"patterns": ["NC11"], "limit": 9},
            "operands of the output's shape, scalars, or repeated as NC11 (at most 9 along a repeated H or W)",
        ),
    ],
)  # fmt: skip
def test_rule_in_words(name: str, parameter: object, text: str) -> None:
    assert find(name).needs(parameter) == text


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("kernel", 31),
        ("kernel", [1]),
        ("max_rank", "4"),
        ("dense", 1),
        ("element_types", ["int7"]),
        ("max_sizes", {"D": 1}),
        ("broadcast", {"patterns": ["NC11"]}),
        ("broadcast", {"patterns": ["NC11"], "limit": 1, "extra": 2}),
    ],
)
def test_a_parameter_of_the_wrong_type_is_refused(name: str, parameter: object) -> None:
    with pytest.raises(InputError, match=f"predicate {name} does not take"):
        find(name).read(parameter)


def test_an_unknown_predicate_names_the_near_ones() -> None:
    with pytest.raises(InputError, match="no predicate 'stride'; did you mean strides"):
        find("stride")


def test_every_predicate_that_a_table_uses_exists() -> None:
    for file in resources.files("edgedeploy_profiles").joinpath("backends").iterdir():
        raw = tomllib.loads(file.read_text())
        used = {name for row in (*raw["rules"], *raw.get("every_op", ())) for name in row.get("require", {})}
        assert used <= set(PREDICATES)
