# SPDX-License-Identifier: Apache-2.0
"""``edgedeploy bench`` on several devices: one line each, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from rich.console import RenderableType
from rich.text import Text

from edgedeploy.measure.bench import Bench
from edgedeploy.report.bench import verdict_style
from edgedeploy.report.page import BAD, DIM, STRONG, Style, grid, render, text
from edgedeploy.report.subject import entry_lines
from edgedeploy.text import duration, plural, size

_WIDEST_NAME = 16


def bench_table(results: Mapping[str, Bench | Exception], style: Style) -> str:
    """``results`` by device, in the order they were asked for. At least one is a measurement."""
    return render(style, *_pieces(results, style))


def _pieces(results: Mapping[str, Bench | Exception], style: Style) -> Iterator[RenderableType]:
    found = [result for result in results.values() if isinstance(result, Bench)]
    first = found[0]
    yield text((first.subject.name, STRONG), f" on {plural(len(results), 'device')}")
    if style.depth >= 0:
        yield from entry_lines(first.subject)
    yield text()
    width = min(_WIDEST_NAME, max(map(len, ("device", *results))))
    with_memory = any(each.memory for each in found)
    header = ["device", "median", "from", "to", "ratio", "first", *(["memory"] if with_memory else []), "predict"]
    rows = [[text((word, DIM)) for word in (*header, "verdict")]]
    rows += [_row(each, first, with_memory) for each in found]
    widths = (7, 7, 7, 5, 7, *([8] if with_memory else []), 7)
    numbers: list[tuple[Literal["left", "right"], int | None]] = [("right", each) for each in widths]
    yield grid(rows, ("left", width), *numbers, ("left", None), indent=0)
    failed = [
        (name, str(result).removeprefix(f"{name}: "))
        for name, result in results.items()
        if isinstance(result, Exception)
    ]
    if failed:
        told = [(text((name, BAD)), text(words)) for name, words in failed]
        yield grid(told, ("left", width), ("left", None), indent=0)
    if style.depth >= 0:
        yield text()
        yield from _notes(found, with_memory)


def _row(each: Bench, first: Bench, with_memory: bool) -> list[Text]:
    low, high = each.summary.ci95 or (None, None)
    grown = text(_grown(each)) if with_memory else None
    return [
        text((each.device, STRONG)),
        text((duration(round(each.summary.median)), STRONG)),
        text(duration(low)),
        text(duration(high)),
        text(_ratio(each.summary.median / first.summary.median)),
        text(duration(each.first_run_ns)),
        *([] if grown is None else [grown]),
        text("-" if each.plan is None else duration(each.plan.predicted.latency_ns)),
        text((each.verdict, verdict_style(each.verdict))),
    ]


def _ratio(value: float) -> str:
    """In five characters: ``1.00x``, ``12.5x``, ``374x``, and below a tenth ``1/374``."""
    if value < 0.0995:
        return f"1/{1 / value:.0f}" if value else "0"
    return f"{value:.2f}x" if value < 9.995 else f"{value:.1f}x" if value < 99.95 else f"{value:.0f}x"


def _grown(each: Bench) -> str:
    """What the model adds to the process at its peak."""
    memory = each.memory or {}
    peak, baseline = memory.get("peak_bytes"), memory.get("baseline_bytes")
    return "?" if peak is None or baseline is None else size(peak - baseline)


def _notes(found: Sequence[Bench], with_memory: bool) -> Iterator[Text]:
    """What the columns are, and what speaks against a line."""
    first = found[0]
    for each in found:
        used = f"{each.runtime['name']} {each.runtime['version']}, {plural(each.threads, 'thread')}"
        yield text((each.device, STRONG), (f": {used}, {plural(each.summary.count, 'warm run')}", DIM))
        if each.verdict != "valid":
            yield text((f"  {each.verdict}: {'; '.join(each.reasons)}", verdict_style(each.verdict)))
    same = [each.device for each in found[1:] if _overlap(each, first)]
    if same:
        yield text((f"the intervals of {', '.join(same)} and {first.device} overlap: no difference is shown", DIM))
    memory = "; memory: what the model adds at its peak" if with_memory else ""
    words = f"from, to: 95% interval of the median; ratio: of the median to that of {first.device}{memory}"
    yield text((f"{words}; predict: analytical estimate for the device's board", DIM))


def _overlap(a: Bench, b: Bench) -> bool:
    if a.summary.ci95 is None or b.summary.ci95 is None:
        return False
    return a.summary.ci95[0] <= b.summary.ci95[1] and b.summary.ci95[0] <= a.summary.ci95[1]
