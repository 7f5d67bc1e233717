# SPDX-License-Identifier: Apache-2.0
"""Models of one op, or of a few, for which XNNPACK takes a buffer of each kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from edgedeploy_partitioner.model.build import Model, per_channel, per_tensor


def conv(
    size: int, depth: int, results: int, taps: int, *, stride: int = 1, dtype: str = "float32",
    code: str = "CONV_2D", made: int = 1,
) -> bytes:  # fmt: skip
    """A convolution with padding SAME; ``dtype`` is float32, int8, uint8, dynamic (int8 weights), loops (the same, of
    one scale) or float16 (weights)."""
    model = Model()
    g = model.subgraph()
    is_int8 = dtype in ("int8", "uint8")
    kind, quant = (dtype, per_tensor(0.05)) if is_int8 else ("float32", None)
    is_depthwise, is_up = code == "DEPTHWISE_CONV_2D", code == "TRANSPOSE_CONV"
    shape = (1, taps, taps, results) if is_depthwise else (results, taps, taps, depth)
    x = g.input((1, size, size, depth), kind, quant)
    bias = g.constant(np.zeros(results, np.int32 if is_int8 else np.float32), quant=_scales(results, 0.05, is_int8))
    if dtype in ("float32", "float16"):
        weights = g.constant(np.ones(shape, dtype))
        if dtype == "float16":
            weights = g.apply("DEQUANTIZE", [weights], shape)
    else:
        scales = per_tensor(0.01) if dtype in ("uint8", "loops") else _scales(results, 1.0, True, 3 * is_depthwise)
        weights = g.constant(np.ones(shape, np.uint8 if dtype == "uint8" else np.int8), quant=scales)
    out = size * stride if is_up else -(-size // stride)
    inputs = [g.constant(np.array([1, out, out, results], np.int32)), weights, x] if is_up else [x, weights, bias]
    more: dict[str, Any] = {"depth_multiplier": made} if is_depthwise else {}
    shape_out = (1, out, out, results)
    g.outputs(g.apply(code, inputs, shape_out, kind, quant, padding="SAME", stride_w=stride, stride_h=stride, **more))
    return model.build()


def _scales(results: int, unit: float, quantized: bool, axis: int = 0) -> Any:
    return per_channel([unit * 0.01 * (1 + i % 3) for i in range(results)], axis) if quantized else None


def dense(rows: int, depth: int, results: int, dtype: str) -> bytes:
    model = Model()
    g = model.subgraph()
    is_int8 = dtype == "int8"
    kind, quant = ("int8", per_tensor(0.05)) if is_int8 else ("float32", None)
    if dtype == "float32":
        weights = g.constant(np.ones((results, depth), np.float32))
    else:
        kept = "int4" if dtype == "int4" else "int8"
        weights = g.constant(np.ones((results, depth), np.int8), kept, per_tensor(0.01))
    bias = g.constant(
        np.zeros(results, np.int32 if is_int8 else np.float32), quant=per_tensor(5e-4) if is_int8 else None
    )
    g.outputs(
        g.apply("FULLY_CONNECTED", [g.input((rows, depth), kind, quant), weights, bias], (rows, results), kind, quant)
    )
    return model.build()


def pool(code: str, size: int, taps: int, stride: int) -> bytes:
    model = Model()
    g = model.subgraph()
    out = -(-size // stride)
    options: dict[str, Any] = {
        "padding": "SAME",
        "stride_w": stride,
        "stride_h": stride,
        "filter_width": taps,
        "filter_height": taps,
    }
    g.outputs(g.apply(code, [g.input((1, size, size, 8))], (1, out, out, 8), **options))
    return model.build()


def resize() -> bytes:
    model = Model()
    g = model.subgraph()
    g.outputs(
        g.apply("RESIZE_BILINEAR", [g.input((1, 16, 16, 8)), g.constant(np.array([65, 65], np.int32))], (1, 65, 65, 8))
    )
    return model.build()


def chain(skip: bool) -> bytes:
    """Convolutions one after the other, so that tensors inside count; with ``skip`` one of them lives longer."""
    model = Model()
    g = model.subgraph()
    same: dict[str, Any] = {"padding": "SAME", "stride_w": 1, "stride_h": 1}

    def pointwise(x: int, results: int) -> int:
        weights = g.constant(np.ones((results, 1, 1, 8), np.float32))
        bias = g.constant(np.zeros(results, np.float32))
        return g.apply("CONV_2D", [x, weights, bias], (1, 64, 64, results), **same)

    x = g.input((1, 64, 64, 8))
    steps = []
    for _ in range(4):
        x = g.apply("ABS", [pointwise(x, 8)], (1, 64, 64, 8))
        steps.append(x)
    g.outputs(pointwise(g.apply("ADD", [x, steps[0]], (1, 64, 64, 8)) if skip else x, 4))
    return model.build()


def matmul(constant: bool) -> bytes:
    model = Model()
    g = model.subgraph()
    right = g.constant(np.ones((4, 120, 200), np.float32)) if constant else g.input((4, 120, 200))
    g.outputs(g.apply("BATCH_MATMUL", [g.input((4, 30, 120)), right], (4, 30, 200)))
    return model.build()


SINGLE: dict[str, Callable[[], bytes]] = {
    **{f"conv {t}": partial(conv, 32, 16, 100, 3, dtype=t) for t in ("float32", "int8", "dynamic", "float16")},
    "conv few results": lambda: conv(32, 16, 9, 3),
    "conv 1x1": lambda: conv(32, 300, 201, 1),
    "conv stride": lambda: conv(31, 3, 24, 5, stride=2, dtype="int8"),
    **{f"depthwise {t}": partial(conv, 32, 70, 70, 3, dtype=t, code="DEPTHWISE_CONV_2D") for t in ("float32", "int8")},
    "depthwise 5x5 stride": lambda: conv(32, 70, 70, 5, stride=2, code="DEPTHWISE_CONV_2D"),
    "depthwise 7x7": lambda: conv(32, 20, 20, 7, code="DEPTHWISE_CONV_2D"),
    "depthwise two for one": lambda: conv(32, 20, 40, 3, code="DEPTHWISE_CONV_2D", made=2),
    **{
        f"transpose conv {t}": partial(conv, 33, 16, 24, 3, stride=2, dtype=t, code="TRANSPOSE_CONV")
        for t in ("float32", "int8", "dynamic", "float16")
    },
    **{f"dense {t}": partial(dense, 8, 401, 301, t) for t in ("float32", "int8", "dynamic")},
    "max pool": lambda: pool("MAX_POOL_2D", 64, 3, 2),
    "average pool": lambda: pool("AVERAGE_POOL_2D", 64, 3, 1),
    "resize": resize,
    "matmul constant": lambda: matmul(True),
    "matmul": lambda: matmul(False),
    "chain": lambda: chain(False),
    "chain with a skip": lambda: chain(True),
}
