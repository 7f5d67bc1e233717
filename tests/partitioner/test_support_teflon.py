# SPDX-License-Identifier: Apache-2.0
"""The tables of Mesa's Teflon delegate on rocket and etnaviv: every row and every requirement decides an op."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedeploy_partitioner.model.graph import Quantization
from edgedeploy_partitioner.support.verdicts import NO_RULE, Judged, check_table, verdicts
from edgedeploy_profiles import load_backend
from edgedeploy_profiles.schema import Fusion
from support.deciding import judged_on, undecided
from support.single_op import Made, T, ints, single_op, transpose, unary, weights

ROCKET, ETNAVIV = load_backend("teflon-rocket"), load_backend("teflon-etnaviv")
BIAS, NO_ACTIVATION = ints(1, 2, 3, 4, 5, 6), {"fused_activation_function": "NONE"}
RELU6: dict[str, Any] = {"fused_activation_function": "RELU6"}
TO_6 = T((1, 16, 16, 6), "uint8", scales=(0.0235294122248888,))  # 6/255 in single precision


def conv(
    size: tuple[int, int] = (16, 16), kernel: tuple[int, int] = (3, 3), dtype: str = "uint8", out: T | None = None,
    data: T | None = None, filters: T | None = None, bias: T | None = BIAS, code: str = "CONV_2D", **options: Any,
) -> Made:  # fmt: skip
    """SAME, from 6 to 6 channels, so that it may also be depthwise."""
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1, **NO_ACTIVATION, **options}
    data = data or T((1, *size, 6), dtype)
    first, last = (1, 6) if code == "DEPTHWISE_CONV_2D" else (6, 6)
    filters = filters or weights(first, *kernel, last, dtype=dtype)
    height, width = (-(-s // options[f"stride_{axis}"]) for s, axis in zip(size, "hw", strict=True))
    return single_op(code, [data, filters, bias], [out or T((1, height, width, 6), dtype)], **options)


def dense(
    depth: int = 8, rows: int = 1, data: T | None = None, filters: T | None = None, bias: T | None = BIAS,
    zero_point: int = 0, **options: Any,
) -> Made:  # fmt: skip
    options = {"weights_format": "DEFAULT", **NO_ACTIVATION, **options}
    data = data or T((rows, depth), "uint8")
    filters = filters or weights(6, depth, dtype="uint8")
    out = T((rows, 6), "uint8", zero_point=zero_point)
    return single_op("FULLY_CONNECTED", [data, filters, bias], [out], **options)


def binary(code: str, a: T, b: T, out: T | None = None, **options: Any) -> Made:
    return single_op(code, [a, b], [out or a], **NO_ACTIVATION | options)


def joined(axis: int, count: int = 2, rank: int = 4, **options: Any) -> Made:
    part = T((1, 4, 4, 4)[-rank:], "uint8")
    return single_op("CONCATENATION", [part] * count, [part], axis=axis, **NO_ACTIVATION | options)


def split(axis: T, count: int = 2, rank: int = 4) -> Made:
    part = T((1, 4, 4, 4)[-rank:], "uint8")
    return single_op("SPLIT", [axis, part], [part] * count)


def pad(*paddings: int, data: T | None = None) -> Made:
    return single_op("PAD", [data or IMAGE, ints(*paddings)], [IMAGE])


def reshape(data: T, shape: T | None = ints(1, 4)) -> Made:  # noqa: B008
    return single_op("RESHAPE", [data, shape], [T((1, 4), "uint8")])


def add_after(*order: str, fused: str = "NONE") -> Made:
    """An ADD of x and y, whose makers come in that order; ``fused`` is on that of x."""
    image = T((1, 16, 16, 6), "uint8")
    graph, add = single_op("ADD", [image, image], [image], **NO_ACTIVATION)
    [sub] = graph.subgraphs
    made = dict(zip("xy", add.inputs, strict=True))
    options = {"x": {"fused_activation_function": fused}, "y": NO_ACTIVATION}
    makers = [
        replace(add, index=i, code="CONV_2D", inputs=(), outputs=(made[o],), options=options[o])
        for i, o in enumerate(order)
    ]
    add = replace(add, index=len(makers))
    return replace(graph, subgraphs=(replace(sub, ops=(*makers, add)),)), add


def mismatched(code: str = "RELU") -> Made:
    """An op beside a tensor of two scales and one zero point."""
    graph, op = unary(IMAGE, code)
    [sub] = graph.subgraphs
    other = replace(sub.tensors[0], id=9, quantization=Quantization((0.5, 0.25), (0,), 0))
    return replace(graph, subgraphs=(replace(sub, tensors=(*sub.tensors, other)),)), op


IMAGE, VECTOR = T((1, 16, 16, 4), "uint8"), T((1, 4), "uint8")
CHANNELS = weights(6, 3, 3, 6, dtype="uint8", scales=(0.5, 0.25))
GENERAL = [
    conv(data=T((1, 16, 16, 6), "uint8", signature=(1, -1, -1, 6))), conv(data=T((1, 0, 16, 6), "uint8")),
    conv(data=T((1, 1, 16, 16, 6), "uint8")), conv(data=T((2, 16, 16, 6), "uint8")),
    conv(dtype="int8"), conv(dtype="int16"), conv(data=T((1, 16, 16, 6), "uint8", scales=())),
    conv(data=T((1, 16, 16, 6), "uint8", scales=(0.5, 0.25))),
    conv(filters=weights(6, 3, 3, 6, dtype="uint8")._replace(block_size=2)),
    conv(filters=weights(6, 3, 3, 6, dtype="uint8")._replace(is_sparse=True)),
    conv(fused_activation_function="TANH"), conv(**RELU6), conv(size=(16, 8)), conv(size=(8, 8)),
    conv(fused_activation_function="RELU", out=T((1, 16, 16, 6), "uint8", zero_point=3)),
]  # fmt: skip
CONVOLUTIONS = [
    made
    for code in ("CONV_2D", "DEPTHWISE_CONV_2D")
    for made in (
        conv(code=code),
        conv(code=code, dilation_h_factor=2, dilation_w_factor=2),
        conv(code=code, filters=CHANNELS),
        conv(code=code, stride_h=2),
        conv(code=code, stride_h=3, stride_w=3),
        conv(code=code, kernel=(16, 16)),
        conv(code=code, kernel=(3, 1)),
        conv(code=code, kernel=(7, 7)),
        conv(code=code, size=(8192, 1), kernel=(1, 1)),
        conv(code=code, bias=None),
        conv(code=code, filters=T((6, 3, 3, 6), "uint8")),
        conv(code=code, filters=weights(6, 3, 3, 3, dtype="uint8")),
        conv(code=code, data=T((16, 6), "uint8")),
        conv(code=code, depth_multiplier=2),
        conv(code=code, data=T((1, 16, 16, 1), "uint8"), filters=weights(1, 3, 3, 1, dtype="uint8")),
    )
]
SUMS = [
    made
    for code in ("ADD", "SUB")
    for made in (
        binary(code, IMAGE, IMAGE),
        binary(code, IMAGE, weights(1, 16, 16, 4, dtype="uint8")),
        binary(code, IMAGE, VECTOR),
        binary(code, VECTOR, VECTOR),
        binary(code, IMAGE, IMAGE, T(IMAGE.shape, "uint8", zero_point=7), fused_activation_function="RELU"),
    )
]
ROCKET_CASES = [
    *GENERAL, *CONVOLUTIONS, *SUMS, add_after("x", "y"), add_after("y", "x", fused="RELU"), mismatched("ADD"),
    add_after("y", "x"),
]  # fmt: skip
ETNAVIV_CASES = [
    *GENERAL, *CONVOLUTIONS, *SUMS, mismatched(),
    *(unary(IMAGE, code) for code in ("RELU", "ABS", "LOGISTIC")),
    dense(), dense(1280), dense(rows=2), dense(bias=None), dense(filters=T((6, 8), "uint8")),
    dense(filters=weights(6, 8, dtype="uint8", scales=(0.5, 0.25))), dense(weights_format="SHUFFLED4x16INT8"),
    dense(data=T((1, 2, 4), "uint8")), dense(fused_activation_function="RELU", zero_point=3),
    joined(3), joined(1), joined(-1, 11), joined(2, rank=3), joined(3, fused_activation_function="RELU"),
    split(ints(3)), split(ints(1)), split(ints(3), 11), split(ints(3), rank=3),
    pad(0, 0, 2, 2, 2, 2, 0, 0), pad(0, 0, 3, 0, 0, 0, 0, 0), pad(0, 0, 1, 1, data=VECTOR),
    transpose((1, 4, 4, 4), 0, 3, 1, 2, dtype="uint8"), transpose((1, 4, 4, 4), 0, 2, 1, 3, dtype="uint8"),
    transpose((4, 4), 1, 0, dtype="uint8"),
    reshape(VECTOR), reshape(IMAGE), reshape(VECTOR, None), reshape(VECTOR, T((2,), "int32")),
]  # fmt: skip


def test_every_row_and_every_requirement_of_rocket_decides_an_op() -> None:
    assert not list(undecided(ROCKET, ROCKET_CASES))


def test_every_row_and_every_requirement_of_etnaviv_decides_an_op() -> None:
    assert not list(undecided(ETNAVIV, ETNAVIV_CASES))


class Told(NamedTuple):
    made: Made
    reason: str
    rule: str
    status: str = "refused"
    soc: str = ""


SIGN = "uint8 data and weights (every byte is shifted by 128, which is only right where it has no sign)"
ONE_SCALE = "one scale for all weights and one for all biases (per tensor, not per channel)"
CLAMP = "a fused RELU or RELU6 whose {} end is already that of the output's quantised type"
ON_ROCKET = [
    Told(conv(), "becomes convolution on the NPU", "row", "supported"),
    Told(conv(**RELU6, out=TO_6), "becomes convolution on the NPU", "row", "supported"),
    Told(add_after("y", "x"), "becomes sum in a convolution on the NPU", "row", "supported"),
    Told(conv(dtype="int8"), f"input 0 is int8; Mesa rocket needs {SIGN}", "unsigned_bytes"),
    Told(conv(filters=CHANNELS), f"weight has 2 scales; convolution needs {ONE_SCALE}", "per_tensor_weights"),
    Told(conv(stride_h=2), "stride 2x1; convolution needs the same stride along height and width", "equal_strides"),
    Told(conv(dilation_h_factor=2), "dilation 2x1; convolution needs a dilation of 1", "dilation"),
    Told(
        conv(**RELU6),
        f"fused RELU6 on an output that goes up to 127.5; Mesa rocket needs {CLAMP.format('lower or upper')}",
        "clamp_implied",
    ),
    Told(conv(size=(16, 8)), "input 0 is 16x8; unknown whether Mesa rocket takes that", "square_images", "unknown"),
    Told(conv(size=(8, 8)), "input H is 8, W is 8; unknown whether Mesa rocket takes that", "other_sizes", "unknown"),
    Told(conv(size=(7, 7)), "becomes convolution on the NPU", "row", "supported"),
    Told(
        binary("ADD", IMAGE, weights(1, 16, 16, 4, dtype="uint8")),
        "input 1 is constant; sum in a convolution needs computed data (no constant) as input 0 or 1",
        "computed_inputs",
    ),
    Told(
        add_after("x", "y"),
        "input 0 comes from op 0, input 1 only from op 1; sum in a convolution needs input 1 to be there before the op "
        "that makes input 0",
        "addend_ready",
    ),
    Told(
        add_after("y", "x", fused="RELU"),
        "input 0 is made with a fused RELU; sum in a convolution needs an input 0 that is made without a fused "
        "activation, which would come before the sum",
        "linear_host",
    ),
    Told(
        binary("ADD", IMAGE, IMAGE),
        "no op makes input 1; unknown whether Mesa rocket takes that",
        "addend_from",
        "unknown",
    ),
    Told(unary(IMAGE, "MAX_POOL_2D"), "the driver only runs convolutions and sums inside them", "refusal"),
    Told(unary(IMAGE, "SOFTMAX"), "the Mesa rocket 25.3 table has no row for SOFTMAX", NO_RULE),
]
ON_ETNAVIV = [
    Told(conv(dtype="int8"), "becomes convolution on the NPU", "row", "supported"),
    Told(conv(stride_h=3, stride_w=3), "stride 3x3; convolution needs strides of 1-2", "strides"),
    Told(conv(kernel=(7, 7)), "padding 3+3 by 3+3; unknown whether Mesa etnaviv takes that", "padding", "unknown"),
    Told(binary("SUB", IMAGE, IMAGE), "becomes subtraction on the NPU", "row", "supported", "imx8mp"),
    Told(
        binary("SUB", IMAGE, IMAGE),
        "the driver only subtracts on NN core version 8, this NPU has version 7",
        "refusal",
        soc="a311d",
    ),
    Told(
        dense(1280), "depth 1280; fully connected layer needs a depth (the size summed over) of at most 1279",
        "max_matmul_depth",
    ),
    Told(
        pad(0, 0, 3, 0, 0, 0, 0, 0),
        "paddings [0, 0, 3, 0, 0, 0, 0, 0]; padding needs constant paddings of at most 2 on each side, and none of the "
        "batch",
        "max_padding",
    ),
    Told(
        split(ints(1)), "axis 1; split needs to split along axis 3 or -1, written like that in the file", "split_axis"
    ),
    Told(joined(1), "axis is 1; concatenation needs options axis 3 or -1, fused_activation_function NONE", "options"),
    Told(
        reshape(IMAGE),
        "may become reshaping on the NPU (nothing found says whether an image comes out in TFLite's order)",
        "row",
        "unknown",
    ),
    Told(
        mismatched(),
        "tensor 9 has 2 scales and 1 zero point; unknown whether Mesa etnaviv takes that",
        "paired_zero_points",
        "unknown",
    ),
    Told(unary(IMAGE, "MUL"), "the driver does not run it", "refusal"),
]  # fmt: skip


@pytest.mark.parametrize("row", ON_ROCKET, ids=lambda row: f"{row.made[1].code}-{row.rule}")
def test_what_rocket_says(row: Told) -> None:
    _compare(judged_on(row.made, ROCKET, "rk3588"), row)


@pytest.mark.parametrize("row", ON_ETNAVIV, ids=lambda row: f"{row.made[1].code}-{row.rule}")
def test_what_etnaviv_says(row: Told) -> None:
    for soc in [row.soc] if row.soc else ETNAVIV.socs:
        _compare(judged_on(row.made, ETNAVIV, soc), row)


def _compare(judged: Judged, row: Told) -> None:
    assert (judged.status, judged.rule, judged.reason) == (row.status, row.rule, row.reason)
    assert (judged.layout, judged.sdk_version) == ("NHWC", "25.3")


@pytest.mark.parametrize("table", [ROCKET, ETNAVIV], ids=lambda table: table.name)
def test_every_op_that_is_refused_by_name(table: Any) -> None:
    check_table(table)
    for row in table.refusals:
        for soc in row.socs or table.socs:
            assert {verdicts(*unary(IMAGE, op), table, soc)[0].rule for op in row.ops} == {"refusal"}


def test_a_sum_only_runs_inside_the_convolution_of_its_input_0() -> None:
    fusion = judged_on(add_after("y", "x"), ROCKET, "rk3588").fusion
    assert fusion == Fusion(("CONV_2D", "DEPTHWISE_CONV_2D"), required=True, inputs=(0,))


@given(zero=st.integers(0, 255), scale=st.floats(2**-16, 1, width=32), fused=st.sampled_from(["RELU", "RELU6"]))
def test_rocket_takes_a_clamp_exactly_where_it_changes_nothing(zero: int, scale: float, fused: str) -> None:
    """Against the definition: clamp every value that the output can hold."""
    held = [scale * (q - zero) for q in range(256)]
    most = 6.000001 if fused == "RELU6" else max(held)  # single precision: 255 * (6/255) is a little more than 6
    changes = any(not 0 <= value <= most for value in held)
    out = T((1, 16, 16, 6), "uint8", scales=(scale,), zero_point=zero)
    made = conv(out=out, fused_activation_function=fused)
    assert (judged_on(made, ROCKET, "rk3588").status == "supported") == (not changes)
