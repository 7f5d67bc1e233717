# SPDX-License-Identifier: Apache-2.0
"""Rules of Arm's Vela compiler on windows, resizes, permutations and slices."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from edgedeploy_partitioner.model.graph import DType
from edgedeploy_partitioner.support.case import Case
from edgedeploy_partitioner.support.predicates.registry import predicate
from edgedeploy_partitioner.support.predicates.windows import Window, window

_IMAGE = 3  # height, width, depth: the last three axes


def _padded(found: Window) -> bool:
    return any((*found.height.padding, *found.width.padding))


# --- windows ----------


@predicate
def strides_unless_unrolled(case: Case, limit: int) -> str | None:
    """strides of at most {}, or neither padding nor dilation

    Along a side whose output is 1 nothing is strided.
    """
    found, output = window(case), case.output(0)
    if found is None or output is None:
        return None
    moved = [side.stride for side, size in zip(found, output.shape[1:3], strict=True) if size > 1]
    if max(moved, default=1) <= limit:
        return None
    dilated = any(side.dilation > 1 for side in found)
    how = " and ".join(["padding"] * _padded(found) + ["dilation"] * dilated)
    return f"stride {found.show('stride')} with {how}" if how else None


class PoolKernel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Most ``height`` and most height times width (``area``), and most of both sides where the input is padded."""

    height: int
    area: int
    padded: int | None = None

    def __str__(self) -> str:
        aside = f", {self.padded}x{self.padded} with padding" if self.padded else ""
        return f"height {self.height}, area {self.area}{aside}"


@predicate
def pool_kernel(case: Case, most: PoolKernel) -> str | None:
    """a kernel of at most {}"""
    found = window(case)
    if found is None:
        return None
    high, wide = found.height.kernel, found.width.kernel
    if most.padded is not None and _padded(found):
        holds = max(high, wide) <= most.padded
    else:
        holds = high <= most.height and high * wide <= most.area
    return None if holds else f"kernel {found.show('kernel')}{' with padding' if _padded(found) else ''}"


@predicate
def transposed_strides(case: Case) -> str | None:
    """strides of 1x1 or 2x2, or of 1x2 or 2x1 where the side of stride 1 is 1 in input and kernel"""
    found, data = window(case), case.data()
    if found is None or data is None:
        return None
    strides = [side.stride for side in found]
    flat = [side.kernel == size == 1 for side, size in zip(found, data.shape[1:3], strict=True) if side.stride == 1]
    holds = strides in ([1, 1], [2, 2]) or (sorted(strides) == [1, 2] and all(flat))
    return None if holds else f"stride {found.show('stride')}"


@predicate
def transposed_sizes(case: Case) -> str | None:
    """an output of stride times input, plus what the kernel exceeds the stride by if the padding is VALID"""
    found, data, output = window(case), case.data(), case.output(0)
    if found is None or data is None or output is None:
        return None
    same = case.op.options.get("padding") == "SAME"
    sides = zip(found, data.shape[1:3], output.shape[1:3], strict=True)
    holds = all(out == size * s.stride + (0 if same else max(s.kernel - s.stride, 0)) for s, size, out in sides)
    before, after = (f"{t.shape[1]}x{t.shape[2]}" for t in (data, output))
    return None if holds else f"{before} to {after}"


# --- resizes ----------


def _sizes(case: Case) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Height and width of an image before and after."""
    data, output = case.data(), case.output(0)
    if data is None or output is None or {len(data.shape), len(output.shape)} != {4} or 0 in data.shape:
        return None
    return (data.shape[1], data.shape[2]), (output.shape[1], output.shape[2])


def _show(before: tuple[int, int], after: tuple[int, int]) -> str:
    return f"{before[0]}x{before[1]} to {after[0]}x{after[1]}"


def _half_pixel(case: Case) -> bool:
    """What Vela looks at: the option counts for RESIZE_BILINEAR only."""
    return case.op.code == "RESIZE_BILINEAR" and bool(case.op.options.get("half_pixel_centers"))


@predicate
def no_resize(case: Case) -> str | None:
    """an image that keeps its size (bilinear: without half_pixel_centers), or one of 1x1"""
    sizes = _sizes(case)
    if sizes is None:
        return "no image of 4 dimensions"
    before, after = sizes
    keeps = before == after and not _half_pixel(case)
    return None if keeps or before == (1, 1) else _show(before, after)


class Factors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Allowed factors, and those for bilinear resizing with half_pixel_centers."""

    any: tuple[int, ...]
    half_pixel: tuple[int, ...]

    def __str__(self) -> str:
        factors, half = (", ".join(map(str, found)) for found in (self.any, self.half_pixel))
        return f"{factors} (bilinear with half_pixel_centers: {half})"


