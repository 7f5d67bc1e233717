# SPDX-License-Identifier: Apache-2.0
"""The RKNN table: every row has an op that it decides, and the refusals users meet read as they should."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from edgedeploy_partitioner.support.verdicts import NO_RULE, Judged, check_table, verdicts
from edgedeploy_profiles import load_backend
from support.single_op import Made, T, add, conv, ints, mean, resize, single_op, transpose, unary, weighted, weights

RKNN = load_backend("rknn")
IMAGE, FLOAT = T((1, 8, 8, 4)), T((1, 8, 8, 4), "float32")


def judge(made: Made, kernel: str = "npu") -> Judged:
    return {judged.kernel: judged for judged in verdicts(*made, RKNN, "rk3588")}[kernel]


def dense(data: T, kernel: T, out: T, code: str = "FULLY_CONNECTED") -> Made:
    return single_op(code, [data, kernel], [out])


def depthwise(kernel: int, multiplier: int = 1) -> Made:
    filters = weights(1, kernel, kernel, 4 * multiplier)
    options: dict[str, Any] = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "depth_multiplier": multiplier}
    return single_op("DEPTHWISE_CONV_2D", [IMAGE, filters, None], [T((1, 8, 8, 4 * multiplier))], **options)


def pool(code: str, kernel: int, padding: str = "VALID") -> Made:
    out = 8 if padding == "SAME" else 9 - kernel
    options: dict[str, Any] = {
        "padding": padding,
        "filter_height": kernel,
        "filter_width": kernel,
        "stride_h": 1,
        "stride_w": 1,
    }
    return single_op(code, [IMAGE], [T((1, out, out, 4))], **options)


def with_parameters(code: str, data: T, *parameters: T) -> Made:
    return single_op(code, [data, *parameters], [data])


def split(data: T) -> Made:
    return single_op("SPLIT", [T((), "int32", (3,)), data], [data])


def split_v(data: T) -> Made:
    return with_parameters("SPLIT_V", data, ints(2, 2), ints(3))


def slices(stride: int) -> Made:
    return with_parameters("STRIDED_SLICE", IMAGE, ints(0, 0, 0, 0), ints(1, 8, 8, 4), ints(1, stride, 1, 1))


def power(exponent: float) -> Made:
    return with_parameters("POW", FLOAT, T((), "float32", (exponent,)))


def nearest(after: int) -> Made:
    return single_op("RESIZE_NEAREST_NEIGHBOR", [IMAGE, ints(after, after)], [T((1, after, after, 4))])


def lstm(state: bool) -> Made:
    cell = T((1, 2), "float32", is_variable=state)
    inputs: list[T | None] = [T((1, 5, 4), "float32"), *[weights(2, 4, dtype="float32")] * 4, *[None] * 13, cell, cell]
    return single_op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [T((1, 5, 2), "float32")])


BINARY = ("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "EQUAL", "GREATER", "LESS", "FLOOR_MOD")
ROWS: dict[tuple[str, str, str], Made] = {
    ("CONV_2D", "npu", "supported"): conv(),
    ("DEPTHWISE_CONV_2D", "npu", "supported"): depthwise(3),
    ("DEPTHWISE_CONV_2D", "npu", "unknown"): depthwise(3, multiplier=2),
    ("TRANSPOSE_CONV", "npu", "supported"): single_op(
        "TRANSPOSE_CONV", [ints(1, 16, 16, 6), weights(6, 3, 3, 4), IMAGE], [T((1, 16, 16, 6))], stride_h=2, stride_w=2
    ),
    ("FULLY_CONNECTED", "npu", "supported"): dense(T((1, 4)), weights(3, 4), T((1, 3))),
    ("FULLY_CONNECTED", "npu", "unknown"): dense(IMAGE, weights(3, 256), T((1, 3))),
    ("BATCH_MATMUL", "npu", "supported"): dense(T((2, 4)), T((4, 3)), T((2, 3)), "BATCH_MATMUL"),
    ("MINIMUM", "cpu_lane", "supported"): with_parameters("MINIMUM", IMAGE, IMAGE),
    ("DIV", "cpu_lane", "supported"): with_parameters("DIV", IMAGE, IMAGE),
    ("POW", "npu", "unknown"): power(2.0),
    ("POW", "cpu_lane", "supported"): power(2.5),
    ("SELECT", "npu", "unknown"): single_op("SELECT", [T((1, 8, 8, 4), "bool"), FLOAT, FLOAT], [FLOAT]),
    ("SELECT_V2", "npu", "unknown"): single_op("SELECT_V2", [T((1, 8, 8, 4), "bool"), FLOAT, FLOAT], [FLOAT]),
    ("PRELU", "npu", "supported"): with_parameters("PRELU", IMAGE, weights(1, 1, 4)),
    ("MAX_POOL_2D", "npu", "supported"): pool("MAX_POOL_2D", 7, "SAME"),
    ("AVERAGE_POOL_2D", "npu", "supported"): pool("AVERAGE_POOL_2D", 7),
    ("MEAN", "npu", "supported"): mean((1, 7, 7, 4), 1, 2),
    ("MEAN", "cpu_lane", "supported"): mean((1, 8, 7, 4), 1, 2),
    ("TRANSPOSE", "npu", "supported"): transpose((16, 4), 1, 0),
    ("TRANSPOSE", "cpu_lane", "supported"): transpose((15, 4), 1, 0),
    ("SPLIT", "npu", "supported"): split(FLOAT),
    ("SPLIT", "cpu_lane", "supported"): split(IMAGE),
    ("SPLIT_V", "npu", "supported"): split_v(FLOAT),
    ("SPLIT_V", "cpu_lane", "supported"): split_v(IMAGE),
    ("SLICE", "npu", "supported"): with_parameters("SLICE", IMAGE, ints(0, 0, 0, 0), ints(1, 8, 8, 4)),
    ("STRIDED_SLICE", "npu", "supported"): slices(1),
    ("STRIDED_SLICE", "cpu_lane", "supported"): slices(2),
    ("GATHER", "npu", "supported"): with_parameters("GATHER", IMAGE, ints(0)),
    ("RESIZE_NEAREST_NEIGHBOR", "npu", "supported"): nearest(16),
    ("RESIZE_NEAREST_NEIGHBOR", "cpu_lane", "supported"): nearest(12),
    ("RESIZE_BILINEAR", "npu", "supported"): resize(4, 8, half_pixel_centers=True),
    ("RESIZE_BILINEAR", "cpu_lane", "supported"): resize(4, 8),
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", "npu", "supported"): lstm(state=False),
    **{(code, "npu", "supported"): with_parameters(code, FLOAT, FLOAT) for code in BINARY},
    **{
        (code, "cpu_lane", "supported"): with_parameters(code, FLOAT, FLOAT)
        for code in BINARY
        if code not in ("DIV", "MINIMUM")
    },
}
OPS = sorted({(op, rule.kernel, rule.verdict) for rule in RKNN.rules for op in rule.maps_to})


@pytest.mark.parametrize(("op", "kernel", "verdict"), OPS)
def test_every_row_decides_an_op(op: str, kernel: str, verdict: str) -> None:
    judged = judge(ROWS.get((op, kernel, verdict)) or unary(FLOAT, op), kernel)
    assert (judged.status, judged.rule) == (verdict, "row"), judged.reason
    assert judged.sdk_version in ("2.1.0", "2.3.2", "2.5.0")
    assert judged.source
    assert judged.source not in RKNN.sources


class Refused(NamedTuple):
    made: Made
    reason: str
    rule: str
    status: str = "refused"
    kernel: str = "npu"


HYBRID = "Conv needs weights of the data's type: quantised in full, or float (no hybrid or 16x8)"
TYPES = "RKNN needs data of type int8, uint8, float32 or float16"
REFUSED = [
    Refused(conv(64, (33, 33)), "kernel 33x33; Conv needs a kernel of 1-31 per side", "kernel"),
    Refused(conv(stride_h=8), "stride 8x8; Conv needs strides of 1-7", "strides"),
    Refused(depthwise(9, 2), "", "row", "unknown"),
    Refused(weighted(FLOAT, weights(4, 1, 1, 4)), f"weight is int8, data is float32; {HYBRID}", "same_type_weights"),
    Refused(conv(dtype="int16"), f"input 0 is int16; {TYPES}", "element_types"),
    Refused(unary(T((4,), "int32")), f"input 0 is int32; {TYPES}", "element_types"),
    Refused(conv(dtype="uint8"), "input 0 is uint8; unknown whether RKNN takes that", "no_types", "unknown"),
    Refused(
        unary(T((1, 4), signature=(-1, 4))),
        "input 0 dim 0 is -1; RKNN needs a static shape (--input-shape fixes it)",
        "static_shapes",
    ),
    Refused(
        unary(T((4,), scales=())),
        "input 0 is int8 without a scale; RKNN needs a scale for every 8-bit tensor",
        "quantised",
    ),
    Refused(unary(T((1,) * 5)), "input 0 has rank 5; unknown whether RKNN takes that", "max_rank", "unknown"),
    Refused(lstm(state=True), "input 18 is a variable tensor; unknown whether RKNN takes that", "stateless", "unknown"),
    Refused(
        conv(fused_activation_function="SIGN_BIT"),
        "fused_activation_function is SIGN_BIT; RKNN needs options fused_activation_function NONE, RELU, RELU6 or TANH",
        "options",
    ),
    Refused(
        pool("AVERAGE_POOL_2D", 3, "SAME"),
        "padding 1+1 by 1+1; AveragePool needs padding of 0 on each side (TFLite leaves padding out of the average and "
        "RKNN counts it, so only unpadded pools agree)",
        "padding",
    ),
    Refused(
        mean((1, 8, 7, 4), 1, 2),
        "input H is 8; GlobalAveragePool needs at most C 8192, H 7, W 7 in size on the input",
        "max_input_sizes",
    ),
    Refused(
        single_op("FULLY_CONNECTED", [T((1, 2, 4)), weights(3, 4)], [T((1, 2, 3))]),
        "input has rank 3; 1x1 Conv needs an input of rank 1-2 (rknn-toolkit2 2.5.0 rejects inputs of rank 3)",
        "input_rank",
    ),
    Refused(
        split(IMAGE),
        "computed in int8; Split needs to be computed in float16 (the list has Split on the NPU; rknn-toolkit2 2.5.0 "
        "put the int8 one on the CPU)",
        "computed_types",
    ),
    Refused(
        # The published complaint: a 256x2560 Transpose falls off the NPU. H*W is 655360; 4096 is the tighter bound.
        transpose((256, 2560), 1, 0),
        "permutation [0, 1, 3, 2] of [1, 1, 256, 2560] (NCHW): H*W = 655360 is not less than 4096; "
        "Transpose needs sizes within the bounds of that permutation",
        "transposes",
    ),
    Refused(
        single_op("CUSTOM", [FLOAT], [FLOAT], custom_code="TFLite_Detection_PostProcess"),
        "a custom op is in neither of RKNN's lists, and one such op makes the toolkit reject the whole graph: "
        "the model is cut before it",
        "refusal",
    ),
    Refused(unary(FLOAT, "RSQRT"), "the RKNN 2.3.2 table has no row for RSQRT", NO_RULE),
    Refused(
        unary(FLOAT, "GELU"),
        "rejected by rknn-toolkit2 2.5.0, with the whole graph: the model is cut around it",
        "refusal",
    ),
]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row.made[1].code}-{row.rule}")
def test_refusal(row: Refused) -> None:
    judged = judge(row.made, row.kernel)
    assert (judged.status, judged.rule) == (row.status, row.rule)
    assert judged.reason == row.reason or not row.reason


@pytest.mark.parametrize("op", ["IF", "WHILE", "CALL_ONCE"])
def test_control_flow_is_refused(op: str) -> None:
    judged = judge(single_op(op, [FLOAT], [FLOAT]))
    assert (judged.status, judged.rule) == ("refused", "refusal")
    assert "dynamic" in judged.reason


@pytest.mark.parametrize(
    ("shape", "perm", "dtype", "status"),
    [
        # [0, 2, 3, 1] of NHWC gives [N, W, C, H], whose NCHW is [N, H, W, C]: [0, 2, 3, 1] there too.
        ((1, 8, 16, 8191), (0, 2, 3, 1), "int8", "supported"),  # C*W = 131056 < 16 * 8192
        ((1, 8, 16, 8192), (0, 2, 3, 1), "int8", "refused"),  # C is not below 8192
        ((1, 8, 16, 8191), (0, 2, 3, 1), "float32", "refused"),  # 131056 is not below 8 * 8192
        ((1, 5, 16, 64), (0, 2, 3, 1), "int8", "supported"),  # H*W = 80, a multiple of 8
        ((1, 5, 15, 64), (0, 2, 3, 1), "int8", "refused"),  # H*W = 75
        # [0, 3, 1, 2] likewise: H*W < 8192, W < 8192, H*C < 8192.
        ((1, 8, 16, 1023), (0, 3, 1, 2), "int8", "supported"),
        ((1, 8, 16, 1024), (0, 3, 1, 2), "int8", "refused"),
        ((1, 64, 127, 4), (0, 3, 1, 2), "float32", "supported"),
        ((1, 64, 128, 4), (0, 3, 1, 2), "float32", "refused"),
        # NHWC [0, 2, 1, 3] swaps H and W: [0, 1, 3, 2] of NCHW: H % 16 | 8, H*W < 4096.
        ((1, 16, 255, 4), (0, 2, 1, 3), "int8", "supported"),
        ((1, 16, 256, 4), (0, 2, 1, 3), "int8", "refused"),
        ((1, 8, 255, 4), (0, 2, 1, 3), "int8", "refused"),
        ((1, 8, 255, 4), (0, 2, 1, 3), "float32", "supported"),
        # Rank 3 is no image: [1, 0, 2] is [0, 2, 1, 3] of [1, a, b, c]: H % 16, C*W < 8192.
        ((127, 16, 64), (1, 0, 2), "int8", "supported"),
        ((128, 16, 64), (1, 0, 2), "int8", "refused"),
        ((3, 3, 3, 3), (0, 1, 2, 3), "int8", "supported"),
    ],
)
def test_transposes_worked_by_hand(shape: tuple[int, ...], perm: tuple[int, ...], dtype: str, status: str) -> None:
    judged = judge(transpose(shape, *perm, dtype=dtype))
    assert judged.status == status, judged.reason


def test_every_permutation_of_four_axes_has_its_bounds() -> None:
    assert len({row.perm for row in RKNN.transposes}) == 24


def test_a_supported_op_stops_the_search_and_a_refused_one_shows_both_kernels() -> None:
    assert [j.kernel for j in verdicts(*mean((1, 7, 7, 4), 1, 2), RKNN, "rk3588")] == ["npu"]
    assert [j.kernel for j in verdicts(*mean((1, 9, 9, 4), 1, 2), RKNN, "rk3588")] == ["npu", "cpu_lane"]


@pytest.mark.parametrize(("dtype", "layout"), [("int8", "NC1HWC2/16"), ("float32", "NC1HWC2/8"), ("int32", "NHWC")])
def test_layout_goes_with_the_computed_type(dtype: str, layout: str) -> None:
    assert judge(unary(T((4,), dtype))).layout == layout


def test_float_models_are_said_to_run_in_float16() -> None:
    assert judge(unary(FLOAT)).reason == "becomes Relu on the NPU, computed in float16"


def test_weights_behind_a_constant_dequantize_are_constants() -> None:
    graph, op = single_op("DEQUANTIZE", [weights(6, 3, 3, 4, dtype="float16")], [T((6, 3, 3, 4), "float32")])
    assert judge((graph, op)).rule == "folded"


def test_per_channel_weights_are_supported() -> None:
    assert judge(weighted(IMAGE, weights(4, 1, 1, 4, scales=(0.1, 0.2, 0.3, 0.4)))).status == "supported"


def test_an_add_of_a_channel_vector_is_a_broadcast_per_channel() -> None:
    assert judge(add((1, 8, 8, 4), (4,), (1, 8, 8, 4))).status == "supported"


def test_the_table_is_sound() -> None:
    check_table(RKNN)
    assert len(RKNN.rules) == len({(*rule.maps_to, rule.kernel, rule.source, str(rule.require)) for rule in RKNN.rules})
