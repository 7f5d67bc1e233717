# SPDX-License-Identifier: Apache-2.0
"""Files of one op, from the same values as :func:`support.single_op.single_op`: for compilers, which want a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgedeploy_partitioner.model.build import Array, Model, Subgraph
from edgedeploy_partitioner.model.graph import Quantization
from support.single_op import T

_UNUSED = -1


def one_op_file(
    code: str, inputs: Sequence[T | None], outputs: Sequence[T], intermediates: Sequence[T] = (), **options: Any
) -> bytes:
    """A model whose only op is ``code``; None is an absent input. Constants without a value get seeded ones."""
    model = Model()
    g = model.subgraph()
    values = np.random.default_rng(0)
    ids = [_UNUSED if spec is None else _tensor(g, spec, values) for spec in inputs]
    fed = [i for i, spec in zip(ids, inputs, strict=True) if spec and not _is_constant(spec) and not spec.is_variable]
    g.value.inputs.extend(fed)
    made = [_tensor(g, spec, values) for spec in outputs]
    between = [_tensor(g, spec, values) for spec in intermediates]
    g.op(code, ids, made, intermediates=between, **options)
    g.outputs(*made)
    return model.build()


def _is_constant(spec: T) -> bool:
    return spec.constant or spec.value is not None


def _tensor(g: Subgraph, spec: T, values: np.random.Generator) -> int:
    quant = _quantization(spec)
    if not _is_constant(spec):
        return g.tensor(spec.shape, spec.dtype, quant, variable=spec.is_variable, signature=spec.signature)
    return g.constant(_constant(spec, values), spec.dtype, quant)


def _constant(spec: T, values: np.random.Generator) -> Array:
    if spec.value is not None:
        return np.array(spec.value, spec.dtype).reshape(spec.shape)
    if spec.dtype.startswith("float"):
        return values.random(spec.shape).astype(spec.dtype)
    low, high = {"uint8": (0, 255), "int4": (-8, 7)}.get(spec.dtype, (-127, 127))
    return values.integers(low, high, spec.shape, endpoint=True).astype(np.int8 if spec.dtype == "int4" else spec.dtype)


def _quantization(spec: T) -> Quantization | None:
    scales = spec.scales if spec.scales is not None else (0.5,) if spec.dtype in ("int8", "uint8") else ()
    return Quantization(scales, (spec.zero_point,) * len(scales), 0) if scales else None
