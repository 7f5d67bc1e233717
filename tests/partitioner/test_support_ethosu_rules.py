# SPDX-License-Identifier: Apache-2.0
"""The predicates that the Ethos-U table brought: an op where each just holds, and one where it just breaks."""

from __future__ import annotations

from typing import Any

import pytest

from edgedeploy_partitioner.model.read import read_bytes
from support.boundaries import Boundary, check
from support.one_op_file import one_op_file
from support.single_op import Made, T, ints
from support.vela_cases import (
    IMAGE,
    VelaCase,
    arg_max,
    binary,
    const,
    conv,
    data,
    dense,
    depthwise,
    lstm,
    pad,
    pool,
    reduced,
    resize,
    strided,
    transpose,
    transposed,
    unary,
)


def made(case: VelaCase) -> Made:
    file = one_op_file(case.code, case.inputs, case.outputs, case.intermediates, **case.options)
    graph = read_bytes(file)
    return graph, graph.subgraphs[0].ops[0]


def both(name: str, parameter: Any, holds: VelaCase, breaks: VelaCase, found: str) -> Boundary:
    return Boundary(name, parameter, made(holds), made(breaks), found)


WIDE = data(*IMAGE, dtype="int32")
HALVES = const(6, 3, 3, 2)
BOUNDARIES = [
    both(
        "static_but_batch",
        True,
        unary("", "RELU")._replace(inputs=[data(*IMAGE, signature=(-1, 8, 8, 4))]),
        unary("", "RELU")._replace(inputs=[data(*IMAGE, signature=(1, 8, -1, 4))]),
        "input 0 dim 2 is -1",
    ),
    both(
        "computed_shapes",
        True,
        unary("", "RELU", "int8", "", (1,)),
        unary("", "RELU", "int8", "", ()),
        "input 0 is a scalar",
    ),
    both(
        "feature_types",
        ["int8"],
        conv("", weights=const(6, 3, 3, 4, dtype="uint8")),
        conv("", out="int16"),
        "output 0 is int16",
    ),
    both("data_types", ["int8"], conv("", out="int16"), conv("", dtype="int16", out="int8"), "input is int16"),
    both(
        "parameter_types",
        ["int32"],
        transpose((2, 3), 1, 0),
        transpose((2, 3), 1, 0, index="int64"),
        "input 1 is int64",
    ),
    both("same_output_type", True, unary("", "ABS"), unary("", "ABS", out="int16"), "input is int8, output is int16"),
    both(
        "output_type_or_int16",
        True,
        unary("", "SOFTMAX", out="int16"),
        unary("", "SOFTMAX", "int16", "int8"),
        "input is int16, output is int8",
    ),
    both(
        "same_input_types",
        True,
        binary("", "ADD", data(4), data(4), (4,)),
        binary("", "ADD", data(4), data(4, dtype="int16"), (4,)),
        "inputs are int16 and int8",
    ),
    both(
        "keeps_sign",
        True,
        binary("", "ADD", data(4), data(4), (4,), out="int16"),
        binary("", "ADD", data(4), data(4), (4,), out="uint8"),
        "input is int8, output is uint8",
    ),
    both(
        "keeps_sign",
        True,
        unary("", "NEG", "uint8", "int32"),
        unary("", "NEG", "uint8", "int8"),
        "input is uint8, output is int8",
    ),
    both(
        "narrow_if_activated",
        True,
        binary("", "ADD", WIDE, WIDE, IMAGE),
        binary("", "ADD", WIDE, WIDE, IMAGE, fused_activation_function="RELU"),
        "RELU on an output of int32",
    ),
    both(
        "scaled",
        True,
        unary("", "RELU")._replace(inputs=[T(IMAGE, "int32")]),
        unary("", "RELU")._replace(inputs=[T(IMAGE, "int16")]),
        "input 0 is int16 without a scale",
    ),
    both(
        "zero_points",
        True,
        unary("", "RELU")._replace(inputs=[T(IMAGE, "int8", zero_point=-1)]),
        unary("", "RELU")._replace(inputs=[T(IMAGE, "uint8", zero_point=-1)]),
        "input 0 is uint8 with zero point -1",
    ),
    both(
        "zero_points",
        True,
        binary("", "ADD", WIDE, WIDE, IMAGE),
        binary("", "ADD", WIDE, WIDE._replace(zero_point=2), IMAGE),
        "input 1 is int32 with zero point 2",
    ),
    both(
        "same_quantisation",
        True,
        binary("", "MAXIMUM", data(4), data(4), (4,)),
        binary("", "MAXIMUM", data(4, zero_point=1), data(4), (4,)),
        "input 0 and the output differ in scale or zero point",
    ),
    both(
        "same_scale",
        True,
        unary("", "RESHAPE"),
        unary("", "RESHAPE")._replace(outputs=[data(4, scales=(0.25,))]),
        "input has scale 0.5, output 0.25",
    ),
    both("max_depth", 4, unary("", "RELU"), unary("", "RELU", "int8", "", (1, 5)), "5 channels"),
    both("max_output_depth", 6, dense("", outputs=6), dense("", outputs=7), "output has 7 channels"),
    both(
        "weight_sum",
        509,
        dense("", depth=3, outputs=2, weights=T((2, 3), "int8", (0, 0, 0, 127, -128, 127))),
        dense("", depth=3, outputs=2, weights=T((2, 3), "int8", (0, 0, 0, 127, -128, 127), zero_point=-128)),
        "weights of one channel add up to 510",
    ),
    both(
        "matrix_weights",
        True,
        dense("", weights=const(6, 1, 16)),
        dense("", weights=const(6, 2, 8)),
        "weights of shape 6x2x8",
    ),
    both(
        "whole_groups",
        True,
        conv("", weights=HALVES),
        conv("", filters=5, weights=const(5, 3, 3, 2)),
        "4 channels, 5 filters of depth 2",
    ),
    both("bias_types", ["int32"], conv(""), conv("", bias=const(6)), "bias is int8"),
    both("bias_vector", True, conv("", bias=const(1, 6)), conv("", bias=const(6, 1)), "bias of shape 6x1"),
    both("max_bias", 9, conv("", bias=ints(9, dtype="int64")), conv("", bias=ints(10, dtype="int64")), "a bias is 10"),
    both(
        "single_slope",
        True,
        unary("", "PRELU", "int8", "", IMAGE, T((4,), "int8", (3,) * 4)),
        unary("", "PRELU", "int8", "", IMAGE, T((4,), "int8", (3, 3, 3, 4))),
        "4 slopes",
    ),
    both(
        "unit_batch",
        True,
        unary("", "RELU", "int8", "", (8, 8, 4)),
        unary("", "RELU", "int8", "", (2, 8, 8, 4)),
        "batch 2",
    ),
    both(
        "flat_if_depth_reduced",
        True,
        reduced("", "MEAN", (1, 8, 1, 4), 3),
        reduced("", "MEAN", IMAGE, 3),
        "reduces the depth of 1x8x8x4",
    ),
    both(
        "max_reduced_axis",
        8,
        reduced("", "MEAN", (9, 8, 8, 9), 1, 2),
        reduced("", "MEAN", (1, 8, 9, 4), 1, 2),
        "reduces an axis of size 9",
    ),
    both(
        "max_reduced_elements",
        {"int8": 64},
        reduced("", "MEAN", IMAGE, 1, 2),
        reduced("", "MEAN", (1, 8, 9, 4), 1, 2),
        "reduces 72 elements",
    ),
    both(
        "reduced_products",
        32,
        reduced("", "SUM", (4, 8, 2, 16), 1, 3),
        reduced("", "SUM", (4, 8, 2, 17), 1),
        "reduces axis 1 of 4x8x2x17",
    ),
    both("last_axis", True, arg_max("", (4, 5), -1), arg_max("", (4, 5), 0), "axis 0 of 2"),
    both("max_softmax_area", 64, unary("", "SOFTMAX"), unary("", "SOFTMAX", "int8", "", (1, 8, 9, 4)), "72 places"),
    both("input_count", 24, lstm(""), lstm("", count=20), "20 inputs"),
    both("intermediate_count", 5, lstm(""), lstm("", between=4), "4 intermediate tensors"),
    both("least_options", {"beta": 0}, unary("", "SOFTMAX", beta=0.0), unary("", "SOFTMAX", beta=-0.5), "beta is -0.5"),
    both(
        "splits_match",
        True,
        VelaCase("", "SPLIT", [ints(0), data(4)], [data(2)] * 2, {"num_splits": 2}),
        VelaCase("", "SPLIT", [ints(0), data(4)], [data(2)] * 2, {"num_splits": 4}),
        "num_splits is 4 for 2 outputs",
    ),
    both(
        "strides_unless_unrolled",
        3,
        conv("", stride=(4, 4), padding="VALID"),
        conv("", (1, 20, 20, 4), stride=(4, 4), padding="VALID", dilation=(2, 2)),
        "stride 4x4 with dilation",
    ),
    both(
        "pool_kernel",
        {"height": 5, "area": 30, "padded": 3},
        pool("", "MAX_POOL_2D", (5, 6)),
        pool("", "MAX_POOL_2D", (6, 1)),
        "kernel 6x1",
    ),
    both(
        "pool_kernel",
        {"height": 5, "area": 30, "padded": 3},
        pool("", "MAX_POOL_2D", (3, 3), padding="SAME"),
        pool("", "MAX_POOL_2D", (3, 4), padding="SAME"),
        "kernel 3x4 with padding",
    ),
    both(
        "dilated_kernel",
        {"height": 5, "area": 20},
        conv("", kernel=(5, 4)),
        conv("", kernel=(3, 3), dilation=(2, 2)),
        "dilated kernel 5x5",
    ),
    both(
        "multiplies_one_channel",
        True,
        depthwise("", (1, 8, 8, 1), multiplier=4),
        depthwise("", (1, 8, 8, 2), multiplier=2),
        "2 channels to 4",
    ),
    both(
        "one_like_output",
        True,
        binary("", "ADD", data(2, 4), data(4), (2, 4)),
        binary("", "ADD", data(2, 1), data(4), (2, 4)),
        "inputs 2x1 and 4",
    ),
    both(
        "swaps_neighbours",
        True,
        transpose((1, 8, 6, 4), 0, 2, 1, 3),
        transpose((1, 8, 6, 4), 0, 1, 3, 2),
        "permutation [0, 1, 3, 2] of 1x8x6x4",
    ),
    both(
        "swaps_neighbours",
        True,
        transpose((1, 6, 4), 0, 2, 1),
        transpose((2, 8, 6, 4), 0, 2, 1, 3),
        "permutation [0, 2, 1, 3] of 2x8x6x4",
    ),
    both(
        "swaps_neighbours",
        True,
        transpose((8, 1, 4), 2, 1, 0),
        transpose((8, 2, 4), 2, 1, 0),
        "permutation [2, 1, 0] of 8x2x4",
    ),
    both(
        "swaps_neighbours",
        True,
        transpose((6, 4), 1, 0),
        transpose((1, 1, 8, 6, 4), 0, 1, 3, 2, 4),
        "permutation [0, 1, 3, 2, 4] of 1x1x8x6x4",
    ),
    both(
        "enlarged_alike",
        True,
        resize("", "RESIZE_BILINEAR", (1, 1), (7, 5)),
        resize("", "RESIZE_BILINEAR", (4, 4), (8, 16)),
        "4x4 to 8x16",
    ),
    both(
        "enlarged_alike",
        True,
        resize("", "RESIZE_BILINEAR", (4, 3), (13, 9), align_corners=True),
        resize("", "RESIZE_BILINEAR", (4, 2), (8, 4), align_corners=True),
        "4x2 to 8x4",
    ),
    both(
        "pads_image_only",
        True,
        pad("", "PAD", 0, 0, 1, 2, 3, 4, 0, 0),
        pad("", "PAD", 0, 0, 0, 0, 0, 0, 0, 1),
        "paddings [0, 0, 0, 0, 0, 0, 0, 1]",
    ),
    both(
        "transposed_strides",
        True,
        transposed("", (1, 1, 8, 4), (1, 1, 16, 6), (1, 3), (1, 2)),
        transposed("", (1, 1, 8, 4), (1, 1, 16, 6), (2, 3), (1, 2)),
        "stride 1x2",
    ),
    both(
        "transposed_sizes",
        True,
        transposed("", IMAGE, (1, 17, 17, 6), (3, 3), (2, 2), "VALID"),
        transposed("", IMAGE, (1, 17, 17, 6), (3, 3), (2, 2)),
        "8x8 to 17x17",
    ),
    both(
        "no_resize",
        True,
        resize("", "RESIZE_BILINEAR", (4, 4), (4, 4)),
        resize("", "RESIZE_BILINEAR", (4, 4), (4, 4), half_pixel_centers=True),
        "4x4 to 4x4",
    ),
    both(
        "resize_factors",
        {"any": [2, 4], "half_pixel": [2]},
        resize("", "RESIZE_BILINEAR", (4, 4), (13, 13), align_corners=True),
        resize("", "RESIZE_BILINEAR", (4, 4), (16, 16), half_pixel_centers=True),
        "4x4 to 16x16",
    ),
    both(
        "permuted_sizes",
        300,
        transpose((1, 300, 300, 4), 0, 2, 1, 3),
        transpose((2, 300, 300, 4), 0, 2, 1, 3),
        "permutation [0, 2, 1, 3] of 2x300x300x4",
    ),
    both(
        "permuted_int32",
        {"NHCW": [0, 16, 4, 9]},
        transpose((2, 8, 4, 9), 0, 1, 3, 2, dtype="int32"),
        transpose((2, 9, 4, 9), 0, 1, 3, 2, dtype="int32"),
        "permutation NHCW of 2x9x4x9",
    ),
    both(
        "image_strides",
        True,
        strided("", (0, 0), (8, 8), (2, 1), (4, 8), (8, 8)),
        strided("", (0, 0), (8, 8), (1, 2), (8, 4), (8, 8)),
        "stride 2 along axis -1",
    ),
]


@pytest.mark.parametrize("row", BOUNDARIES, ids=lambda row: f"{row.name}-{row.found}")
def test_boundary(row: Boundary) -> None:
    check(row)
