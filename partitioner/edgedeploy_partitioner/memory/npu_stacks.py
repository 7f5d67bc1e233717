# SPDX-License-Identifier: Apache-2.0
"""What each NPU stack's driver allocates for one compiled run of ops. A stack of a form of its own is a class here.

``bytes = weight_factor x weights + live_factor x peak + tensor_factor x sum + border_factor x borders + op_bytes x jobs
+ fixed_bytes``: *peak* is what is alive at once, *sum* all tensors, both in the NPU's layout and with the borders. The
factors are the board's ``[stacks.*.memory]``; those it does not name are assumed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgedeploy_partitioner.cost.array import VIEWS, Site, channels
from edgedeploy_partitioner.cost.ranges import ZERO, Range
from edgedeploy_partitioner.cost.rknn import IMAGE_CHANNELS, channel_block
from edgedeploy_partitioner.cost.rocket import held_bytes, split
from edgedeploy_partitioner.memory.arena import place
from edgedeploy_partitioner.memory.line import Line
from edgedeploy_partitioner.memory.liveness import Block
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Subgraph, Tensor
from edgedeploy_partitioner.plan import Segment
from edgedeploy_profiles.load import ASSUMED
from edgedeploy_profiles.schema import Backend, Quantity, Stack

_ANY = {
    "weight_factor": Quantity(1.0, "assumed: as in the file; compilers compress by half or fill up to twice", 0.5, 2.0),
    "live_factor": Quantity(
        1.0, "assumed: a planner that shares memory needs little more than what is alive", 0.0, 2.0
    ),
    "tensor_factor": Quantity(0.0, "assumed: at worst every tensor has a buffer", 0.0, 1.0),
    "border_factor": Quantity(1.0, "assumed: one buffer for each tensor that enters or leaves", 0.0, 2.0),
    "op_bytes": Quantity(4096.0, "assumed: commands and descriptors of an op fill a page", 0.0, 32768.0),
    "fixed_bytes": Quantity(65536.0, "assumed: queues and tables of the driver", 0.0, 1048576.0),
    "handover_factor": Quantity(
        0.0, "assumed: drivers copy straight to and from the arena, or once in between", 0.0, 1.0
    ),
}
"""Where a board says nothing."""

_OVERWRITES = frozenset({
    "ADD", "SUB", "MUL", "RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH", "HARD_SWISH", "LEAKY_RELU", "ELU",
    "PRELU", "GELU", "ABS", "MAXIMUM", "MINIMUM", "QUANTIZE", *VIEWS,
})  # fmt: skip
"""Ops that compilers run inside their producer, or whose result may take the place of an operand."""


_NPU_TRANSPOSES = 16
"""RKNN transposes images on the NPU where blocks have so many bytes."""


@dataclass(frozen=True)
class NpuMemory:
    """One stack of one board, whose driver holds tensors and weights as the file does."""

    stack: Stack
    graph: Graph
    block: int = 1
    """Bytes of a block of channels in the NPU's layout."""

    def pool(self, subgraph: Subgraph, segment: Segment) -> Line:
        """What the driver allocates for ``segment``."""
        return self.line(self.amounts(subgraph, segment))

    def amounts(self, subgraph: Subgraph, segment: Segment) -> dict[str, int]:
        """What each factor counts in ``segment``."""
        ops = [subgraph.ops[i] for i in segment.ops]
        held = {t: self.tensor_bytes(subgraph, t) for t in _flowing(subgraph, ops)}
        for op in ops:
            held |= dict.fromkeys(self.inside(subgraph, op), 0)
        border = {*segment.inputs, *segment.outputs} & held.keys()
        return {
            "weight_factor": sum(self.weight_bytes(op) for op in ops),
            "live_factor": placed_bytes(subgraph, segment, held, tuple(self.after(subgraph, segment))),
            "tensor_factor": sum(held.values()),
            "border_factor": sum(held[t] for t in border),
            "op_bytes": sum(self.jobs(op) for op in ops),
            "fixed_bytes": 1,
        }

    def handover(self, subgraph: Subgraph, segment: Segment, crossing: Iterable[int]) -> Line:  # noqa: ARG002
        """The buffers of the tensors ``crossing`` the partition's border, in which the CPU converts them."""
        return self.line({"handover_factor": sum(max(subgraph.tensors[t].nbytes, 0) for t in crossing)})

    def tensor_bytes(self, subgraph: Subgraph, t: int) -> int:
        return max(subgraph.tensors[t].nbytes, 0)

    def weight_bytes(self, op: Op) -> int:
        """All constants of ``op``."""
        subgraph = self.graph.subgraphs[op.subgraph]
        constants = (t for t in dict.fromkeys(op.inputs) if t >= 0 and is_weight(subgraph, t))
        return sum(max(subgraph.tensors[t].nbytes, 0) for t in constants)

    def jobs(self, op: Op) -> int:
        """How many times the driver is told to do something."""
        return 0 if op.code in VIEWS else 1

    def inside(self, subgraph: Subgraph, op: Op) -> Iterator[int]:  # noqa: ARG002
        """Tensors that ``op`` reads and that never exist."""
        return iter(())

    def after(self, subgraph: Subgraph, segment: Segment) -> Iterator[tuple[int, int, int]]:  # noqa: ARG002
        """Conversions by the NPU at the end of ``segment``: tensor, bytes of scratch memory, bytes of the result."""
        return iter(())

    def quantity(self, name: str) -> Quantity:
        return self.stack.memory.get(name, _ANY[name])

    def line(self, amounts: Mapping[str, int]) -> Line:
        """Their sum."""
        total, assumed = ZERO, False
        for name, amount in amounts.items():
            quantity = self.quantity(name)
            total = total.plus(Range.of(quantity).times(amount))
            assumed |= bool(amount and quantity.highest and quantity.source.startswith(ASSUMED))
        value, low, high = (round(bytes_) for bytes_ in total)
        if not high:
            return Line.none()
        return Line(value, low, high, "assumed" if assumed else "modelled")


