# SPDX-License-Identifier: Apache-2.0
"""Rules of stock delegates on operands: inputs and outputs apart, weights, scales, states, op versions."""

from __future__ import annotations

from typing import Literal

from edgedeploy_partitioner.model.graph import DType
from edgedeploy_partitioner.support.case import Case
from edgedeploy_partitioner.support.predicates.registry import predicate

_OUTPUT_STATE, _CELL_STATE = 18, 19
"""Inputs of a recurrent op with LSTM cells."""
_BYTES = (DType.INT8, DType.UINT8)


@predicate
def op_version(case: Case, newest: int) -> str | None:
    """version {} of the op or older

    The TFLite version of the op in the file: converters raise it with the element types and options they use.
    """
    return f"version {case.op.version}" if case.op.version > newest else None


@predicate
def no_inputs_of(case: Case, types: tuple[DType, ...]) -> str | None:
    """no input of type {}, parameters included"""
    return next((f"{role} is {tensor.dtype.value}" for role, tensor in case.inputs() if tensor.dtype in types), None)


@predicate
def no_outputs_of(case: Case, types: tuple[DType, ...]) -> str | None:
    """no output of type {}"""
    return next((f"{role} is {tensor.dtype.value}" for role, tensor in case.outputs() if tensor.dtype in types), None)


@predicate
def output_types(case: Case, types: tuple[DType, ...]) -> str | None:
    """outputs of type {}"""
    wrong = (f"{role} is {tensor.dtype.value}" for role, tensor in case.outputs() if tensor.dtype not in types)
    return next(wrong, None)


@predicate
def max_inner_dimension(case: Case, limit: int) -> str | None:
    """inputs without a dimension above {}, the first one excepted"""
    for role, tensor in case.inputs():
        if any(size > limit for size in tensor.shape[1:]):
            return f"{role} has shape {'x'.join(map(str, tensor.shape))}"
    return None


@predicate
def bytes_have_rank(case: Case, least: int) -> str | None:
    """8-bit data of rank {} or more"""
    for role, tensor in case.data_inputs():
        if tensor.dtype in _BYTES and len(tensor.shape) < least:
            return f"{role} is {tensor.dtype.value} of rank {len(tensor.shape)}"
    return None


@predicate
def constant_scalars(case: Case) -> str | None:
    """scalar operands to be constants"""
    for role, tensor in case.data_inputs():
        if not tensor.shape and not tensor.is_constant:
            return f"{role} is a computed scalar"
    return None


# --- weights, scales ----------


@predicate
def weight_types(case: Case, types: tuple[DType, ...]) -> str | None:
    """weights of type {}"""
    wrong = (f"{role} is {tensor.dtype.value}" for role, tensor in case.weights() if tensor.dtype not in types)
    return next(wrong, None)


@predicate
def one_scale_each(case: Case) -> str | None:
    """one scale for each tensor, constants too"""
    for role, tensor in (*case.data_inputs(), *case.outputs()):
        if tensor.quantization and len(tensor.quantization.scales) > 1:
            return f"{role} has {len(tensor.quantization.scales)} scales"
    return None


@predicate
def symmetric_int16(case: Case) -> str | None:
    """a zero point of 0 for 16-bit data"""
    for role, tensor in (*case.data_inputs(), *case.outputs()):
        if tensor.dtype is DType.INT16 and tensor.quantization and any(tensor.quantization.zero_points):
            return f"{role} has zero point {next(filter(None, tensor.quantization.zero_points))}"
    return None


@predicate
def shrinking_scales(case: Case) -> str | None:
    """the scales of uint8 data and weights, multiplied, to be below the output's"""
    data, weights, output = case.data(), next(case.weights(), None), case.output(0)
    if data is None or data.dtype is not DType.UINT8 or weights is None or output is None:
        return None
    first = [
        t.quantization.scales[0] for t in (data, weights.tensor, output) if t.quantization and t.quantization.scales
    ]
    if len(first) < 3 or first[0] * first[1] < first[2]:
        return None
    return f"scales {first[0]:g} * {first[1]:g} for an output of {first[2]:g}"


# --- states and conditions ----------


@predicate
def cell_state_types(case: Case, types: tuple[DType, ...]) -> str | None:
    """a cell state of type {}"""
    state = case.input(_CELL_STATE)
    return f"cell state is {state.dtype.value}" if state and state.dtype not in types else None


@predicate
def state_as_output(case: Case) -> str | None:
    """an output state of the output's type"""
    state, output = case.input(_OUTPUT_STATE), case.output(0)
    if state is None or output is None or state.dtype is output.dtype:
        return None
    return f"output state is {state.dtype.value}, output is {output.dtype.value}"


@predicate
def condition_like_data(case: Case, what: Literal["rank", "shape"]) -> str | None:
    """a condition of the {} of what it selects"""
    condition, data = case.input(0), case.input(1)
    if condition is None or data is None or (len(condition.shape) == len(data.shape) and what == "rank"):
        return None
    if condition.shape == data.shape:
        return None
    return f"condition of shape {list(condition.shape)} for data of shape {list(data.shape)}"
