# SPDX-License-Identifier: Apache-2.0
"""What a delegate may look at in one op, as a flat key: the census of a runtime is a table over such keys.

``types`` and the features are all that XNNPACK's decision may depend on. Features are switches, small numbers or
words, so that a sweep can see every value; only scales are real numbers. A feature is left out where it has no
meaning. Two ops with the same key must be treated alike: the tool that takes the census stops when they are not.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from edgedeploy_partitioner.model.graph import DType, Graph, Op, Quantization, Subgraph, Tensor
from edgedeploy_partitioner.model.shapes.site import ShapeMismatch
from edgedeploy_partitioner.model.shapes.walk import result_shapes
from edgedeploy_partitioner.runtime.census_features import SPECIAL, nothing
from edgedeploy_partitioner.runtime.census_view import Feature, Unpacked, View, scales_of, source_of

_MOST_OPERANDS = 4  # of which source and quantisation are looked at
_MOST_RANK = 7  # stands for all above XNNPACK's limit of six
_HALF_READERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
_VARIADIC = ("ADD_N", "CONCATENATION", "PACK", "SPLIT", "SPLIT_V", "UNPACK")


class Key(NamedTuple):
    op: str
    types: str
    features: Mapping[str, Feature]


def key_of(graph: Graph, op: Op, unpacked: Mapping[int, Unpacked] | None = None) -> Key:
    """The key of ``op``. ``unpacked`` are tensors of its subgraph that XNNPACK makes constant itself, and how."""
    view = View(graph, op, unpacked or {})
    with np.errstate(all="ignore"):  # absurd scales give infinite ratios, which is what they are
        return Key(_name(op), _types(view), dict(_features(view)))


def unpacked_as(subgraph: Subgraph, tensor: int, available: Collection[int]) -> Unpacked:
    """How XNNPACK may hold ``tensor``, the result of an op that unpacks: in half precision as it is stored, if only
    products of matrices in ``available`` read it, as weights or bias."""
    unpacker = subgraph.ops[subgraph.producer[tensor]]
    if unpacker.code != "DEQUANTIZE" or subgraph.tensors[unpacker.inputs[0]].dtype is not DType.FLOAT16:
        return "unpacked"
    readers = subgraph.consumers.get(tensor, ())
    return "half" if all(r in available and _reads_halves(subgraph.ops[r], tensor) for r in readers) else "unpacked"


def _reads_halves(op: Op, tensor: int) -> bool:
    return op.code in _HALF_READERS and op.inputs[0] != tensor


def _name(op: Op) -> str:
    if op.code == "STABLEHLO_COMPOSITE":
        return f"{op.code}:{op.options.get('name', '')}"
    return f"{op.code}:{op.custom_code}" if op.custom_code else op.code


def _types(view: View) -> str:
    """Element types of inputs and outputs, ``-`` for an absent one; repetitions once in ops on any number of them."""

    def listed(tensors: Sequence[Tensor | None]) -> str:
        types = ["-" if t is None else t.dtype.value for t in tensors]
        return " ".join(kind for kind, _ in groupby(types)) if view.op.code in _VARIADIC else " ".join(types)

    return f"{listed(view.inputs)} -> {listed(view.outputs)}"


def _features(view: View) -> Iterator[tuple[str, Feature]]:
    yield "inputs", len(view.inputs)
    yield "outputs", len(view.outputs)
    for name, value in view.op.options.items():
        if isinstance(value, bool | str) and name not in ("name", "quantized_bias_type"):
            yield name, value
    for i, tensor in enumerate(view.inputs[:_MOST_OPERANDS]):
        if tensor is not None:
            yield f"in{i}", source_of(view, tensor)
            yield f"in{i}.rank", _rank(tensor)
            yield f"in{i}.empty", 0 in tensor.shape
            yield from _quantization(f"in{i}", tensor)
    if view.unpacked:
        yield "dense_halves", any(_is_dense_half(view, t) for t in view.op.inputs if t in view.unpacked)
    for tensor in view.outputs[:1]:
        yield "out.rank", _rank(tensor)
        yield "out.empty", 0 in tensor.shape
        yield from _quantization("out", tensor)
    yield from _fits(view)
    yield from scales_of(view)
    yield from SPECIAL.get(view.op.code, nothing)(view)


def _fits(view: View) -> Iterator[tuple[str, Feature]]:
    """Whether the result is stored in the shape that follows from the inputs: XNNPACK may see no other."""
    try:
        shapes = result_shapes(view.graph, view.op)
    except ShapeMismatch:
        yield "result_fits", False
        return
    if shapes and view.outputs:
        yield "result_fits", tuple(shapes[0]) == view.outputs[0].shape


def _is_dense_half(view: View, unpacked: int) -> bool:
    """Whether it comes of a sparse constant in half precision, by way of the dense one."""
    subgraph = view.graph.subgraphs[view.op.subgraph]
    stored = subgraph.ops[subgraph.producer[unpacked]].inputs[0]
    return subgraph.tensors[stored].dtype is DType.FLOAT16 and stored in subgraph.producer


def _rank(tensor: Tensor | None) -> int:
    return 0 if tensor is None else min(len(tensor.shape), _MOST_RANK)


def _quantization(name: str, tensor: Tensor) -> Iterator[tuple[str, Feature]]:
    if tensor.dtype in (DType.FLOAT32, DType.FLOAT16, DType.BOOL, DType.INT64):
        return
    quant = tensor.quantization
    if quant is None:
        yield f"{name}.quant", "none"
    elif quant.block_size:
        even = bool(tensor.shape) and tensor.shape[-1] % quant.block_size == 0
        yield f"{name}.quant", "odd_blocks" if quant.block_size % 32 else "blocks" if even else "uneven_blocks"
    elif any(map(math.isnan, quant.scales)):
        yield f"{name}.quant", "nan"
    elif any(map(math.isinf, quant.scales)):
        yield f"{name}.quant", "infinite"
    elif min(quant.scales) < np.finfo(np.float32).tiny:
        yield f"{name}.quant", "vanishing"
    else:
        yield f"{name}.quant", _granularity(tensor, quant) + ("_off" if any(quant.zero_points) else "")


def _granularity(tensor: Tensor, quant: Quantization) -> str:
    """``_off`` is added to this where a zero point is not zero."""
    if len(quant.scales) == 1:
        return "tensor" if quant.axis == 0 else "tensor_axis"
    fits = quant.axis < len(tensor.shape) and tensor.shape[quant.axis] == len(quant.scales)
    return f"channel{quant.axis}" if fits else "uneven"
