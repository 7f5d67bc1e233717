# SPDX-License-Identifier: Apache-2.0
"""How far two results of one computation are apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What may differ: integers of up to 16 bits, which are quantised, by ``max_lsb``; floats, and the parts of complex
    numbers, by ``atol + rtol * |expected|``; other types not at all."""

    max_lsb: int = 1
    rtol: float = 1e-3
    atol: float = 1e-4


@dataclass(frozen=True, slots=True)
class Difference:
    """Of a tensor, or a row of one. ``max_abs`` and ``mean_abs`` are in its own unit: for quantised ones LSBs.

    ``over`` counts the elements that differ by more than is allowed, of ``elements``; a complex number is two of them.
    ``cosine`` is None where one side is all zeros and the other is not, and for what is no number.
    """

    elements: int
    over: int
    max_abs: float
    mean_abs: float
    cosine: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One output; ``rows`` are along its first dimension. ``problem`` is why there is nothing to compare."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    whole: Difference | None
    rows: tuple[Difference, ...] = ()
    problem: str = ""

    @property
    def ok(self) -> bool:
        return self.whole is not None and not self.whole.over

    @property
    def in_lsb(self) -> bool:
        return is_quantised(np.dtype(self.dtype))


def compare_all(
    expected: Mapping[str, Array], actual: Mapping[str, Array], tolerance: Tolerance
) -> tuple[Comparison, ...]:
    """Every output of either side."""
    return tuple(
        compare(name, expected.get(name), actual.get(name), tolerance) for name in dict.fromkeys((*expected, *actual))
    )


def compare(name: str, expected: Array | None, actual: Array | None, tolerance: Tolerance) -> Comparison:
    """One output. Raises ValueError when neither side has it."""
    shown = actual if actual is not None else expected
    if shown is None:
        raise ValueError(name)
    problem = ""
    if expected is None or actual is None:
        problem = "only one side has it"
    elif (_kind(expected), expected.shape) != (_kind(actual), actual.shape):
        problem = f"{expected.dtype} {expected.shape} is expected"
    if problem or expected is None or actual is None:
        return Comparison(name, str(shown.dtype), shown.shape, None, (), problem)
    rows = _differences(expected, actual, tolerance, len(expected)) if expected.ndim > 1 else ()
    return Comparison(name, str(actual.dtype), actual.shape, difference(expected, actual, tolerance), rows)


def difference(expected: Array, actual: Array, tolerance: Tolerance) -> Difference:
    """Of two arrays of one type and shape. NaN equals NaN, an infinity itself; of complex numbers each part counts."""
    [found] = _differences(expected, actual, tolerance, 1)
    return found


def _differences(expected: Array, actual: Array, tolerance: Tolerance, rows: int) -> tuple[Difference, ...]:
    """Of each of ``rows`` equal parts of two arrays."""
    e, a = _in_rows(expected, rows), _in_rows(actual, rows)
    with np.errstate(all="ignore"):
        apart, over = _apart(e, a, tolerance)
        cosines = _cosines(e, a) if e.dtype.kind in "biuf" else [None] * rows
        return tuple(
            Difference(e.shape[1], int(wrong), float(most), float(mean), cosine)
            for wrong, most, mean, cosine in zip(
                np.count_nonzero(over, axis=1), apart.max(axis=1, initial=0.0), _means(apart), cosines, strict=True
            )
        )


def _in_rows(array: Array, rows: int) -> Array:
    flat: Array = np.ascontiguousarray(array).reshape(-1)
    parts = flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat
    return parts.reshape(rows, parts.size // max(rows, 1))


def _apart(expected: Array, actual: Array, tolerance: Tolerance) -> tuple[Array, Array]:
    """How far each element is off, and whether that is too far."""
    kind = expected.dtype.kind
    if kind == "f":
        e, a = expected.astype(np.float64), actual.astype(np.float64)
        same = (e == a) | (np.isnan(e) & np.isnan(a))
        apart = np.where(same, 0.0, np.abs(e - a))
        apart[np.isnan(apart)] = math.inf  # a number against none
        allowed = np.where(np.isfinite(e), tolerance.atol + tolerance.rtol * np.abs(e), 0.0)
        return apart, ~same & ~(apart <= allowed)
    if kind not in "biu":
        unequal = expected != actual
        return unequal.astype(np.float64), unequal
    low, high = np.minimum(expected, actual), np.maximum(expected, actual)
    exact = high.astype(np.uint64) - low.astype(np.uint64)  # modulo 2^64, so right for every integer
    return exact.astype(np.float64), exact > (tolerance.max_lsb if is_quantised(expected.dtype) else 0)


def _means(apart: Array) -> Array:
    found: Array = apart.sum(axis=1) / max(apart.shape[1], 1)
    return found


def _kind(array: Array) -> Any:
    """Its type; texts are of one, however long the longest is."""
    return array.dtype.kind if array.dtype.kind in "SU" else array.dtype


def is_quantised(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu" and dtype.itemsize <= 2


def _cosines(expected: Array, actual: Array) -> list[float | None]:
    """Of each row, over the elements that are finite on both sides."""
    e, a = expected.astype(np.float64), actual.astype(np.float64)
    finite = np.isfinite(e) & np.isfinite(a)
    e, a = np.where(finite, e, 0.0), np.where(finite, a, 0.0)
    largest = np.maximum(np.abs(e).max(axis=1, initial=0.0), np.abs(a).max(axis=1, initial=0.0))[:, None]
    e, a = e / largest, a / largest  # or squares of large numbers overflow
    norms = np.linalg.norm(e, axis=1) * np.linalg.norm(a, axis=1)
    cosines = np.clip(np.einsum("ij,ij->i", e, a) / norms, -1, 1)
    same = (e == a).all(axis=1) | (largest[:, 0] == 0)
    return [1.0 if s else float(c) if n > 0 else None for s, c, n in zip(same, cosines, norms, strict=True)]
