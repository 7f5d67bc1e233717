# SPDX-License-Identifier: Apache-2.0
"""One op with its tensors at hand, where they come from, and how their scales compare."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np

from edgedeploy_partitioner.model.graph import DType, Graph, Op, Tensor

Feature = bool | int | float | str
Unpacked = Literal["unpacked", "half"]
"""How XNNPACK holds a constant that an op of the model makes of another: written out beforehand, or stored in half
precision and widened as it is used."""

EIGHT_BIT = (DType.INT8, DType.UINT8)
_NUMPY = {DType.INT32: np.int32, DType.INT64: np.int64}
WEIGHTED = {"CONV_2D": (0, 1), "DEPTHWISE_CONV_2D": (0, 1), "FULLY_CONNECTED": (0, 1), "TRANSPOSE_CONV": (2, 1)}
"""Ops with weights: positions of the data and of the weights."""
_DATA = {"TRANSPOSE_CONV": 2, "SPLIT": 1}
"""Position of the data operand where it is not the first."""


class View:
    """One op with its tensors at hand."""

    def __init__(self, graph: Graph, op: Op, unpacked: Mapping[int, Unpacked]) -> None:
        tensors = graph.subgraphs[op.subgraph].tensors
        self.graph, self.op, self.unpacked = graph, op, unpacked
        self.inputs = [tensors[t] if t >= 0 else None for t in op.inputs]
        self.outputs = [tensors[t] for t in op.outputs if t >= 0]
        self.data = self.input(_DATA.get(op.code, 0))

    def input(self, position: int) -> Tensor | None:
        return self.inputs[position] if position < len(self.inputs) else None

    def option(self, name: str) -> Any:
        return self.op.options.get(name, 0)

    def values(self, position: int) -> list[int] | None:
        """The integers of a constant operand; None if it is no such constant or too short for its shape."""
        tensor = self.input(position)
        return None if tensor is None else self.in_file(position, tensor.elements)

    def in_file(self, position: int, count: int) -> list[int] | None:
        """The same, but ``count`` of them: where the operand has fewer, what follows it in the file."""
        tensor = self.input(position)
        if tensor is None or tensor.data is None or tensor.dtype not in _NUMPY or tensor.data.size < tensor.nbytes:
            return None
        size = count * tensor.dtype.bits // 8
        data = self.graph.bytes_of(tensor.data._replace(size=size))
        values: list[int] = np.frombuffer(data, _NUMPY[tensor.dtype], len(data) * 8 // tensor.dtype.bits).tolist()
        return values


def source_of(view: View, tensor: Tensor | None) -> str:
    if tensor is None:
        return "-"
    if tensor.id in view.unpacked:
        return view.unpacked[tensor.id]
    if tensor.is_constant:
        return "sparse" if tensor.is_sparse else "const"
    return "variable" if tensor.is_variable else "fed"


# --- scales ----------------------------------------------------------


def scales_of(view: View) -> Iterator[tuple[str, Feature]]:
    """Ratios of input to output scales, in single precision as the runtime computes them."""
    out = _scale(view.outputs[0]) if view.outputs else None
    if view.op.code in WEIGHTED:
        data, weights = (view.input(i) for i in WEIGHTED[view.op.code])
        scale = _scale(data)
        if weights is not None and weights.quantization is not None and scale and out:
            ratios = np.float32(scale) * np.array(weights.quantization.scales, np.float32) / np.float32(out)
            if ratios.size:
                yield "scale_max", float(ratios.max())
                yield "scale_min", float(ratios.min())
        return
    ins = [_scale(t) for t in view.inputs[:2]]
    if out and len(ins) == 2 and ins[0] and ins[1] and _multiplies(view):
        yield "scale_product", float(np.float32(ins[0]) * np.float32(ins[1]) / np.float32(out))
    for i, scale in enumerate(ins):
        if scale and out:
            yield f"scale{i}", float(np.float32(scale) / np.float32(out))
    eight_bit = [t for t in (*view.inputs, *view.outputs) if t is not None and t.dtype in EIGHT_BIT]
    if len(eight_bit) > 1:
        yield "same_quant", len({_affine(t) for t in eight_bit}) == 1


def _multiplies(view: View) -> bool:
    """A product whose scale matters: of a matrix with constant weights it is fixed, of two activations it is not."""
    constant = ("const", "unpacked", "sparse")
    return view.op.code == "MUL" or (view.op.code == "BATCH_MATMUL" and source_of(view, view.inputs[1]) in constant)


def _scale(tensor: Tensor | None) -> float | None:
    if tensor is None or tensor.dtype not in EIGHT_BIT or tensor.quantization is None:
        return None
    scales = tensor.quantization.scales
    return scales[0] if len(scales) == 1 and math.isfinite(scales[0]) and scales[0] > 0 else None


def quantised_as(tensor: Tensor, scale: float, zero_point: int) -> bool:
    """Whether its values are of int8 with this scale and zero point, or the same of uint8."""
    zero, quant = zero_point + 128 * (tensor.dtype is DType.UINT8), tensor.quantization
    return quant is not None and _scale(tensor) == scale and set(quant.zero_points) == {zero}


def _affine(tensor: Tensor) -> tuple[DType, object, object]:
    quant = tensor.quantization
    return tensor.dtype, quant and quant.scales, quant and quant.zero_points
