# SPDX-License-Identifier: Apache-2.0
"""How far results are apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedeploy.measure.compare import Tolerance, compare, compare_all, difference

LOOSE = Tolerance()
Array = np.ndarray[Any, Any]


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


@given(st.lists(st.integers(-128, 127), min_size=1), st.integers(0, 300), st.randoms())
def test_quantised_outputs_are_counted_in_lsb(values: list[int], allowed: int, random: Any) -> None:
    other = [random.randint(-128, 127) for _ in values]
    found = difference(np.array(values, np.int8), np.array(other, np.int8), Tolerance(max_lsb=allowed))
    apart = [abs(a - b) for a, b in zip(values, other, strict=True)]
    assert found.max_abs == max(apart)
    assert found.mean_abs == pytest.approx(sum(apart) / len(apart))
    assert found.over == sum(each > allowed for each in apart)


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=50), st.floats(0, 0.1), st.floats(0, 1))
def test_floats_are_as_numpy_s_isclose_says(values: list[float], rtol: float, atol: float) -> None:
    expected = np.array(values, np.float32)
    actual = (expected * np.float32(1.01) + np.float32(0.05)).astype(np.float32)
    found = difference(expected, actual, Tolerance(rtol=rtol, atol=atol))
    close = np.isclose(actual.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=atol)
    assert found.over == np.count_nonzero(~close)


def test_no_number_is_only_like_itself() -> None:
    nan, inf = float("nan"), float("inf")
    assert difference(floats(nan, inf, -inf, 1), floats(nan, inf, -inf, 1), LOOSE).over == 0
    for expected, actual in ((nan, 1), (1, nan), (inf, 1), (1, inf), (inf, -inf), (nan, inf), (inf, 3e38)):
        found = difference(floats(expected, 0), floats(actual, 0), LOOSE)
        assert (found.over, found.max_abs) == (1, inf)


def test_other_types_have_to_be_equal() -> None:
    for dtype in (np.int32, np.int64, np.bool_):
        assert difference(np.array([0, 1], dtype), np.array([0, 1], dtype), LOOSE).over == 0
        assert difference(np.array([0, 1], dtype), np.array([1, 1], dtype), LOOSE).over == 1
    assert difference(np.array([b"a", b"b"]), np.array([b"a", b"c"]), LOOSE).over == 1


def test_the_cosine_tells_direction() -> None:
    assert difference(floats(3, 4), floats(4, 3), LOOSE).cosine == pytest.approx(24 / 25)
    assert difference(floats(1e30, 0), floats(-1e30, 0), LOOSE).cosine == pytest.approx(-1)
    assert difference(floats(0, 0), floats(0, 0), LOOSE).cosine == 1
    assert difference(floats(0, 0), floats(0, 1), LOOSE).cosine is None


def test_every_row_of_a_batch_is_looked_at() -> None:
    expected = np.zeros((4, 5), np.int8)
    actual = expected.copy()
    actual[2, 3], actual[3, 0] = 9, 1
    found = compare("y", expected, actual, LOOSE)
    assert [row.over for row in found.rows] == [0, 0, 1, 0]
    assert [row.max_abs for row in found.rows] == [0, 0, 9, 1]
    assert found.whole is not None
    assert (found.whole.over, found.ok) == (1, False)


def test_outputs_of_one_side_or_of_another_shape_are_no_match() -> None:
    a, b = {"x": floats(1), "y": floats(1)}, {"y": np.ones((1, 1), np.float32), "z": floats(1)}
    found = {each.name: each for each in compare_all(a, b, LOOSE)}
    assert {name: each.ok for name, each in found.items()} == {"x": False, "y": False, "z": False}
    assert "float32 (1,) is expected" in found["y"].problem
    assert compare("empty", floats(), floats(), LOOSE).ok
