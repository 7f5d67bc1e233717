# SPDX-License-Identifier: Apache-2.0
"""Cost of Rockchip's NPU with Mesa's open driver ``rocket``."""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgedeploy_partitioner.cost.array import ArrayCost, Site, channels, filled
from edgedeploy_partitioner.cost.npu import model
from edgedeploy_partitioner.cost.ranges import ZERO, Cost, Range, gb_s_us, roofline
from edgedeploy_partitioner.model.graph import Graph, Op, Tensor

_BANK_BYTES, _BANKS = 32 * 1024, 12
_INPUT_BANKS_WHEN_SPLIT = 7
_GROUP = 16
_OUTPUT_BLOCK, _DEPTHWISE_BLOCK = 32, 64
"""The driver's own numbers: its convolution buffer, channel groups, and to what it fills up output channels."""


def held_bytes(tensor: Tensor) -> int:
    """Bytes of an activation in the NPU's layout: whole groups of 16 channels."""
    return max(math.prod(tensor.shape[:-1]), 0) * filled(channels(tensor), _GROUP)


@dataclass(frozen=True)
class Split:
    """How the driver splits a convolution: in horizontal stripes, one task each."""

    tasks: int
    spread: bool
    """The tasks may run on all cores: the weights do not stay in one core's buffer."""


def split(site: Site) -> Split:
    """By the size of the weights and of an input row, as the driver counts banks of its buffer."""
    data = site.data
    if data is None or len(data.shape) != 4:
        return Split(1, spread=False)
    block = _DEPTHWISE_BLOCK if site.is_depthwise else _OUTPUT_BLOCK
    outputs = 1 if site.is_depthwise else filled(channels(site.output), block)
    depth = filled(channels(data), block if site.is_depthwise else _GROUP)
    weight_banks = math.ceil(math.prod(site.taps) * depth * outputs / _BANK_BYTES) + 1
    kept = weight_banks + 1 < _BANKS
    banks = _BANKS - weight_banks if kept else _INPUT_BANKS_WHEN_SPLIT
    _, height, width, _ = data.shape
    rows = banks * _BANK_BYTES // max(width * filled(channels(data), _GROUP), 1)
    overlap = site.taps[0] - 1
    stripes = 1 if rows >= height else math.ceil((height - overlap) / max(rows - overlap, 1))
    return Split(max(stripes, 1), spread=not kept)


@model("rocket")
@dataclass(frozen=True)
class RocketCost(ArrayCost):
    """A convolution is a chain of tasks, each with an interrupt; an ADD runs inside the convolution before it, free.

    ``t = overhead + tasks x task + max(padded MACs / (MACs per cycle x clock x efficiency), bytes / bandwidth)``, on
    one core, or on all where the driver spreads the tasks. The clock is the device tree's, and nothing raises it. At a
    partition's border the CPU converts between NHWC and groups of 16 channels; that is priced by the padded bytes.
    """

    def op(self, graph: Graph, op: Op, kernel: str, layout: str) -> Cost:  # noqa: ARG002
        site = Site(graph, op)
        parts = split(site)
        at_once = min(parts.tasks, max(int(self.constant("cores").value), 1)) if parts.spread else 1
        chain = self.constant("task_us").times(parts.tasks / at_once)
        compute = self.compute_us(site).times(1 / at_once)
        return roofline(self.constant("op_overhead_us").plus(chain), compute, self.memory_us(site))

    def compute_us(self, site: Site) -> Range:
        block, out = (_DEPTHWISE_BLOCK if site.is_depthwise else _OUTPUT_BLOCK), channels(site.output)
        count, rate = site.macs * filled(out, block) / out, self.macs_per_us(site.dtype)
        if site.is_depthwise:
            return Range.exact(count).over(rate.times(self.constant("depthwise_fraction")))
        depth = channels(site.data)
        return Range.exact(count * filled(depth, _GROUP) / depth).over(rate)

    def memory_us(self, site: Site) -> Range:
        tensors = (*site.flowing, *((site.output,) if site.output else ()))
        moved = sum(held_bytes(t) for t in tensors) + site.weight_bytes
        return gb_s_us(moved, self.constant("npu_bandwidth_gb_s"))

    def enter(self, tensor: Tensor, layout: str) -> Cost:  # noqa: ARG002
        return self._converted("enter", tensor)

    def leave(self, tensor: Tensor, layout: str) -> Cost:  # noqa: ARG002
        return self._converted("leave", tensor)

    def _converted(self, direction: str, tensor: Tensor) -> Cost:
        per_byte = self.constant(f"{direction}_ns_per_byte").times(held_bytes(tensor) / 1000)
        return roofline(self.constant(f"{direction}_overhead_us"), ZERO, per_byte)