@dataclass(frozen=True)
class RknnMemory(NpuMemory):
    """As RKNN's compiler plans it: channels of activations are filled up to two blocks, those that a depthwise
    convolution makes to four; an image is not. Input channels of weights are filled up to a block, biases, of 8 bytes
    each, to two. Floats have 16 bits. ``x * LOGISTIC(x)`` is one op. Images that leave are transposed: on the NPU, with
    rows filled up to a block and scratch memory of twice that, or where blocks are small on the CPU.

    Only int8 and float16 tensors cross the border without librknnrt, which converts others in a buffer of its own.
    """

    def inside(self, subgraph: Subgraph, op: Op) -> Iterator[int]:
        if op.code == "MUL":
            makers = {t: subgraph.ops[subgraph.producer[t]] for t in op.inputs if t in subgraph.producer}
            yield from (t for t, m in makers.items() if m.code == "LOGISTIC" and {*m.inputs} & {*op.inputs})

    def after(self, subgraph: Subgraph, segment: Segment) -> Iterator[tuple[int, int, int]]:
        for t in segment.outputs:
            tensor = subgraph.tensors[t]
            if len(tensor.shape) != 4 or t not in subgraph.producer:
                continue
            _, height, width, depth = tensor.shape
            if self.block < _NPU_TRANSPOSES:
                yield t, 0, max(tensor.elements, 0) * _width(tensor)
            else:
                result = max(_filled(height, self.block) * width * self._filled(depth, 2, tensor), 0)
                yield t, 2 * result, result

    def handover(self, subgraph: Subgraph, segment: Segment, crossing: Iterable[int]) -> Line:
        tensors = [subgraph.tensors[t] for t in crossing]
        certain = sum(max(t.nbytes, 0) for t in tensors if t.dtype not in (DType.INT8, DType.FLOAT16))
        possible = super().handover(subgraph, segment, [t.id for t in tensors])
        if possible.high_bytes is None or not possible.high_bytes:
            return possible
        return Line(max(possible.bytes, certain), possible.low_bytes, max(possible.high_bytes, certain), possible.kind)

    def tensor_bytes(self, subgraph: Subgraph, t: int) -> int:
        tensor, maker = subgraph.tensors[t], subgraph.producer.get(t)
        if not tensor.shape or (maker is None and tensor.shape[-1] in IMAGE_CHANNELS):
            return max(tensor.elements, 0) * _width(tensor)
        is_wide = maker is not None and subgraph.ops[maker].code == "DEPTHWISE_CONV_2D"
        return max(math.prod(tensor.shape[:-1]), 0) * self._filled(tensor.shape[-1], 4 if is_wide else 2, tensor)

    def weight_bytes(self, op: Op) -> int:
        site = Site(self.graph, op)
        if site.weights is None or not is_weight(self.graph.subgraphs[op.subgraph], site.weights.id):
            return super().weight_bytes(op)
        shape = site.weights.shape
        weights = max(math.prod(shape[:-1]), 0) * self._filled(shape[-1], 1, site.weights)
        return weights + 8 * _filled(channels(site.output), 2 * self.block)

    def _filled(self, count: int, blocks: int, tensor: Tensor) -> int:
        """Bytes of ``count`` channels in multiples of so many blocks."""
        return _filled(count * _width(tensor), blocks * self.block)


