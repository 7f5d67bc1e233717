# SPDX-License-Identifier: Apache-2.0
"""Ops to ask Arm's Vela about: seeded ones of every family that it knows, and ones at each of its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from support.single_op import T, ints

IMAGE = (1, 8, 8, 4)
NARROW = ("int8", "uint8", "int16")
TYPES = (*NARROW, "int32")
RANDOM_PER_FAMILY = 12


class VelaCase(NamedTuple):
    name: str
    code: str
    inputs: Sequence[T | None]
    outputs: Sequence[T]
    options: dict[str, Any]
    intermediates: Sequence[T] = ()


def data(*shape: int, dtype: str = "int8", scales: tuple[float, ...] = (0.5,), **more: Any) -> T:
    return T(shape, dtype, scales=() if dtype == "float32" else scales, **more)


def const(*shape: int, dtype: str = "int8", scales: tuple[float, ...] = (0.5,), **more: Any) -> T:
    return T(shape, dtype, constant=True, scales=scales, **more)


def _case(name: str, code: str, inputs: Sequence[T | None], outputs: Sequence[T], **options: Any) -> VelaCase:
    return VelaCase(f"{code} {name}", code, inputs, outputs, options)


# --- one op, with what can be varied ----------


def _out(size: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    return max(-(-size // stride) if padding == "SAME" else -(-(size - (kernel - 1) * dilation) // stride), 1)


def conv(
    name: str, shape: tuple[int, ...] = IMAGE, filters: int = 6, kernel: tuple[int, int] = (3, 3), *,
    stride: tuple[int, int] = (1, 1), dilation: tuple[int, int] = (1, 1), padding: str = "SAME",
    dtype: str = "int8", out: str = "", weights: T | None = None, bias: T | None = None, **options: Any,
) -> VelaCase:  # fmt: skip
    sides = [_out(shape[1 + i], kernel[i], stride[i], dilation[i], padding) for i in (0, 1)]
    kernels = weights or const(filters, *kernel, shape[3])
    given = {"dilation_h_factor": dilation[0], "dilation_w_factor": dilation[1], **options}
    return _case(
        name, "CONV_2D", [data(*shape, dtype=dtype), kernels, bias],
        [data(shape[0], *sides, filters, dtype=out or dtype)],
        padding=padding, stride_h=stride[0], stride_w=stride[1], **given,
    )  # fmt: skip


def depthwise(
    name: str, shape: tuple[int, ...] = IMAGE, kernel: tuple[int, int] = (3, 3), *, stride: tuple[int, int] = (1, 1),
    multiplier: int = 1, padding: str = "SAME", dtype: str = "int8", weights: T | None = None,
) -> VelaCase:  # fmt: skip
    sides = [_out(shape[1 + i], kernel[i], stride[i], 1, padding) for i in (0, 1)]
    depth = shape[3] * multiplier
    kernels = weights or const(1, *kernel, depth)
    return _case(
        name, "DEPTHWISE_CONV_2D", [data(*shape, dtype=dtype), kernels, None],
        [data(shape[0], *sides, depth, dtype=dtype)],
        padding=padding, stride_h=stride[0], stride_w=stride[1], depth_multiplier=multiplier,
    )  # fmt: skip


def transposed(
    name: str, before: tuple[int, ...], after: tuple[int, ...], kernel: tuple[int, int], stride: tuple[int, int],
    padding: str = "SAME", dtype: str = "int8",
) -> VelaCase:  # fmt: skip
    inputs = [ints(*after), const(after[3], *kernel, before[3]), data(*before, dtype=dtype)]
    return _case(
        name, "TRANSPOSE_CONV", inputs, [data(*after, dtype=dtype)],
        padding=padding, stride_h=stride[0], stride_w=stride[1],
    )  # fmt: skip


def pool(
    name: str, code: str, kernel: tuple[int, int], stride: tuple[int, int] = (1, 1), shape: tuple[int, ...] = IMAGE,
    padding: str = "VALID", dtype: str = "int8", out: str = "",
) -> VelaCase:  # fmt: skip
    sides = [_out(shape[1 + i], kernel[i], stride[i], 1, padding) for i in (0, 1)]
    return _case(
        name, code, [data(*shape, dtype=dtype)], [data(shape[0], *sides, shape[3], dtype=out or dtype)],
        padding=padding, filter_height=kernel[0], filter_width=kernel[1], stride_h=stride[0], stride_w=stride[1],
    )  # fmt: skip


def dense(
    name: str, rows: int = 1, depth: int = 16, outputs: int = 6, *, dtype: str = "int8", out: str = "",
    weights: T | None = None, bias: T | None = None,
) -> VelaCase:  # fmt: skip
    kernel = weights or const(outputs, depth)
    result = data(rows, outputs, dtype=out or dtype)
    return _case(name, "FULLY_CONNECTED", [data(rows, depth, dtype=dtype), kernel, bias], [result])


def unary(
    name: str, code: str, dtype: str = "int8", out: str = "", shape: tuple[int, ...] = IMAGE, *more: T, **options: Any
) -> VelaCase:
    return _case(name, code, [data(*shape, dtype=dtype), *more], [data(*shape, dtype=out or dtype)], **options)


def binary(name: str, code: str, a: T, b: T, shape: tuple[int, ...], out: str = "", **options: Any) -> VelaCase:
    return _case(name, code, [a, b], [data(*shape, dtype=out or a.dtype)], **options)


def reduced(
    name: str, code: str, shape: tuple[int, ...], *axes: int, dtype: str = "int8", out: str = "", computed: bool = False
) -> VelaCase:
    kept = [1 if axis in {a % len(shape) for a in axes} else size for axis, size in enumerate(shape)]
    parameter = T((len(axes),), "int32") if computed else ints(*axes)
    result = data(*kept, dtype=out or dtype)
    return _case(name, code, [data(*shape, dtype=dtype), parameter], [result], keep_dims=True)


def arg_max(name: str, shape: tuple[int, ...], axis: int, dtype: str = "int8", out: str = "int32") -> VelaCase:
    kept = [size for i, size in enumerate(shape) if i != axis % len(shape)]
    return _case(name, "ARG_MAX", [data(*shape, dtype=dtype), ints(axis)], [T(tuple(kept), out)])


def resize(
    name: str, code: str, before: tuple[int, int], after: tuple[int, int], n: int = 1, **options: bool
) -> VelaCase:
    inputs = [data(n, *before, 4), ints(*after)]
    return _case(name, code, inputs, [data(n, *after, 4)], **options)


def transpose(shape: tuple[int, ...], *perm: int, dtype: str = "int8", index: str = "int32") -> VelaCase:
    out = data(*(shape[axis] for axis in perm), dtype=dtype)
    name = f"{list(perm)} of {shape} {dtype}"
    return _case(name, "TRANSPOSE", [data(*shape, dtype=dtype), ints(*perm, dtype=index)], [out])


def pad(name: str, code: str, *sides: int, dtype: str = "int8", index: str = "int32", **options: Any) -> VelaCase:
    after = [size + sides[2 * i] + sides[2 * i + 1] for i, size in enumerate(IMAGE)]
    inputs = [data(*IMAGE, dtype=dtype), T((4, 2), index, sides)]
    value = [T((), dtype, (0,), scales=(0.5,))] if code == "PADV2" else []
    return _case(name, code, [*inputs, *value], [data(*after, dtype=dtype)], **options)


def strided(name: str, begin: Sequence[int], end: Sequence[int], strides: Sequence[int], out: tuple[int, ...],
            shape: tuple[int, ...] = IMAGE, dtype: str = "int8", **masks: int) -> VelaCase:  # fmt: skip
    inputs = [data(*shape, dtype=dtype), ints(*begin), ints(*end), ints(*strides)]
    return _case(name, "STRIDED_SLICE", inputs, [data(*out, dtype=dtype)], **masks)


def lstm(
    name: str,
    dtype: str = "int8",
    out: str = "",
    *,
    drop: Sequence[int] = (),
    put: Mapping[int, T] | None = None,
    count: int = 24,
    between: int = 5,
) -> VelaCase:
    bias = T((6,), "int32", constant=True, scales=(0.01,))
    cell = T((1, 6), "int16", scales=(0.0001,), is_variable=True)
    state = data(1, 6, dtype=dtype, is_variable=True)
    inputs: list[T | None] = [data(1, 5, 4, dtype=dtype), *[const(6, 4)] * 4, *[const(6, 6)] * 4, *[None] * 3]
    inputs += [*[bias] * 4, None, None, state, cell, *[None] * 4]
    for i in drop:
        inputs[i] = None
    for i, tensor in (put or {}).items():
        inputs[i] = tensor
    gates = [T((6,), "int16", scales=(0.0001,))] * 4 + [T((6,), "int8", scales=(0.1,))]
    case = _case(name, "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs[:count], [data(1, 5, 6, dtype=out or dtype)],
                 fused_activation_function="TANH", cell_clip=10.0)  # fmt: skip
    return case._replace(intermediates=gates[:between])


# --- seeded ----------


def _pair(r: Random, *among: int) -> tuple[int, int]:
    return r.choice(among), r.choice(among)


def _conv(r: Random, name: str) -> VelaCase:
    return conv(
        name, (r.choice((1, 1, 2)), r.randint(5, 20), r.randint(5, 20), 4), r.randint(1, 9), _pair(r, 1, 3, 5),
        stride=_pair(r, 1, 1, 2, 3, 4, 5), dilation=_pair(r, 1, 1, 2), padding=r.choice(("SAME", "VALID")),
        dtype=r.choice(TYPES), fused_activation_function=r.choice(("NONE", "RELU", "TANH")),
    )  # fmt: skip


def _depthwise(r: Random, name: str) -> VelaCase:
    shape = (r.choice((1, 2)), r.randint(3, 16), r.randint(3, 16), r.randint(1, 9))
    return depthwise(
        name, shape, _pair(r, 1, 2, 3), stride=_pair(r, 1, 2, 3, 4), multiplier=r.choice((1, 1, 3)),
        padding=r.choice(("SAME", "VALID")), dtype=r.choice(TYPES),
    )  # fmt: skip


def _transposed(r: Random, name: str) -> VelaCase:
    size, kernel, stride = _pair(r, 1, 4, 7), _pair(r, 1, 2, 3), _pair(r, 1, 2, 2, 3)
    padding = r.choice(("SAME", "VALID"))
    more = [0 if padding == "SAME" else max(k - s, 0) for k, s in zip(kernel, stride, strict=True)]
    out = [n * s + m - r.choice((0, 0, 0, 1)) for n, s, m in zip(size, stride, more, strict=True)]
    return transposed(name, (1, *size, 4), (1, max(out[0], 1), max(out[1], 1), 6), kernel, stride, padding)


def _pool(r: Random, name: str) -> VelaCase:
    code, shape = (
        r.choice(("AVERAGE_POOL_2D", "MAX_POOL_2D")),
        (r.choice((1, 2)), r.randint(9, 20), r.randint(9, 20), 4),
    )
    padding = r.choice(("SAME", "VALID"))
    return pool(name, code, _pair(r, 1, 2, 3, 8, 9), _pair(r, 1, 2, 3, 4), shape, padding, r.choice(TYPES))


def _dense(r: Random, name: str) -> VelaCase:
    weights = r.choice((None, data(6, 16), data(6, 16, dtype="uint8"), const(6, 1, 16), const(6, 16, dtype="int16")))
    return dense(name, r.randint(1, 3), dtype=r.choice(TYPES), out=r.choice(("", "", "int32")), weights=weights)


def _matmul(r: Random, name: str) -> VelaCase:
    a, b = data(2, 4, 8, dtype=r.choice(TYPES)), data(2, 8, 6, dtype=r.choice(("int8", "int8", "int16", "int32")))
    return binary(name, "BATCH_MATMUL", a, b, (2, 4, 6))


def _binary(r: Random, name: str) -> VelaCase:
    code = r.choice(("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"))
    shape = tuple(r.randint(2, 5) for _ in range(r.randint(1, 5)))
    kind, scales = r.choice(TYPES), ((0.5,), (0.5,), (0.5,), (0.25,), ())
    a = data(*(r.choice((size, size, 1)) for size in shape), dtype=kind, scales=r.choice(scales))
    b = data(
        *(s if a.shape[i] == 1 else r.choice((s, 1)) for i, s in enumerate(shape)), dtype=r.choice((kind, kind, "int8"))
    )
    return binary(name, code, a, b, shape, out=r.choice(("", "", *TYPES)))


def _unary(r: Random, name: str) -> VelaCase:
    code = r.choice(UNARY)
    shape = tuple(r.randint(1, 5) for _ in range(r.randint(1, 5)))
    options = {"alpha": r.choice((0.1, -0.1))} if code == "LEAKY_RELU" else {"beta": 1.0} if code == "SOFTMAX" else {}
    types = (*TYPES, "int64", "float32")
    made = unary(name, code, r.choice(types), r.choice(("", "", "", *types)), shape, **options)
    if r.random() < 0.1:
        return made._replace(outputs=[made.outputs[0]._replace(scales=(0.1,) * 2)])
    return made


def _reduced(r: Random, name: str) -> VelaCase:
    code = r.choice(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"))
    shape = (r.choice((1, 1, 2)), r.randint(1, 9), r.randint(1, 9), r.randint(1, 9))
    axes = r.sample(range(4), r.randint(1, 2))
    return reduced(name, code, shape, *axes, dtype=r.choice(TYPES), out=r.choice(("", "", "int8", "int32")))


def _resize(r: Random, name: str) -> VelaCase:
    before, factors = _pair(r, 1, 2, 3, 4), r.choice(((1, 1), (2, 2), (2, 2), (3, 3), (4, 4), (8, 8), (2, 4), (1, 2)))
    options = {"align_corners": r.random() < 0.4, "half_pixel_centers": r.random() < 0.4}
    grow: Callable[[int, int], int] = (
        (lambda n, f: (n - 1) * f + 1) if options["align_corners"] else (lambda n, f: n * f)
    )
    after = grow(before[0], factors[0]), grow(before[1], factors[1])
    code = r.choice(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"))
    return resize(f"{name} {before} to {after}", code, before, after, r.choice((1, 1, 1, 2)), **options)


def _transpose(r: Random, _name: str) -> VelaCase:
    shape = tuple(r.choice((1, 2, 3, 300)) for _ in range(r.randint(2, 5)))
    return transpose(shape, *r.sample(range(len(shape)), len(shape)), dtype=r.choice((*TYPES, "int8")))


def _strided(r: Random, name: str) -> VelaCase:
    rank = r.randint(1, 4)
    strides = [r.choice((1, 1, 1, 2)) for _ in range(rank)]
    out = tuple(-(-6 // stride) for stride in strides)
    return strided(name, [0] * rank, [6] * rank, strides, out, (6,) * rank, r.choice(TYPES))


def _split(r: Random, name: str) -> VelaCase:
    axis, parts = r.choice((1, 2, 3, -1)), r.choice((2, 2, 4))
    shape = tuple(4 // parts if i == axis % 4 else 4 for i in range(4))
    kind = r.choice(TYPES)
    inputs, outputs = [T((), "int32", (axis,)), data(4, 4, 4, 4, dtype=kind)], [data(*shape, dtype=kind)] * parts
    return _case(name, "SPLIT", inputs, outputs, num_splits=r.choice((parts, parts, parts + 1)))


def _joined(r: Random, name: str) -> VelaCase:
    axis, kinds = r.choice((-4, -1, 1, 3)), [r.choice((*NARROW, "int8", "int32")) for _ in range(2)]
    shape = tuple(8 if i == axis % 4 else 4 for i in range(4))
    return _case(
        name, "CONCATENATION", [data(4, 4, 4, 4, dtype=k) for k in kinds], [data(*shape, dtype=kinds[0])], axis=axis
    )


UNARY = (
    "ABS", "EXP", "LOG", "RSQRT", "LEAKY_RELU", "HARD_SWISH", "ELU", "GELU", "LOGISTIC", "TANH", "RELU", "RELU6",
    "RELU_N1_TO_1", "RELU_0_TO_1", "NEG", "QUANTIZE", "SOFTMAX", "DEQUANTIZE", "SQRT", "CAST",
)  # fmt: skip
FAMILIES = {
    _conv: 3, _depthwise: 1, _transposed: 2, _pool: 2, _dense: 2, _matmul: 1, _binary: 5, _unary: 8, _reduced: 3,
    _resize: 3, _transpose: 3, _strided: 1, _split: 1, _joined: 1,
}  # fmt: skip
"""How many times :data:`RANDOM_PER_FAMILY` of each."""


def seeded() -> Iterator[VelaCase]:
    r = Random(0)
    for family, times in FAMILIES.items():
        for number in range(times * RANDOM_PER_FAMILY):
            yield family(r, f"seeded {number}")
