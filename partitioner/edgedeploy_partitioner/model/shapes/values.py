# SPDX-License-Identifier: Apache-2.0
"""Integer arithmetic on shapes: models compute the target of a RESHAPE from SHAPE, STRIDED_SLICE, PACK, …

Only small integer tensors are followed, and only the ops that converters write for this purpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from edgedeploy_partitioner.model.shapes.pick import strided_index
from edgedeploy_partitioner.model.shapes.site import Array, Shape, Site

MAX_ELEMENTS = 256

_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "MAXIMUM": np.maximum, "MINIMUM": np.minimum,
    "FLOOR_DIV": np.floor_divide, "FLOOR_MOD": np.mod,
}  # fmt: skip
_MOVES = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS", "CAST"})


def value_of(site: Site, shape: Shape) -> Array | None:
    """The numbers of output 0, whose shape is known; None if ``site`` is no such op. Raises Unknown like a rule."""
    dtype = site.stored(0).dtype.value
    if dtype not in ("int32", "int64") or math.prod(shape) > MAX_ELEMENTS:
        return None
    try:
        found = _compute(site, shape)
        return None if found is None else np.asarray(found).astype(dtype).reshape(shape)
    except (IndexError, OverflowError, TypeError, ValueError):  # numbers that no model computes on purpose
        return None


def _compute(site: Site, shape: Shape) -> Array | None:
    code = site.op.code
    if code == "SHAPE":
        return np.array(site.shape(0), np.int64)
    if code == "RANK":
        return np.array(len(site.shape(0)))
    if code in _MOVES:
        return site.value(0)
    if code in _BINARY:
        return _arithmetic(site, _BINARY[code])
    if code in ("PACK", "CONCATENATION"):
        parts = [site.value(i) for i in range(len(site.op.inputs))]
        return (np.stack if code == "PACK" else np.concatenate)(parts, axis=site.option("axis"))
    if code == "STRIDED_SLICE":
        return np.asarray(site.value(0)[strided_index(site)])
    if code == "SLICE":
        return site.value(0)[tuple(slice(b, b + n) for b, n in zip(site.ints(1), shape, strict=True))]
    if code == "GATHER" and not site.option("batch_dims"):
        return np.take(site.value(0), site.value(1), axis=site.option("axis"), mode="clip")
    if code in ("REDUCE_PROD", "SUM"):
        total = np.prod if code == "REDUCE_PROD" else np.sum
        return np.asarray(total(site.value(0).astype(object), axis=tuple(site.ints(1))))
    if code in ("FILL", "BROADCAST_TO"):
        return np.broadcast_to(site.value(1 if code == "FILL" else 0), shape)
    return None


def _arithmetic(site: Site, function: Callable[[Array, Array], Array]) -> Array | None:
    a, b = site.value(0), site.value(1)
    if site.op.code.startswith("FLOOR") and not b.all():
        return None
    return function(a.astype(object), b.astype(object))
