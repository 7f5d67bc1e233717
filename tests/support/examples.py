# SPDX-License-Identifier: Apache-2.0
"""An ordinary op of each kind, in a given element type."""

from __future__ import annotations

from typing import Any

from support.single_op import Made, T, ints, single_op, weights

IMAGE = (1, 8, 8, 4)
_WINDOW: dict[str, Any] = {
    "padding": "SAME",
    "stride_h": 1,
    "stride_w": 1,
    "dilation_h_factor": 1,
    "dilation_w_factor": 1,
}
_BINARY = (
    "ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "POW", "FLOOR_DIV", "FLOOR_MOD", "SQUARED_DIFFERENCE", "ADD_N",
    "LOGICAL_AND", "LOGICAL_OR", "EMBEDDING_LOOKUP", "HASHTABLE_LOOKUP",
)  # fmt: skip
_COMPARING = ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
_REDUCING = ("MEAN", "SUM", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
_WITH_PARAMETERS = {
    "BROADCAST_TO": [ints(*IMAGE)], "CUMSUM": [ints(1)], "EXPAND_DIMS": [ints(0)], "GATHER": [ints(0, 1)],
    "GATHER_ND": [ints(0, 1)], "PAD": [ints(0, 0)], "MIRROR_PAD": [ints(0, 0)], "RESHAPE": [ints(*IMAGE)],
    "RESIZE_BILINEAR": [ints(8, 8)], "RESIZE_NEAREST_NEIGHBOR": [ints(8, 8)], "REVERSE_V2": [ints(1)],
    "SLICE": [ints(0, 0, 0, 0), ints(*IMAGE)], "SPACE_TO_BATCH_ND": [ints(2, 2), ints(0, 0, 0, 0)],
    "BATCH_TO_SPACE_ND": [ints(2, 2), ints(0, 0, 0, 0)], "SPLIT_V": [ints(2, 2), ints(3)],
    "STRIDED_SLICE": [ints(0, 0, 0, 0), ints(*IMAGE), ints(1, 1, 1, 1)], "TILE": [ints(1, 1, 1, 1)],
    "TOPK_V2": [ints(2)], "TRANSPOSE": [ints(0, 2, 1, 3)],
}  # fmt: skip
_BIAS = {"float32": "float32", "float16": "float16"}


def example(code: str, dtype: str, is_global: bool = False) -> Made:
    """One op ``code`` on data of ``dtype``; a pool over the whole image with ``is_global``."""
    data = T(IMAGE, dtype)
    if code in _BINARY:
        return single_op(code, [data, data], [data])
    if code in _COMPARING:
        return single_op(code, [data, data], [T(IMAGE, "bool")])
    if code in _REDUCING:
        return single_op(code, [data, ints(1, 2)], [T((1, 4), dtype)])
    if code in _WITH_PARAMETERS:
        return single_op(code, [data, *_WITH_PARAMETERS[code]], [data])
    if code.endswith("POOL_2D"):
        side, left = (8, 1) if is_global else (2, 4)
        sizes: dict[str, Any] = {"filter_height": side, "filter_width": side, "stride_h": 2, "stride_w": 2}
        return single_op(code, [data], [T((1, left, left, 4), dtype)], padding="VALID", **sizes)
    return _multiplying(code, dtype) or _others(code, data) or single_op(code, [data], [data])


def _multiplying(code: str, dtype: str) -> Made | None:
    data, bias = T(IMAGE, dtype), weights(6, dtype=_BIAS.get(dtype, "int32"))
    if code == "CONV_2D":
        return single_op(code, [data, weights(6, 3, 3, 4, dtype=dtype), bias], [T((1, 8, 8, 6), dtype)], **_WINDOW)
    if code == "DEPTHWISE_CONV_2D":
        inputs = [data, weights(1, 3, 3, 4, dtype=dtype), bias]
        return single_op(code, inputs, [data], depth_multiplier=1, **_WINDOW)
    if code == "TRANSPOSE_CONV":
        inputs = [ints(1, 8, 8, 6), weights(6, 3, 3, 4, dtype=dtype), data]
        return single_op(code, inputs, [T((1, 8, 8, 6), dtype)], **_WINDOW)
    if code == "CONV_3D":
        inputs = [T((1, 8, 8, 8, 4), dtype), weights(3, 3, 3, 4, 6, dtype=dtype), bias]
        return single_op(code, inputs, [T((1, 8, 8, 8, 6), dtype)], **_WINDOW, dilation_d_factor=1)
    if code == "FULLY_CONNECTED":
        inputs = [T((1, 4), dtype), weights(6, 4, dtype=dtype), bias]
        return single_op(code, inputs, [T((1, 6), dtype)], weights_format="DEFAULT")
    if code == "BATCH_MATMUL":
        return single_op(code, [T((2, 4), dtype), T((4, 3), dtype)], [T((2, 3), dtype)])
    if code == "UNIDIRECTIONAL_SEQUENCE_LSTM":
        gates = [weights(4, 4, dtype=dtype)] * 8
        cell = T((1, 4), "int16" if dtype in ("int8", "uint8") else dtype)
        step = T((1, 5, 4), dtype)
        return single_op(code, [step, *gates, *[None] * 3, *[bias] * 4, *[None] * 2, T((1, 4), dtype), cell], [step])
    if code == "BIDIRECTIONAL_SEQUENCE_LSTM":
        gates = [weights(4, 4, dtype=dtype)] * 8
        one_way = [*gates, *[None] * 3, *[bias] * 4, *[None] * 2]
        step, state = T((1, 5, 4), dtype), T((1, 4), dtype)
        return single_op(code, [step, *one_way, *one_way, *[state] * 4, *[None] * 9], [step, step])
    return None


def _others(code: str, data: T) -> Made | None:
    dtype, scalar = data.dtype, T((), "float32", (1.0,))
    if code in ("ARG_MAX", "ARG_MIN"):
        return single_op(code, [data, ints(3)], [T((1, 8, 8), "int32")])
    if code in ("SELECT", "SELECT_V2"):
        return single_op(code, [T(IMAGE, "bool"), data, data], [data])
    if code == "PRELU":
        return single_op(code, [data, weights(1, 1, 4, dtype=dtype)], [data])
    if code == "PADV2":
        return single_op(code, [data, ints(0, 0), weights(1, dtype=dtype)], [data])
    if code == "SPLIT":
        return single_op(code, [T((), "int32", (3,)), data], [data])
    if code == "PACK":
        return single_op(code, [data, data], [T((2, *IMAGE), dtype)], axis=0)
    if code == "ONE_HOT":
        return single_op(code, [T((4,), "int32"), ints(3), scalar, scalar], [T((4, 3), "float32")])
    if code == "FILL":
        return single_op(code, [ints(*IMAGE), data], [data])
    if code == "SHAPE":
        return single_op(code, [data], [T((4,), "int32")])
    if code == "QUANTIZE":
        return single_op(code, [T(IMAGE, "float32")], [T(IMAGE)])
    if code == "DEQUANTIZE":
        return single_op(code, [T(IMAGE)], [T(IMAGE, "float32")])
    return None
