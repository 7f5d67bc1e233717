# SPDX-License-Identifier: Apache-2.0
"""Numbers and names in words that fit on a terminal line. Imports nothing heavy: the errors need it too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from edgedeploy_partitioner.errors import printable as printable

_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]*)", re.ASCII)
MOST_BYTES = 2**60
_UNITS = {"": 1, "B": 1, "K": 2**10, "KIB": 2**10, "KB": 1000, "M": 2**20, "MIB": 2**20, "MB": 10**6,
          "G": 2**30, "GIB": 2**30, "GB": 10**9}  # fmt: skip


def duration(ns: int | None) -> str:
    """Nanoseconds in three digits: ``0.84 us``, ``12.3 us``, ``1.42 ms``, ``2.10 s``."""
    if ns is None:
        return "?"
    for unit, scale in (("us", 1e3), ("ms", 1e6)):
        if abs(ns) < 999.5 * scale:
            return f"{_three_digits(ns / scale)} {unit}"
    return f"{_three_digits(ns / 1e9)} s"


def size(count: int | None) -> str:
    """Bytes in three digits: ``640 B``, ``48.0 KiB``, ``4.13 MiB``."""
    if count is None:
        return "?"
    if count < 0:
        return f"-{size(-count)}"
    if count < 1000:
        return f"{count} B"
    for unit, scale in (("KiB", 1024), ("MiB", 1024**2)):
        if count < 999.5 * scale:
            return f"{_three_digits(count / scale)} {unit}"
    return f"{_three_digits(count / 1024**3)} GiB"


def count(number: int) -> str:
    """A large number in three digits: ``940``, ``13.4 k``, ``41.0 M``, ``2.10 G``."""
    if number < 1000:
        return str(number)
    for unit, scale in (("k", 1e3), ("M", 1e6)):
        if number < 999.5 * scale:
            return f"{_three_digits(number / scale)} {unit}"
    return f"{_three_digits(number / 1e9)} G"


def plural(number: int, noun: str, nouns: str = "") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {nouns or noun + 's'}"


def times_faster(ns: int, than_ns: int) -> str:
    """How ``ns`` compares with ``than_ns``, in words: ``2.54x faster``, ``1.10x slower``, ``the same``."""
    if ns == than_ns:
        return "the same"
    if min(ns, than_ns) <= 0:
        return "faster" if ns < than_ns else "slower"
    ratio = max(ns, than_ns) / min(ns, than_ns)
    word = "faster" if ns < than_ns else "slower"
    return f"{100 * (ratio - 1):.1g}% {word}" if ratio < 1.01 else f"{_three_digits(ratio)}x {word}"


def ranges(indices: Iterable[int], prefix: str = "") -> str:
    """Ascending numbers as short text: ``0-3, 7, 9-10``; ``prefix`` goes before each part."""
    runs: list[list[int]] = []
    for i in sorted(indices):
        if runs and i == runs[-1][1] + 1:
            runs[-1][1] = i
        else:
            runs.append([i, i])
    return ", ".join(f"{prefix}{a}" if a == b else f"{prefix}{a}-{b}" for a, b in runs)


def brief_ranges(indices: Sequence[int], width: int | None, prefix: str = "", more: str = " +{}") -> str:
    """:func:`ranges`, or where that is wider than ``width`` as many as fit and how many are left: ``1, 3-5 +14``."""
    parts = ranges(indices, prefix).split(", ")
    whole = ", ".join(parts)
    if width is None or len(whole) <= width:
        return whole
    for shown in range(len(parts) - 1, 0, -1):
        left = len(set(indices)) - sum(map(_length, parts[:shown]))
        brief = ", ".join(parts[:shown]) + more.format(left)
        if len(brief) <= width:
            break
    return brief if len(parts) > 1 else whole


def _length(part: str) -> int:
    """Of ``7`` or ``3-9``, with or without the subgraph before it."""
    first, _, last = part.rpartition(":")[2].partition("-")
    return int(last or first) - int(first) + 1


def shape(dims: Iterable[int]) -> str:
    return "x".join("?" if d < 0 else str(d) for d in dims) or "scalar"


def parse_size(text: str) -> int:
    """``64MiB``, ``1.5 GB``, ``4096`` in bytes. Raises ValueError on anything else, on zero and above 2^60."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2].upper() not in _UNITS:
        raise ValueError(f"not a size: {text!r}; write for example 64MiB or 1500000")
    number = int(float(match[1]) * _UNITS[match[2].upper()])
    if number > MOST_BYTES:
        raise ValueError(f"a limit of {text!r} is more than any machine has")
    if number <= 0:
        raise ValueError(f"a limit of {text!r} leaves no room; leave the option out for no limit")
    return number


def _three_digits(value: float) -> str:
    magnitude = abs(value)
    if magnitude < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if magnitude < 99.95 else f"{value:.0f}"
