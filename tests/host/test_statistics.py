# SPDX-License-Identifier: Apache-2.0
"""What is said of samples, against definitions written differently."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedeploy.measure.statistics import P99_FROM, median_rank, summarise

SAMPLES = st.lists(st.integers(1, 10**12), min_size=1, max_size=300)


@given(SAMPLES)
def test_the_summary_is_that_of_numpy_and_of_the_standard_library(samples: list[int]) -> None:
    found = summarise(samples)
    assert (found.count, found.min) == (len(samples), min(samples))
    assert found.median == statistics.median(samples)
    assert found.p95 == np.percentile(samples, 95, method="inverted_cdf")
    if len(samples) >= P99_FROM:
        assert found.p99 == np.percentile(samples, 99, method="inverted_cdf")
    else:
        assert found.p99 is None


@given(SAMPLES, st.randoms())
def test_the_order_of_samples_is_of_no_matter(samples: list[int], random: object) -> None:
    shuffled = list(samples)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert summarise(samples) == summarise(shuffled)


@given(SAMPLES, st.integers(1, 1000))
def test_it_scales_with_its_unit(samples: list[int], scale: int) -> None:
    found, scaled = summarise(samples), summarise([scale * sample for sample in samples])
    assert scaled.median == scale * found.median
    assert scaled.p95 == scale * found.p95
    assert scaled.half_width == pytest.approx(found.half_width)


@given(SAMPLES)
def test_the_interval_holds_the_median(samples: list[int]) -> None:
    found = summarise(samples)
    assert (found.ci95 is None) == (len(samples) < 6)
    if found.ci95 is not None:
        low, high = found.ci95
        assert min(samples) <= low <= found.median <= high <= max(samples)
        assert found.half_width >= 0


@pytest.mark.parametrize("n", [*range(1, 80), 200, 999, 1000])
def test_the_interval_is_the_narrowest_that_has_95_percent(n: int) -> None:
    """The chance that the median lies between the k-th smallest and largest, exactly."""

    def covered(k: int) -> Fraction:
        return 1 - 2 * sum((Fraction(math.comb(n, i), 2**n) for i in range(k)), Fraction())

    rank = median_rank(n)
    if rank is None:
        assert covered(1) < Fraction(95, 100)
    else:
        assert covered(rank) >= Fraction(95, 100)
        assert covered(rank + 1) < Fraction(95, 100) or 2 * rank >= n


def test_ten_million_samples_have_an_interval() -> None:
    rank = median_rank(10**7)
    assert rank is not None
    assert rank == pytest.approx(10**7 / 2 - 1.959964 * math.sqrt(10**7) / 2, abs=2)  # as a normal distribution


def test_nothing_is_said_of_no_samples() -> None:
    with pytest.raises(ValueError, match="no samples"):
        summarise([])
