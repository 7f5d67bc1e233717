# SPDX-License-Identifier: Apache-2.0
"""One line of the memory report, with its bounds and how it is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edgedeploy_partitioner.plan import Kind

_KINDS: tuple[Kind, ...] = ("exact", "modelled", "assumed")


@dataclass(frozen=True, slots=True)
class Line:
    """Bytes with bounds. ``high_bytes`` None: there is no known upper bound."""

    bytes: int
    low_bytes: int
    high_bytes: int | None
    kind: Kind

    @staticmethod
    def exact(n: int) -> Line:
        return Line(n, n, n, "exact")

    @staticmethod
    def none() -> Line:
        """Nothing of the kind is there: exactly 0 bytes."""
        return Line.exact(0)

    @staticmethod
    def total(lines: Iterable[Line]) -> Line:
        result = Line.none()
        for line in lines:
            result += line
        return result

    def __add__(self, other: Line) -> Line:
        """The sum is known as well as the worse of the two."""
        is_open = self.high_bytes is None or other.high_bytes is None
        return Line(
            self.bytes + other.bytes,
            self.low_bytes + other.low_bytes,
            None if is_open else (self.high_bytes or 0) + (other.high_bytes or 0),
            max(self.kind, other.kind, key=_KINDS.index),
        )
