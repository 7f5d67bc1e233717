# SPDX-License-Identifier: Apache-2.0
"""What the C kernels ask of an op beside its element types."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from edgedeploy_partitioner.model.graph import DType, Quantization, Tensor
from edgedeploy_partitioner.support.case import Case
from edgedeploy_partitioner.support.predicates.registry import Between, predicate


class Ratio(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Both ends included."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


@predicate
def types_by_op(case: Case, types: dict[str, tuple[DType, ...]]) -> str | None:
    """for some ops data of fewer types: {}"""
    allowed = types.get(case.op.code)
    if allowed is None:
        return None
    wrong = (f"{role} is {tensor.dtype.value}" for role, tensor in case.data_inputs() if tensor.dtype not in allowed)
    return next(wrong, None)


@predicate
def scale_ratios(case: Case, ratios: dict[str, Ratio]) -> str | None:
    """for some ops an input scale that is so many times the output's: {}"""
    allowed, data, output = ratios.get(case.op.code), _quantization(case.data()), _quantization(case.output(0))
    if allowed is None or data is None or output is None:
        return None
    ratio = data.scales[0] / output.scales[0]
    return None if allowed.low <= ratio <= allowed.high else f"an input scale of {ratio:g} times the output's"


@predicate
def flips_sign(case: Case) -> str | None:
    """the same scale before and after, with zero points 128 apart, between uint8 and int8"""
    data, output = case.data(), case.output(0)
    before, after = _quantization(data), _quantization(output)
    if data is None or output is None or before is None or after is None:
        return "a tensor without one scale"
    if {data.dtype, output.dtype} != {DType.INT8, DType.UINT8}:
        return f"{data.dtype.value} to {output.dtype.value}"
    shift = 128 if output.dtype is DType.UINT8 else -128
    same = before.scales == after.scales and before.zero_points[0] + shift == after.zero_points[0]
    return None if same else f"{_shown(before)} before, {_shown(after)} after"


