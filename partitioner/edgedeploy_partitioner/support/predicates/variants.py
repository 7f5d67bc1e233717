# SPDX-License-Identifier: Apache-2.0
"""Rules of stock delegates on how an op is used: groups, dilation and strides, repeated operands, axes."""

from __future__ import annotations

from edgedeploy_partitioner.model.graph import Tensor
from edgedeploy_partitioner.support.case import Case
from edgedeploy_partitioner.support.predicates.registry import predicate
from edgedeploy_partitioner.support.predicates.windows import window

_RANK_OF_IMAGES = 4


# --- groups and windows ----------


def _depths(case: Case) -> tuple[int, int] | None:
    """Channels of a CONV_2D's input, and of its weights."""
    data, weights = case.data(), next(case.weights(), None)
    if data is None or weights is None or not data.shape or not weights.tensor.shape:
        return None
    return data.shape[-1], weights.tensor.shape[-1]


@predicate
def ungrouped(case: Case) -> str | None:
    """weights as deep as the input (no groups)"""
    depths = _depths(case)
    return f"input has {depths[0]} channels, weights {depths[1]}" if depths and depths[0] != depths[1] else None


@predicate
def batch_one_if_grouped(case: Case) -> str | None:
    """a batch of 1 if the channels are in groups"""
    data = case.data()
    return None if data is None or data.shape[:1] == (1,) or ungrouped(case) is None else f"batch {data.shape[0]}"


@predicate
def max_channels(case: Case, limits: dict[str, int]) -> str | None:
    """at most {} input channels, by the type that is computed in"""
    data = case.data()
    limit = limits.get(case.computed_type())
    if data is None or not data.shape or limit is None or data.shape[-1] <= limit:
        return None
    return f"{data.shape[-1]} channels in {case.computed_type()}"


@predicate
def dilation_among(case: Case, factors: tuple[int, ...]) -> str | None:
    """a dilation of {}"""
    found = window(case)
    return f"dilation {found.show('dilation')}" if found and not {s.dilation for s in found} <= {*factors} else None


@predicate
def unit_strides_if_dilated(case: Case) -> str | None:
    """strides of 1 when dilated"""
    found = window(case)
    if found is None or all(side.dilation == 1 for side in found) or all(side.stride == 1 for side in found):
        return None
    return f"stride {found.show('stride')} with dilation {found.show('dilation')}"


@predicate
def strides_within_kernel(case: Case) -> str | None:
    """strides no larger than the kernel"""
    found = window(case)
    holds = found is None or all(side.stride <= side.kernel for side in found)
    return None if found is None or holds else f"stride {found.show('stride')} of kernel {found.show('kernel')}"


@predicate
def max_global_kernel(case: Case, area: int) -> str | None:
    """a kernel that covers the whole input, of at most {} positions"""
    found, data = window(case), case.data()
    if found is None or data is None:
        return "no kernel size is known"
    kernel = (found.height.kernel, found.width.kernel)
    if kernel != data.shape[1:3]:
        return f"kernel {found.show('kernel')} on {data.shape[1]}x{data.shape[2]}"
    return f"kernel {found.show('kernel')}" if kernel[0] * kernel[1] > area else None


# --- operands and axes ----------


@predicate
def repeats_lower_rank(case: Case) -> str | None:
    """operands of one shape, or the one of lower rank (the first of two) repeated to the other's shape"""
    a, b = case.input(0), case.input(1)
    if a is None or b is None or a.shape == b.shape:
        return None
    small, large = (b, a) if len(a.shape) > len(b.shape) else (a, b)
    return None if _repeats(small, large) else f"shapes {list(a.shape)} and {list(b.shape)}"


def _repeats(small: Tensor, large: Tensor) -> bool:
    kept = large.shape[len(large.shape) - len(small.shape) :]
    return all(size in (1, whole) for size, whole in zip(small.shape, kept, strict=True))


@predicate
def one_adjoint(case: Case) -> str | None:
    """at most one of adj_x and adj_y"""
    return "adj_x and adj_y are set" if case.op.options.get("adj_x") and case.op.options.get("adj_y") else None


@predicate
def keeps_batch(case: Case) -> str | None:
    """the first dimension whole if there are 4 or more"""
    data, output = case.data(), case.output(0)
    if data is None or output is None or len(data.shape) < _RANK_OF_IMAGES or data.shape[:1] == output.shape[:1]:
        return None
    return f"first dimension {data.shape[0]} becomes {list(output.shape)[:1]}"


@predicate
def packs_before_last(case: Case) -> str | None:
    """to pack along another axis than the last"""
    data, axis = case.data(), case.option("axis", 0)
    return f"axis {axis}" if data and axis in (-1, len(data.shape)) else None


@predicate
def no_crops(case: Case) -> str | None:
    """constant crops of 0 in height and width"""
    crops = case.integers(2)
    return None if crops == (0, 0, 0, 0) else "the crops are computed" if crops is None else f"crops {list(crops)}"


@predicate
def no_empty_splits(case: Case) -> str | None:
    """parts with at least one element"""
    sizes = case.integers(1)
    if sizes is None:
        return "the sizes are computed"
    return f"sizes {list(sizes)}" if 0 in sizes or any(0 in tensor.shape for _, tensor in case.outputs()) else None
