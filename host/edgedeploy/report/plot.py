# SPDX-License-Identifier: Apache-2.0
"""Bytes over time as a plot of characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from edgedeploy.report.page import DIM, WARN, Style, text
from edgedeploy.text import size

HEIGHT = 8
LABEL = 9
WIDEST_STEP = 6
"""Columns of one step where there are few."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Steps spread over the columns of a plot: every column has the most of its steps."""

    values: tuple[int, ...]
    starts: tuple[int, ...]
    """The first step of every column."""

    @staticmethod
    def of(values: Sequence[int], width: int) -> Columns:
        """Whole columns a step where they fit in ``width``, else several steps a column."""
        each = min(WIDEST_STEP, width // max(1, len(values)))
        if each:
            starts = [i for i in range(len(values)) for _ in range(each)]
            return Columns(tuple(values[i] for i in starts), tuple(starts))
        starts = [column * len(values) // width for column in range(width)]
        ends = [*starts[1:], len(values)]
        return Columns(tuple(max(values[a:b]) for a, b in zip(starts, ends, strict=True)), tuple(starts))

    def column_of(self, step: int) -> int:
        return max(i for i, start in enumerate(self.starts) if start <= step)


def plot(values: Sequence[int], top: int, style: Style, marks: Sequence[tuple[int, str]]) -> list[Text]:
    """``values`` as columns under ``top``, and below them marks at steps: (step, words), each on its own line."""
    columns = Columns.of(values, style.width - LABEL - 3)
    most = max(values, default=0)
    scale = max(top, most, 1)
    upright = "│" if style.unicode else "|"
    lines = []
    for row in reversed(range(HEIGHT)):
        label = size(scale) if row == HEIGHT - 1 else "0 B" if row == 0 else ""
        cells = [
            (_cell(value * HEIGHT / scale - row, style), WARN if value == most else "") for value in columns.values
        ]
        lines.append(text((f"{label:>{LABEL}} ", DIM), (upright, DIM), *cells))
    for step, words in marks:
        at = columns.column_of(step)
        pointer = "▲" if style.unicode else "^"
        after = at + 2 + len(words) <= style.width - LABEL - 2
        shown = f"{' ' * at}{pointer} {words}" if after else f"{words} {pointer}".rjust(at + 1)
        lines.append(text(" " * (LABEL + 2), (shown, DIM)))
    return lines


def _cell(filled: float, style: Style) -> str:
    """A cell of which ``filled`` (below 0 to above 1) is under the curve."""
    if filled <= 0:
        return " "
    if style.unicode:
        return "▁▂▃▄▅▆▇█"[min(7, max(0, round(filled * 8) - 1))]
    return "#" if filled >= 0.5 else "."
