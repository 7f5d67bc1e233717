# SPDX-License-Identifier: Apache-2.0
"""Rules of Arm's Vela compiler on operands: types, scales, weights, biases, reduced axes, parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedeploy_partitioner.model.graph import DType, Tensor
from edgedeploy_partitioner.model.shapes.site import constant
from edgedeploy_partitioner.support.case import Case, Operand
from edgedeploy_partitioner.support.predicates.registry import predicate

_SCALED = (DType.INT8, DType.UINT8, DType.INT16)
_UNSIGNED = (DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64)
_LARGEST_BYTE = 255


def _features(case: Case) -> Iterator[Operand]:
    """Feature maps, as Vela calls them: data that flows in or out, no weights, biases or parameters."""
    yield from (operand for operand in case.data_inputs() if operand.role != "weight")
    yield from case.outputs()


def _values(case: Case, tensor: Tensor) -> NDArray[Any] | None:
    """The numbers of a constant, None where the file has none that can be read."""
    return constant(case.graph, tensor) if tensor.is_constant else None


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "scalar"


# --- shapes and types ----------


@predicate
def static_but_batch(case: Case) -> str | None:
    """a static shape, the first dimension excepted (--input-shape fixes it)"""
    for role, tensor in (*case.inputs(), *case.outputs()):
        sizes = () if tensor.is_constant else tensor.signature or tensor.shape
        free = next((i for i, size in enumerate(sizes) if size < 0 and i), None)
        if free is not None:
            return f"{role} dim {free} is {sizes[free]}"
    return None


@predicate
def computed_shapes(case: Case) -> str | None:
    """at least one dimension in everything that is computed"""
    for role, tensor in (*case.inputs(), *case.outputs()):
        if not tensor.shape and not case.is_constant(tensor):
            return f"{role} is a {'scalar' if tensor.has_rank else 'tensor of unknown rank'}"
    return None


@predicate
def feature_types(case: Case, types: tuple[DType, ...]) -> str | None:
    """data (not weights) of type {}"""
    wrong = (f"{role} is {tensor.dtype.value}" for role, tensor in _features(case) if tensor.dtype not in types)
    return next(wrong, None)


@predicate
def data_types(case: Case, types: tuple[DType, ...]) -> str | None:
    """an input (not weights) of type {}"""
    data = case.data()
    return f"input is {data.dtype.value}" if data and data.dtype not in types else None


@predicate
def parameter_types(case: Case, types: tuple[DType, ...]) -> str | None:
    """parameters of type {}"""
    data = {role for role, _ in case.data_inputs()}
    wrong = (f"{role} is {t.dtype.value}" for role, t in case.inputs() if role not in data and t.dtype not in types)
    return next(wrong, None)


@predicate
def same_output_type(case: Case) -> str | None:
    """an output of the input's type"""
    data, output = case.data(), case.output(0)
    if data is None or output is None or data.dtype is output.dtype:
        return None
    return f"input is {data.dtype.value}, output is {output.dtype.value}"


@predicate
def output_type_or_int16(case: Case) -> str | None:
    """an output of the input's type, or of int16 for int8"""
    data, output = case.data(), case.output(0)
    widens = data and output and (data.dtype, output.dtype) == (DType.INT8, DType.INT16)
    return None if widens else same_output_type(case)


@predicate
def same_input_types(case: Case) -> str | None:
    """inputs of one type"""
    types = sorted({tensor.dtype.value for _, tensor in case.data_inputs()})
    return f"inputs are {' and '.join(types)}" if len(types) > 1 else None


@predicate
def keeps_sign(case: Case) -> str | None:
    """a signed output for signed inputs; for unsigned ones one of their type, or int32"""
    data, output = case.data(), case.output(0)
    if data is None or output is None or output.dtype is data.dtype:
        return None
    allowed = output.dtype is DType.INT32 if data.dtype in _UNSIGNED else output.dtype not in _UNSIGNED
    return None if allowed else f"input is {data.dtype.value}, output is {output.dtype.value}"


@predicate
def narrow_if_activated(case: Case) -> str | None:
    """8- or 16-bit outputs of a fused activation"""
    output, fused = case.output(0), case.op.options.get("fused_activation_function", "NONE")
    if output is None or output.dtype in _SCALED or fused == "NONE":
        return None
    return f"{fused} on an output of {output.dtype.value}"


# --- scales ----------


