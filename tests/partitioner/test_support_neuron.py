# SPDX-License-Identifier: Apache-2.0
"""Neuron's table: what the delegate refuses, where MDLA's limits are known, and what stays open."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from edgedeploy_partitioner.support.verdicts import check_table
from edgedeploy_profiles import load_backend
from edgedeploy_profiles.schema import Rule
from support.boundaries import Boundary, check
from support.examples import example
from support.row_cases import RowCase, alone, broken, judge, row_cases, row_ops, taken, with_input, with_options
from support.single_op import Made, T, conv, ints, single_op, unary, weighted, weights

NEURON = load_backend("neuron")
IMAGE = T((1, 8, 8, 4))


def versioned(made: Made, version: int) -> Made:
    return made[0], replace(made[1], version=version)


def pool(height: int, width: int, size: int = 8, stride: int = 1) -> Made:
    image = T((1, size, size, 4))
    return unary(image, "AVERAGE_POOL_2D", filter_height=height, filter_width=width, stride_h=stride, stride_w=stride)


def scales(data: float, output: float, dtype: str = "uint8") -> Made:
    inputs = [T((1, 4), dtype, scales=(data,)), weights(4, 4, dtype=dtype, scales=(0.5,)), None]
    return single_op("FULLY_CONNECTED", inputs, [T((1, 4), dtype, scales=(output,))])


def wide(channels: int, dtype: str) -> Made:
    data = T((1, 1, 1, channels), dtype)
    return single_op("CONV_2D", [data, weights(4, 1, 1, channels, dtype=dtype), None], [data])


def crops(*sizes: int) -> Made:
    return single_op("BATCH_TO_SPACE_ND", [IMAGE, ints(2, 2), ints(*sizes)], [IMAGE])


def parts(*sizes: int) -> Made:
    return single_op("SPLIT_V", [IMAGE, ints(*sizes), ints(3)], [IMAGE])


def pack(axis: int) -> Made:
    return single_op("PACK", [T((2, 3)), T((2, 3))], [T((2, 3, 2))], axis=axis)


def maximum(second: T) -> Made:
    return single_op("MAXIMUM", [IMAGE, second], [IMAGE])


def cast(output: str) -> Made:
    return single_op("CAST", [T((4,), "int32")], [T((4,), output)])


def int16(zero_point: int) -> Made:
    return unary(T((4,), "int16", scales=(0.5,), zero_point=zero_point))


SAME_DEPTH = weighted(IMAGE, weights(4, 1, 1, 4))
BOUNDARIES = [
    Boundary("op_version", 3, versioned(SAME_DEPTH, 3), versioned(SAME_DEPTH, 4), "version 4"),
    Boundary("output_types", ["int8"], cast("int8"), cast("bool"), "output 0 is bool"),
    Boundary("symmetric_int16", True, int16(0), int16(7), "input 0 has zero point 7"),
    Boundary("shrinking_scales", True, scales(0.5, 0.3), scales(0.5, 0.25), "scales 0.5 * 0.5 for an output of 0.25"),
    Boundary(
        "shrinking_scales", True, scales(0.5, 0.25, "int8"), scales(1.0, 0.5), "scales 1 * 0.5 for an output of 0.5"
    ),
    Boundary(
        "constant_scalars",
        True,
        maximum(T((), constant=True)),
        maximum(T(())),
        "input 1 is a computed scalar",
    ),
    Boundary("ungrouped", True, SAME_DEPTH, weighted(IMAGE, weights(4, 1, 1, 2)), "input has 4 channels, weights 2"),
    Boundary("max_channels", {"int8": 8}, wide(8, "int8"), wide(9, "int8"), "9 channels in int8"),
    Boundary("max_channels", {"float16": 4}, wide(9, "int8"), wide(5, "float32"), "5 channels in float16"),
    Boundary("dilation_among", [1, 2], conv(dilation_h_factor=2), conv(dilation_w_factor=3), "dilation 1x3"),
    Boundary(
        "unit_strides_if_dilated",
        True,
        conv(stride_h=2),
        conv(stride_h=2, stride_w=1, dilation_w_factor=2),
        "stride 2x1 with dilation 1x2",
    ),
    Boundary(
        "unit_strides_if_dilated",
        True,
        conv(dilation_h_factor=2),
        conv(stride_h=2, dilation_h_factor=2),
        "stride 2x2 with dilation 2x1",
    ),
    Boundary("strides_within_kernel", True, pool(2, 2, stride=2), pool(3, 2, stride=3), "stride 3x3 of kernel 3x2"),
    Boundary("max_global_kernel", 64, pool(8, 8), pool(9, 9, size=9), "kernel 9x9"),
    Boundary("max_global_kernel", 64, pool(2, 2, size=2), pool(7, 8), "kernel 7x8 on 8x8"),
    Boundary("packs_before_last", True, pack(1), pack(2), "axis 2"),
    Boundary("packs_before_last", True, pack(0), pack(-1), "axis -1"),
    Boundary("no_crops", True, crops(0, 0, 0, 0), crops(0, 1, 0, 0), "crops [0, 1, 0, 0]"),
    Boundary("no_empty_splits", True, parts(1, 3), parts(4, 0), "sizes [4, 0]"),
]


@pytest.mark.parametrize("row", BOUNDARIES, ids=lambda row: f"{row.name}-{row.found}")
def test_boundary(row: Boundary) -> None:
    check(row)


@pytest.mark.parametrize(("rule", "code"), row_ops(NEURON))
def test_every_row_takes_each_of_its_ops(rule: Rule, code: str) -> None:
    judged = judge(alone(NEURON, rule), taken(NEURON, rule, code))
    assert judged.status == rule.verdict
    assert rule.maps_to[code] in judged.reason


@pytest.mark.parametrize("case", row_cases(NEURON), ids=str)
def test_every_requirement_of_a_row_refuses_an_op(case: RowCase) -> None:
    judged = list(broken(case, NEURON))
    assert judged
    assert {(j.status, j.rule) for j in judged} == {("refused", case.name)}


class Refused(NamedTuple):
    made: Made
    reason: str
    rule: str
    status: str = "refused"


CONV = example("CONV_2D", "int8")
OPEN = "(the Neuron compiler decides, by limits not found)"
REFUSED = [
    Refused(
        unary(T((1, 4), signature=(-1, 4))),
        "input 0 dim 0 is -1; Neuron needs a static shape (--input-shape fixes it)",
        "static_shapes",
    ),
    Refused(unary(T((1, 0))), "input 0 has shape 1x0; Neuron needs data with at least one element", "no_empty_tensors"),
    Refused(unary(T((1,) * 5)), "input 0 has rank 5; Neuron needs tensors of rank 4 at most", "max_rank"),
    Refused(
        unary(T((1, 65536, 1, 4))),
        "input H is 65536; Neuron needs at most H 65535, W 65535, C 65535 in size, input and output",
        "max_sizes",
    ),
    Refused(
        int16(3),
        "input 0 has zero point 3; Neuron needs a zero point of 0 for 16-bit data",
        "symmetric_int16",
    ),
    Refused(
        weighted(IMAGE, weights(4, 1, 1, 4)._replace(block_size=2)),
        "weight is quantised in blocks of 2; Neuron needs scales per tensor or per channel, not per block",
        "no_block_scales",
    ),
    Refused(
        unary(T((4,), scales=())),
        "input 0 is int8 without a scale; Neuron needs a scale for every 8-bit tensor",
        "quantised",
    ),
    Refused(
        example("EQUAL", "int8"), "output 0 is bool; unknown whether Neuron takes that", "element_types", "unknown"
    ),
    Refused(
        unary(T((4,), is_sparse=True)),
        "input 0 is stored sparse; unknown whether Neuron takes that",
        "dense",
        "unknown",
    ),
    Refused(
        unary(T((4,), is_variable=True)),
        "input 0 is a variable tensor; unknown whether Neuron takes that",
        "stateless",
        "unknown",
    ),
    Refused(versioned(CONV, 4), "version 4; Conv2D needs version 3 of the op or older", "op_version"),
    Refused(conv(), "input 2 is absent; Conv2D needs input 2 to be there", "present_inputs"),
    Refused(
        with_options(CONV, dilation_h_factor=3),
        "dilation 3x1; Conv2D needs a dilation of 1, 2, 4 or 8",
        "dilation_among",
    ),
    Refused(
        with_options(CONV, stride_h=5),
        "stride 5x1; Conv2D needs strides of 1, 2, 3, 4 or 8",
        "strides_among",
    ),
    Refused(
        with_input(CONV, 1, data=None),
        "may become Conv2D on the NPU (computed weights run if their channels are aligned to 16 (output) and 32 bytes "
        "(input), which is not checked)",
        "row",
        "unknown",
    ),
    Refused(unary(IMAGE, "ADD"), f"may become ElementWiseAdd on the NPU {OPEN}", "row", "unknown"),
    Refused(
        unary(T((4,), "int32"), "ADD"),
        f"input 0 is int32; ElementWiseAdd needs input of type float32, int8 or uint8 {OPEN}",
        "input_types",
    ),
    Refused(example("BATCH_MATMUL", "int8"), "the delegate has no case for it and leaves it to the CPU", "refusal"),
    Refused(unary(IMAGE, "SVDF"), "MDLA 2.0 runs no recurrent ops", "refusal"),
]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row.made[1].code}-{row.rule}")
def test_refusal(row: Refused) -> None:
    judged = judge(NEURON, row.made)
    assert (judged.status, judged.rule, judged.reason) == (row.status, row.rule, row.reason)


def test_every_general_requirement_has_an_op_that_it_decides() -> None:
    names = {name for row in NEURON.every_op for name in row.require}
    assert names <= {row.rule for row in REFUSED}


def test_a_pool_over_the_whole_image_may_be_larger_than_a_moving_one() -> None:
    assert judge(NEURON, pool(8, 8)).status == "supported"
    assert judge(NEURON, pool(9, 9, size=9)).reason == "becomes global AvgPooling on the NPU"
    assert judge(NEURON, pool(9, 9, size=10)).reason == "kernel 9x9; AvgPooling needs a kernel of 1-8 per side"


def test_float_models_are_said_to_run_in_float16() -> None:
    reason = judge(NEURON, example("CONV_2D", "float32")).reason
    assert reason == "becomes Conv2D on the NPU, computed in float16"


@pytest.mark.parametrize("op", sorted({op for refusal in NEURON.refusals for op in refusal.ops}))
def test_no_op_is_both_refused_and_in_a_row(op: str) -> None:
    assert not [rule for rule in NEURON.rules if op in rule.maps_to]
    assert judge(NEURON, unary(IMAGE, op)).rule == "refusal"


def test_the_table_is_sound() -> None:
    check_table(NEURON)
