# SPDX-License-Identifier: Apache-2.0
"""Rules on ops that move data: transpositions, slices, resizes."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from edgedeploy_partitioner.support import axes
from edgedeploy_partitioner.support.case import Case
from edgedeploy_partitioner.support.predicates.registry import Between, predicate
from edgedeploy_profiles.schema import TransposeBound


@predicate
def transposes(case: Case) -> str | None:
    """sizes within the bounds of that permutation

    The bounds are the rows ``transposes`` of the table, in the vendor's axes.
    """
    data, perm = case.data(), case.integers(1)
    order = case.backend.vendor_axes
    sizes = case.vendor(data) if data else {}
    moved = axes.vendor_permutation(perm, order) if perm is not None else None
    if moved is None or not sizes or data is None or len(perm or ()) != len(data.shape):
        return "the permutation is computed" if perm is None else f"permutation {list(perm)}"
    here = (row for row in case.backend.transposes if case.soc in (row.socs or (case.soc,)))
    rows = [row for row in here if row.perm == moved]
    computed = case.computed_as(data)
    broken = [row for row in rows if row.dtype in ("", computed) and not _holds(row, sizes)]
    if rows and not broken:
        return None
    what = f"permutation {list(moved)} of {list(sizes.values())} ({order})"
    if not broken:
        return what
    # Where two rows bound the same product, the tighter one governs.
    row = min(broken, key=lambda row: row.less_than or math.inf)
    bound = f"less than {row.less_than}" if row.less_than is not None else f"a multiple of {row.multiple_of}"
    return f"{what}: {'*'.join(row.product)} = {_product(row, sizes)} is not {bound}"


def _product(row: TransposeBound, sizes: dict[str, int]) -> int:
    return math.prod(sizes[axis] for axis in row.product)


def _holds(row: TransposeBound, sizes: dict[str, int]) -> bool:
    product = _product(row, sizes)
    below = row.less_than is None or product < row.less_than
    return below and (not row.multiple_of or product % row.multiple_of == 0)


class Area(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of these permutations, in the vendor's axes, H * W is ``below`` a number."""

    perms: tuple[tuple[int, int, int, int], ...]
    below: int

    def __str__(self) -> str:
        return f"{self.below} (permutations {', '.join(' '.join(map(str, perm)) for perm in self.perms)})"


@predicate
def permuted_area(case: Case, bound: Area) -> str | None:
    """H * W below {}"""
    data, perm = case.data(), case.integers(1)
    sizes = case.vendor(data) if data else {}
    moved = axes.vendor_permutation(perm, case.backend.vendor_axes) if perm is not None else None
    if moved not in bound.perms or not sizes:
        return None
    area = sizes["H"] * sizes["W"]
    return f"permutation {list(moved)} with H*W = {area}" if area >= bound.below else None


@predicate
def split_axis(case: Case, allowed: tuple[int, ...]) -> str | None:
    """to split along axis {}, written like that in the file"""
    found = case.integers(0)
    if found is None or len(found) != 1:
        return "the axis is computed"
    return None if found[0] in allowed else f"axis {found[0]}"


@predicate
def max_padding(case: Case, limit: int) -> str | None:
    """constant paddings of at most {} on each side, and none of the batch"""
    found = case.integers(1)
    if found is None:
        return "paddings are computed"
    return f"paddings {list(found)}" if any(found[:2]) or any(pad > limit for pad in found) else None


@predicate
def unit_strides(case: Case) -> str | None:
    """constant strides of 1"""
    found = case.integers(3)
    if found is None:
        return "strides are computed"
    return None if set(found) <= {1} else f"strides {list(found)}"


@predicate
def upscale(case: Case, factors: Between) -> str | None:
    """to enlarge height and width by whole factors of {}, or from 1x1"""
    data, output = case.data(), case.output(0)
    if data is None or output is None or {len(data.shape), len(output.shape)} != {4}:
        return "no image of 4 dimensions"
    before, after = data.shape[1:3], output.shape[1:3]
    whole = all(b > 0 and a % b == 0 and factors.holds(a // b) for b, a in zip(before, after, strict=True))
    return None if whole or before == (1, 1) else f"{before[0]}x{before[1]} to {after[0]}x{after[1]}"


@predicate
def sampling(case: Case, modes: tuple[Literal["half_pixel_centers", "align_corners", "asymmetric"], ...]) -> str | None:
    """sampling by {}"""
    found = next((m for m in ("half_pixel_centers", "align_corners") if case.op.options.get(m)), "asymmetric")
    return None if found in modes else f"{found} sampling"
