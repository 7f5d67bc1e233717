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
    """What may differ: integers of up to 16 bits, which are quantised, by ``max_lsb``; floats by
    ``atol + rtol * |expected|``; other types not at all."""

    max_lsb: int = 1
    rtol: float = 1e-3
    atol: float = 1e-4


@dataclass(frozen=True, slots=True)
class Difference:
    """Of a tensor, or a row of one. ``max_abs`` and ``mean_abs`` are in its own unit: for quantised ones LSBs.

    ``over`` counts the elements that differ by more than is allowed, of ``elements``. ``cosine`` is None where one side
    is all zeros and the other is not, and for what is no number.
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
    elif (expected.dtype, expected.shape) != (actual.dtype, actual.shape):
        problem = f"{expected.dtype} {expected.shape} is expected"
    if problem or expected is None or actual is None:
        return Comparison(name, str(shown.dtype), shown.shape, None, (), problem)
    rows = zip(expected, actual, strict=True) if expected.ndim > 1 else ()
    return Comparison(
        name,
        str(actual.dtype),
        actual.shape,
        difference(expected, actual, tolerance),
        tuple(difference(a, b, tolerance) for a, b in rows),
    )


def difference(expected: Array, actual: Array, tolerance: Tolerance) -> Difference:
    """Of two arrays of one type and shape. NaN equals NaN, an infinity itself."""
    if expected.dtype.kind not in "biuf":
        unequal = int(np.count_nonzero(expected != actual))
        return Difference(expected.size, unequal, float(bool(unequal)), unequal / max(expected.size, 1), None)
    a, b = expected.astype(np.float64).ravel(), actual.astype(np.float64).ravel()
    same = (expected.ravel() == actual.ravel()) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(a - b))
    apart[np.isnan(apart)] = math.inf  # a number against none
    over = ~same & ~(apart <= _allowed(a, expected.dtype, tolerance))
    return Difference(
        elements=a.size,
        over=int(np.count_nonzero(over)),
        max_abs=float(apart.max(initial=0.0)),
        mean_abs=float(apart.mean()) if a.size else 0.0,
        cosine=_cosine(a, b),
    )


def is_quantised(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu" and dtype.itemsize <= 2


def _allowed(expected: Array, dtype: np.dtype[Any], tolerance: Tolerance) -> Array:
    if dtype.kind == "f":
        allowed: Array = tolerance.atol + tolerance.rtol * np.abs(expected)
        return np.where(np.isfinite(expected), allowed, 0.0)
    return np.full(expected.shape, float(tolerance.max_lsb if is_quantised(dtype) else 0))


def _cosine(a: Array, b: Array) -> float | None:
    finite = np.isfinite(a) & np.isfinite(b)
    a, b = a[finite], b[finite]
    if np.array_equal(a, b):
        return 1.0
    largest = max(np.abs(a).max(), np.abs(b).max())
    a, b = a / largest, b / largest  # or squares of large numbers overflow
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.clip(np.dot(a, b) / norms, -1, 1)) if norms else None
