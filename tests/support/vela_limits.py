# SPDX-License-Identifier: Apache-2.0
"""Ops on both sides of each limit of Arm's Vela, and ones that break its rules on types, scales and parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from support.single_op import T, ints
from support.vela_cases import (
    IMAGE,
    UNARY,
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
    seeded,
    strided,
    transpose,
    transposed,
    unary,
)

_LONG = 65537
_SMALL = 10_000
_POOLS = ("AVERAGE_POOL_2D", "MAX_POOL_2D")
_RESIZES = ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
_MANY = (0.1, 0.2, 0.3, 0.4)
_OPTIONS: dict[str, dict[str, Any]] = {"LEAKY_RELU": {"alpha": 0.1}, "SOFTMAX": {"beta": 1.0}}
Shape = tuple[int, ...]
_MEANS: tuple[tuple[Shape, Shape], ...] = (
    ((1, 4096, 1, 2), (1,)), ((1, 4097, 1, 2), (1,)), ((1, 1, 1, 4097), (3,)), ((1, 8, 8, 4), (3,)),
    ((1, 8, 1, 4), (3,)), ((8, 4), (1,)), ((8, 8, 4), (2,)), ((2, 8, 8, 4), (1, 2)), ((1, 2, 8, 8, 4), (2, 3)),
    ((1, 2, 2, _LONG), (1, 2)),
)  # fmt: skip
_SUMS: tuple[tuple[Shape, int], ...] = (
    ((1, 1, 2, _LONG), 3), ((1, _LONG, 1, 2), 1), ((1, 65536, 1, 2), 1), ((1, 3, 300, 300), 1),
    ((300, 300, 3, 3), 2)
)  # fmt: skip
_ARG_MAXES: tuple[tuple[Shape, int], ...] = (
    ((1, 8, 8, 127), 3),
    ((1, 8, 8, 128), -1),
    (IMAGE, 2),
    ((2, 8, 8, 4), 3),
    ((9, 10), 1),
    ((10,), 0),
)  # fmt: skip
_PERMUTED: tuple[tuple[Shape, Shape], ...] = (
    ((65536, 4), (1, 0)), ((_LONG, 4), (1, 0)), ((1, 2, 2, _LONG), (0, 2, 1, 3)), ((2, 40000, 2, 4), (0, 2, 1, 3)),
    ((2, 256, 256, 4), (1, 2, 3, 0)), ((2, 256, 257, 4), (1, 2, 3, 0)), ((1, 1, 1, 70000), (0, 1, 2, 3)),
    ((1, 300, 300, 4), (0, 3, 2, 1)), ((1, 300, 300, 4), (3, 2, 1, 0)),
    ((2, 3, 1, 2, 1, 2, 1, 4), (1, 0, *range(2, 8))),
    ((2, 3, 1, 2, 1, 2, 1, 1, 4), (1, 0, *range(2, 9))),
)  # fmt: skip
_PERMUTED_INT32: tuple[tuple[Shape, Shape], ...] = (
    ((1, 2, 2, 16384), (0, 2, 1, 3)), ((1, 2, 2, 16385), (0, 2, 1, 3)), ((2, 8, 6, 4), (0, 2, 1, 3)),
    ((1, 1, 1, 32768), (0, 1, 2, 3)), ((1, 1, 1, 32769), (0, 1, 2, 3)), ((2, 32768, 2, 4), (0, 1, 3, 2)),
    ((2, 33000, 2, 4), (0, 1, 3, 2)), ((1, 8, 6, 4), (0, 3, 1, 2)), ((1, 1, 2, 2, 2), (0, 1, 2, 3, 4)),
    ((8, 6), (1, 0)),
)  # fmt: skip


def limits() -> Iterator[VelaCase]:
    yield from _convolutions()
    yield from _matrices()
    yield from _pools()
    yield from _elementwise()
    yield from _reductions()
    yield from _moving()
    yield from _recurrent()


def spoiled() -> Iterator[VelaCase]:
    """For each op one case of int8 whose data is then of another type, or has other scales or zero points."""
    first: dict[str, VelaCase] = {}
    for case in (*limits(), *seeded()):
        tensors = [t for t in (*case.inputs, *case.outputs) if t]
        if tensors[-1].dtype == "int8" and all(math.prod(t.shape) <= _SMALL for t in tensors):
            first.setdefault(case.code, case)
    for case in first.values():
        for what, change in _CHANGES.items():
            inputs = [_changed(t, change) if t else None for t in case.inputs]
            outputs = [_changed(t, change) for t in case.outputs]
            yield case._replace(name=f"{case.name}, then {what}", inputs=inputs, outputs=outputs)
        wide = [t._replace(dtype="int16") if t and t.constant and t.dtype == "int8" else t for t in case.inputs]
        yield case._replace(name=f"{case.name}, then constants of int16", inputs=wide)
        if case.code in _BIASED:
            position, depth = _BIASED[case.code], case.outputs[0].shape[-1]
            for what, bias in (
                ("int16", _bias(depth, dtype="int16")),
                ("a column", _bias(depth, 1)),
                ("2**40", _bias(depth, dtype="int64", value=(2**40,) * depth)),
                ("computed", T((depth,), "int32", scales=(0.25,))),
            ):
                biased = [*case.inputs[:position], bias]
                yield case._replace(name=f"{case.name}, then bias {what}", inputs=biased)
        unknown = [t._replace(value=None) if t and t.value is not None else t for t in case.inputs]
        yield case._replace(name=f"{case.name}, then computed parameters", inputs=unknown)


_BIASED = {"CONV_2D": 2, "DEPTHWISE_CONV_2D": 2, "FULLY_CONNECTED": 2, "TRANSPOSE_CONV": 3}
_CHANGES: dict[str, dict[str, Any]] = {
    "without scales": {"scales": ()}, "scales per channel": {"scales": _MANY},
    "zero points of -1": {"dtype": "uint8", "zero_point": -1}, "of int16": {"dtype": "int16"},
    "of int32": {"dtype": "int32", "scales": ()}, "of int64": {"dtype": "int64", "scales": ()},
}  # fmt: skip


def _changed(tensor: T, change: dict[str, Any]) -> T:
    is_data = tensor.dtype == "int8" and not tensor.constant and tensor.value is None
    return tensor._replace(**change) if is_data else tensor


def _bias(*shape: int, dtype: str = "int32", value: tuple[float, ...] | None = None) -> T:
    return T(shape, dtype, value, constant=True, scales=(0.25,))


def _convolutions() -> Iterator[VelaCase]:
    for dtype in ("int8", "uint8", "int16", "int32", "float32"):
        yield conv(f"of {dtype}", dtype=dtype)
    yield conv("to int16", out="int16")
    yield conv("to int32", out="int32")
    yield conv("weights of uint8", weights=const(6, 3, 3, 4, dtype="uint8"))
    yield conv("weights of int4", weights=const(6, 3, 3, 4, dtype="int4"))
    yield conv("weights of int16", weights=const(6, 3, 3, 4, dtype="int16"))
    yield conv("computed weights", weights=data(6, 3, 3, 4))
    yield conv("weights without scale", weights=const(6, 3, 3, 4, scales=()))
    yield conv("scales per channel", weights=const(6, 3, 3, 4, scales=(*_MANY, 0.5, 0.6)))
    yield conv("wide and tall kernel", (1, 70, 70, 4), kernel=(66, 66))
    yield conv("stride 4 padded", (1, 9, 9, 4), kernel=(5, 5), stride=(4, 4))
    yield conv("stride 4 dilated", (1, 20, 20, 4), stride=(4, 4), dilation=(2, 2), padding="VALID")
    yield conv("stride 4", (1, 20, 20, 4), stride=(4, 4), padding="VALID")
    yield conv("stride 4 to one place", (1, 3, 3, 4), kernel=(5, 5), stride=(4, 4))
    yield conv("65536 channels", (1, 1, 1, 65536), 1, (1, 1))
    yield conv("65537 channels", (1, 1, 1, _LONG), 1, (1, 1))
    yield conv("65537 filters", (1, 1, 1, 2), _LONG, (1, 1))
    yield conv(
        "large weights", weights=T((2, 1, 1, _LONG), "int8", (127,) * 2 * _LONG), shape=(1, 1, 1, _LONG), filters=2
    )
    yield conv("groups", (1, 8, 8, 8), weights=const(6, 3, 3, 4))
    yield conv("uneven groups", weights=const(6, 3, 3, 3))
    for name, bias in (
        ("vector", _bias(6)), ("int64", _bias(6, dtype="int64")), ("int16", _bias(6, dtype="int16")),
        ("row", _bias(1, 6)), ("column", _bias(6, 1)), ("computed", T((6,), "int32", scales=(0.25,))),
        ("2**40 - 1", _bias(6, dtype="int64", value=(2**40 - 1,) * 6)),
        ("2**40", _bias(6, dtype="int64", value=(2**40,) * 6)),
    ):  # fmt: skip
        yield conv(f"bias {name}", bias=bias)
    yield conv("unknown batch")._replace(inputs=[data(*IMAGE, signature=(-1, 8, 8, 4)), const(6, 3, 3, 4), None])
    yield conv("unknown height")._replace(inputs=[data(*IMAGE, signature=(1, -1, 8, 4)), const(6, 3, 3, 4), None])
    yield conv("zero point -1")._replace(
        inputs=[T(IMAGE, "uint8", zero_point=-1), const(6, 3, 3, 4), None], outputs=[data(1, 8, 8, 6, dtype="uint8")]
    )
    yield conv("sign bit", fused_activation_function="SIGN_BIT")
    yield depthwise("stride 4", stride=(4, 4), padding="VALID")
    yield depthwise("65537 channels", (1, 2, 2, _LONG), (1, 1))
    yield depthwise("80000 outputs", (1, 2, 2, 40000), (1, 1), multiplier=2)
    yield depthwise("computed weights", weights=data(1, 3, 3, 4))
    yield depthwise("large weights", (1, 4, 4, 1), (1, _LONG), weights=T((1, 1, _LONG, 1), "int8", (127,) * _LONG))
    yield transposed("1x2", (1, 1, 8, 4), (1, 1, 16, 6), (1, 3), (1, 2))
    yield transposed("1x2 of 2 rows", (1, 2, 8, 4), (1, 2, 16, 6), (1, 3), (1, 2))
    yield transposed("3x3", IMAGE, (1, 24, 24, 6), (3, 3), (3, 3))
    for weight in (0, 127):
        deep = transposed(f"65537 channels of {weight}", (1, 1, 1, _LONG), (1, 1, 1, 1), (1, 1), (1, 1))
        weights = T((1, 1, 1, _LONG), "int8", (weight,) * _LONG)
        yield deep._replace(inputs=[ints(1, 1, 1, 1), weights, data(1, 1, 1, _LONG)])
    yield transposed("odd", IMAGE, (1, 15, 15, 6), (3, 3), (2, 2))
    yield transposed("valid", IMAGE, (1, 17, 17, 6), (3, 3), (2, 2), "VALID")
    yield transposed("valid, too large", IMAGE, (1, 18, 18, 6), (3, 3), (2, 2), "VALID")


def _matrices() -> Iterator[VelaCase]:
    yield dense("65536 deep", depth=65536, outputs=1)
    yield dense("65537 deep", depth=_LONG, outputs=1)
    yield dense("computed, 65537 deep", depth=_LONG, weights=data(6, _LONG))
    yield dense("computed, 65537 outputs", depth=2, outputs=_LONG, weights=data(_LONG, 2))
    yield dense("computed uint8", dtype="uint8", weights=data(6, 16, dtype="uint8"))
    cube = dense("to rank 3")
    cube = cube._replace(inputs=[data(1, 2, 16), *cube.inputs[1:]], outputs=[data(1, 2, 6)])
    yield cube._replace(options={"keep_num_dims": True})
    yield dense("no matrix", weights=const(6, 2, 8))
    yield dense("largest weights", depth=65536, outputs=1, weights=T((1, 65536), "int8", (127,) * 65536))
    yield dense("too large weights", depth=65536, outputs=1, weights=T((1, 65536), "int8", (-128,) * 65536))
    for a, b, out in (((2, 1, _LONG), (2, _LONG, 1), (2, 1, 1)), ((1, 2), (2, _LONG), (1, _LONG))):
        yield binary(f"{a} {b}", "BATCH_MATMUL", data(*a), data(*b), out)
    yield binary("to int64", "BATCH_MATMUL", data(4, 8), data(8, 4), (4, 4), out="int64")


def _pools() -> Iterator[VelaCase]:
    for code in _POOLS:
        yield pool("8x8 padded", code, (8, 8), shape=(1, 16, 16, 4), padding="SAME")
        yield pool("9x1 padded", code, (9, 1), shape=(1, 16, 16, 4), padding="SAME")
        yield pool("256 high", code, (256, 1), shape=(1, 300, 4, 4))
        yield pool("257 high", code, (257, 1), shape=(1, 300, 4, 4))
        yield pool("255x257", code, (255, 257), shape=(1, 256, 257, 1))
        yield pool("256x257", code, (256, 257), shape=(1, 256, 257, 1))
        yield pool("stride 4", code, (5, 5), (4, 4))
        yield pool("stride 4 padded", code, (5, 5), (4, 4), padding="SAME")
        yield pool("65537 channels", code, (2, 2), shape=(1, 2, 2, _LONG))
        yield pool("to int16", code, (2, 2), out="int16")
        yield pool("zero point -1", code, (1, 1))._replace(
            inputs=[T(IMAGE, "uint8", zero_point=-1)], outputs=[data(*IMAGE, dtype="uint8")]
        )
    for code in _RESIZES:
        for after in ((4, 4), (7, 7), (8, 8), (12, 12), (16, 16), (32, 32), (64, 64), (8, 4), (2, 2)):
            for half in (False, True):
                yield resize(f"4x4 to {after}, half {half}", code, (4, 4), after, half_pixel_centers=half)
            yield resize(f"4x4 to {after}, aligned", code, (4, 4), after, align_corners=True)
        for before, after in (((1, 1), (7, 5)), ((1, 4), (1, 8)), ((1, 4), (4, 7)), ((1, 4), (2, 8)), ((4, 1), (4, 2))):
            yield resize(f"{before} to {after}", code, before, after)
            yield resize(f"{before} to {after}, half", code, before, after, half_pixel_centers=True)
            yield resize(f"{before} to {after}, aligned", code, before, after, align_corners=True)
        yield resize("batch of 2", code, (4, 4), (8, 8), 2)
        yield resize("batch of 2 from 1x1", code, (1, 1), (8, 8), 2)
        deep = resize("65537 channels", code, (2, 2), (4, 4))
        yield deep._replace(inputs=[data(1, 2, 2, _LONG), ints(4, 4)], outputs=[data(1, 4, 4, _LONG)])


def _elementwise() -> Iterator[VelaCase]:
    for code in UNARY:
        options = _OPTIONS.get(code, {})
        for dtype in ("int8", "uint8", "int16", "int32", "int64", "float32"):
            yield unary(f"of {dtype}", code, dtype, **options)
        for out in ("int16", "int32"):
            yield unary(f"int8 to {out}", code, out=out, **options)
        yield unary("to another shape", code, **options)._replace(outputs=[data(1, 8, 32)])
        made = unary("without scale", code, **options)
        yield made._replace(inputs=[data(*IMAGE, scales=())])
        yield made._replace(name=f"{code} with scales", outputs=[data(*IMAGE, scales=_MANY)])
    yield unary("int8 to uint8", "SOFTMAX", out="uint8", beta=1.0)
    for beta in (0.0, 2.0, -1.0):
        yield unary(f"beta {beta}", "SOFTMAX", beta=beta)
    for shape in ((1, 256, 256, 2), (1, 256, 257, 2), (1, 65536), (1, _LONG)):
        yield unary(f"of {shape}", "SOFTMAX", "int8", "", shape, beta=1.0)
    for dtype in ("int8", "uint8", "int16"):
        yield unary(f"{dtype}, slopes", "PRELU", dtype, "", IMAGE, const(4, dtype=dtype))
        yield unary(f"{dtype}, one slope", "PRELU", dtype, "", IMAGE, const(1, dtype=dtype))
        yield unary(f"{dtype}, equal slopes", "PRELU", dtype, "", IMAGE, T((4,), dtype, (3,) * 4, scales=(0.1,)))
    yield unary("int8, slopes of uint8", "PRELU", "int8", "", IMAGE, const(4, dtype="uint8"))
    yield unary("slopes without scale", "PRELU", "int8", "", IMAGE, const(4, scales=()))
    yield unary("uint8 to int8, slopes", "PRELU", "uint8", "int8", IMAGE, const(4, dtype="uint8"))
    yield unary("of no elements", "RELU", "int8", "", (1, 0, 8, 4))
    yield unary("of a scalar", "RELU", "int8", "", ())
    yield binary("plain", "SQUARED_DIFFERENCE", data(*IMAGE), data(*IMAGE), IMAGE)
    for code in ("ADD", "MUL", "MAXIMUM"):
        yield binary("constant scalar", code, data(*IMAGE), T((), "int8", (3,)), IMAGE)
        yield binary("computed scalar", code, data(*IMAGE), data(), IMAGE)
        yield binary("other scale", code, data(*IMAGE), data(*IMAGE, scales=(0.25,)), IMAGE)
        yield binary("int8 to uint8", code, data(*IMAGE), data(*IMAGE), IMAGE, out="uint8")
    wide = data(*IMAGE, dtype="int32")
    yield binary("activation on int32", "ADD", wide, wide, IMAGE, fused_activation_function="RELU")
    yield binary("zero point of int32", "ADD", wide._replace(zero_point=3), wide, IMAGE)


def _reductions() -> Iterator[VelaCase]:
    for shape, axes in _MEANS:
        yield reduced(f"{axes} of {shape}", "MEAN", shape, *axes)
    yield reduced("65536 of int16", "MEAN", (1, 256, 256, 1), 1, 2, dtype="int16")
    yield reduced("65792 of int16", "MEAN", (1, 256, 257, 1), 1, 2, dtype="int16")
    yield reduced("8392609 of uint8", "MEAN", (1, 2897, 2897, 1), 1, 2, dtype="uint8")
    for shape, axis in _SUMS:
        yield reduced(f"{axis} of {shape}", "SUM", shape, axis)
    for code in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"):
        yield reduced("computed axes", code, IMAGE, 1, computed=True)
        yield reduced("to int16", code, IMAGE, 1, out="int16")
    for shape, axis in _ARG_MAXES:
        yield arg_max(f"{axis} of {shape}", shape, axis)
    yield arg_max("to int64", IMAGE, 3, out="int64")
    yield arg_max("to int8", IMAGE, 3, out="int8")
    yield arg_max("of int16", IMAGE, 3, "int16")


def _moving() -> Iterator[VelaCase]:
    for shape, perm in _PERMUTED:
        yield transpose(shape, *perm)
    for shape, perm in _PERMUTED_INT32:
        yield transpose(shape, *perm, dtype="int32")
    yield transpose(IMAGE, 0, 1, 3, 2, index="int64")
    for code in ("PAD", "PADV2", "MIRROR_PAD"):
        options = {"mode": "REFLECT"} if code == "MIRROR_PAD" else {}
        for dtype in ("int8", "int32"):
            yield pad(f"of {dtype}", code, 0, 0, 1, 1, 1, 1, 0, 0, dtype=dtype, **options)
        yield pad("everywhere", code, 1, 0, 1, 1, 1, 1, 1, 0, index="int64", **options)
        yield pad("by int16", code, 0, 0, 1, 1, 1, 1, 0, 0, index="int16", **options)
    for code, shape in (("RESHAPE", (1, 256)), ("SQUEEZE", (8, 8, 4)), ("EXPAND_DIMS", (1, 1, 8, 8, 4))):
        more = [ints(*shape)] if code == "RESHAPE" else [ints(0)] if code == "EXPAND_DIMS" else []
        for scale in (0.5, 0.25):
            out = [data(*shape, scales=(scale,))]
            yield VelaCase(f"{code} to scale {scale}", code, [data(*IMAGE), *more], out, {})
        yield VelaCase(f"{code} of int32", code, [T(IMAGE, "int32"), *more], [T(shape, "int32")], {})
        yield VelaCase(f"{code} of int64", code, [T(IMAGE, "int64"), *more], [T(shape, "int64")], {})
    begin, end = (0, 0, 0, 0), (1, 8, 8, 4)
    yield strided("along depth", begin, end, (1, 1, 1, 2), (1, 8, 8, 2))
    yield strided("backwards", (0, 7, 0, 0), (1, -9, 8, 4), (1, -1, 1, 1), IMAGE)
    yield strided("after an ellipsis", (0, 0, 0), (0, 8, 4), (1, 2, 1), (1, 8, 4, 4), ellipsis_mask=1)
    yield strided("depth after an ellipsis", (0, 0), (0, 4), (1, 2), (1, 8, 8, 2), ellipsis_mask=1)
    yield strided("whole after an ellipsis", (0, 0, 0), (0, 8, 4), (1, 1, 1), IMAGE, ellipsis_mask=1)
    yield strided("one row", (0, 1, 0, 0), (1, 2, 8, 4), (1, 1, 1, 1), (1, 8, 4), shrink_axis_mask=2)
    for computed in (False, True):
        start = T((4,), "int32") if computed else ints(0, 1, 1, 0)
        inputs = [data(*IMAGE), start, ints(1, 4, 4, 4)]
        yield VelaCase(f"SLICE computed {computed}", "SLICE", inputs, [data(1, 4, 4, 4)], {})
        repeats = T((4,), "int32") if computed else ints(1, 2, 1, 1)
        yield VelaCase(f"TILE computed {computed}", "TILE", [data(*IMAGE), repeats], [data(1, 16, 8, 4)], {})
        sizes = T((2,), "int32") if computed else ints(1, 3)
        parts = [data(1, 8, 8, 1), data(1, 8, 8, 3)]
        inputs = [data(*IMAGE), sizes, T((), "int32", (3,))]
        for said in (2, 3):
            yield VelaCase(f"SPLIT_V {said} computed {computed}", "SPLIT_V", inputs, parts, {"num_splits": said})
    for axis in (0, -4, None):
        along = T((), "int32", None if axis is None else (axis,))
        yield VelaCase(f"SPLIT along {axis}", "SPLIT", [along, data(2, 8, 8, 4)], [data(*IMAGE)] * 2, {"num_splits": 2})
    yield VelaCase("EXPAND_DIMS of an image", "EXPAND_DIMS", [data(8, 8, 4), ints(0)], [data(*IMAGE)], {})
    joined = [data(*IMAGE)] * 2
    yield VelaCase("CONCATENATION of images", "CONCATENATION", joined, [data(1, 8, 8, 8)], {"axis": 3})
    for sides in ((0, 0, 1, 1, 1, 1, 0, 0), (0, 0, 0, 0, 0, 0, 1, 1)):
        yield pad(f"by {sides}", "PAD", *sides)
    yield transpose((1, 8, 6, 4), 0, 2, 1, 3)
    yield transpose((1, 1, 6, 4), 0, 1, 3, 2)
    yield VelaCase("PACK", "PACK", [data(8, 4)] * 2, [data(2, 8, 4)], {"values_count": 2, "axis": 0})
    yield VelaCase("UNPACK", "UNPACK", [data(2, 8, 4)], [data(8, 4)] * 2, {"num": 2, "axis": 0})
    yield VelaCase("REVERSE_V2", "REVERSE_V2", [data(*IMAGE), ints(1)], [data(*IMAGE)], {})
    for scale in (1e9, 1e10):
        yield unary(f"scale {scale:g}", "RELU")._replace(inputs=[data(*IMAGE, scales=(scale,))])


def _recurrent() -> Iterator[VelaCase]:
    yield lstm("plain")
    yield lstm("of int16", "int16")
    yield lstm("of uint8", "uint8")
    yield lstm("to int16", out="int16")
    yield lstm("without input gate", drop=(1, 5, 12))
    for position in range(2, 9):
        yield lstm(f"without input {position}", drop=(position,))
    for position in (9, 10, 11, 16, 17, 20, 21, 22, 23):  # peepholes, projection, normalisation
        yield lstm(f"with input {position}", put={position: const(6, 6)})
    yield lstm("20 inputs", count=20)
    yield lstm("no intermediates", between=0)
    flat = lstm("of rank 2")
    yield flat._replace(inputs=[data(5, 4), *flat.inputs[1:]], outputs=[data(5, 6)])
