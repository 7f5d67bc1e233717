# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedeploy import text


@given(st.text())
def test_printable_is_one_visible_line(name: str) -> None:
    shown = text.printable(name)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain", "plain"),
        ("größe 层", "größe 层"),
        ("a\x1b[31mred", r"a\x1b[31mred"),
        ("two\nlines", r"two\nlines"),
        ("over\u202ewritten", r"over\u202ewritten"),
        ("bad\udcffbyte", r"bad\udcffbyte"),
        ("[bold]markup[/bold]", "[bold]markup[/bold]"),
    ],
)
def test_printable(name: str, shown: str) -> None:
    assert text.printable(name) == shown


@given(st.integers(min_value=0, max_value=10**15))
def test_numbers_have_three_digits_and_are_true(ns: int) -> None:
    value, unit = text.duration(ns).split()
    scale = {"us": 1e3, "ms": 1e6, "s": 1e9}[unit]
    assert float(value) * scale == pytest.approx(ns, rel=0.006, abs=6)
    assert len(value.replace(".", "").lstrip("0")) <= 3 or unit == "s"


@given(st.integers(min_value=0, max_value=2**50))
def test_sizes_are_true(count: int) -> None:
    value, unit = text.size(count).split()
    scale = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]
    assert float(value) * scale == pytest.approx(count, rel=0.006)


@given(st.lists(st.integers(min_value=0, max_value=60), unique=True))
def test_ranges_name_the_same_numbers(numbers: list[int]) -> None:
    named: list[int] = []
    for part in filter(None, text.ranges(numbers).split(", ")):
        first, _, last = part.partition("-")
        named += range(int(first), int(last or first) + 1)
    assert named == sorted(numbers)


@given(st.lists(st.integers(min_value=0, max_value=200), unique=True, min_size=1), st.integers(1, 30))
def test_brief_ranges_name_the_first_and_count_the_rest(numbers: list[int], width: int) -> None:
    shown, _, left = text.brief_ranges(numbers, width, "1:").partition(" +")
    named: list[int] = []
    for part in shown.split(", "):
        first, _, last = part.removeprefix("1:").partition("-")
        named += range(int(first), int(last or first) + 1)
    assert named == sorted(numbers)[: len(named)]
    assert len(named) + int(left or 0) == len(numbers)
    whole = text.ranges(numbers, "1:")
    assert len(f"{shown} +{left}") <= width or shown in (whole, whole.split(", ")[0])
    assert left or shown == whole


@pytest.mark.parametrize(
    ("ns", "than", "words"),
    [
        (100, 250, "2.50x faster"),
        (250, 100, "2.50x slower"),
        (7, 7, "the same"),
        (0, 5, "faster"),
        (1000, 1004, "0.4% faster"),
    ],
)
def test_times_faster(ns: int, than: int, words: str) -> None:
    assert text.times_faster(ns, than) == words


@pytest.mark.parametrize(
    ("written", "count"),
    [
        ("64MiB", 64 * 2**20),
        ("64 mib", 64 * 2**20),
        ("1.5GB", 1_500_000_000),
        ("4096", 4096),
        ("4096B", 4096),
        ("2k", 2048),
        ("3KB", 3000),
    ],
)
def test_parse_size(written: str, count: int) -> None:
    assert text.parse_size(written) == count


@pytest.mark.parametrize(
    "written", ["", "MiB", "64 apples", "-1", "0", "0MiB", "1e9", "1.2.3MiB", "٣", "64MiBMiB", "."]
)
def test_parse_size_refuses(written: str) -> None:
    with pytest.raises(ValueError, match=r"size|room"):
        text.parse_size(written)
