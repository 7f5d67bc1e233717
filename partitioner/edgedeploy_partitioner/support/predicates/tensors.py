# SPDX-License-Identifier: Apache-2.0
"""Rules on the operands of any op: shapes, element types, quantisation, constants, options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from edgedeploy_partitioner.model.graph import DType, Tensor
from edgedeploy_partitioner.support.case import Case, Operand
from edgedeploy_partitioner.support.predicates.registry import Between, predicate

_QUANTISED = (DType.INT8, DType.UINT8)


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "scalar"


def _first(operands: Iterable[Operand], *wrong: DType) -> str | None:
    return next((f"{role} is {tensor.dtype.value}" for role, tensor in operands if tensor.dtype in wrong), None)


# --- shapes ----------


@predicate
def static_shapes(case: Case) -> str | None:
    """a static shape (--input-shape fixes it)"""
    for role, tensor in (*case.inputs(), *case.outputs()):
        if tensor.is_constant:
            continue
        sizes = tensor.signature or tensor.shape
        free = next((i for i, size in enumerate(sizes) if size < 0), None)
        if free is not None:
            return f"{role} dim {free} is {sizes[free]}"
        if not tensor.has_rank and not tensor.shape:
            return f"{role} has no known rank"
    return None


@predicate
def no_empty_tensors(case: Case) -> str | None:
    """data with at least one element"""
    for role, tensor in (*case.data_inputs(), *case.outputs()):
        if 0 in tensor.shape:
            return f"{role} has shape {_shape(tensor)}"
    return None


@predicate
def max_rank(case: Case, rank: int) -> str | None:
    """tensors of rank {} at most"""
    for role, tensor in (*case.inputs(), *case.outputs()):
        if len(tensor.shape) > rank:
            return f"{role} has rank {len(tensor.shape)}"
    return None


@predicate
def input_rank(case: Case, rank: Between) -> str | None:
    """an input of rank {}"""
    data = case.data()
    return f"input has rank {len(data.shape)}" if data and not rank.holds(len(data.shape)) else None


@predicate
def output_rank(case: Case, rank: Between) -> str | None:
    """an output of rank {}"""
    output = case.output(0)
    return f"output has rank {len(output.shape)}" if output and not rank.holds(len(output.shape)) else None


@predicate
def max_sizes(case: Case, limits: dict[Literal["N", "C", "H", "W"], int]) -> str | None:
    """at most {} in size, input and output

    By the vendor's axis names.
    """
    data = case.data()
    for role, tensor in ([Operand("input", data)] if data else []) + list(case.outputs()):
        sizes = case.vendor(tensor)
        for axis, limit in limits.items():
            if sizes.get(axis, 0) > limit:
                return f"{role} {axis} is {sizes[axis]}"
    return None


@predicate
def max_input_sizes(case: Case, limits: dict[Literal["N", "C", "H", "W"], int]) -> str | None:
    """at most {} in size on the input

    By the vendor's axis names.
    """
    data = case.data()
    sizes = case.vendor(data) if data else {}
    above = (axis for axis, limit in limits.items() if sizes.get(axis, 0) > limit)
    return next((f"input {axis} is {sizes[axis]}" for axis in above), None)


@predicate
def max_dimension(case: Case, limit: int) -> str | None:
    """no dimension above {}, weights included"""
    for role, tensor in (*case.inputs(), *case.outputs()):
        if any(size > limit for size in tensor.shape):
            return f"{role} has shape {_shape(tensor)}"
    return None


# --- element types and quantisation ----------


@predicate
def element_types(case: Case, types: tuple[DType, ...]) -> str | None:
    """data of type {}"""
    return _first((*case.data_inputs(), *case.outputs()), *(set(DType) - set(types)))


@predicate
def input_types(case: Case, types: tuple[DType, ...]) -> str | None:
    """input of type {}"""
    return _first(case.data_inputs(), *(set(DType) - set(types)))


@predicate
def no_types(case: Case, types: tuple[DType, ...]) -> str | None:
    """data of another type than {}"""
    return _first((*case.data_inputs(), *case.outputs()), *types)


@predicate
def computed_types(case: Case, types: tuple[str, ...]) -> str | None:
    """to be computed in {}

    float32 data may be computed in float16: the table's ``computes_as`` says so.
    """
    found = case.computed_type()
    return None if found in types else f"computed in {found or 'no known type'}"


@predicate
def same_type_weights(case: Case) -> str | None:
    """weights of the data's type: quantised in full, or float (no hybrid or 16x8)"""
    data = case.data()
    for role, weights in case.weights():
        if data and case.computed_as(weights) != case.computed_as(data):
            return f"{role} is {weights.dtype.value}, data is {data.dtype.value}"
    return None


@predicate
def quantised(case: Case) -> str | None:
    """a scale for every 8-bit tensor"""
    for role, tensor in (*case.data_inputs(), *case.outputs()):
        if tensor.dtype in _QUANTISED and not (tensor.quantization and tensor.quantization.scales):
            return f"{role} is {tensor.dtype.value} without a scale"
    return None


@predicate
def per_tensor_data(case: Case) -> str | None:
    """one scale for each tensor that is computed"""
    for role, tensor in (*case.data_inputs(), *case.outputs()):
        q = tensor.quantization
        if q and len(set(q.scales)) > 1 and not case.is_constant(tensor):
            return f"{role} has {len(q.scales)} scales"
    return None


@predicate
def no_block_scales(case: Case) -> str | None:
    """scales per tensor or per channel, not per block"""
    for role, tensor in case.data_inputs():
        if tensor.quantization and tensor.quantization.block_size:
            return f"{role} is quantised in blocks of {tensor.quantization.block_size}"
    return None


# --- constants, state, options ----------


@predicate
def constant_inputs(case: Case, positions: tuple[int, ...]) -> str | None:
    """constants as input {}

    An absent input counts as constant.
    """
    for i in positions:
        tensor = case.input(i)
        if tensor and not case.is_constant(tensor):
            return f"input {i} is computed"
    return None


@predicate
def present_inputs(case: Case, positions: tuple[int, ...]) -> str | None:
    """input {} to be there"""
    return next((f"input {i} is absent" for i in positions if case.input(i) is None), None)


@predicate
def absent_inputs(case: Case, positions: tuple[int, ...]) -> str | None:
    """input {} to be absent"""
    return next((f"input {i} is there" for i in positions if case.input(i) is not None), None)


@predicate
def dense(case: Case) -> str | None:
    """dense constants"""
    return next((f"{role} is stored sparse" for role, tensor in case.inputs() if tensor.is_sparse), None)


@predicate
def stateless(case: Case) -> str | None:
    """no state kept from run to run"""
    return next((f"{role} is a variable tensor" for role, tensor in case.inputs() if tensor.is_variable), None)


@predicate
def options(case: Case, allowed: dict[str, tuple[int | float | bool | str, ...]]) -> str | None:
    """options {}

    By the schema's names; an option that the op does not have is fine.
    """
    for name, values in allowed.items():
        if name in case.op.options and case.op.options[name] not in values:
            return f"{name} is {case.op.options[name]}"
    return None
