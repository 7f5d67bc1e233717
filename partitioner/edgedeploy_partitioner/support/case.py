# SPDX-License-Identifier: Apache-2.0
"""One op as the rules of a back end see it: its operands by role, constant parameters, and sizes in vendor axes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from edgedeploy_partitioner.model.graph import DType, Tensor
from edgedeploy_partitioner.model.shapes.site import constant
from edgedeploy_partitioner.model.work import Operands, multiplied
from edgedeploy_partitioner.support import axes
from edgedeploy_profiles.schema import Backend

_PARAMETERS = {
    "ARG_MAX": (1,), "ARG_MIN": (1,), "BATCH_TO_SPACE_ND": (1, 2), "BROADCAST_TO": (1,), "CUMSUM": (1,),
    "EXPAND_DIMS": (1,), "GATHER": (1,), "GATHER_ND": (1,), "MEAN": (1,), "MIRROR_PAD": (1,),
    "NON_MAX_SUPPRESSION_V4": (2, 3, 4), "NON_MAX_SUPPRESSION_V5": (2, 3, 4, 5), "PAD": (1,),
    "PADV2": (1,), "REDUCE_MAX": (1,), "REDUCE_MIN": (1,), "REDUCE_PROD": (1,), "RESHAPE": (1,),
    "RESIZE_BILINEAR": (1,), "RESIZE_NEAREST_NEIGHBOR": (1,), "REVERSE_SEQUENCE": (1,), "REVERSE_V2": (1,),
    "SELECT": (0,), "SELECT_V2": (0,), "SLICE": (1, 2), "SPACE_TO_BATCH_ND": (1, 2), "SPLIT": (0,), "SPLIT_V": (1, 2),
    "STRIDED_SLICE": (1, 2, 3), "SUM": (1,), "TILE": (1,), "TOPK_V2": (1,), "TRANSPOSE": (1,),
}  # fmt: skip
"""Inputs that say how (axes, sizes, indices, conditions), not what: they are not data of the op's element type."""


BIASED = {"CONV_2D": 2, "DEPTHWISE_CONV_2D": 2, "FULLY_CONNECTED": 2, "TRANSPOSE_CONV": 3}
"""Op -> which of its inputs is the bias."""


class Operand(NamedTuple):
    """A tensor and what it is to the op: ``input 0``, ``weight``, ``output 0``."""

    role: str
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class Case(Operands):
    """``graph``, ``op``, and the back end whose rules are asked, on one of its SoCs."""

    backend: Backend
    soc: str = ""

    def inputs(self) -> Iterator[Operand]:
        """Every input that is there, parameters too."""
        for i in range(len(self.op.inputs)):
            if tensor := self.input(i):
                yield Operand(f"input {i}", tensor)

    def outputs(self) -> Iterator[Operand]:
        for i in range(len(self.op.outputs)):
            if tensor := self.output(i):
                yield Operand(f"output {i}", tensor)

    def data_position(self) -> int:
        """Which input flows through the op."""
        if positions := multiplied(self.op):
            return positions[0]
        parameters = _PARAMETERS.get(self.op.code, ())
        return next((i for i in range(len(self.op.inputs)) if i not in parameters), 0)

    def data(self) -> Tensor | None:
        return self.input(self.data_position())

    def weights(self) -> Iterator[Operand]:
        """The inputs that are multiplied with the data."""
        positions = multiplied(self.op)
        for i in positions[1] if positions else ():
            if tensor := self.input(i):
                yield Operand("weight", tensor)

    def biases(self) -> Iterator[Operand]:
        """The constant that is added after the weights were multiplied, of the ops that have one such input."""
        if self.op.code in BIASED and (tensor := self.input(BIASED[self.op.code])):
            yield Operand("bias", tensor)

    def data_inputs(self) -> Iterator[Operand]:
        """Inputs that hold values of the op's element type: no parameters, biases or states."""
        if multiplied(self.op):
            if data := self.data():
                yield Operand(f"input {self.data_position()}", data)
            yield from self.weights()
            return
        parameters = _PARAMETERS.get(self.op.code, ())
        for i in range(len(self.op.inputs)):
            if i not in parameters and (tensor := self.input(i)):
                yield Operand(f"input {i}", tensor)

    def is_constant(self, tensor: Tensor) -> bool:
        """The value is in the file, directly or behind constant DEQUANTIZE and DENSIFY ops."""
        subgraph = self.graph.subgraphs[self.op.subgraph]
        return tensor.is_constant or subgraph.producer.get(tensor.id) in subgraph.folded

    def integers(self, i: int) -> tuple[int, ...] | None:
        """The value of input ``i`` if it is a constant of int32 or int64, flattened."""
        return self._values(i, DType.INT32, DType.INT64)

    def floats(self, i: int) -> tuple[float, ...] | None:
        """The value of input ``i`` if it is a constant of float32, flattened."""
        return self._values(i, DType.FLOAT32)

    def _values(self, i: int, *types: DType) -> tuple[Any, ...] | None:
        tensor = self.input(i)
        if tensor is None or tensor.dtype not in types or not tensor.is_constant:
            return None
        try:
            values = constant(self.graph, tensor)
        except ValueError:  # fewer bytes than the shape asks for
            return None
        return None if values is None else tuple(values.reshape(-1).tolist())

    def option(self, name: str, default: int) -> int:
        """An integer option; ``default`` if it is missing or no integer."""
        value = self.op.options.get(name, default)
        return int(value) if isinstance(value, int) else default

    def computed_type(self) -> str:
        """The type in which the back end would compute this op, e.g. ``float16`` for float32 data."""
        tensor = self.data() or self.output(0)
        return self.computed_as(tensor) if tensor else ""

    def computed_as(self, tensor: Tensor) -> str:
        return self.backend.computes_as.get(tensor.dtype.value, tensor.dtype.value)

    def vendor(self, tensor: Tensor, rank: int = 0) -> dict[str, int]:
        """Sizes by the vendor's axis names, e.g. ``{"N": 1, "C": 3, "H": 8, "W": 8}``; empty above 4 dimensions.

        With fewer than ``rank`` dimensions the shape is first filled up with leading ones, as broadcasting does.
        """
        order = self.backend.vendor_axes
        shape = axes.vendor_shape((1,) * (rank - len(tensor.shape)) + tensor.shape, order)
        return dict(zip(order, shape, strict=True)) if shape else {}
