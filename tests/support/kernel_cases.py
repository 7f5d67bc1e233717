# SPDX-License-Identifier: Apache-2.0
"""Models of one op for the runtime to run, written as its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from edgedeploy_partitioner.model.build import Model, Subgraph, per_channel, per_tensor
from edgedeploy_partitioner.model.graph import Quantization
from edgedeploy_partitioner.model.schema import names

S = (2, 6, 6, 4)
Q = per_tensor(0.05)
_BUILTIN = frozenset(names("BuiltinOperator").values())
_INTEGERS = ("int8", "uint8", "int16")


class In(NamedTuple):
    """An input to feed, or with ``variable`` the op's own state. Integers of 8 and 16 bits get a scale."""

    shape: tuple[int, ...] = S
    dtype: str = "float32"
    variable: bool = False
    quant: Quantization | None = None


class Const(NamedTuple):
    """A constant; 8-bit ones get a scale. With ``block`` it has one for each block of its last axis."""

    value: Any
    dtype: str = "int32"
    quant: Quantization | None = None
    block: int = 0


class Out(NamedTuple):
    shape: tuple[int, ...] = S
    dtype: str = "float32"
    quant: Quantization | None = None


class Case(NamedTuple):
    name: str
    model: bytes

    @property
    def op(self) -> str:
        return self.name.split()[0]


Operand = In | Const | None


def case(
    code: str,
    inputs: Sequence[Operand],
    *outputs: Out,
    version: int = 1,
    note: str = "",
    custom: bytes = b"",
    intermediates: Sequence[Out] = (),
    body: Callable[[Subgraph], None] | None = None,
    **options: Any,
) -> Case:
    """The op ``code``, or the custom op of that name with the options ``custom``; ``body`` fills subgraph 1."""
    model = Model()
    g = model.subgraph()
    ids = [_operand(g, spec) for spec in inputs]
    results = [_result(g, out) for out in outputs]
    between = [_result(g, out) for out in intermediates]
    if code in _BUILTIN:
        g.op(code, ids, results, op_version=version, intermediates=between, **options)
    else:
        g.op("CUSTOM", ids, results, custom_code=code, custom_options=custom)
    g.outputs(*results)
    if body is not None:
        body(model.subgraph())
    return Case(f"{code} {note}".strip(), model.build())


def _operand(g: Subgraph, spec: Operand) -> int:
    if spec is None:
        return -1
    if isinstance(spec, In):
        quant = spec.quant or scale(spec.dtype)
        if spec.variable:
            return g.tensor(spec.shape, spec.dtype, quant, variable=True)
        return g.input(spec.shape, spec.dtype, quant)
    value, dtype = np.asarray(spec.value), spec.dtype
    quant = spec.quant
    if spec.block:
        scales = g.constant(np.ones((value.shape[0], value.shape[1] // spec.block), np.float16))
        quant = Quantization((), (), 0, spec.block, scales, -1)
    elif quant is None and dtype in ("int8", "uint8"):
        quant = Q
    return g.constant(value.astype("int8" if dtype in ("int4", "int2") else dtype), dtype, quant)


def _result(g: Subgraph, out: Out) -> int:
    return g.tensor(out.shape, out.dtype, out.quant or scale(out.dtype))


def scale(dtype: str) -> Quantization | None:
    return Q if dtype in _INTEGERS else None


def ones(*shape: int, dtype: str = "float32", quant: Quantization | None = None, block: int = 0) -> Const:
    return Const(np.ones(shape), dtype, quant, block)


def channels(n: int, axis: int = 0, step: float = 0.001) -> Quantization:
    """A scale for each channel, all different unless ``step`` is 0."""
    return per_channel([0.01 + step * i for i in range(n)], axis)
