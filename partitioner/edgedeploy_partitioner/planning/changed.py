# SPDX-License-Identifier: Apache-2.0
"""The same model with a change in it: graphs to be planned, to see what the change would be worth, and never run."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from edgedeploy_partitioner.model.graph import DType, Graph, Op, Quantization, Span, Subgraph, Tensor
from edgedeploy_partitioner.support.case import BIASED

_CHANGED = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.INT8, DType.UINT8, DType.INT16, DType.INT4)
_SCALE = 5.99 / 255  # keeps the clamp of a RELU6 implied


def requantised(graph: Graph, dtype: Literal["int8", "uint8"]) -> Graph:
    """``graph`` with all its floats and quantised numbers as ``dtype``: one scale a tensor, and for int8 one a channel
    of a convolution's weights, as converters do.

    Shapes and ops stay, apart from those that only unpack constants. No value is converted.
    """
    kind = DType(dtype)
    zero = 0 if kind is DType.UINT8 else -128
    subgraphs = tuple(_subgraph(s, kind, Quantization((_SCALE,), (zero,), 0)) for s in graph.subgraphs)
    # The file shrinks, or grows, with its constants.
    size = graph.size - _constant_bytes(graph.subgraphs) + _constant_bytes(subgraphs)
    return dataclasses.replace(graph, subgraphs=subgraphs, size=max(0, size))


def _constant_bytes(subgraphs: Iterable[Subgraph]) -> int:
    """Of the stored constants that ops read."""
    return sum(
        s.tensors[t].nbytes
        for s in subgraphs
        for t in {t for op in s.ops for t in op.inputs if t >= 0}
        if s.tensors[t].data is not None
    )


def _subgraph(subgraph: Subgraph, kind: DType, scale: Quantization) -> Subgraph:
    unpacked = {t for i in subgraph.folded for t in subgraph.ops[i].outputs}
    kept = [op for op in subgraph.ops if op.index not in subgraph.folded]
    channels = _channel_axes(kept) if kind is DType.INT8 else {}
    biases = {op.inputs[at] for op in kept if (at := BIASED.get(op.code)) is not None and at < len(op.inputs)}
    return dataclasses.replace(
        subgraph,
        tensors=tuple(
            _tensor(t, t.id in unpacked, t.id in biases, kind, _by_channel(t, channels, scale))
            for t in subgraph.tensors
        ),
        ops=tuple(dataclasses.replace(op, index=i) for i, op in enumerate(kept)),
    )


def _channel_axes(ops: Iterable[Op]) -> Mapping[int, int]:
    """Weights of convolutions -> the axis of their output channels."""
    axes = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "TRANSPOSE_CONV": 0}
    return {op.inputs[1]: axes[op.code] for op in ops if op.code in axes and len(op.inputs) > 1}


def _by_channel(tensor: Tensor, axes: Mapping[int, int], scale: Quantization) -> Quantization:
    axis = axes.get(tensor.id, -1)
    if not 0 <= axis < len(tensor.shape) or tensor.shape[axis] < 1:
        return scale
    count = tensor.shape[axis]
    return Quantization(scale.scales * count, (0,) * count, axis)


def _tensor(tensor: Tensor, unpacked: bool, bias: bool, kind: DType, scale: Quantization) -> Tensor:
    data = tensor.data or (Span(0, 0) if unpacked else None)
    if bias:
        return dataclasses.replace(tensor, dtype=DType.INT32, quantization=scale, data=data)
    if tensor.dtype not in _CHANGED:
        return dataclasses.replace(tensor, data=data)
    return dataclasses.replace(tensor, dtype=kind, quantization=scale, data=data, is_sparse=False)


def without(graph: Graph, subgraph: int, ops: Collection[int]) -> Graph:
    """``graph`` without these ops of one input and output each: who read the output reads the input.

    An op at the border of the subgraph goes with its side of the border: the model then takes, or returns, what is on
    the other side.
    """
    sub = graph.subgraphs[subgraph]
    instead: dict[int, int] = {}
    inputs = list(sub.inputs)
    taken: dict[int, int] = {}
    for i in sorted(ops):
        op = sub.ops[i]
        source = instead.get(op.inputs[0], op.inputs[0])
        if source in inputs and set(sub.consumers.get(source, ())) <= set(ops):
            inputs[inputs.index(source)] = taken[source] = op.outputs[0]
        else:
            instead[op.outputs[0]] = taken.get(source, source)

    def now(ids: Iterable[int]) -> tuple[int, ...]:
        return tuple(instead.get(t, t) for t in ids)

    kept = [op for op in sub.ops if op.index not in ops]
    changed = dataclasses.replace(
        sub,
        ops=tuple(dataclasses.replace(op, index=i, inputs=now(op.inputs)) for i, op in enumerate(kept)),
        inputs=tuple(inputs),
        outputs=now(sub.outputs),
    )
    return dataclasses.replace(
        graph, subgraphs=(*graph.subgraphs[:subgraph], changed, *graph.subgraphs[subgraph + 1 :])
    )
