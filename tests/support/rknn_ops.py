# SPDX-License-Identifier: Apache-2.0
"""Ops for the RKNN table: such as its rows take, and such as break each of their requirements."""

from __future__ import annotations

from typing import Any

from edgedeploy_profiles import load_backend
from support.single_op import Made, T, conv, ints, mean, resize, single_op, transpose, unary, weighted, weights

RKNN = load_backend("rknn")
IMAGE, FLOAT = T((1, 8, 8, 4)), T((1, 8, 8, 4), "float32")


def dense(data: T, kernel: T, out: T, code: str = "FULLY_CONNECTED", bias: T | None = None, **options: Any) -> Made:
    inputs = [data, kernel, bias] if bias else [data, kernel]
    return single_op(code, inputs, [out], **options)


def depthwise(kernel: int, multiplier: int = 1, size: int = 8, filters: T | None = None, **options: Any) -> Made:
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "depth_multiplier": multiplier, **options}
    out = -(-size // max(options["stride_h"], 1))
    filters = filters or weights(1, kernel, kernel, 4 * multiplier)
    image, result = T((1, size, size, 4)), T((1, out, out, 4 * multiplier))
    return single_op("DEPTHWISE_CONV_2D", [image, filters, None], [result], **options)


def deconv(stride: int = 2, kernel: int = 3, image: T = IMAGE, filters: T | None = None, **options: Any) -> Made:
    filters = filters or weights(6, kernel, kernel, 4)
    out = [size * stride for size in image.shape[1:3]]
    options = {"padding": "SAME", "stride_h": stride, "stride_w": stride, **options}
    return single_op("TRANSPOSE_CONV", [ints(1, *out, 6), filters, image], [T((1, *out, 6))], **options)


def most(shape: tuple[int, ...], *axes: int) -> Made:
    return single_op("REDUCE_MAX", [T(shape), ints(*axes)], [T((1, shape[-1]))])


MOST = [((7, 7, 4), (1, 2)), ((8, 7, 4), (1, 2)), ((7, 7, 4), (1, 3)), ((4,), (0,))]
"""Shapes without the batch, and what is reduced: within the limits of a global pool, and outside each."""


def pool(code: str, kernel: int, padding: str = "VALID", image: T = IMAGE, stride: int = 1) -> Made:
    height, width = (size if padding == "SAME" else size + 1 - kernel for size in image.shape[1:3])
    out = T((1, -(-height // stride), -(-width // stride), image.shape[3]))
    options: dict[str, Any] = {"filter_height": kernel, "filter_width": kernel, "stride_h": stride, "stride_w": stride}
    return single_op(code, [image], [out], padding=padding, **options)


def with_parameters(code: str, data: T, *parameters: T, **options: Any) -> Made:
    return single_op(code, [data, *parameters], [data], **options)


def split(data: T) -> Made:
    return single_op("SPLIT", [T((), "int32", (3,)), data], [data])


def split_v(data: T) -> Made:
    return with_parameters("SPLIT_V", data, ints(2, 2), ints(3))


def slices(stride: int, batch: int = 1, begin: T | None = None, **options: Any) -> Made:
    image = T((batch, 8, 8, 4))
    return with_parameters(
        "STRIDED_SLICE", image, begin or ints(0, 0, 0, 0), ints(1, 8, 8, 4), ints(1, stride, 1, 1), **options
    )


def power(exponent: float, dtype: str = "float32") -> Made:
    return with_parameters("POW", T((1, 8, 8, 4), dtype), T((), "float32", (exponent,)))


def nearest(after: int, **options: Any) -> Made:
    image = T((1, after, after, 4))
    return single_op("RESIZE_NEAREST_NEIGHBOR", [IMAGE, ints(after, after)], [image], **options)


def lstm(state: bool = False, data: T | None = None, forget: T | None = None, **absent: T) -> Made:
    cell = T((1, 2), "float32", is_variable=state)
    gates = [forget, *[weights(2, 4, dtype="float32")] * 3]
    rest: list[T | None] = [absent.get("projection") if i == 16 else None for i in range(5, 18)]
    inputs = [data or T((1, 5, 4), "float32"), *gates, *rest, cell, cell]
    return single_op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [T((1, 5, 2), "float32")])


def select(code: str, data: T) -> Made:
    return single_op(code, [T(data.shape, "bool"), data, data], [data])


def compare(code: str) -> Made:
    return single_op(code, [FLOAT, FLOAT], [T(FLOAT.shape, "bool")])


WIDE = T((1, 8, 16400, 4))
GATE = weights(2, 4, dtype="float32")
BINARY = ("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "FLOOR_MOD", "EQUAL", "LESS", "LESS_EQUAL", "GREATER_EQUAL")
REPEATED = [T((2, 8, 8, 4), "float32"), T((1, 8, 8, 4), "float32")]
CASES: list[Made] = [
    # convolutions and matrix products
    conv(), conv(64, (33, 33)), conv(stride_h=8), conv(99, (33, 1)), conv(padding="VALID", dilation_h_factor=33),
    single_op("CONV_2D", [WIDE, weights(4, 3, 3, 4)], [WIDE]),
    single_op("CONV_2D", [WIDE, weights(4, 32, 1, 4)], [WIDE], padding="SAME"),
    single_op("CONV_2D", [T((1, 8)), weights(4, 1, 1, 4)], [IMAGE]),
    weighted(IMAGE, T((4, 1, 1, 4))), weighted(FLOAT, weights(4, 1, 1, 4)),
    single_op("CONV_2D", [IMAGE, weights(4, 31, 31, 4)], [T((1, 64, 64, 4))], padding="SAME", stride_h=7, stride_w=7),
    depthwise(3), depthwise(3, 2), depthwise(9), depthwise(33, 2), depthwise(3, stride_h=8, stride_w=8),
    depthwise(3, padding="VALID", dilation_h_factor=33), depthwise(8, dilation_w_factor=5),
    depthwise(3, filters=T((1, 3, 3, 4))), depthwise(3, filters=weights(1, 3, 3, 4, dtype="int16")),
    depthwise(3, size=16400),
    single_op("DEPTHWISE_CONV_2D", [T((1, 8)), weights(1, 1, 1, 4)], [IMAGE]),
    deconv(), deconv(3), deconv(9), deconv(2, 33), deconv(1, 31, padding="SAME"), deconv(2, filters=T((6, 3, 3, 4))),
    deconv(2, filters=weights(6, 3, 3, 4, dtype="int16")), deconv(2, image=WIDE),
    single_op("TRANSPOSE_CONV", [ints(1, 8), weights(6, 3, 3, 4), T((8, 4))], [IMAGE]),
    single_op("TRANSPOSE_CONV", [ints(1, 1, 1, 6), weights(6, 31, 31, 4), IMAGE], [T((1, 1, 1, 6))], padding="SAME"),
    dense(T((1, 4)), weights(3, 4), T((1, 3))), dense(IMAGE, weights(3, 256), T((1, 3))),
    dense(T((1, 4)), T((3, 4)), T((1, 3))), dense(IMAGE, T((3, 256)), T((1, 3))),
    dense(T((1, 2, 4)), weights(3, 4), T((1, 2, 3))), dense(T((1, 4)), weights(3, 4), T((1, 1, 3))),
    dense(T((1, 9000)), T((3, 9000)), T((1, 3))), dense(T((1, 4)), T((3, 4)), T((1, 3)), bias=ints(1, 2, 3)),
    dense(T((1, 4)), T((3, 4), "int16"), T((1, 3))), dense(T((1, 4)), weights(3, 4, dtype="int16"), T((1, 3))),
    dense(IMAGE, weights(3, 256, dtype="int16"), T((1, 3))), dense(IMAGE, weights(3, 256), T((1, 1, 3))),
    dense(T((1, 4)), weights(3, 4), T((1, 3)), weights_format="SHUFFLED4x16INT8"),
    dense(IMAGE, weights(3, 256), T((1, 3)), weights_format="SHUFFLED4x16INT8"),
    dense(T((2, 4)), T((4, 3)), T((2, 3)), "BATCH_MATMUL"), dense(T((4,)), T((4, 3)), T((3,)), "BATCH_MATMUL"),
    dense(T((2, 9000)), T((9000, 3)), T((2, 3)), "BATCH_MATMUL"),
    dense(T((2, 4)), T((4, 3), "float32"), T((2, 3)), "BATCH_MATMUL"),
    # element-wise
    *(with_parameters(code, data, data) for code in BINARY for data in (FLOAT, IMAGE)),
    *(single_op(code, REPEATED, REPEATED[:1]) for code in BINARY),
    compare("GREATER"), power(2.0), power(2.5), power(2.0, "int8"),
    *(select(code, data) for code in ("SELECT", "SELECT_V2") for data in (FLOAT, T((1, 8, 8, 4), "int16"))),
    with_parameters("PRELU", IMAGE, weights(1, 1, 4)), with_parameters("PRELU", IMAGE, T((1, 1, 4))),
    with_parameters("PRELU", IMAGE, weights(8, 8, 4)),
    unary(IMAGE, "SOFTMAX", beta=1.0), unary(FLOAT, "SOFTMAX", beta=2.0), unary(T((2, 9000)), "SOFTMAX"),
    unary(T((2, 8, 8, 9000)), "SOFTMAX"), unary(T((2, 8, 8, 4)), "LOG_SOFTMAX"),
    *(unary(data, code) for data in (IMAGE, FLOAT) for code in ("RELU", "SQRT", "LOG_SOFTMAX", "L2_NORMALIZATION")),
    # pools and reductions
    *(
        pool(code, *how)
        for code in ("MAX_POOL_2D", "AVERAGE_POOL_2D")
        for how in ((7,), (8,), (3, "SAME"), (7, "SAME"), (1, "VALID", T((1, 8, 8, 8193))), (1, "SAME", IMAGE, 9))
    ),
    single_op("MAX_POOL_2D", [T((1, 1, 1, 4))], [T((1, 12, 1, 4))], padding="SAME", filter_height=7, filter_width=7),
    single_op("MAX_POOL_2D", [T((8, 4))], [T((8, 4))], filter_height=2, filter_width=2),
    single_op("AVERAGE_POOL_2D", [T((8, 4))], [T((8, 4))], filter_height=2, filter_width=2),
    mean((1, 7, 7, 4), 1, 2), mean((1, 8, 7, 4), 1, 2), mean((1, 7, 7, 4), 1, 3), mean((7, 4), 0),
    mean((1, 7, 7, 8193), 1, 2), *(most((1, *sides), *axes) for sides, axes in MOST),
    # moving data
    transpose((16, 4), 1, 0), transpose((15, 4), 1, 0), transpose((1, 8, 8, 4), 0, 1, 2, 3),
    single_op("TRANSPOSE", [T((2, 3)), T((2,), "int32")], [T((3, 2))]),
    transpose((64, 64), 1, 0), transpose((512, 256), 1, 0),
    split(FLOAT), split(IMAGE), split_v(FLOAT), split_v(IMAGE),
    with_parameters("SLICE", IMAGE, ints(0, 0, 0, 0), ints(1, 8, 8, 4)),
    with_parameters("SLICE", IMAGE, T((4,), "int32"), ints(1, 8, 8, 4)),
    slices(1), slices(2), slices(2, 2), slices(1, begin=T((4,), "int32")), slices(1, new_axis_mask=1),
    *(with_parameters(code, IMAGE, ints(0, 0)) for code in ("PAD", "PADV2", "TILE", "BROADCAST_TO")),
    *(with_parameters(code, IMAGE, T((4,), "int32")) for code in ("PAD", "TILE", "BROADCAST_TO", "MIRROR_PAD")),
    with_parameters("MIRROR_PAD", IMAGE, ints(0, 0), mode="REFLECT"),
    with_parameters("MIRROR_PAD", IMAGE, ints(0, 0), mode="SYMMETRIC"),
    with_parameters("MIRROR_PAD", T((1, 8, 8177, 4)), ints(0, 0), mode="REFLECT"),
    single_op("BROADCAST_TO", [REPEATED[1], ints(2, 8, 8, 4)], REPEATED[:1]),
    with_parameters("GATHER", IMAGE, ints(0)), with_parameters("GATHER", IMAGE, T((), "int32")),
    with_parameters("GATHER", IMAGE, ints(0), batch_dims=1),
    nearest(16), nearest(12), nearest(16, align_corners=True),
    single_op("RESIZE_NEAREST_NEIGHBOR", [IMAGE, T((2,), "int32")], [T((1, 16, 16, 4))]),
    resize(4, 8, half_pixel_centers=True), resize(4, 8), resize(4, 10),
    *(unary(T((1, 8, 8, 4), dtype), code) for code in ("DEPTH_TO_SPACE", "PACK", "UNPACK", "REVERSE_V2")
      for dtype in ("int8", "float32")),
    single_op("CAST", [FLOAT], [T((1, 8, 8, 4), "float16")]), single_op("CAST", [FLOAT], [T((1, 8, 8, 4), "bool")]),
    # recurrent
    lstm(forget=GATE), lstm(state=True, forget=GATE), lstm(), lstm(data=T((6, 5, 4), "float32"), forget=GATE),
    lstm(forget=weights(2, 4)), lstm(data=T((1, 9000, 4), "float32"), forget=GATE), lstm(forget=GATE, projection=GATE),
    # what holds for every op
    *(unary(T((1, 8, 8, 4), dtype)) for dtype in ("int16", "uint8", "int32")), unary(T((1, 4), "int16"), "SQRT"),
    unary(T((1, 4), signature=(-1, 4))), unary(T((1, 0))), unary(T((1,) * 5)), unary(T((4,), scales=())),
    unary(T((2,), scales=(0.5, 0.25))), unary(T((4,), is_sparse=True)), conv(fused_activation_function="SIGN_BIT"),
    weighted(IMAGE, weights(4, 1, 1, 4)._replace(block_size=2)), single_op("RELU", [IMAGE], [T((1, 8, 8, 4), "int32")]),
    conv(8200), conv(4100),
]  # fmt: skip
COVERED = {made[1].code for made in CASES}
CASES += [unary(FLOAT, op) for rule in RKNN.rules for op in rule.maps_to if op not in COVERED]
