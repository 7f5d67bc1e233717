# SPDX-License-Identifier: Apache-2.0
"""What profiles are made of: frozen values, and numbers that carry their source."""

from __future__ import annotations

import msgspec


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of everything in a profile; an unknown key is an error."""


class Quantity(Value, frozen=True):
    """A number with bounds and source. In TOML: ``{ value = 2.4, low = 2.2, high = 2.4, source = "sbc-bench" }``.

    ``source`` is a key of the file's ``[sources]`` table, or ``assumed: why``. Without ``low`` and ``high`` the
    value is taken as exact. The loader wants 0 <= low <= value <= high, all finite.
    """

    value: float
    source: str
    low: float | None = None
    high: float | None = None

    @property
    def lowest(self) -> float:
        return self.value if self.low is None else self.low

    @property
    def highest(self) -> float:
        return self.value if self.high is None else self.high


class Rate(Quantity, frozen=True):
    """A quantity that others are divided by: never 0."""
