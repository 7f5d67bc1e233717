# SPDX-License-Identifier: Apache-2.0
"""Rules that Arm's Vela had up to version 3 and no longer has: on windows, operands, permutations and paddings."""

from __future__ import annotations

import msgspec

from edgedeploy_partitioner.support.case import Case
from edgedeploy_partitioner.support.predicates.registry import predicate
from edgedeploy_partitioner.support.predicates.windows import window

_IMAGE = 3  # height, width, depth: the last three axes


class KernelArea(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Most ``height`` and most height times width (``area``)."""

    height: int
    area: int

    def __str__(self) -> str:
        return f"height {self.height}, area {self.area}"


@predicate
def dilated_kernel(case: Case, most: KernelArea) -> str | None:
    """a kernel, dilated, of at most {}"""
    found = window(case)
    if found is None:
        return None
    high, wide = found.height.dilated, found.width.dilated
    return f"dilated kernel {high}x{wide}" if high > most.height or high * wide > most.area else None


@predicate
def multiplies_one_channel(case: Case) -> str | None:
    """one output per input channel, or one input channel"""
    data, output = case.data(), case.output(0)
    if data is None or output is None or not data.shape or not output.shape:
        return None
    before, after = data.shape[-1], output.shape[-1]
    return f"{before} channels to {after}" if before not in (1, after) else None


@predicate
def one_like_output(case: Case) -> str | None:
    """an input of the output's shape"""
    output, shapes = case.output(0), [tensor.shape for _, tensor in case.data_inputs()]
    if output is None or output.shape in shapes:
        return None
    return f"inputs {' and '.join('x'.join(map(str, shape)) or 'scalar' for shape in shapes)}"


@predicate
def swaps_neighbours(case: Case) -> str | None:
    """a permutation that swaps rows and columns of an image, or, of one row or column, its places and its depth"""
    data, perm = case.data(), case.integers(1)
    if data is None or perm is None or len(perm) != len(data.shape):
        return "no permutation of all axes that is known"
    order = [axis % len(perm) for axis in perm]
    if order == [1, 0]:
        return None
    lead = len(order) - _IMAGE
    image = [axis - lead for axis in order[lead:]]
    high, wide = data.shape[-_IMAGE:][:2] if lead >= 0 else (0, 0)
    swaps = image == [1, 0, 2] or (image == [0, 2, 1] and high == 1) or (image == [2, 1, 0] and wide == 1)
    whole = lead == 0 or (lead == 1 and data.shape[0] == 1)
    return None if swaps and whole else f"permutation {order} of {'x'.join(map(str, data.shape))}"


@predicate
def enlarged_alike(case: Case) -> str | None:
    """height and width enlarged alike, or from 1x1"""
    data, output = case.data(), case.output(0)
    if data is None or output is None or {len(data.shape), len(output.shape)} != {4}:
        return None
    (high, wide), (higher, wider) = data.shape[1:3], output.shape[1:3]
    off = 1 if case.op.options.get("align_corners") else 0  # then what lies between the corners counts
    alike = (higher - off) * (wide - off) == (wider - off) * (high - off)
    return None if alike or high == wide == 1 else f"{high}x{wide} to {higher}x{wider}"


@predicate
def pads_image_only(case: Case) -> str | None:
    """constant paddings of height and width only, of 3 or 4 dimensions"""
    found = case.integers(1)
    if found is None or len(found) not in (6, 8):
        return "paddings of an unknown or other rank"
    depth, lead = found[-2:], found[:-6]
    return f"paddings {list(found)}" if any((*depth, *lead)) else None
