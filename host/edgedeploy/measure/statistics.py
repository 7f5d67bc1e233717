# SPDX-License-Identifier: Apache-2.0
"""What can be said about latency from samples, without assuming how they are distributed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
P99_FROM = 100
"""Samples: with fewer, the 99th percentile is the largest or none."""
_NEGLIGIBLE = 1e-18


@dataclass(frozen=True, slots=True)
class Summary:
    """Nanoseconds. ``ci95`` bounds the median; its ends are samples, None where there are too few for 95 %."""

    count: int
    median: float
    p95: int
    p99: int | None
    min: int
    ci95: tuple[int, int] | None

    @property
    def half_width(self) -> float:
        """Of the interval, as a share of the median; infinite where there is none."""
        if self.ci95 is None:
            return math.inf
        low, high = self.ci95
        return max(high - self.median, self.median - low) / self.median if self.median else 0.0


def summarise(samples: Sequence[int]) -> Summary:
    """Raises ValueError without samples."""
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    n = len(ordered)
    rank = median_rank(n)
    return Summary(
        count=n,
        median=(ordered[(n - 1) // 2] + ordered[n // 2]) / 2,
        p95=percentile(ordered, 0.95),
        p99=percentile(ordered, 0.99) if n >= P99_FROM else None,
        min=ordered[0],
        ci95=None if rank is None else (ordered[rank - 1], ordered[n - rank]),
    )


def percentile(ordered: Sequence[int], share: float) -> int:
    """The nearest rank: the smallest sample that at least ``share`` of all do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def median_rank(n: int) -> int | None:
    """The largest k for which the k-th smallest and k-th largest of n samples hold the median between them with 95 %.

    How many samples lie below the median is binomial (n, 1/2), so the interval misses it with twice the chance of
    fewer than k (David & Nagaraja, Order Statistics, 7.1). None for fewer than 6 samples.
    """
    limit = (1 - CONFIDENCE) / 2
    k = max(0, int(n / 2 - math.sqrt(n)))  # the normal distribution's answer, a little below
    while k and _at_most(k - 1, n) > limit:
        k -= 1
    while 2 * (k + 1) <= n + 1 and _at_most(k, n) <= limit:
        k += 1
    return k or None


def _at_most(k: int, n: int) -> float:
    """The chance of at most k heads in n throws, k below n / 2."""
    term = math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2))
    total = 0.0
    while term > total * _NEGLIGIBLE:
        total += term
        term *= k / (n - k + 1)
        k -= 1
    return total