def _width(tensor: Tensor) -> int:
    """Bytes of an element on RKNN."""
    return 2 if tensor.dtype in (DType.FLOAT32, DType.FLOAT16) else max(tensor.dtype.bits // 8, 1)


@dataclass(frozen=True)
class RocketMemory(NpuMemory):
    """Mesa's rocket: every tensor has a buffer, of twice its groups of 16 channels; so have the weights and biases of
    every convolution. An ADD's first operand is summed up where the result lies."""

    def tensor_bytes(self, subgraph: Subgraph, t: int) -> int:
        return _pages(2 * held_bytes(subgraph.tensors[t]))

    def weight_bytes(self, op: Op) -> int:
        site = Site(self.graph, op)
        if site.weights is None or site.output is None:
            return 0
        outputs = 1 if site.is_depthwise else _filled(channels(site.output), 2)
        depth = _filled(max(channels(site.data), 16), 32)
        return _pages(2 * math.prod(site.taps) * outputs * depth) + _pages(4 * channels(site.output))

    def jobs(self, op: Op) -> int:
        return 0 if op.code == "ADD" else split(Site(self.graph, op)).tasks

    def inside(self, subgraph: Subgraph, op: Op) -> Iterator[int]:
        if op.code == "ADD" and op.inputs[0] in subgraph.producer:
            yield op.inputs[0]


_FORMS: dict[str, type[NpuMemory]] = {"rknn": RknnMemory, "rocket": RocketMemory}
"""By the back end's cost model; others hold everything as the file does."""


def npu_memory(backend: Backend, stack: Stack, graph: Graph) -> NpuMemory:
    """The form of ``backend`` with the numbers of ``stack``."""
    block = channel_block(backend.native_layouts(stack.soc).get("int8", ""))
    return _FORMS.get(backend.cost_model, NpuMemory)(stack, graph, block)


def placed_bytes(
    subgraph: Subgraph, segment: Segment, held: Mapping[int, int], after: Sequence[tuple[int, int, int]] = ()
) -> int:
    """What a planner needs that places tensors in the order they come, each into the smallest gap that fits.

    ``held`` has the bytes of each tensor. ``after`` are conversions at the end, one after another: the tensor that is
    read, bytes of scratch memory meanwhile, bytes of the result.
    """
    ops, end = [subgraph.ops[i] for i in segment.ops], len(segment.ops) + len(after)
    first = dict.fromkeys((t for t in segment.inputs if t in held), 0)
    first |= {t: position for position, op in enumerate(ops) for t in op.outputs if t in held}
    last = dict(first) | {t: position for position, op in enumerate(ops) for t in op.inputs if t in held}
    last |= dict.fromkeys((t for t in segment.outputs if t in held), end)
    last |= {t: len(ops) + position for position, (t, _, _) in enumerate(after)}
    home = {t: t for t in first}
    for position, op in enumerate(ops):
        for t in op.outputs[: op.code in _OVERWRITES]:
            dying = [i for i in op.inputs if i in home and last[i] == position and held[i] == held.get(t)]
            home[t] = home[max(dying, key=lambda i: first[i])] if dying else t
    ends: dict[int, int] = {}
    for t, at in home.items():
        ends[at] = max(ends.get(at, 0), last[t])
    blocks = [Block(t, held[t], first[t], until) for t, until in ends.items() if held[t]]
    for number, (_, scratch, result) in enumerate(after):
        at = len(ops) + number
        blocks += [Block(-2 * number - 1, scratch, at, at), Block(-2 * number - 2, result, at, end)]
    return place(blocks)[1]


def _flowing(subgraph: Subgraph, ops: Iterable[Op]) -> list[int]:
    found = dict.fromkeys(t for op in ops for t in (*op.inputs, *op.outputs) if t >= 0)
    return [t for t in found if not is_weight(subgraph, t)]


def is_weight(subgraph: Subgraph, t: int) -> bool:
    """A constant, or one that is unpacked as the model is loaded."""
    return subgraph.tensors[t].is_constant or subgraph.producer.get(t) in subgraph.folded


def _filled(count: int, block: int) -> int:
    return -(-count // block) * block


def _pages(count: int) -> int:
    return _filled(count, 4096)
