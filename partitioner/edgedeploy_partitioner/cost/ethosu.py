# SPDX-License-Identifier: Apache-2.0
"""Cost of Arm's Ethos-U65, whose MAC unit works on small blocks of the output."""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgedeploy_partitioner.cost.array import ArrayCost, Site, channels
from edgedeploy_partitioner.cost.npu import model
from edgedeploy_partitioner.cost.ranges import Range, gb_s_us
from edgedeploy_partitioner.model.graph import Tensor

_BLOCK_HEIGHT, _BLOCK_WIDTH, _BLOCK_DEPTH = 2, 2, 8
_INPUT_DEPTH = 8
_TAPS = 4
"""256 MACs: 2x2 outputs of 8 channels from 8 input channels a cycle; depthwise and few channels: 4 taps at a time."""
_SHALLOW = 4
"""With so few input channels the taps of the kernel fill the unit instead."""


@model("ethosu")
@dataclass(frozen=True)
class EthosUCost(ArrayCost):
    """``t = overhead + max(MAC cycles of whole blocks, output cycles, SRAM bytes, DRAM bytes)``.

    Weights come from DRAM. Activations are in SRAM as far as input and output fit into it; the compiler's cascades keep
    more of them there (the low bound: all), a bad schedule less (the high bound: none).
    """

    def compute_us(self, site: Site) -> Range:
        clock = self.constant("npu_clock_ghz").times(1000)
        if not site.macs:
            return self.constant("elementwise_cycles_per_element").times(site.elements).over(clock)
        outputs = max(site.output.elements, 0) if site.output else 0
        written = self.constant("output_cycles_per_element").times(outputs).over(clock)
        width = max(site.dtype.bits / 8, 1)
        macs = Range.exact(_mac_cycles(site) * width).over(clock.times(self.constant("compute_efficiency")))
        return macs.at_least(written)

    def memory_us(self, site: Site) -> Range:
        moved, size = site.activation_bytes, self.constant("sram_bytes")
        spilled = max(moved - size.value, 0)
        dram = self.constant("dram_bandwidth_gb_s")
        weights = gb_s_us(site.weight_bytes, self.constant("weight_bandwidth_gb_s"))
        outside = [gb_s_us(size, dram) for size in (spilled, 0, moved)]
        traffic = Range(outside[0].value, outside[1].low, outside[2].high).plus(weights)
        return traffic.at_least(gb_s_us(moved, self.constant("activation_bandwidth_gb_s")))


def _mac_cycles(site: Site) -> float:
    taps = math.prod(site.taps)
    blocks = _blocks(site.output)
    if site.is_depthwise:
        return blocks * _TAPS * math.ceil(taps / _TAPS)
    depth = channels(site.data)
    if site.op.code == "TRANSPOSE_CONV" or not site.output or not site.output.shape:
        return site.macs / (_BLOCK_HEIGHT * _BLOCK_WIDTH * _BLOCK_DEPTH * _INPUT_DEPTH)
    if depth <= _SHALLOW and taps > 1:
        return blocks * math.ceil(taps / _TAPS) * _TAPS * depth / _SHALLOW / (_INPUT_DEPTH / _SHALLOW)
    return blocks * taps * math.ceil(depth / _INPUT_DEPTH)


def _blocks(output: Tensor | None) -> int:
    """Whole blocks of an output; a vector fills one column of a block."""
    if output is None or not output.shape:
        return 1
    height, width = output.shape[1:3] if len(output.shape) == 4 else (1, math.prod(output.shape[:-1]))
    rows, columns = math.ceil(height / _BLOCK_HEIGHT), math.ceil(width / _BLOCK_WIDTH)
    return max(rows * columns, 1) * math.ceil(channels(output) / _BLOCK_DEPTH)
