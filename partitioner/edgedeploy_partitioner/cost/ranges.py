# SPDX-License-Identifier: Apache-2.0
"""Numbers with bounds, and the roofline they all go through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from edgedeploy_partitioner.plan import Bound, Provenance
from edgedeploy_profiles.schema import Quantity


class Range(NamedTuple):
    """A value and the interval it lies in. All three are >= 0 and ``low <= value <= high``."""

    value: float
    low: float
    high: float

    @staticmethod
    def of(quantity: Quantity) -> Range:
        return Range(quantity.value, quantity.lowest, quantity.highest)

    @staticmethod
    def exact(value: float) -> Range:
        return Range(value, value, value)

    def plus(self, other: Range) -> Range:
        return Range(self.value + other.value, self.low + other.low, self.high + other.high)

    def times(self, factor: float | Range) -> Range:
        f = factor if isinstance(factor, Range) else Range.exact(factor)
        return Range(self.value * f.value, self.low * f.low, self.high * f.high)

    def over(self, divisor: Range) -> Range:
        """``self / divisor``; the divisor is never 0."""
        return Range(self.value / divisor.value, self.low / divisor.high, self.high / divisor.low)

    def at_least(self, other: Range) -> Range:
        return Range(max(self.value, other.value), max(self.low, other.low), max(self.high, other.high))


ZERO = Range.exact(0.0)


@dataclass(frozen=True, slots=True)
class Cost:
    """Whole nanoseconds with bounds, where they come from, and what limits them."""

    ns: int
    low_ns: int
    high_ns: int | None
    bound: Bound
    provenance: Provenance = "analytical"
    path: str = ""
    """Of a transition: how the tensor goes, where the back end has several ways, e.g. ``native``."""


FREE = Cost(0, 0, 0, "overhead")


def roofline(overhead_us: Range, compute_us: Range, memory_us: Range) -> Cost:
    """``overhead + max(compute, memory)`` in microseconds, as a cost; ``bound`` is the largest of the three terms."""
    total = overhead_us.plus(compute_us.at_least(memory_us))
    terms: dict[Literal["compute", "memory", "overhead"], float] = {
        "compute": compute_us.value,
        "memory": memory_us.value,
        "overhead": overhead_us.value,
    }
    bound = max(terms, key=lambda name: terms[name])
    return Cost(round(total.value * 1000), round(total.low * 1000), round(total.high * 1000), bound)


def gb_s_us(bytes_moved: float, bandwidth_gb_s: Range) -> Range:
    """Microseconds to move that many bytes at a bandwidth in GB/s (10^9 bytes)."""
    return Range.exact(bytes_moved / 1000).over(bandwidth_gb_s)


def fixed(overhead_us: Range) -> Cost:
    """A cost that does not depend on work or bytes."""
    return roofline(overhead_us, ZERO, ZERO)
