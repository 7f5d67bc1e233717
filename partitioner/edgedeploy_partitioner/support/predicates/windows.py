# SPDX-License-Identifier: Apache-2.0
"""Rules on sliding windows: convolutions and pools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from edgedeploy_partitioner.support.case import Case
from edgedeploy_partitioner.support.predicates.registry import Between, predicate


class Side(NamedTuple):
    """The window along height or width. ``padding``: before and after."""

    kernel: int
    stride: int
    dilation: int
    padding: tuple[int, int]

    @property
    def dilated(self) -> int:
        return (self.kernel - 1) * self.dilation + 1


class Window(NamedTuple):
    height: Side
    width: Side

    def show(self, field: str) -> str:
        """``3x3``"""
        return f"{getattr(self.height, field)}x{getattr(self.width, field)}"


def window(case: Case) -> Window | None:
    """The window of a convolution (weights [out, h, w, in] or [1, h, w, out]) or of a pool (options)."""
    data, output, weights = case.data(), case.output(0), next(case.weights(), None)
    if weights:
        kernels = weights.tensor.shape[1:3]
    else:
        kernels = (case.option("filter_height", 0), case.option("filter_width", 0))
    if data is None or output is None or {len(data.shape), len(output.shape)} != {4} or len(kernels) != 2:
        return None
    sides = (_side(case, "hw"[i], kernels[i], data.shape[1 + i], output.shape[1 + i]) for i in (0, 1))
    return Window(*sides)


def _side(case: Case, axis: str, kernel: int, size_in: int, size_out: int) -> Side:
    stride, dilation = max(case.option(f"stride_{axis}", 1), 1), max(case.option(f"dilation_{axis}_factor", 1), 1)
    side = Side(kernel, stride, dilation, (0, 0))
    if case.op.options.get("padding") != "SAME":
        return side
    # A transposed convolution is the same window with input and output swapped.
    moves, span = (size_in, size_out) if case.op.code == "TRANSPOSE_CONV" else (size_out, size_in)
    total = max((moves - 1) * stride + side.dilated - span, 0)
    return side._replace(padding=(total // 2, total - total // 2))


@predicate
def kernel(case: Case, sizes: Between) -> str | None:
    """a kernel of {} per side"""
    found = window(case)
    if found is None:
        return "no kernel size is known"
    holds = sizes.holds(found.height.kernel, found.width.kernel)
    return None if holds else f"kernel {found.show('kernel')}"


@predicate
def strides(case: Case, sizes: Between) -> str | None:
    """strides of {}"""
    found = window(case)
    return f"stride {found.show('stride')}" if found and not sizes.holds(*_each(found, "stride")) else None


@predicate
def strides_among(case: Case, sizes: tuple[int, ...]) -> str | None:
    """strides of {}"""
    found = window(case)
    return f"stride {found.show('stride')}" if found and not {*_each(found, "stride")} <= {*sizes} else None


@predicate
def equal_strides(case: Case) -> str | None:
    """the same stride along height and width"""
    found = window(case)
    return f"stride {found.show('stride')}" if found and len({*_each(found, "stride")}) > 1 else None


@predicate
def square_kernels(case: Case) -> str | None:
    """a kernel as high as wide"""
    found = window(case)
    return f"kernel {found.show('kernel')}" if found and len({*_each(found, "kernel")}) > 1 else None


@predicate
def square_images(case: Case) -> str | None:
    """images as high as wide"""
    for role, tensor in (*case.data_inputs(), *case.outputs()):
        if len(tensor.shape) == 4 and not case.is_constant(tensor) and tensor.shape[1] != tensor.shape[2]:
            return f"{role} is {tensor.shape[1]}x{tensor.shape[2]}"
    return None


@predicate
def dilation(case: Case, factors: Between) -> str | None:
    """a dilation of {}"""
    found = window(case)
    return f"dilation {found.show('dilation')}" if found and not factors.holds(*_each(found, "dilation")) else None


@predicate
def padding(case: Case, sizes: Between) -> str | None:
    """padding of {} on each side"""
    found = window(case)
    pads = (*found.height.padding, *found.width.padding) if found else ()
    return None if sizes.holds(*pads) else f"padding {'+'.join(map(str, pads[:2]))} by {'+'.join(map(str, pads[2:]))}"


@predicate
def width_below_if_tall(case: Case, limit: int) -> str | None:
    """an input width below {} when the dilated kernel is higher than 1"""
    found, data = window(case), case.data()
    if found is None or data is None or found.height.dilated == 1 or data.shape[2] < limit:
        return None
    return f"width {data.shape[2]}"


class FirstLayer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The input buffer of a convolution that reads the model's input, of 1, 3 or 4 channels.

    It has ``banks``; the kernel takes one for every 128 of its taps, ``kernel_banks`` at least. Of the rest, 1 to 7,
    each holds ``per_bank`` values by computed type, and all together hold a row for each row of the kernel.
    """

    width: int
    banks: int = 0
    kernel_banks: int = 0
    per_bank: dict[str, int] = {}

    def __str__(self) -> str:
        return f"{self.width} columns"

    def most(self, side: Window, computed: str) -> int:
        """Columns that fit."""
        if computed not in self.per_bank:
            return self.width
        taken = max(-(-side.height.dilated * side.width.dilated // 128), self.kernel_banks)
        held = self.per_bank[computed] * min(max(self.banks - taken, 1), 7)
        return min(self.width, held // max(side.height.dilated, 1))


@predicate
def first_layer(case: Case, limits: FirstLayer) -> str | None:
    """an input of the model (1, 3 or 4 channels) of at most {}, fewer with high kernels"""
    found, data = window(case), case.data()
    if found is None or data is None or not case.op.code.endswith("CONV_2D") or data.shape[3] not in (1, 3, 4):
        return None
    if data.id not in case.graph.subgraphs[case.op.subgraph].inputs:
        return None
    most = limits.most(found, case.computed_type())
    return f"input width {data.shape[2]}, with this kernel {most} fit" if data.shape[2] > most else None


def _each(found: Window, field: str) -> Iterator[int]:
    return (getattr(side, field) for side in found)
