# SPDX-License-Identifier: Apache-2.0
"""Cost of Rockchip's NPU with the RKNN runtime."""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgedeploy_partitioner.cost.cpu import CpuCost
from edgedeploy_partitioner.cost.npu import model
from edgedeploy_partitioner.cost.ranges import ZERO, Cost, Range, fixed, gb_s_us, roofline
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Tensor
from edgedeploy_partitioner.model.work import macs, multiplied
from edgedeploy_profiles.schema import Stack


def channel_block(layout: str) -> int:
    """Channels per block of ``NC1HWC2/16``; 1 for layouts without blocks."""
    _, _, block = layout.partition("/")
    return int(block) if block.isdigit() else 1


def padded_bytes(tensor: Tensor, layout: str) -> int:
    """Bytes of a tensor with its last dimension padded to whole channel blocks. float32 is held as float16.

    Constants are priced with ``NHWC``, unpadded: how the toolkit packs weights is not modelled.
    """
    bits = 16 if tensor.dtype is DType.FLOAT32 else tensor.dtype.bits
    return _padded_elements(tensor, channel_block(layout)) * bits // 8


def _padded_elements(tensor: Tensor, block: int) -> int:
    if not tensor.shape:
        return block
    channels = -(-tensor.shape[-1] // block) * block
    return max(math.prod(tensor.shape[:-1]), 0) * channels


@model("rknn")
@dataclass(frozen=True)
class RknnCost:
    """RKNPU2: one core, ops in sequence, every op through DRAM.

    ``t = overhead + max(padded MACs / (MACs per cycle x clock x efficiency), padded bytes / bandwidth)``; input and
    output channels are padded to the layout's block, which makes a 3-channel first layer pay for 16. Depthwise
    convolutions use a fraction of the array. ``cpu_lane`` ops run inside librknnrt on the ARM cores.
    """

    stack: Stack
    cpu: CpuCost

    def op(self, graph: Graph, op: Op, kernel: str, layout: str) -> Cost:
        tensors = [graph.tensor(op.subgraph, t) for t in dict.fromkeys((*op.inputs, *op.outputs)) if t >= 0]
        if kernel == "cpu_lane":
            elements = max((max(t.elements, 0) for t in tensors), default=0)
            per_element = self._constant("cpu_lane_ns_per_element")
            return roofline(self._constant("cpu_lane_overhead_us"), per_element.times(elements / 1000), ZERO)
        moved = sum(padded_bytes(t, "NHWC" if t.is_constant else layout) for t in tensors)
        return roofline(
            overhead_us=self._constant("op_overhead_us"),
            compute_us=self._compute(graph, op, layout),
            memory_us=gb_s_us(moved, self._constant("npu_bandwidth_gb_s")),
        )

    def enter(self, tensor: Tensor, layout: str) -> Cost:  # noqa: ARG002 - the input path is priced by stored bytes
        return self._copy("enter", tensor)

    def leave(self, tensor: Tensor, layout: str) -> Cost:  # noqa: ARG002
        return self._copy("leave", tensor)

    def internal(self, tensor: Tensor, layout_from: str, layout_to: str) -> Cost:
        moved = padded_bytes(tensor, layout_from) + padded_bytes(tensor, layout_to)
        return roofline(ZERO, ZERO, gb_s_us(moved, self._constant("npu_bandwidth_gb_s")))

    def partition_handover(self) -> Cost:
        return fixed(self._constant("partition_handover_us"))

    def segment_handover(self) -> Cost:
        return fixed(self._constant("segment_handover_us"))

    def _compute(self, graph: Graph, op: Op, layout: str) -> Range:
        count, operands = macs(graph, op), multiplied(op)
        if not count or operands is None or not op.outputs:
            return ZERO
        data, out = graph.tensor(op.subgraph, op.inputs[operands[0]]), graph.tensor(op.subgraph, op.outputs[0])
        kind = "float16" if data.dtype in (DType.FLOAT32, DType.FLOAT16) else "int8"
        rate = self._constant(f"{kind}_macs_per_cycle").times(self._constant("npu_clock_ghz")).times(1000)
        block = channel_block(layout)
        waste = _padding(out, block)
        if op.code == "DEPTHWISE_CONV_2D":
            rate = rate.times(self._constant("depthwise_fraction"))
        else:
            waste *= _padding(data, block)
        return Range.exact(count * waste).over(rate.times(self._constant("compute_efficiency")))

    def _copy(self, direction: str, tensor: Tensor) -> Cost:
        per_byte = self._constant(f"{direction}_ns_per_byte").times(tensor.nbytes / 1000)
        return roofline(self._constant(f"{direction}_overhead_us"), ZERO, per_byte)

    def _constant(self, name: str) -> Range:
        quantity = self.stack.costs.get(name)
        if quantity is None:
            raise InputError(f"the board's [stacks.*.costs] needs {name!r} for {self.stack.backend}")
        return Range.of(quantity)


def _padding(tensor: Tensor, block: int) -> float:
    """How many times more channels are computed than asked for."""
    return _padded_elements(tensor, block) / tensor.elements if tensor.elements > 0 else 1.0
