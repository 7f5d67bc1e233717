# SPDX-License-Identifier: Apache-2.0
"""VeriSilicon's VIPNano NPUs: with the vendor's driver (``vx``) and with Mesa's (``etnaviv``)."""

from __future__ import annotations

from dataclasses import dataclass

from edgedeploy_partitioner.cost.array import VIEWS, ArrayCost, Site
from edgedeploy_partitioner.cost.npu import model
from edgedeploy_partitioner.cost.ranges import ZERO, Cost, Range, gb_s_us, roofline
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Tensor

_TENSOR_PROCESSOR = frozenset({
    "ADD", "SUB", "RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH", "ELU", "LEAKY_RELU", "PRELU",
    "HARD_SWISH", "GELU", "ABS", "CONCATENATION", "SPLIT", "SPLIT_V", "SLICE", "STRIDED_SLICE", "PACK", "UNPACK", "PAD",
    "TRANSPOSE", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND", "MAX_POOL_2D",
    "AVERAGE_POOL_2D", "MEAN", "QUANTIZE", "RESIZE_NEAREST_NEIGHBOR", *VIEWS,
})  # fmt: skip
"""Ops on 8-bit data that stream through fixed hardware. ADD and SUB are the NN engine's, at the same speed."""
_RESAMPLING = frozenset({"RESIZE_BILINEAR", "QUANTIZE", "DEQUANTIZE", "CAST"})
"""Shader programs that are slow per element, with floats at one end or in between."""


@model("vx")
@dataclass(frozen=True)
class VivanteCost(ArrayCost):
    """Three engines: NN cores for convolutions, a tensor processor (TP) for moves and tables, shaders (PPU) for the
    rest.

    Convolutions run in the NN cores if they are 8-bit and the dilated kernel is at most ``max_kernel`` wide and high;
    others are shader programs, hundreds of times slower: that is why audio networks with kernels 32 and 48 wide lose.
    Weights quantised per channel run at ``per_channel_fraction`` of the speed, which is next to nothing on NN cores
    that cannot do it. A stride costs one more pass of the TP over the input.
    """

    def compute_us(self, site: Site) -> Range:
        if site.op.code == "FULLY_CONNECTED" and not site.is_float:  # streamed, and never faster than the NN cores
            return super().compute_us(site)
        if site.macs:
            if not self._in_nn_cores(site):
                return Range.exact(site.macs).over(self._shader_macs_per_us())
            return super().compute_us(site).over(self._quantised(site))
        if site.op.code in _TENSOR_PROCESSOR and not site.is_float:
            return ZERO
        name = "resample_ns_per_element" if site.op.code in _RESAMPLING else "shader_ns_per_element"
        return self.constant(name).times(site.elements / 1000)

    def memory_us(self, site: Site) -> Range:
        reshuffled = site.data.nbytes * 2 if site.macs and site.is_strided and site.data else 0
        return super().memory_us(site).plus(gb_s_us(reshuffled, self.constant("activation_bandwidth_gb_s")))

    def _in_nn_cores(self, site: Site) -> bool:
        fits = max(site.spans) <= self.constant("max_kernel").value
        return fits and not site.is_float and site.dtype.bits == 8 and site.op.code != "BATCH_MATMUL"

    def _quantised(self, site: Site) -> Range:
        scales = site.weights.quantization if site.weights else None
        return self.constant("per_channel_fraction") if scales and scales.per_channel else Range.exact(1.0)

    def _shader_macs_per_us(self) -> Range:
        return self.constant("shader_macs_per_cycle").times(self.constant("npu_clock_ghz")).times(1000)


@model("etnaviv")
@dataclass(frozen=True)
class EtnavivCost(VivanteCost):
    """Mesa's driver for the same hardware: every op is one job or more, and its table takes per-tensor weights only.

    A tensor at a partition's border is copied by the CPU (int8 shifted by 128 on the way) and transposed by a TP job.
    """

    def op(self, graph: Graph, op: Op, kernel: str, layout: str) -> Cost:
        cost = super().op(graph, op, kernel, layout)
        site = Site(graph, op)
        if not (site.macs and site.is_strided and site.taps != (1, 1)):
            return cost
        job = roofline(self.constant("tp_job_us"), ZERO, ZERO)
        high = None if cost.high_ns is None or job.high_ns is None else cost.high_ns + job.high_ns
        return Cost(cost.ns + job.ns, cost.low_ns + job.low_ns, high, cost.bound)

    def enter(self, tensor: Tensor, layout: str) -> Cost:  # noqa: ARG002
        return self._crossing("enter", tensor)

    def leave(self, tensor: Tensor, layout: str) -> Cost:  # noqa: ARG002
        return self._crossing("leave", tensor)

    def _crossing(self, direction: str, tensor: Tensor) -> Cost:
        per_byte = self.constant(f"{direction}_ns_per_byte")
        if tensor.dtype is DType.INT8:
            per_byte = per_byte.plus(self.constant("sign_shift_ns_per_byte"))
        copied = per_byte.times(tensor.nbytes / 1000)
        transposed = gb_s_us(2 * tensor.nbytes, self.constant("activation_bandwidth_gb_s"))
        overhead = self.constant(f"{direction}_overhead_us").plus(self.constant("tp_job_us"))
        return roofline(overhead, ZERO, copied.plus(transposed))
