# SPDX-License-Identifier: Apache-2.0
"""Facts of a model's quantisation that decide what an NPU can take."""

from __future__ import annotations

import math
from collections.abc import Iterator

from edgedeploy_partitioner.model.facts.finding import Finding, all_ops, at_tensor, counted, listed, operand, plural
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Subgraph, Tensor
from edgedeploy_partitioner.model.work import multiplied

_INTEGERS = frozenset({DType.INT8, DType.UINT8, DType.INT16})
_SUB_BYTE = frozenset({DType.INT4, DType.UINT4, DType.INT2})
_BIAS_TOLERANCE = 1e-3
"""How far a bias scale may be from input scale x weight scale; converters compute in double, files hold floats."""


def _weights(graph: Graph) -> Iterator[Finding]:
    """How the weights are quantised, in one line."""
    kinds = {w.id: _kind(w) for sub, op in all_ops(graph) for w in _weights_of(sub, op) if w.quantization}
    if kinds:
        yield Finding("weight_quantization", f"weights are quantised {counted(kinds.values())}")
    shifted = [op for sub, op in all_ops(graph) if any(_is_shifted(w) for w in _weights_of(sub, op))]
    if shifted:
        names = counted(op.name for op in shifted)
        yield Finding("asymmetric_weights", f"weights with zero points other than 0: {names}")


def _kind(weights: Tensor) -> str:
    q = weights.quantization
    if q is None or q.block_size:
        return "per block"
    return f"per channel (axis {q.axis})" if q.per_channel else "per tensor"


def _scales(graph: Graph) -> Iterator[Finding]:
    for sub in graph.subgraphs:
        for tensor in sub.tensors:
            bad = [s for s in (tensor.quantization.scales if tensor.quantization else ()) if not 0 < s < math.inf]
            if bad:
                yield at_tensor("bad_scale", sub, tensor, f"a scale must be above 0 and finite: {listed(bad)}")


def _axes(graph: Graph) -> Iterator[Finding]:
    for sub in graph.subgraphs:
        wrong = [t for t in sub.tensors if axis_problem(t)]
        if wrong:
            first = f"tensor {wrong[0].id}: {axis_problem(wrong[0])}"
            yield Finding("bad_axis", f"{plural(len(wrong), 'tensor')} with an axis or scales that don't fit ({first})")


def axis_problem(tensor: Tensor) -> str:
    """Why the axis or the number of scales does not fit the tensor's shape; empty if they do."""
    q, rank = tensor.quantization, len(tensor.shape)
    if q is None or not q.scales or not rank:
        return ""
    if not 0 <= q.axis < rank:
        return f"quantised along axis {q.axis} but has {plural(rank, 'dimension')}"
    if q.per_channel and len(q.scales) != tensor.shape[q.axis]:
        return f"has {len(q.scales)} scales for {tensor.shape[q.axis]} slices of axis {q.axis}"
    return ""


def _activations(graph: Graph) -> Iterator[Finding]:
    per_axis, without = [], []
    for sub, op in all_ops(graph):
        for t in op.outputs:
            tensor = sub.tensors[t]
            if tensor.quantization and tensor.quantization.per_channel:
                per_axis.append(op.name)
            elif tensor.dtype is DType.INT8 and not tensor.quantization:
                without.append(op.name)
    if per_axis:
        yield Finding("per_axis_activations", f"results quantised per channel: {counted(per_axis)}")
    if without:
        yield Finding("unquantized_int8", f"int8 results without scale: {counted(without)}")


def _biases(graph: Graph) -> Iterator[Finding]:
    off = [op for sub, op in all_ops(graph) if _bias_is_off(sub, op)]
    if off:
        names = counted(op.name for op in off)
        yield Finding("bias_scale", f"bias scale other than input scale x weight scale: {names}")


def _bias_is_off(sub: Subgraph, op: Op) -> bool:
    position = {"CONV_2D": 2, "DEPTHWISE_CONV_2D": 2, "FULLY_CONNECTED": 2, "TRANSPOSE_CONV": 3}.get(op.name)
    parts = multiplied(op)
    if position is None or parts is None:
        return False
    tensors = [operand(sub, op.inputs, i) for i in (parts[0], parts[1][0], position)]
    scales = [t.quantization.scales if t and t.quantization else () for t in tensors]
    data, weights, bias = scales
    if len(data) != 1 or not bias or len(weights) not in (1, len(bias)):
        return False
    products = [data[0] * w for w in (weights if len(weights) > 1 else weights * len(bias))]
    return any(not math.isclose(b, p, rel_tol=_BIAS_TOLERANCE) for b, p in zip(bias, products, strict=True))


def _small_types(graph: Graph) -> Iterator[Finding]:
    names = [t.dtype.value for sub in graph.subgraphs for t in sub.tensors if t.dtype in _SUB_BYTE]
    if names:
        yield Finding("sub_byte", f"elements smaller than a byte: {counted(names)}")
    blocks = [t for sub in graph.subgraphs for t in sub.tensors if t.quantization and t.quantization.block_size]
    if blocks:
        sizes = sorted({t.quantization.block_size for t in blocks if t.quantization})
        yield Finding("blockwise", f"{plural(len(blocks), 'tensor')} quantised in blocks of {listed(sizes)}")


def _weights_of(sub: Subgraph, op: Op) -> list[Tensor]:
    """Integer weights of an op that multiplies, as stored."""
    parts = multiplied(op)
    found = (operand(sub, op.inputs, i) for i in parts[1]) if parts else ()
    return [t for t in found if t is not None and t.is_constant and t.dtype in _INTEGERS | _SUB_BYTE]


def _is_shifted(weights: Tensor) -> bool:
    return weights.quantization is not None and any(weights.quantization.zero_points)


CHECKS = (_weights, _scales, _axes, _activations, _biases, _small_types)
