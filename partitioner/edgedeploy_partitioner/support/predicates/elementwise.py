# SPDX-License-Identifier: Apache-2.0
"""Rules on element-wise ops, matrix products and reductions."""

from __future__ import annotations

from typing import Literal

import msgspec

from edgedeploy_partitioner.support import axes
from edgedeploy_partitioner.support.case import Case
from edgedeploy_partitioner.support.predicates.registry import Between, predicate


class Broadcast(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``patterns`` in the vendor's axes, e.g. ``NC1W``: a letter keeps the axis, 1 repeats it. A repeated H or W is at
    most ``limit``."""

    patterns: tuple[str, ...]
    limit: int

    def __str__(self) -> str:
        return f"{', '.join(self.patterns)} (at most {self.limit} along a repeated H or W)"


@predicate
def broadcast(case: Case, allowed: Broadcast) -> str | None:
    """operands of the output's shape, scalars, or repeated as {}"""
    output = case.output(0)
    full = case.vendor(output) if output else {}
    if output is None or not full:
        return None
    for role, tensor in case.data_inputs():
        part = case.vendor(tensor, rank=len(output.shape))
        if part == full or tensor.elements == 1:
            continue
        if not any(_fits(part, full, pattern) for pattern in allowed.patterns):
            return f"{role} of shape {list(part.values())} is repeated to {list(full.values())}"
        for axis in "HW":
            if part[axis] == 1 and full[axis] > allowed.limit:
                return f"{role} is repeated to {axis} = {full[axis]}"
    return None


def _fits(part: dict[str, int], full: dict[str, int], pattern: str) -> bool:
    kept = zip(part.items(), pattern, strict=False)
    return len(part) == len(pattern) and all(size == (full[axis] if mark == axis else 1) for (axis, size), mark in kept)


@predicate
def slope_per_channel(case: Case, axis: Literal["N", "C", "H", "W"]) -> str | None:
    """one slope, or one per {}

    By the vendor's axis name.
    """
    slope, data = case.input(1), case.data()
    if slope is None or data is None or slope.elements == 1:
        return None
    sizes, slopes = case.vendor(data), case.vendor(slope, rank=len(data.shape))
    holds = slopes and all(size == (sizes.get(name) if name == axis else 1) for name, size in slopes.items())
    return None if holds else f"slope of shape {list(slope.shape)}"


@predicate
def exponents(case: Case, allowed: tuple[float, ...]) -> str | None:
    """a constant exponent of {}"""
    found = case.floats(1)
    if found is None:
        return "exponent is computed"
    return next((f"exponent {value:g}" for value in found if value not in allowed), None)


@predicate
def max_matmul_depth(case: Case, limit: int) -> str | None:
    """a depth (the size summed over) of at most {}"""
    data = case.data()
    if data is None or len(data.shape) < 2:
        return None
    depth = data.shape[-2 if case.op.options.get("adj_x") else -1]
    return f"depth {depth}" if depth > limit else None


@predicate
def reduced_axes(case: Case, names: str) -> str | None:
    """to reduce exactly the axes {}

    By the vendor's axis names.
    """
    data, reduced = case.data(), case.integers(1)
    if data is None or reduced is None:
        return "the axes are computed"
    order = case.backend.vendor_axes
    found = [axes.vendor_axis(axis, len(data.shape), order) for axis in reduced]
    letters = {order[axis] if axis is not None else "?" for axis in found}
    return None if letters == set(names) else f"axes {list(reduced)} of rank {len(data.shape)}"


@predicate
def batch_one_or_multiple(case: Case, factor: int) -> str | None:
    """a batch of 1 or a multiple of {}

    Of a recurrent op, whose input is [time, batch, features] if its option ``time_major`` is set.
    """
    data = case.data()
    if data is None or len(data.shape) != 3:
        return None
    batch = data.shape[1 if case.op.options.get("time_major") else 0]
    return None if batch == 1 or batch % factor == 0 else f"batch {batch}"


@predicate
def gathered_indices_rank(case: Case, rank: Between) -> str | None:
    """indices of rank {}"""
    indices = case.input(1)
    return f"indices have rank {len(indices.shape)}" if indices and not rank.holds(len(indices.shape)) else None
