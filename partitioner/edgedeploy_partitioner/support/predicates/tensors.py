# SPDX-License-Identifier: Apache-2.0
"""Rules on the operands of any op: shapes, element types, quantisation, constants, options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from edgedeploy_partitioner.model.graph import DType, Tensor
from edgedeploy_partitioner.support.case import Case, Operand
from edgedeploy_partitioner.support.predicates.registry import Between, predicate

_QUANTISED = (DType.INT8, DType.UINT8)
_SIX = 6.000001  # scales are single-precision: 255 times that of 6/255 is a little more than 6


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
def min_sizes(case: Case, limits: dict[Literal["N", "C", "H", "W"], int]) -> str | None:
    """at least {} in size, input and output

    By the vendor's axis names.
    """
    data = case.data()
    for role, tensor in ([Operand("input", data)] if data else []) + list(case.outputs()):
        sizes = case.vendor(tensor)
        for axis, limit in limits.items():
            if sizes.get(axis, limit) < limit:
                return f"{role} {axis} is {sizes[axis]}"
    return None


@predicate
def other_sizes(case: Case, sizes: dict[Literal["N", "C", "H", "W"], int]) -> str | None:
    """an input of another size than {}

    By the vendor's axis names.
    """
    data = case.data()
    found = case.vendor(data) if data else {}
    same = found and all(found[axis] == size for axis, size in sizes.items())
    return "input " + ", ".join(f"{axis} is {size}" for axis, size in sizes.items()) if same else None


@predicate
def same_shapes(case: Case) -> str | None:
    """operands of the output's shape"""
    output = case.output(0)
    other = next((o for o in case.data_inputs() if output and o.tensor.shape != output.shape), None)
    return f"{other.role} has shape {_shape(other.tensor)}, output has {_shape(output)}" if other and output else None


@predicate
def vector_data(case: Case) -> str | None:
    """data with at most one dimension above 1"""
    data = case.data()
    return f"input has shape {_shape(data)}" if data and sum(size != 1 for size in data.shape) > 1 else None


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
def unsigned_bytes(case: Case) -> str | None:
    """uint8 data and weights (every byte is shifted by 128, which is only right where it has no sign)"""
    return _first((*case.data_inputs(), *case.outputs()), *(set(DType) - {DType.UINT8}))


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
def per_tensor_weights(case: Case) -> str | None:
    """one scale for all weights and one for all biases (per tensor, not per channel)

    Equal scales count as one.
    """
    for role, tensor in (*case.weights(), *case.biases()):
        if tensor.quantization and len(set(tensor.quantization.scales)) > 1:
            return f"{role} has {len(tensor.quantization.scales)} scales"
    return None


@predicate
def paired_zero_points(case: Case) -> str | None:
    """a model whose every tensor has as many zero points as scales

    Looks at the whole subgraph: what stumbles over such a tensor does so for all ops.
    """
    for tensor in case.graph.subgraphs[case.op.subgraph].tensors:
        q = tensor.quantization
        if q and len(q.scales) != len(q.zero_points):
            points = "1 zero point" if len(q.zero_points) == 1 else f"{len(q.zero_points)} zero points"
            return f"tensor {tensor.id} has {len(q.scales)} scales and {points}"
    return None


@predicate
def clamp_implied(case: Case, ends: tuple[Literal["lower", "upper"], ...]) -> str | None:
    """a fused RELU or RELU6 whose {} end is already that of the output's quantised type

    So that nothing has to be clamped there: 0 is the smallest value it can hold (lower), 6 or less the largest (upper).
    """
    output, fused = case.output(0), case.op.options.get("fused_activation_function")
    if output is None or fused not in ("RELU", "RELU6"):
        return None
    q = output.quantization
    if output.dtype not in _QUANTISED or not q or not q.scales or len(q.zero_points) != len(q.scales):
        return f"fused {fused} on {output.dtype.value} without one scale and zero point"
    smallest = -128 if output.dtype is DType.INT8 else 0
    if "lower" in ends and any(zero != smallest for zero in q.zero_points):
        lowest = min(scale * (smallest - zero) for scale, zero in zip(q.scales, q.zero_points, strict=True))
        return f"fused {fused} on an output that goes down to {lowest:g}"
    if "upper" in ends and fused == "RELU6":
        largest = max(scale * (smallest + 255 - zero) for scale, zero in zip(q.scales, q.zero_points, strict=True))
        if not largest <= _SIX:
            return f"fused RELU6 on an output that goes up to {largest:g}"
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
def computed_inputs(case: Case, positions: tuple[int, ...]) -> str | None:
    """computed data (no constant) as input {}"""
    for i in positions:
        tensor = case.input(i)
        if tensor is None or case.is_constant(tensor):
            return f"input {i} is {'constant' if tensor else 'absent'}"
    return None


@predicate
def max_operands(case: Case, count: int) -> str | None:
    """at most {} inputs, and as many outputs"""
    inputs, outputs = len(case.op.inputs), len(case.op.outputs)
    return f"{inputs} inputs and {outputs} outputs" if max(inputs, outputs) > count else None


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