@predicate
def scaled(case: Case) -> str | None:
    """a scale for all 8- and 16-bit data and weights"""
    for role, tensor in (*case.data_inputs(), *case.outputs()):
        if tensor.dtype in _SCALED and not (tensor.quantization and tensor.quantization.scales):
            return f"{role} is {tensor.dtype.value} without a scale"
    return None


@predicate
def zero_points(case: Case) -> str | None:
    """zero points of 0 for int32, and none below 0 for unsigned data"""
    for role, tensor in _features(case):
        for point in tensor.quantization.zero_points if tensor.quantization else ():
            if (tensor.dtype is DType.INT32 and point) or (tensor.dtype in _UNSIGNED and point < 0):
                return f"{role} is {tensor.dtype.value} with zero point {point}"
    return None


@predicate
def same_quantisation(case: Case) -> str | None:
    """inputs quantised like the output"""
    output = case.output(0)
    if output is None or output.quantization is None:
        return None
    wanted = (output.quantization.scales, output.quantization.zero_points)
    for role, tensor in case.data_inputs():
        found = (tensor.quantization.scales, tensor.quantization.zero_points) if tensor.quantization else ((), ())
        if found != wanted:
            return f"{role} and the output differ in scale or zero point"
    return None


@predicate
def same_scale(case: Case) -> str | None:
    """an output of the input's scale"""
    data, output = case.data(), case.output(0)
    a, b = (t.quantization.scales if t and t.quantization else () for t in (data, output))
    return f"input has scale {a[0]:g}, output {b[0]:g}" if a and b and a[0] != b[0] else None


# --- weights and biases ----------


@predicate
def max_depth(case: Case, limit: int) -> str | None:
    """an input of at most {} channels"""
    data = case.data()
    return f"{data.shape[-1]} channels" if data and data.shape and data.shape[-1] > limit else None


@predicate
def max_output_depth(case: Case, limit: int) -> str | None:
    """an output of at most {} channels"""
    output = case.output(0)
    return f"output has {output.shape[-1]} channels" if output and output.shape and output.shape[-1] > limit else None


@predicate
def weight_sum(case: Case, limit: int) -> str | None:
    """weights whose distances from the zero point add up to at most {} per output channel"""
    weights = next(case.weights(), None)
    if weights is None or len(weights.tensor.shape) < 2:
        return None
    tensor = weights.tensor
    axis = len(tensor.shape) - 1 if case.op.code == "DEPTHWISE_CONV_2D" else 0
    per_channel = tensor.elements // max(tensor.shape[axis], 1)
    if per_channel * _LARGEST_BYTE <= limit:  # no values can be too many: spares reading them
        return None
    values = _values(case, tensor)
    if values is None:
        return None
    points = np.array(tensor.quantization.zero_points if tensor.quantization else (), np.int64)
    points = points if len(points) in (1, tensor.shape[axis]) else np.zeros(1, np.int64)
    rows = np.moveaxis(values, axis, 0).reshape(tensor.shape[axis], -1).astype(np.int64)
    largest = int(np.abs(rows - points[:, None]).sum(axis=1).max())
    return f"weights of one channel add up to {largest}" if largest > limit else None


@predicate
def matrix_weights(case: Case) -> str | None:
    """weights of shape [outputs, 1, …, inputs]"""
    weights = next(case.weights(), None)
    if weights is None:
        return None
    shape = weights.tensor.shape
    holds = len(shape) > 1 and math.prod(shape) == shape[0] * shape[-1]
    return None if holds else f"weights of shape {_shape(weights.tensor)}"