class OutputScale(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``zero_point`` is by element type."""

    scale: float
    zero_point: dict[str, int]

    def __str__(self) -> str:
        return f"{self.scale:g} with zero point {', '.join(f'{point} for {t}' for t, point in self.zero_point.items())}"


@predicate
def output_scale(case: Case, wanted: OutputScale) -> str | None:
    """an output of scale {}"""
    output = case.output(0)
    found = _quantization(output)
    if output is None or found is None:
        return "the output has not one scale"
    fits = found.scales[0] == wanted.scale and found.zero_points[0] == wanted.zero_point.get(output.dtype.value)
    return None if fits else f"the output has {_shown(found)}"


@predicate
def scales_below(case: Case, limit: float) -> str | None:
    """inputs of scales below {}"""
    for role, tensor in case.data_inputs():
        found = _quantization(tensor)
        if found and not found.scales[0] < limit:
            return f"{role} has scale {found.scales[0]:g}"
    return None


@predicate
def row(case: Case, sizes: Between) -> str | None:
    """{} elements along the last dimension"""
    data = case.data()
    return f"{data.shape[-1]} elements" if data and data.shape and not sizes.holds(data.shape[-1]) else None


@predicate
def moved_alike(case: Case) -> str | None:
    """all data quantised alike, so that moving bytes is all"""
    operands = [*case.data_inputs(), *case.outputs()]
    first = operands[0].tensor.quantization if operands else None
    for role, tensor in operands:
        found = tensor.quantization
        if _marks(found) != _marks(first):
            return f"{role} and {operands[0].role} differ in scale or zero point"
    return None


@predicate
def second_repeats(case: Case) -> str | None:
    """a first input of the output's shape, and a second one like it, or of one value for each channel, or one"""
    first, second, output = case.input(0), case.input(1), case.output(0)
    if first is None or second is None or output is None:
        return "an input is absent"
    if first.shape != output.shape:
        return f"shape {list(first.shape)} to {list(output.shape)}"
    row = first.shape[-1:]
    repeats = (
        second.elements == 1 or second.shape == first.shape or (second.shape[-1:], (second.elements,)) == (row, row)
    )
    fits = repeats and len(second.shape) <= len(first.shape)
    return None if fits else f"a second input of shape {list(second.shape)} for {list(first.shape)}"


_LONGEST = 65536
"""Side of an image, for which the runtime's positions in single precision are exact."""


@predicate
def between_pixels(case: Case, parts: int) -> str | None:
    """an image that gets no smaller, sampled at multiples of 1/{} of a pixel"""
    data, output = case.data(), case.output(0)
    if data is None or output is None or {len(data.shape), len(output.shape)} != {4}:
        return "no image of 4 dimensions"
    corners, centres = (bool(case.op.options.get(name)) for name in ("align_corners", "half_pixel_centers"))
    if corners and centres:
        return "both align_corners and half_pixel_centers"
    for size, out in zip(data.shape[1:3], output.shape[1:3], strict=True):
        places = _positions(size, out, corners, centres)
        if not size <= out <= _LONGEST or any(over * parts % under for over, under in places):
            return f"{size} to {out} pixels"
    return None


def _positions(size: int, out: int, corners: bool, centres: bool) -> Iterator[tuple[int, int]]:
    """Where along one side of an image the pixels of the output lie, as fractions; between the ends of the input."""
    for i in range(out):
        over, under = i * size, out
        if corners and out > 1:
            over, under = i * (size - 1), out - 1
        elif centres:
            over, under = (2 * i + 1) * size - out, 2 * out
        yield min(max(over, 0), (size - 1) * under), under


@predicate
def weighted_mean(case: Case) -> str | None:
    """a constant 1x1 filter with one result for each pixel, a constant bias, and scales that XNNPACK takes"""
    data, filters, bias, output = case.data(), case.input(1), case.input(2), case.output(0)
    if data is None or filters is None or bias is None or output is None or len(data.shape) != 4:
        return "no image, no filter or no bias"
    if filters.shape != (1, 1, 1, data.shape[3]) or output.shape != (*data.shape[:3], 1):
        return f"a filter of shape {list(filters.shape)} for {list(data.shape)} to {list(output.shape)}"
    if bias.elements != 1:
        return f"a bias of shape {list(bias.shape)}"
    if not (case.is_constant(filters) and case.is_constant(bias)):
        return "a filter or bias that is computed"
    scales = [q.scales[0] for q in map(_quantization, (data, filters, output)) if q is not None]
    return None if len(scales) == 3 and scales[0] * scales[1] / scales[2] < 256 else f"scales {scales}"


@predicate
def constant_parameters(case: Case) -> str | None:
    """constants for all that says how (axes, sizes, ranges)"""
    data = {tensor.id for _, tensor in case.data_inputs()}
    wrong = (role for role, tensor in case.inputs() if tensor.id not in data and not case.is_constant(tensor))
    found = next(wrong, None)
    return f"{found} is computed" if found else None


@predicate
def unpacked_from(case: Case, types: tuple[DType, ...]) -> str | None:
    """constants as they are stored, or made of {} by DEQUANTIZE"""
    subgraph = case.graph.subgraphs[case.op.subgraph]
    for role, tensor in case.inputs():
        maker = subgraph.producer.get(tensor.id)
        while maker in subgraph.folded:
            op = subgraph.ops[maker]
            stored = subgraph.tensors[op.inputs[0]]
            if op.code != "DEQUANTIZE" or stored.is_sparse:
                return f"{role} is stored sparse"
            if stored.dtype not in types:
                return f"{role} is made of {stored.dtype.value}"
            maker = subgraph.producer.get(stored.id)
    return None


def _marks(quantization: Quantization | None) -> tuple[tuple[float, ...], tuple[int, ...]]:
    return (quantization.scales, quantization.zero_points) if quantization else ((), ())


def _shown(quantization: Quantization) -> str:
    return f"scale {quantization.scales[0]:g} and zero point {quantization.zero_points[0]}"


def _quantization(tensor: Tensor | None) -> Quantization | None:
    """Of a tensor with one scale."""
    found = tensor.quantization if tensor else None
    return found if found and len(found.scales) == 1 and len(found.zero_points) == 1 else None
