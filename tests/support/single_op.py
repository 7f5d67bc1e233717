# SPDX-License-Identifier: Apache-2.0
"""Graphs of one op, from values: no file, no builder, nothing checked, so they can also be wrong."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from edgedeploy_partitioner.model.graph import DType, Graph, Op, OptionValue, Quantization, Span, Subgraph, Tensor

Made = tuple[Graph, Op]
_PACKED = {"int8": "b", "int32": "i", "int64": "q", "float32": "f"}


class T(NamedTuple):
    """A tensor to be. 8-bit ones get a scale; ``value`` makes a constant with numbers, ``constant`` one without."""

    shape: tuple[int, ...]
    dtype: str = "int8"
    value: tuple[float, ...] | None = None
    constant: bool = False
    scales: tuple[float, ...] | None = None
    block_size: int = 0
    signature: tuple[int, ...] | None = None
    is_variable: bool = False
    is_sparse: bool = False
    has_rank: bool = True
    zero_point: int = 0


def ints(*value: int, dtype: str = "int32") -> T:
    """A constant vector."""
    return T((len(value),), dtype, value)


def weights(*shape: int, dtype: str = "int8", scales: tuple[float, ...] | None = None) -> T:
    return T(shape, dtype, constant=True, scales=scales)


def single_op(
    code: str, inputs: Sequence[T | None], outputs: Sequence[T], custom_code: str = "", **options: OptionValue
) -> Made:
    """A graph whose only op is ``code``; None is an absent input."""
    source = bytearray()
    made: list[Tensor] = []
    ids: list[int] = []
    for spec in (*inputs, *outputs):
        ids.append(len(made) if spec else -1)
        if spec:
            made.append(_tensor(len(made), spec, source))
    n = len(inputs)
    op = Op(0, 0, code, tuple(ids[:n]), tuple(ids[n:]), custom_code=custom_code, options=options)
    fed = tuple(t.id for t in made if t.id in op.inputs and not t.is_constant)
    sub = Subgraph(0, "main", tuple(made), (op,), fed, op.outputs)
    return Graph("0" * 64, len(source), 3, "", (sub,), source=memoryview(bytes(source))), op


def _tensor(number: int, spec: T, source: bytearray) -> Tensor:
    data = None
    if spec.value is not None:
        packed = struct.pack(f"<{len(spec.value)}{_PACKED[spec.dtype]}", *spec.value)
        data = Span(len(source), len(packed))
        source += packed
    elif spec.constant:
        data = Span(len(source), 0)
    scales = spec.scales if spec.scales is not None else (0.5,) if spec.dtype in ("int8", "uint8") else ()
    zero_points = (spec.zero_point,) * len(scales)
    quantization = Quantization(scales, zero_points, 0, spec.block_size) if scales or spec.block_size else None
    return Tensor(
        number, f"t{number}", spec.shape, DType(spec.dtype), spec.signature, quantization, spec.is_variable,
        data=data, is_sparse=spec.is_sparse, has_rank=spec.has_rank,
    )  # fmt: skip


# --- common ops ----------


def conv(size: int = 8, kernel: tuple[int, int] = (3, 3), dtype: str = "int8", **options: Any) -> Made:
    """SAME CONV_2D of 4 to 6 channels; the output has the size of the input unless strided."""
    stride = options.get("stride_h", 1)
    out = -(-size // stride)
    options = {"padding": "SAME", "stride_w": stride, **options}
    data, result = T((1, size, size, 4), dtype), T((1, out, out, 6), dtype)
    return single_op("CONV_2D", [data, weights(6, *kernel, 4, dtype=dtype), None], [result], **options)


def unary(spec: T, code: str = "RELU", **options: Any) -> Made:
    return single_op(code, [spec], [spec], **options)


def add(a: tuple[int, ...], b: tuple[int, ...], out: tuple[int, ...]) -> Made:
    return single_op("ADD", [T(a), T(b)], [T(out)])


def transpose(shape: tuple[int, ...], *perm: int, dtype: str = "int8") -> Made:
    out = tuple(shape[axis] for axis in perm if axis < len(shape))
    return single_op("TRANSPOSE", [T(shape, dtype), ints(*perm)], [T(out, dtype)])


def resize(before: int, after: int, **options: Any) -> Made:
    image = T((1, after, after, 4))
    return single_op("RESIZE_BILINEAR", [T((1, before, before, 4)), ints(after, after)], [image], **options)


def mean(shape: tuple[int, ...], *axes: int) -> Made:
    return single_op("MEAN", [T(shape), ints(*axes)], [T((1, shape[-1]))])


def weighted(data: T, kernel: T) -> Made:
    return single_op("CONV_2D", [data, kernel], [data])
