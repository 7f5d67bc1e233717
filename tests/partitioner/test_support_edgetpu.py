# SPDX-License-Identifier: Apache-2.0
"""The Edge TPU table: every row has an op that it decides, and each rule one that it refuses."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from edgedeploy_partitioner.support.verdicts import NO_RULE, Judged, check_table, verdicts
from edgedeploy_profiles import load_backend
from support.boundaries import Boundary, check
from support.examples import example
from support.single_op import Made, T, conv, ints, mean, resize, single_op, transpose, unary, weighted, weights

EDGETPU = load_backend("edgetpu")
IMAGE = T((1, 8, 8, 4))
UNKNOWN = {op for rule in EDGETPU.rules if rule.verdict == "unknown" for op in rule.maps_to}


def judge(made: Made) -> Judged:
    [judged] = verdicts(*made, EDGETPU, "edgetpu")
    return judged


def dense(out: int, rows: int = 1, **options: str) -> Made:
    inputs = [T((rows, 16)), weights(out, 16), None]
    return single_op("FULLY_CONNECTED", inputs, [T((rows, out))], **options)


def concat(*inputs: T, **options: str) -> Made:
    return single_op("CONCATENATION", inputs, [T((1, 8, 8, 4 * len(inputs)))], **options)


def zeros(value: int = 0, zero_point: int = 0) -> T:
    return T((1, 8, 8, 4), "int8", (value,) * 256, zero_point=zero_point)


def pad(*sides: int) -> Made:
    return single_op("PAD", [IMAGE, T((4, 2), "int32", sides)], [T((1, 10, 10, 4))])


def pack(axis: int) -> Made:
    return single_op("PACK", [T((8, 4))] * 2, [T((2, 8, 4))], axis=axis)


def squeeze(*shape: int) -> Made:
    return single_op("SQUEEZE", [T(shape)], [T(tuple(size for size in shape if size > 1))])


def strided(stride: int, new_axis_mask: int = 0) -> Made:
    inputs = [IMAGE, ints(0, 0, 0, 0), ints(1, 8, 8, 4), ints(1, stride, 1, 1)]
    return single_op("STRIDED_SLICE", inputs, [T((1, 8 // stride, 8, 4))], new_axis_mask=new_axis_mask)


def prelu(*slope: int) -> Made:
    return single_op("PRELU", [IMAGE, weights(*slope)], [IMAGE])


DECIDED = {
    "CONCATENATION": concat(IMAGE, IMAGE), "FULLY_CONNECTED": dense(6), "MEAN": mean((1, 8, 8, 4), 1, 2),
    "PACK": pack(1), "PAD": pad(0, 0, 1, 1, 1, 1, 0, 0), "PRELU": prelu(4),
    "QUANTIZE": unary(IMAGE, "QUANTIZE"), "SOFTMAX": unary(T((1, 10)), "SOFTMAX"),
    "SPLIT": single_op("SPLIT", [T((), "int32", (3,)), IMAGE], [T((1, 8, 8, 2))] * 2, num_splits=2),
    "SQUEEZE": squeeze(1, 1, 10), "UNIDIRECTIONAL_SEQUENCE_LSTM": unary(T((1, 5, 4)), "UNIDIRECTIONAL_SEQUENCE_LSTM"),
}  # fmt: skip


@pytest.mark.parametrize("op", sorted({op for rule in EDGETPU.rules for op in rule.maps_to}))
def test_every_row_decides_an_op(op: str) -> None:
    judged = judge(DECIDED.get(op) or example(op, "int8"))
    assert (judged.status, judged.rule) == ("unknown" if op in UNKNOWN else "supported", "row"), judged.reason
    assert judged.source not in EDGETPU.sources


class Refused(NamedTuple):
    made: Made
    reason: str
    rule: str
    status: str = "refused"


COMPUTED = T((4,), "int32")
REFUSED = [
    Refused(conv(dtype="float32"), "input 0 is float32; Edge TPU needs data of type int8 or uint8", "element_types"),
    Refused(conv(dtype="int16"), "input 0 is int16; Edge TPU needs data of type int8 or uint8", "element_types"),
    Refused(
        unary(T((1, 4), signature=(-1, 4))),
        "input 0 dim 0 is -1; Edge TPU needs a static shape (--input-shape fixes it)",
        "static_shapes",
    ),
    Refused(
        unary(T((3, 8, 8, 1))),
        "input 0 has shape 3x8x8x1; Edge TPU needs sizes of 1 in all but the three innermost dimensions",
        "three_inner_dimensions",
    ),
    Refused(
        unary(T((4,), scales=())),
        "input 0 is int8 without a scale; Edge TPU needs a scale for every 8-bit tensor",
        "quantised",
    ),
    Refused(
        unary(T((1, 0))), "input 0 has shape 1x0; Edge TPU needs data with at least one element", "no_empty_tensors"
    ),
    Refused(
        unary(T((4,), is_sparse=True)),
        "input 0 is stored sparse; unknown whether Edge TPU takes that",
        "dense",
        "unknown",
    ),
    Refused(
        weighted(IMAGE, weights(4, 1, 1, 4)._replace(block_size=2, scales=(0.5,))),
        "weight is quantised in blocks of 2; unknown whether Edge TPU takes that",
        "no_block_scales",
        "unknown",
    ),
    Refused(
        weighted(IMAGE, T((4, 1, 1, 4))),
        "input 1 is computed; Conv2d needs constants as input 1 or 2",
        "constant_inputs",
    ),
    Refused(
        conv(dilation_h_factor=2),
        "dilation 2x1; Conv2d needs the same dilation along height and width",
        "equal_dilation",
    ),
    Refused(
        single_op("TRANSPOSE_CONV", [COMPUTED, weights(6, 3, 3, 4), IMAGE], [T((1, 16, 16, 6))]),
        "input 0 is computed; TransposeConv needs constants as input 0, 1 or 3 (in Google's list, but larger ones and "
        "strides above 1 were reported as not mapped)",
        "constant_inputs",
    ),
    Refused(
        dense(6, rows=2),
        "output has shape 2x6; FullyConnected needs an output with at most one dimension above 1",
        "vector_output",
    ),
    Refused(
        dense(6, weights_format="SHUFFLED4x16INT8"),
        "weights_format is SHUFFLED4x16INT8; FullyConnected needs options weights_format DEFAULT",
        "options",
    ),
    Refused(
        single_op("FULLY_CONNECTED", [T((1, 16)), T((6, 16)), None], [T((1, 6))]),
        "input 1 is computed; FullyConnected needs constants as input 1 or 2",
        "constant_inputs",
    ),
    Refused(prelu(8, 8, 4), "slope of shape [8, 8, 4]; PReLU needs one slope, or one per C", "slope_per_channel"),
    Refused(
        single_op("PRELU", [IMAGE, T((4,))], [IMAGE]),
        "input 1 is computed; PReLU needs constants as input 1",
        "constant_inputs",
    ),
    Refused(
        unary(T((2, 10)), "SOFTMAX"),
        "input has shape 2x10; Softmax needs data with at most one dimension above 1",
        "vector_data",
    ),
    Refused(
        unary(T((1, 16001)), "SOFTMAX"),
        "input has 16001 elements; Softmax needs an input of at most 16000 elements",
        "max_elements",
    ),
    Refused(
        single_op("MAX_POOL_2D", [IMAGE], [IMAGE], fused_activation_function="RELU"),
        "fused_activation_function is RELU; MaxPool2d needs options fused_activation_function NONE",
        "options",
    ),
    Refused(
        mean((1, 8, 8, 4), 0),
        "axes [0]; Mean needs constant axes without the first one, the batch",
        "batch_not_reduced",
    ),
    Refused(
        mean((1, 8, 8, 6), 3),
        "reduces a depth of 6; Mean needs a depth that is a multiple of 4, if the depth is reduced",
        "reduced_depth_multiple",
    ),
    Refused(
        single_op("REDUCE_MAX", [IMAGE, T((2,), "int32")], [T((1, 4))]),
        "the axes are computed; ReduceMax needs constant axes without the first one, the batch",
        "batch_not_reduced",
    ),
    Refused(
        single_op("SUM", [IMAGE, T((2,), "int32")], [T((1, 4))]),
        "input 1 is computed; Sum needs constants as input 1 (in Google's list; its limits were not seen)",
        "constant_inputs",
    ),
    Refused(
        concat(IMAGE, IMAGE, fused_activation_function="RELU"),
        "fused_activation_function is RELU; Concatenation needs options fused_activation_function NONE",
        "options",
    ),
    Refused(
        concat(IMAGE, IMAGE, zeros()),
        "input 2 is a constant among 3 inputs; Concatenation needs no constants, but for one of zeros beside "
        "one other input",
        "constants_only_pad",
    ),
    Refused(pack(0), "axis 0; Pack needs an axis that is not the first one, the batch", "not_packed_along_batch"),
    Refused(
        pad(1, 0, 0, 0, 0, 0, 0, 0),
        "paddings [1, 0, 0, 0, 0, 0, 0, 0]; Pad needs constant paddings, and none of the first dimension, the batch",
        "batch_not_padded",
    ),
    Refused(
        single_op("RESIZE_BILINEAR", [IMAGE, T((2,), "int32")], [IMAGE]),
        "input 1 is computed; ResizeBilinear needs constants as input 1 (may not be mapped, depending on the sizes and "
        "on the op's version; no size is told)",
        "constant_inputs",
    ),
    Refused(
        single_op("SLICE", [IMAGE, COMPUTED, ints(1, 8, 8, 4)], [IMAGE]),
        "input 1 is computed; Slice needs constants as input 1 or 2",
        "constant_inputs",
    ),
    Refused(
        single_op("SPLIT", [T((), "int32"), IMAGE], [IMAGE]),
        "input 0 is computed; Split needs constants as input 0",
        "constant_inputs",
    ),
    Refused(
        squeeze(5, 1, 10),
        "input has shape 5x1x10; Squeeze needs an input without a dimension of 1 behind a larger one",
        "leading_ones",
    ),
    Refused(strided(2), "strides [1, 2, 1, 1]; StridedSlice needs constant strides of 1", "unit_strides"),
    Refused(
        strided(1, new_axis_mask=1),
        "new_axis_mask is 1; StridedSlice needs options ellipsis_mask 0, new_axis_mask 0",
        "options",
    ),
    Refused(
        single_op("STRIDED_SLICE", [IMAGE, COMPUTED, ints(1, 8, 8, 4), ints(1, 1, 1, 1)], [IMAGE]),
        "input 1 is computed; StridedSlice needs constants as input 1 or 2",
        "constant_inputs",
    ),
    Refused(
        single_op("TRANSPOSE", [IMAGE, COMPUTED], [IMAGE]),
        "input 1 is computed; Transpose needs constants as input 1 (since compiler 16, but some are not mapped; which "
        "is not told)",
        "constant_inputs",
    ),
    Refused(
        resize(4, 8),
        "may become ResizeBilinear on the NPU (may not be mapped, depending on the sizes and on the op's version; no "
        "size is told)",
        "row",
        "unknown",
    ),
    Refused(
        transpose((8, 8, 4), 1, 0, 2),
        "may become Transpose on the NPU (since compiler 16, but some are not mapped; which is not told)",
        "row",
        "unknown",
    ),
    Refused(unary(IMAGE, "LEAKY_RELU"), "the Edge TPU 16.0.384591198 table has no row for LEAKY_RELU", NO_RULE),
]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row.made[1].code}-{row.rule}")
def test_refusal(row: Refused) -> None:
    judged = judge(row.made)
    assert (judged.status, judged.rule, judged.reason) == (row.status, row.rule, row.reason)


def test_every_rule_refuses_an_op_of_its_row() -> None:
    refused = {(row.made[1].code, row.rule) for row in REFUSED}
    for row in EDGETPU.every_op:
        assert set(row.require) <= {rule for _, rule in refused}
    for rule in EDGETPU.rules:
        for name in rule.require:
            assert any((op, name) in refused for op in rule.maps_to), (rule.maps_to, name)


def test_the_compiler_takes_one_partition() -> None:
    assert EDGETPU.max_partitions == 1


def test_per_channel_weights_are_supported() -> None:
    assert judge(weighted(IMAGE, weights(4, 1, 1, 4, scales=(0.1, 0.2, 0.3, 0.4)))).status == "supported"


def test_the_table_is_sound() -> None:
    check_table(EDGETPU)
    assert EDGETPU.layouts == {}
    assert {rule.source for rule in EDGETPU.rules} | {"tips"} == set(EDGETPU.sources)


BOUNDARIES = [
    Boundary("three_inner_dimensions", True, unary(IMAGE), unary(T((2, 8, 8, 4))), "input 0 has shape 2x8x8x4"),
    Boundary("vector_output", True, dense(6), dense(6, rows=2), "output has shape 2x6"),
    Boundary("max_elements", 4, unary(T((2, 2))), unary(T((5,))), "input has 5 elements"),
    Boundary("leading_ones", True, squeeze(1, 5, 10), squeeze(5, 1, 10), "input has shape 5x1x10"),
    Boundary(
        "equal_dilation", True, conv(dilation_h_factor=2, dilation_w_factor=2), conv(dilation_w_factor=2),
        "dilation 1x2",
    ),
    Boundary(
        "constants_only_pad", True, concat(IMAGE, zeros(3, zero_point=3)), concat(IMAGE, zeros(3)),
        "input 1 is a constant that is not all zeros",
    ),
    Boundary(
        "constants_only_pad", True, concat(IMAGE, IMAGE, IMAGE), concat(zeros(), zeros()),
        "input 0 is a constant among 2 inputs",
    ),
    Boundary("batch_not_reduced", True, mean((1, 8, 8, 4), 1, -1), mean((1, 8, 8, 4), -4), "axes [-4]"),
    Boundary("reduced_depth_multiple", 4, mean((1, 8, 6, 8), 2, 3), mean((1, 8, 8, 6), -1), "reduces a depth of 6"),
    Boundary("not_packed_along_batch", True, pack(-1), pack(-3), "axis -3"),
    Boundary(
        "batch_not_padded", True, pad(0, 0, 1, 2, 3, 4, 0, 1), pad(0, 1, 0, 0, 0, 0, 0, 0),
        "paddings [0, 1, 0, 0, 0, 0, 0, 0]",
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", BOUNDARIES, ids=lambda row: f"{row.name}-{row.found}")
def test_boundary(row: Boundary) -> None:
    check(row)