@predicate
def whole_groups(case: Case) -> str | None:
    """a number of channels that is a multiple of the weights' depth, and of filters that is one of the groups"""
    data, weights = case.data(), next(case.weights(), None)
    if data is None or weights is None or not data.shape or 0 in weights.tensor.shape or not weights.tensor.shape:
        return None
    depth, deep, filters = data.shape[-1], weights.tensor.shape[-1], weights.tensor.shape[0]
    if depth % deep == 0 and depth >= deep and filters % (depth // deep) == 0:
        return None
    return f"{depth} channels, {filters} filters of depth {deep}"


@predicate
def bias_types(case: Case, types: tuple[DType, ...]) -> str | None:
    """a bias of type {}"""
    return next((f"bias is {t.dtype.value}" for _, t in case.biases() if t.dtype not in types), None)


@predicate
def bias_vector(case: Case) -> str | None:
    """a bias along the last dimension only"""
    return next((f"bias of shape {_shape(t)}" for _, t in case.biases() if t.shape and t.elements > t.shape[-1]), None)


@predicate
def max_bias(case: Case, limit: int) -> str | None:
    """64-bit biases of at most {}"""
    for _, tensor in case.biases():
        values = _values(case, tensor) if tensor.dtype is DType.INT64 else None
        if values is not None and values.size and int(values.max()) > limit:
            return f"a bias is {int(values.max())}"
    return None


@predicate
def single_slope(case: Case) -> str | None:
    """one slope, or constant ones that are all the same"""
    slope = case.input(1)
    if slope is None or slope.elements == 1:
        return None
    values = _values(case, slope)
    alike = values is not None and values.size and (values == values.flat[0]).all()
    return None if alike else f"{slope.elements} slopes"


# --- reductions and softmax ----------


def _reduced(case: Case) -> tuple[tuple[int, ...], set[int]] | None:
    """The input's shape and which of its axes are reduced; None where that is not known."""
    data, axes = case.data(), case.integers(1)
    if data is None or axes is None or not data.shape:
        return None
    return data.shape, {axis % len(data.shape) for axis in axes}


def _image(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The last 4 dimensions, filled up with leading ones."""
    return ((1,) * 4 + shape)[-4:]


@predicate
def unit_batch(case: Case) -> str | None:
    """a batch of 1"""
    data = case.data()
    batch = math.prod(data.shape[:-3]) if data else 1
    return f"batch {batch}" if batch != 1 else None


@predicate
def flat_if_depth_reduced(case: Case) -> str | None:
    """a height, width or depth of 1 to reduce the depth"""
    found = _reduced(case)
    if found is None or len(found[0]) - 1 not in found[1] or 1 in _image(found[0])[1:]:
        return None
    return f"reduces the depth of {'x'.join(map(str, found[0]))}"


@predicate
def max_reduced_axis(case: Case, limit: int) -> str | None:
    """reduced axes of size {} at most"""
    found = _reduced(case)
    largest = max((found[0][axis] for axis in found[1]), default=0) if found else 0
    return f"reduces an axis of size {largest}" if largest > limit else None


@predicate
def max_reduced_elements(case: Case, limits: dict[str, int]) -> str | None:
    """at most {} elements for each result"""
    found, data = _reduced(case), case.data()
    limit = limits.get(data.dtype.value) if data else None
    if found is None or limit is None:
        return None
    count = math.prod(found[0][axis] for axis in found[1])
    return f"reduces {count} elements" if count > limit else None


@predicate
def reduced_products(case: Case, limit: int) -> str | None:
    """for each reduced axis but the last: its size, the sizes before and those after it, multiplied, at most {}"""
    found = _reduced(case)
    for axis in sorted(found[1] - {len(found[0]) - 1}) if found else ():
        shape = found[0] if found else ()
        products = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
        if max(products) > limit:
            return f"reduces axis {axis} of {'x'.join(map(str, shape))}"
    return None


@predicate
def last_axis(case: Case) -> str | None:
    """the last axis"""
    data, axes = case.data(), case.integers(1)
    if data is None or axes is None:
        return "the axis is computed"
    return None if set(axes) <= {-1, len(data.shape) - 1} else f"axis {axes[0]} of {len(data.shape)}"


@predicate
def max_softmax_area(case: Case, limit: int) -> str | None:
    """a height times width of at most {}"""
    data = case.data()
    area = math.prod(_image(data.shape)[1:3]) if data else 0
    return f"{area} places" if area > limit else None


# --- counts ----------


@predicate
def input_count(case: Case, count: int) -> str | None:
    """{} inputs, absent ones counted"""
    return f"{len(case.op.inputs)} inputs" if len(case.op.inputs) != count else None


@predicate
def intermediate_count(case: Case, count: int) -> str | None:
    """{} intermediate tensors"""
    return f"{len(case.op.intermediates)} intermediate tensors" if len(case.op.intermediates) != count else None


@predicate
def least_options(case: Case, least: dict[str, float]) -> str | None:
    """options of at least {}

    By the schema's names; an option that the op does not have is fine.
    """
    for name, value in least.items():
        found = case.op.options.get(name, value)
        if isinstance(found, int | float) and found < value:
            return f"{name} is {found:g}"
    return None


@predicate
def splits_match(case: Case) -> str | None:
    """as many outputs as num_splits says"""
    said, outputs = case.option("num_splits", 0), len(case.op.outputs)
    return f"num_splits is {said} for {outputs} outputs" if said != outputs else None
