# SPDX-License-Identifier: Apache-2.0
"""From pieces to text: how wide, how colourful, and which characters the reader's terminal can show."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TextIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from edgedeploy.text import printable

WIDEST = 120
"""Longer lines are hard to read."""

DIM, STRONG, GOOD, WARN, BAD, NPU, CPU = "dim", "bold", "green", "yellow", "red", "cyan", "magenta"


@dataclass(frozen=True, slots=True)
class Style:
    """Where a report will be read. The default is a pipe or a file: 80 columns, no colour, ASCII only."""

    width: int = 80
    color: bool = False
    unicode: bool = False
    depth: int = 0
    """-1 for the headline only (``-q``), 1 for everything (``-v``)."""

    @property
    def line(self) -> str:
        return "─" if self.unicode else "-"

    @property
    def arrow(self) -> str:
        return "→" if self.unicode else "->"

    def bar(self, share: float, width: int) -> str:
        """``share`` (0 to 1) as a bar of at most ``width`` characters; anything above zero shows."""
        if not self.unicode:
            return "#" * round(share * width) or "." * (share > 0)
        eighths = round(share * width * 8) or (share > 0)
        return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def style_for(stream: TextIO | None = None, *, quiet: bool = False, verbose: bool = False) -> Style:
    """The style that suits ``stream`` (stdout): NO_COLOR, TERM=dumb, COLUMNS and the encoding are respected."""
    stream = stream or sys.stdout
    depth = verbose - quiet
    width = min(WIDEST, max(40, shutil.get_terminal_size((80, 24)).columns))
    if stream is None or not stream.isatty():
        return Style(width if os.environ.get("COLUMNS", "").isdecimal() else 80, depth=depth)
    plain = os.environ.get("TERM") == "dumb"
    utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    return Style(width, color=not plain and not os.environ.get("NO_COLOR"), unicode=utf8 and not plain, depth=depth)


def render(style: Style, *pieces: RenderableType) -> str:
    """The pieces under each other as text, without trailing blanks."""
    console = Console(
        file=io.StringIO(),
        width=style.width,
        height=25,  # of no use here, but rich would read it from LINES and stumble over LINES=\u00b2
        force_terminal=style.color,
        color_system="standard" if style.color else None,
        no_color=not style.color,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )
    with console.capture() as captured:
        for piece in pieces:
            console.print(piece)
    return "".join(line.rstrip() + "\n" for line in captured.get().splitlines())


def text(*parts: str | tuple[str, str]) -> Text:
    """Plain strings and (string, style) pairs joined; anything unprintable is escaped, markup means nothing."""
    joined = Text()
    for part in parts:
        words, how = (part, "") if isinstance(part, str) else part
        joined.append(printable(words), how or None)
    return joined


def heading(style: Style, title: str, right: str = "") -> Text:
    """A title, a line that fills the row, and something at its right end."""
    fill = style.width - len(title) - len(right) - 2 - bool(right)
    return text((title, STRONG), " ", (style.line * max(3, fill), DIM), f" {right}" if right else "")


def grid(
    rows: Iterable[Sequence[RenderableType]], *columns: tuple[Literal["left", "right"], int | None], indent: int = 2
) -> RenderableType:
    """Aligned rows without lines. A column is (side, width); width None takes what is left and wraps."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0), expand=True)
    for justify, width in columns:
        table.add_column(justify=justify, width=width, ratio=1 if width is None else None, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return Padding(table, (0, 0, 0, indent))
