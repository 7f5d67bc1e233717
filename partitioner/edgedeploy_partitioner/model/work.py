# SPDX-License-Identifier: Apache-2.0
"""How much an op computes and moves: multiply-accumulates and bytes, from shapes alone.

Conventions, the same for every backend so that numbers can be compared:

- One MAC is one product added to a sum. Padding is not subtracted, sparse weights count as dense, and
  element-wise, pooling, reduction and transform ops have none.
- Transposed convolutions count what they scatter: input elements x kernel x output channels.
- Recurrent ops use each weight once per batch row and time step; the element-wise gate products are left out.
- A composite has the MACs of its decomposition. IF, WHILE and CALL_ONCE have none: their subgraphs have.
- Bytes are what the kernel touches at run time: each distinct input once and each output once. A folded weight
  counts expanded (fp32 after a constant DEQUANTIZE, dense after DENSIFY), for that is what the runtime keeps and
  reads. Ops that pick elements (GATHER, SLICE, EMBEDDING_LOOKUP, …) read only what they take; SHAPE and RANK read
  nothing. State that an op updates (variable tensors, resources) is also written.
- A folded op costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from edgedeploy_partitioner.model.graph import Graph, Op, Tensor

_MAX_DEPTH = 64
"""Composites nested deeper than this count nothing."""


@dataclass(frozen=True, slots=True)
class Work:
    """One run of one op. Bytes include constants read."""

    macs: int
    read_bytes: int
    written_bytes: int

    @property
    def bytes(self) -> int:
        return self.read_bytes + self.written_bytes

    @property
    def intensity(self) -> float:
        """Arithmetic intensity in MACs per byte; 0 for an op that moves nothing."""
        return self.macs / self.bytes if self.bytes else 0.0


@dataclass(frozen=True, slots=True)
class Operands:
    """The tensors of an op, as its rules see them: an absent one has the shape ``()`` and no elements."""

    graph: Graph
    op: Op

    def input(self, i: int) -> Tensor | None:
        return _tensor(self.graph, self.op, self.op.inputs, i)

    def output(self, i: int) -> Tensor | None:
        return _tensor(self.graph, self.op, self.op.outputs, i)

    def shape(self, i: int) -> tuple[int, ...]:
        tensor = self.input(i)
        return tensor.shape if tensor else ()

    def elements(self, i: int) -> int:
        tensor = self.input(i)
        return max(tensor.elements, 0) if tensor else 0

    @property
    def output_elements(self) -> int:
        tensor = self.output(0)
        return max(tensor.elements, 0) if tensor else 0


def work(graph: Graph, op: Op) -> Work:
    """MACs and bytes of one run of ``op`` at the shapes of ``graph``. Never fails: an impossible shape counts 0."""
    if op.index in graph.subgraphs[op.subgraph].folded:
        return Work(0, 0, 0)
    operands = Operands(graph, op)
    return Work(macs=macs(graph, op), read_bytes=_read_bytes(operands), written_bytes=_written_bytes(operands))


def macs(graph: Graph, op: Op) -> int:
    """Multiply-accumulates of ``op`` by the conventions above."""
    if op.code == "STABLEHLO_COMPOSITE":
        return _composite_macs(graph, op, {})
    rule = _MACS.get(op.kind)
    return max(rule.count(Operands(graph, op)), 0) if rule else 0


def multiplied(op: Op) -> tuple[int, tuple[int, ...]] | None:
    """Which inputs an op multiplies: (position of the data, positions of the weights). None if it has no MACs."""
    rule = _MACS.get(op.kind)
    return (rule.data, rule.weights) if rule else None


def _tensor(graph: Graph, op: Op, ids: tuple[int, ...], i: int) -> Tensor | None:
    tensors = graph.subgraphs[op.subgraph].tensors
    return tensors[ids[i]] if i < len(ids) and 0 <= ids[i] < len(tensors) else None


# --- MACs: one rule per family ----------


@dataclass(frozen=True, slots=True)
class Rule:
    """How a kind of op multiplies: the input that flows, the inputs that are weights, and the count of products."""

    data: int
    weights: tuple[int, ...]
    count: Callable[[Operands], int]


def _per_output(data: int, weights: int, taps: slice) -> Rule:
    """Each output element sums over the dimensions ``taps`` of the weights."""
    return Rule(data, (weights,), lambda o: o.output_elements * _product(o.shape(weights), taps))


def _per_input(data: int, weights: int, taps: slice) -> Rule:
    """Each input element is scattered over the dimensions ``taps`` of the weights."""
    return Rule(data, (weights,), lambda o: o.elements(data) * _product(o.shape(weights), taps))


def _per_step(*weights: int) -> Rule:
    """Each weight is used once per batch row and time step, that is per row of the input."""
    return Rule(0, weights, lambda o: _product(o.shape(0), slice(-1)) * sum(o.elements(i) for i in weights))


def _product(shape: tuple[int, ...], dims: slice) -> int:
    return math.prod(shape[dims]) if shape else 0


def _batch_matmul(o: Operands) -> int:
    rows_by_depth = o.shape(0)[-2:]
    if len(rows_by_depth) < 2:
        return 0
    return o.output_elements * rows_by_depth[0 if o.op.options.get("adj_x") else 1]


def _lstm(o: Operands) -> int:
    """The BASIC kernel has one weight matrix, the FULL one input, recurrent, peephole and projection weights."""
    rule = _per_step(2) if o.op.options.get("kernel_type") == "BASIC" else _FULL_LSTM
    return rule.count(o)


def _dot_general(o: Operands) -> int:
    axes, shape = o.op.options.get("lhs_contracting_dimensions"), o.shape(0)
    taken = axes if isinstance(axes, tuple) else ()
    return o.output_elements * math.prod(shape[int(a)] for a in taken if 0 <= a < len(shape))


def _stablehlo_convolution(o: Operands) -> int:
    axis, shape = o.op.options.get("kernel_output_feature_dimension"), o.shape(1)
    if not isinstance(axis, int) or not 0 <= axis < len(shape):
        return 0
    return o.output_elements * math.prod(shape[:axis] + shape[axis + 1 :])


_FULL_LSTM = _per_step(*range(1, 12), 16)
_MACS = {
    "CONV_2D": _per_output(0, 1, slice(1, None)),  # weights [out, h, w, in / groups]
    "DEPTHWISE_CONV_2D": _per_output(0, 1, slice(1, 3)),  # [1, h, w, out]
    "CONV_3D": _per_output(0, 1, slice(0, 4)),  # [d, h, w, in, out]
    "TRANSPOSE_CONV": _per_input(2, 1, slice(0, 3)),  # [out, h, w, in]
    "CUSTOM:Convolution2DTransposeBias": _per_input(0, 1, slice(0, 3)),  # MediaPipe's custom op: input, weights, bias
    "CONV_3D_TRANSPOSE": _per_input(2, 1, slice(0, 4)),  # [d, h, w, out, in]
    "FULLY_CONNECTED": _per_output(0, 1, slice(-1, None)),  # [units, depth]
    "BATCH_MATMUL": Rule(0, (1,), _batch_matmul),
    "LSTM": Rule(0, _FULL_LSTM.weights, _lstm),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _FULL_LSTM,
    "BIDIRECTIONAL_SEQUENCE_LSTM": _per_step(*range(1, 12), 16, *range(18, 29), 33, *range(40, 48)),
    "RNN": _per_step(1, 2),
    "UNIDIRECTIONAL_SEQUENCE_RNN": _per_step(1, 2),
    "BIDIRECTIONAL_SEQUENCE_RNN": _per_step(1, 2, 5, 6, 10, 11),
    "SVDF": _per_step(1, 2),  # per filter: the input, then the memory
    "STABLEHLO_DOT_GENERAL": Rule(0, (1,), _dot_general),
    "STABLEHLO_CONVOLUTION": Rule(0, (1,), _stablehlo_convolution),
}


def _composite_macs(graph: Graph, op: Op, known: dict[int, int], depth: int = 0) -> int:
    """Sum over the decomposition, which may hold composites; ``known`` has the sums of subgraphs already seen."""
    body = op.options.get("decomposition_subgraph_index")
    if not isinstance(body, int) or not 0 <= body < len(graph.subgraphs) or depth > _MAX_DEPTH:
        return 0
    if body not in known:
        known[body] = 0  # a cycle counts once
        known[body] = sum(
            _composite_macs(graph, inner, known, depth + 1) if inner.code == op.code else macs(graph, inner)
            for inner in graph.subgraphs[body].ops
        )
    return known[body]


# --- bytes ----------

_PICKS = {
    "GATHER": 0, "GATHER_ND": 0, "SLICE": 0, "STRIDED_SLICE": 0, "EMBEDDING_LOOKUP": 1, "STABLEHLO_GATHER": 0,
    "STABLEHLO_SLICE": 0, "STABLEHLO_DYNAMIC_SLICE": 0,
}  # fmt: skip
"""Ops that read only as many elements of this input as they give out."""
_NO_DATA = frozenset({"SHAPE", "RANK"})


def _read_bytes(o: Operands) -> int:
    if o.op.code in _NO_DATA:
        return 0
    if o.op.code == "READ_VARIABLE":
        return sum(_nbytes(o.output(i)) for i in range(len(o.op.outputs)))
    picked = _PICKS.get(o.op.code)
    distinct = {t: i for i, t in reversed(list(enumerate(o.op.inputs)))}.values()
    return sum(_picked_bytes(o, i) if i == picked else _nbytes(o.input(i)) for i in distinct)


def _picked_bytes(o: Operands, i: int) -> int:
    table = o.input(i)
    return min(_nbytes(table), (o.output_elements * table.dtype.bits + 7) // 8) if table else 0


def _written_bytes(o: Operands) -> int:
    outputs = sum(_nbytes(o.output(i)) for i in range(len(o.op.outputs)))
    if o.op.code == "ASSIGN_VARIABLE":
        return outputs + _nbytes(o.input(1))
    inputs = {t: o.input(i) for i, t in enumerate(o.op.inputs)}.values()
    return outputs + sum(_nbytes(t) for t in inputs if t and t.is_variable)


def _nbytes(tensor: Tensor | None) -> int:
    """The dense size; of a sparse constant that is read as it is, the values stored."""
    if tensor is None:
        return 0
    return tensor.data.size if tensor.is_sparse and tensor.data else max(tensor.nbytes, 0)