@predicate
def resize_factors(case: Case, allowed: Factors) -> str | None:
    """to enlarge height and width alike by {}; with align_corners of what lies between the corners

    One side may stay 1 where half_pixel_centers is not set.
    """
    sizes = _sizes(case)
    if sizes is None:
        return "no image of 4 dimensions"
    before, after = sizes
    high, wide = factors = [_factor(case, a, b) for b, a in zip(before, after, strict=True)]
    stays = any(size == factor == 1 for size, factor in zip(after, factors, strict=True))
    alike = high == wide or (stays and not _half_pixel(case))
    if alike and max(factors) in (allowed.half_pixel if _half_pixel(case) else allowed.any):
        return None
    return _show(before, after)


def _factor(case: Case, after: int, before: int) -> float:
    if not case.op.options.get("align_corners"):
        return after / before
    if after == 1:
        return 1
    return (after - 1) / (before - 1) if before > 1 else math.inf


# --- permutations and slices ----------


def _permutation(case: Case) -> tuple[int, ...] | None:
    data, perm = case.data(), case.integers(1)
    if data is None or perm is None or len(perm) != len(data.shape):
        return None
    found = tuple(axis % len(perm) for axis in perm)
    return found if sorted(found) == list(range(len(found))) else None


@predicate
def permuted_sizes(case: Case, limit: int) -> str | None:
    """8- and 16-bit data to be permuted within one image, or of few elements, by a bound of {}

    One image: height, width and depth change places, all axes before them are 1 and stay, and each size is within the
    bound. Else the sizes of all axes but the two smallest, multiplied, are.
    """
    data, perm = case.data(), _permutation(case)
    if data is None or data.dtype is DType.INT32:
        return None
    if perm is None:
        return "no permutation of all axes that is known"
    if perm == tuple(range(len(perm))):
        return None
    lead = max(len(perm) - _IMAGE, 0)
    image = perm[:lead] == tuple(range(lead)) and math.prod(data.shape[:lead]) == 1
    largest = max(data.shape) if image else math.prod(sorted(data.shape)[2:])
    shape = "x".join(map(str, data.shape))
    return f"permutation {list(perm)} of {shape}" if largest > limit else None


@predicate
def permuted_int32(case: Case, bounds: dict[str, tuple[int, int, int, int]]) -> str | None:
    """int32 data to be permuted to {}, those being the largest N, H, W and C

    N of 0: height and batch, multiplied, are at most H.
    """
    data, perm = case.data(), _permutation(case)
    if data is None or data.dtype is not DType.INT32:
        return None
    shape = "x".join(map(str, data.shape))
    if perm is None or len(perm) > 4:
        return f"permutation of {shape}"
    lead = 4 - len(perm)
    name = "".join("NHWC"[axis] for axis in (*range(lead), *(axis + lead for axis in perm)))
    n, h, w, c = (1,) * lead + data.shape
    most = bounds.get(name)
    if most is not None:
        found = (0, n * h, w, c) if most[0] == 0 else (n, h, w, c)
        if all(size <= limit for size, limit in zip(found, most, strict=True)):
            return None
    return f"permutation {name} of {shape}"


def _steps(case: Case) -> Iterator[tuple[int, int]]:
    """Each axis of a STRIDED_SLICE's input, from its end (-1 is the last), and its stride."""
    data, strides = case.data(), case.integers(3)
    rank, spec = len(data.shape) if data else 0, len(strides or ())
    masks = {name: case.option(f"{name}_mask", 0) for name in ("ellipsis", "new_axis")}
    axis = 0
    for i, stride in enumerate(strides or ()):
        if masks["ellipsis"] >> i & 1:
            later = sum(1 for j in range(i + 1, spec) if not masks["new_axis"] >> j & 1)
            axis = max(rank - later, axis)
        elif not masks["new_axis"] >> i & 1:
            yield axis - rank, stride
            axis += 1


@predicate
def image_strides(case: Case) -> str | None:
    """strides of 1 or more, above 1 only along height and width"""
    for axis, stride in _steps(case):
        if stride < 1 or (stride > 1 and axis not in (-3, -2)):
            return f"stride {stride} along axis {axis}"
    return None
