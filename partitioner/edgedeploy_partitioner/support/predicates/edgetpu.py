# SPDX-License-Identifier: Apache-2.0
"""Rules of Coral's Edge TPU compiler."""

from __future__ import annotations

import numpy as np

from edgedeploy_partitioner.model.shapes.site import constant
from edgedeploy_partitioner.support.case import Case
from edgedeploy_partitioner.support.predicates.registry import predicate
from edgedeploy_partitioner.support.predicates.windows import window

_INNER = 3


def _show(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


@predicate
def three_inner_dimensions(case: Case) -> str | None:
    """sizes of 1 in all but the three innermost dimensions

    Of data that flows in and out; weights have their own shapes.
    """
    for role, tensor in (*case.data_inputs(), *case.outputs()):
        if role != "weight" and any(size != 1 for size in tensor.shape[:-_INNER]):
            return f"{role} has shape {_show(tensor.shape)}"
    return None


@predicate
def vector_output(case: Case) -> str | None:
    """an output with at most one dimension above 1"""
    output = case.output(0)
    above = sum(size > 1 for size in output.shape) if output else 0
    return f"output has shape {_show(output.shape)}" if output and above > 1 else None


@predicate
def max_elements(case: Case, limit: int) -> str | None:
    """an input of at most {} elements"""
    data = case.data()
    return f"input has {data.elements} elements" if data and data.elements > limit else None


@predicate
def leading_ones(case: Case) -> str | None:
    """an input without a dimension of 1 behind a larger one"""
    data = case.data()
    larger = [size != 1 for size in data.shape] if data else []
    return f"input has shape {_show(data.shape)}" if data and larger != sorted(larger) else None


@predicate
def equal_dilation(case: Case) -> str | None:
    """the same dilation along height and width"""
    found = window(case)
    same = found is None or found.height.dilation == found.width.dilation
    return None if same or found is None else f"dilation {found.show('dilation')}"


@predicate
def constants_only_pad(case: Case) -> str | None:
    """no constants, but for one of zeros beside one other input"""
    inputs = tuple(case.data_inputs())
    constants = [operand for operand in inputs if case.is_constant(operand.tensor)]
    for role, tensor in constants:
        if len(inputs) != 2 or len(constants) > 1:
            return f"{role} is a constant among {len(inputs)} inputs"
        zero = tensor.quantization.zero_points[0] if tensor.quantization and tensor.quantization.zero_points else 0
        values = constant(case.graph, tensor) if tensor.is_constant else None
        if values is None or np.any(values != zero):
            return f"{role} is a constant that is not all zeros"
    return None


@predicate
def batch_not_reduced(case: Case) -> str | None:
    """constant axes without the first one, the batch"""
    data, axes = case.data(), case.integers(1)
    if data is None or axes is None:
        return "the axes are computed"
    return f"axes {list(axes)}" if data.shape and any(axis % len(data.shape) == 0 for axis in axes) else None


@predicate
def reduced_depth_multiple(case: Case, factor: int) -> str | None:
    """a depth that is a multiple of {}, if the depth is reduced"""
    data, axes = case.data(), case.integers(1)
    if data is None or axes is None or not data.shape:
        return None
    last = len(data.shape) - 1
    reduced = any(axis % len(data.shape) == last for axis in axes)
    return f"reduces a depth of {data.shape[last]}" if reduced and data.shape[last] % factor else None


@predicate
def not_packed_along_batch(case: Case) -> str | None:
    """an axis that is not the first one, the batch"""
    output, axis = case.output(0), case.option("axis", 0)
    return f"axis {axis}" if output and output.shape and axis % len(output.shape) == 0 else None


@predicate
def batch_not_padded(case: Case) -> str | None:
    """constant paddings, and none of the first dimension, the batch"""
    found = case.integers(1)
    if found is None:
        return "paddings are computed"
    return f"paddings {list(found)}" if any(found[:2]) else None
