# SPDX-License-Identifier: Apache-2.0
"""Two plans compared, in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from typing import Any

from rich.console import RenderableType

from edgedeploy.planview import op_label, ops_label
from edgedeploy.report.page import BAD, DIM, GOOD, STRONG, Style, grid, render, text
from edgedeploy.text import duration, plural, size, times_faster
from edgedeploy_partitioner.diff import Change, Move, PlanDiff
from edgedeploy_partitioner.plan import Plan

MOVES_SHOWN = 20


def diff_json(found: PlanDiff) -> dict[str, Any]:
    """Schema ``edgedeploy.diff/1``; times in microseconds, as in the plans."""
    return {"schema": "edgedeploy.diff/1", **asdict(found)}


def diff_report(found: PlanDiff, before: Plan, after: Plan, style: Style) -> str:
    return render(style, *_pieces(found, before, after, style))


def _pieces(found: PlanDiff, before: Plan, after: Plan, style: Style) -> Iterator[RenderableType]:
    if found.same:
        yield text("the plans are the same")
        return
    a, b = before.predicted.latency_ns, after.predicted.latency_ns
    compared = times_faster(b, a)
    mood = GOOD if "faster" in compared else BAD if "slower" in compared else ""
    yield text((f"{duration(a)} {style.arrow} {duration(b)}", STRONG), " predicted, ", (compared, mood))
    if style.depth < 0:
        return
    sections = (
        ("Inputs", [_change(c, style) for c in found.inputs if style.depth > 0 or not c.key.endswith("sha256")]),
        (f"{plural(len(found.moved), 'op')} moved", list(_moves(found.moved, before, style))),
        ("Partitions", [_change(c, style) for c in found.partitions]),
        ("Memory", [_change(c, style) for c in found.memory]),
        ("Only in the first", [(op_label(before, (s, i)), name) for s, i, name in found.only_before]),
        ("Only in the second", [(op_label(after, (s, i)), name) for s, i, name in found.only_after]),
    )
    for title, rows in sections:
        if rows:
            width = min(30, max(len(label) for label, _ in rows))
            yield text()
            yield text((title, STRONG))
            yield grid([(text((a, DIM)), text(b)) for a, b in rows], ("left", width), ("left", None))


def _change(change: Change, style: Style) -> tuple[str, str]:
    show = size if change.key.endswith("_bytes") else _value
    return change.key.split(".", 1)[-1], f"{show(change.before)} {style.arrow} {show(change.after)}"


def _value(value: object) -> str:
    return "-" if value is None else str(value)


def _moves(moved: tuple[Move, ...], before: Plan, style: Style) -> Iterator[tuple[str, str]]:
    """Neighbouring ops that moved the same way for the same reason share a line."""
    lines = [
        (list(group), key)
        for key, group in groupby(moved, lambda m: (m.subgraph, m.before, m.after, m.cause, m.detail))
    ]
    shown = lines if style.depth > 0 else lines[:MOVES_SHOWN]
    for ops, (_, was, now, _, detail) in shown:
        names = ", ".join(dict.fromkeys(m.op for m in ops))
        label = ops_label(before, [(m.subgraph, m.index) for m in ops])
        kernels = f"{was.backend}/{was.kernel} {style.arrow} {now.backend}/{now.kernel}"
        yield label, f"{names}: {kernels}; {detail}"
    if len(shown) < len(lines):
        yield "", f"and {plural(sum(len(ops) for ops, _ in lines[len(shown) :]), 'op')} more: -v shows all"
