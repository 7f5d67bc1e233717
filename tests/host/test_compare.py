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


@given(st.sampled_from([np.int32, np.int64, np.uint32, np.uint64]), st.data())
def test_large_integers_are_told_apart_however_close_they_are(dtype: Any, data: st.DataObject) -> None:
    limits = np.iinfo(dtype)
    numbers = st.integers(int(limits.min), int(limits.max))
    expected = data.draw(st.lists(numbers, min_size=1, max_size=9))
    actual = [min(each + data.draw(st.integers(0, 1)), int(limits.max)) for each in expected]
    for other in (actual, data.draw(st.permutations(expected))):
        apart = [abs(a - b) for a, b in zip(expected, other, strict=True)]
        found = difference(np.array(expected, dtype), np.array(other, dtype), LOOSE)
        assert (found.over, found.max_abs) == (sum(each > 0 for each in apart), float(max(apart)))


def test_complex_numbers_are_compared_by_their_parts() -> None:
    expected = np.array([[1 + 1j, 2], [3, 4j]], np.complex64)
    actual = expected + np.array([[5e-5, 1j], [complex(0, float("nan")), 0]], np.complex64)
    found = compare("x", expected, actual, LOOSE)
    assert [(row.elements, row.over) for row in found.rows] == [(4, 1), (4, 1)]
    assert (found.whole, found.ok) == (difference(expected.ravel(), actual.ravel(), LOOSE), False)
    assert compare("x", expected, expected, LOOSE).ok
    assert compare("x", np.zeros((), np.complex64), np.zeros((), np.complex64), LOOSE).ok


def test_texts_of_other_lengths_are_one_type() -> None:
    found = compare("x", np.array([b"a", b"longer"]), np.array([b"a", b"long"]), LOOSE)
    assert (found.problem, found.whole and found.whole.over) == ("", 1)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 0, 2), (0,), ()])
def test_nothing_is_like_nothing(shape: tuple[int, ...]) -> None:
    found = compare("x", np.zeros(shape, np.float32), np.zeros(shape, np.float32), LOOSE)
    assert (found.ok, len(found.rows)) == (True, shape[0] if len(shape) > 1 else 0)


@given(st.sampled_from([np.int8, np.int64, np.float32, np.bool_]), st.integers(0, 2**32))
def test_a_row_is_compared_as_if_it_were_alone(dtype: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    expected, actual = ((random.normal(size=(4, 5)) * 3).astype(dtype) for _ in range(2))
    if dtype is np.float32:
        expected[random.random((4, 5)) < 0.2] = np.nan
        actual[random.random((4, 5)) < 0.2] = np.inf
    actual = np.where(random.random((4, 1)) < 0.5, expected, actual)
    rows = compare("x", expected, actual, LOOSE).rows
    for row, a, b in zip(rows, expected, actual, strict=True):
        alone = difference(a, b, LOOSE)
        assert (row.elements, row.over, row.max_abs) == (alone.elements, alone.over, alone.max_abs)
        assert row.mean_abs == pytest.approx(alone.mean_abs)
        assert row.cosine == pytest.approx(alone.cosine)


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
