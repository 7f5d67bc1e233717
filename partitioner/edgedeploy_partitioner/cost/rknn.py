# SPDX-License-Identifier: Apache-2.0
"""Cost of Rockchip's NPU with the RKNN runtime."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from edgedeploy_partitioner.cost.array import Site, channels, filled
from edgedeploy_partitioner.cost.npu import NpuCost, model
from edgedeploy_partitioner.cost.ranges import FREE, ZERO, Cost, Range, fixed, gb_s_us, roofline
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Tensor

IMAGE_CHANNELS = (1, 3, 4)
"""A first convolution reads tensors of so many channels as NHWC, without padding."""
_MOVES = frozenset({
    "CONCATENATION", "SPLIT", "SPLIT_V", "SLICE", "STRIDED_SLICE", "RESHAPE", "TRANSPOSE", "PAD", "PADV2", "MIRROR_PAD",
    "RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR", "DEPTH_TO_SPACE", "GATHER", "TILE", "BROADCAST_TO", "PACK", "UNPACK",
})  # fmt: skip
_LOOKED_UP = frozenset({"LOGISTIC", "TANH", "HARD_SWISH", "ELU", "GELU"})
"""Activations that are more than comparing and scaling."""


def channel_block(layout: str) -> int:
    """Channels per block of ``NC1HWC2/16``; 1 for layouts without blocks."""
    _, _, block = layout.partition("/")
    return int(block) if block.isdigit() else 1


def padded_bytes(tensor: Tensor, layout: str) -> int:
    """Bytes of a tensor with its last dimension padded to whole channel blocks. float32 is held as float16."""
    bits = 16 if tensor.dtype is DType.FLOAT32 else tensor.dtype.bits
    block = channel_block(layout)
    if not tensor.shape:
        return block * bits // 8
    return max(math.prod(tensor.shape[:-1]), 0) * filled(tensor.shape[-1], block) * bits // 8


@dataclass(frozen=True, slots=True)
class Demand:
    """What an op asks of the NPU, whatever that takes on a board: bytes lie in the NPU's layout, and the channels of
    products are filled up to what the array computes at once."""

    macs: float = 0.0
    depthwise_macs: float = 0.0
    bytes: float = 0.0
    """Read and written, without weights."""
    moved_bytes: float = 0.0
    """The same of ops that only move data."""
    weight_bytes: float = 0.0
    looked_up: float = 0.0
    """Elements that go through an activation of :data:`_LOOKED_UP`."""
    normalised: float = 0.0
    """Elements of a SOFTMAX."""


@model("rknn")
@dataclass(frozen=True)
class RknnCost(NpuCost):
    """RKNPU2: one core, ops in sequence, every op through DRAM.

    ``t = overhead + max(compute, memory) + unhidden x min(compute, memory) + weights``: computing and moving overlap,
    but not all of it; weights come first. An op that is fused only adds what it reads and looks up.

    The array multiplies ``input_channel_block`` channels by as many outputs as ``macs_per_cycle`` allows, so channels
    are filled up to those; a depthwise convolution keeps ``depthwise_fraction`` of it busy, and an image counts as
    ``image_channel_block`` channels. Concatenation, resizing and the like move data at a bandwidth of their own. That
    weights are read again for every stripe of a large image was tried and explained nothing, so it is left out.
    ``cpu_lane`` ops run inside librknnrt on the ARM cores. No published figure of a float16 model was compared.

    A tensor crosses the border by one of two paths, the cheaper one. ``default``: librknnrt converts
    (``rknn_inputs_set``, ``rknn_outputs_get``); its cost was measured on uint8 images that are also normalised, and
    is the only path where the type changes. ``native``: libedgedeploy.so writes the NPU's layout itself into the
    buffer that the NPU reads. int8 tensors between partitions have the model's own scale already, so nothing has to be
    normalised and native is right for them; it costs ``native_passes`` over the padded bytes, and a plain copy for
    images.
    """

    def op(self, graph: Graph, op: Op, kernel: str, layout: str) -> Cost:
        site = Site(graph, op)
        if kernel == "cpu_lane":
            per_element = self.constant("cpu_lane_ns_per_element")
            return roofline(self.constant("cpu_lane_overhead_us"), per_element.times(site.elements / 1000), ZERO)
        wanted = self.demand(graph, op, layout)
        compute, memory = self._compute(wanted, site.is_float), self._memory(wanted)
        weights = gb_s_us(wanted.weight_bytes, self.constant("npu_bandwidth_gb_s"))
        overhead = self.constant("op_overhead_us")
        left = Range(*(min(a, b) for a, b in zip(compute, memory, strict=True))).times(self.constant("unhidden_share"))
        activation = self._activation(wanted)
        whole = roofline(overhead.plus(left).plus(weights).plus(activation), compute, memory)
        return replace(whole, bound=roofline(overhead, compute.plus(activation), memory.plus(weights)).bound)

    def fused(self, graph: Graph, op: Op, kernel: str, layout: str) -> Cost:  # noqa: ARG002
        """The other operand of a sum is read, an activation may be looked up; comparing and scaling are free."""
        output = Site(graph, op).output
        if output is None:
            return FREE
        if op.code in ("ADD", "SUB"):
            other = gb_s_us(padded_bytes(output, layout), self.constant("npu_bandwidth_gb_s"))
            return roofline(ZERO, ZERO, other)
        if op.code in _LOOKED_UP:
            return roofline(ZERO, self._activation(Demand(looked_up=max(output.elements, 0))), ZERO)
        return FREE

    def enter(self, tensor: Tensor, layout: str) -> Cost:
        return min(self._paths("enter", tensor, layout), key=lambda cost: cost.ns)

    def leave(self, tensor: Tensor, layout: str) -> Cost:
        return min(self._paths("leave", tensor, layout), key=lambda cost: cost.ns)

    def internal(self, tensor: Tensor, layout_from: str, layout_to: str) -> Cost:
        moved = padded_bytes(tensor, layout_from) + padded_bytes(tensor, layout_to)
        return roofline(ZERO, ZERO, gb_s_us(moved, self.constant("move_bandwidth_gb_s")))

    def segment_handover(self) -> Cost:
        return fixed(self.constant("segment_handover_us"))

    def demand(self, graph: Graph, op: Op, layout: str) -> Demand:
        """What one run of ``op`` on the NPU asks for."""
        site = Site(graph, op)
        from_image = op.code == "CONV_2D" and channels(site.data) in IMAGE_CHANNELS
        written = sum(padded_bytes(graph.tensor(op.subgraph, t), layout) for t in op.outputs if t >= 0)
        moved = written + sum(padded_bytes(t, "NHWC" if from_image else layout) for t in site.flowing)
        outputs = max(site.output.elements, 0) if site.output else 0
        return Demand(
            macs=0.0 if site.is_depthwise else site.macs * self._waste(site, from_image),
            depthwise_macs=site.macs * self._waste(site, from_image) if site.is_depthwise else 0.0,
            bytes=0.0 if op.code in _MOVES else moved,
            moved_bytes=moved if op.code in _MOVES else 0.0,
            weight_bytes=site.weight_bytes,
            looked_up=outputs if op.code in _LOOKED_UP else 0.0,
            normalised=outputs if op.code == "SOFTMAX" else 0.0,
        )

    def _waste(self, site: Site, from_image: bool) -> float:
        """How many times more products the array makes than the op has."""
        if not site.macs or len(site.flowing) > 1:
            return 1.0
        columns = math.ceil(self.constant("input_channel_block").value)
        rows = max(int(self._macs_per_cycle(site.is_float).value) // columns, 1)
        produced = channels(site.output)
        if site.is_depthwise:
            return filled(produced, columns) / produced
        wanted = math.ceil(self.constant("image_channel_block").value) if from_image else columns
        consumed = channels(site.data)
        return filled(consumed, wanted) / consumed * filled(produced, rows) / produced

    def _macs_per_cycle(self, is_float: bool) -> Range:
        return self.constant("float16_macs_per_cycle" if is_float else "int8_macs_per_cycle")

    def _compute(self, wanted: Demand, is_float: bool) -> Range:
        rate = self._macs_per_cycle(is_float).times(self.constant("npu_clock_ghz")).times(1000)
        rate = rate.times(self.constant("compute_efficiency"))
        depthwise = Range.exact(wanted.depthwise_macs).over(self.constant("depthwise_fraction"))
        return Range.exact(wanted.macs).plus(depthwise).over(rate)

    def _memory(self, wanted: Demand) -> Range:
        moved = gb_s_us(wanted.moved_bytes, self.constant("move_bandwidth_gb_s"))
        return gb_s_us(wanted.bytes, self.constant("npu_bandwidth_gb_s")).plus(moved)

    def _activation(self, wanted: Demand) -> Range:
        looked_up = self.constant("lookup_ns_per_element").times(wanted.looked_up / 1000)
        return looked_up.plus(self.constant("softmax_ns_per_element").times(wanted.normalised / 1000))

    def _paths(self, direction: str, tensor: Tensor, layout: str) -> Iterator[Cost]:
        yield replace(self._copy(direction, tensor), path="default")
        if tensor.dtype not in (DType.INT8, DType.FLOAT16):
            return
        is_image = direction == "enter" and len(tensor.shape) == 4 and tensor.shape[-1] in IMAGE_CHANNELS
        passes = Range.exact(1) if is_image else self.constant("native_passes")
        moved = 2 * padded_bytes(tensor, "NHWC" if is_image else layout)  # read and written
        copying = Range.exact(moved / 1000).over(Range.of(self.cpu.cluster.bandwidth_gb_s)).times(passes)
        yield replace(roofline(self.constant("native_overhead_us"), ZERO, copying), path="native")
