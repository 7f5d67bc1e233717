# SPDX-License-Identifier: Apache-2.0
"""NPUs that are an array of multipliers behind a memory: what their cost models share, and those with nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from edgedeploy_partitioner.cost.cpu import FLOATS
from edgedeploy_partitioner.cost.npu import NpuCost, model
from edgedeploy_partitioner.cost.ranges import ZERO, Cost, Range, gb_s_us, roofline
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Tensor
from edgedeploy_partitioner.model.work import macs, multiplied, work

VIEWS = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS"})
"""Ops that change no byte: compilers drop them, at worst they are a copy."""


@dataclass(frozen=True)
class Site:
    """One op as an array of multipliers sees it."""

    graph: Graph
    op: Op

    @cached_property
    def macs(self) -> int:
        return macs(self.graph, self.op)

    @property
    def is_depthwise(self) -> bool:
        return self.op.code == "DEPTHWISE_CONV_2D"

    @cached_property
    def data(self) -> Tensor | None:
        """The input that flows: the multiplied one, otherwise the first that is no constant."""
        operands = multiplied(self.op)
        if operands is not None:
            return self._input(operands[0])
        return next(iter(self.flowing), None)

    @cached_property
    def weights(self) -> Tensor | None:
        operands = multiplied(self.op)
        return self._input(operands[1][0]) if operands and operands[1] else None

    @cached_property
    def output(self) -> Tensor | None:
        return next((self.graph.tensor(self.op.subgraph, t) for t in self.op.outputs if t >= 0), None)

    @cached_property
    def flowing(self) -> tuple[Tensor, ...]:
        """Inputs that are no constants."""
        tensors = (self.graph.tensor(self.op.subgraph, t) for t in dict.fromkeys(self.op.inputs) if t >= 0)
        return tuple(t for t in tensors if not t.is_constant)

    @cached_property
    def weight_bytes(self) -> int:
        """Constants of ops that multiply; those of the others are parameters of the op."""
        if not self.macs:
            return 0
        tensors = (self.graph.tensor(self.op.subgraph, t) for t in dict.fromkeys(self.op.inputs) if t >= 0)
        return sum(max(t.nbytes, 0) for t in tensors if t.is_constant)

    @cached_property
    def activation_bytes(self) -> int:
        """What is read of inputs that flow, and written."""
        done = work(self.graph, self.op)
        return done.written_bytes + min(done.read_bytes, sum(max(t.nbytes, 0) for t in self.flowing))

    @cached_property
    def elements(self) -> int:
        """Of the largest tensor that flows in or out."""
        outputs = (self.graph.tensor(self.op.subgraph, t) for t in self.op.outputs if t >= 0)
        return max((max(t.elements, 0) for t in (*self.flowing, *outputs)), default=0)

    @property
    def dtype(self) -> DType:
        tensor = self.data or self.output
        return tensor.dtype if tensor else DType.INT8

    @property
    def is_float(self) -> bool:
        return any(t is not None and t.dtype in FLOATS for t in (self.data, self.output))

    @property
    def taps(self) -> tuple[int, int]:
        """Height and width of the kernel; 1x1 for ops without."""
        shape = self.weights.shape if self.weights else ()
        return (shape[1], shape[2]) if len(shape) == 4 and self.op.code != "BATCH_MATMUL" else (1, 1)

    @property
    def spans(self) -> tuple[int, int]:
        """Height and width that the kernel covers, dilated."""
        factors = (self._option("dilation_h_factor"), self._option("dilation_w_factor"))
        height, width = ((taps - 1) * factor + 1 for taps, factor in zip(self.taps, factors, strict=True))
        return height, width

    @property
    def is_strided(self) -> bool:
        return max(self._option("stride_h"), self._option("stride_w")) > 1

    def _input(self, position: int) -> Tensor | None:
        number = self.op.inputs[position] if position < len(self.op.inputs) else -1
        return self.graph.tensor(self.op.subgraph, number) if number >= 0 else None

    def _option(self, name: str) -> int:
        value = self.op.options.get(name, 1)
        return max(value, 1) if isinstance(value, int) else 1


def channels(tensor: Tensor | None) -> int:
    return max(tensor.shape[-1], 1) if tensor and tensor.shape else 1


def filled(count: int, block: int) -> int:
    """``count`` rounded up to whole blocks."""
    return -(-count // block) * block


def padding(count: int, block: float) -> float:
    """How many times more of ``count`` there are when it is filled up to a multiple of ``block``."""
    return filled(count, max(int(block), 1)) / count


@dataclass(frozen=True)
class ArrayCost(NpuCost):
    """``t = overhead + max(padded MACs / (MACs per cycle x clock x efficiency), bytes / bandwidth)``, ops in sequence.

    Input and output channels are filled up to ``channel_block``; a depthwise convolution uses ``depthwise_fraction``
    of the array. Activations and weights have a bandwidth each (what stays on the chip makes that of activations
    larger than the memory's), and share the memory, so their times add up. Ops without MACs have a bandwidth of their
    own: compilers chain them to their producer, or leave out a copy. Fused ops are free.
    """

    def op(self, graph: Graph, op: Op, kernel: str, layout: str) -> Cost:  # noqa: ARG002
        site = Site(graph, op)
        cost = roofline(self.constant("op_overhead_us"), self.compute_us(site), self.memory_us(site))
        return Cost(0, 0, cost.high_ns, "overhead") if op.code in VIEWS else cost

    def compute_us(self, site: Site) -> Range:
        if not site.macs:
            return ZERO
        waste = padding(channels(site.output), self.constant("channel_block").value)
        rate = self.macs_per_us(site.dtype)
        if site.is_depthwise:
            rate = rate.times(self.constant("depthwise_fraction"))
        else:
            waste *= padding(channels(site.data), self.constant("channel_block").value)
        return Range.exact(site.macs * waste).over(rate)

    def memory_us(self, site: Site) -> Range:
        return self.activations_us(site).plus(gb_s_us(site.weight_bytes, self.constant("weight_bandwidth_gb_s")))

    def activations_us(self, site: Site) -> Range:
        name = "activation_bandwidth_gb_s" if site.macs else "elementwise_bandwidth_gb_s"
        return gb_s_us(site.activation_bytes, self.constant(name))

    def macs_per_us(self, dtype: DType) -> Range:
        """Of the whole array. A type without a rate of its own is slower by its width, or by up to 8 times that."""
        per_us = self.constant("npu_clock_ghz").times(1000).times(self.constant("compute_efficiency"))
        kind = "float16" if dtype in FLOATS else dtype.value if dtype.bits > 8 else "int8"
        if f"{kind}_macs_per_cycle" in self.stack.costs:
            return self.constant(f"{kind}_macs_per_cycle").times(per_us)
        rate = self.constant("int8_macs_per_cycle").times(per_us)
        slower = max(min(dtype.bits, 16) / 8, 1)
        return Range(rate.value / slower, rate.low / slower / 8, rate.high / slower)

    def cold_start(self, graph: Graph, partitions: Sequence[Sequence[Op]]) -> Cost | None:
        """What a delegate that compiles on the board takes: so much a partition and so much a byte of weights."""
        if "compile_overhead_us" not in self.stack.costs or not partitions:
            return None
        weights = sum(Site(graph, op).weight_bytes for ops in partitions for op in ops)
        per_byte = self.constant("compile_ns_per_byte").times(weights / 1000)
        return roofline(self.constant("compile_overhead_us").times(len(partitions)), per_byte, ZERO)


model("qnn")(ArrayCost)
model("neuron")(ArrayCost)


@model("edgetpu")
@dataclass(frozen=True)
class EdgeTpuCost(ArrayCost):
    """Coral's Edge TPU: a systolic array, activations on the chip, weights in its SRAM as far as they fit.

    The rest of the weights comes over the bus in every run (``weight_bandwidth_gb_s``). Which ops those are is the
    compiler's choice; here every op misses the same part of its weights, and the file's size stands for all weights.
    """

    def memory_us(self, site: Site) -> Range:
        fits = self.constant("weight_sram_bytes")
        total = max(site.graph.size, 1)
        missing = [max(total - size, 0) / total for size in (fits.value, fits.high, fits.low)]
        streamed = Range(*missing).times(site.weight_bytes / 1000)
        return self.activations_us(site).plus(streamed.over(self.constant("weight_bandwidth_gb_s")))
