# SPDX-License-Identifier: Apache-2.0
"""Two plans compared, in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rich.console import RenderableType

from edgedeploy.planview import op_label, ops_label
from edgedeploy.report.page import BAD, DIM, GOOD, STRONG, Style, grid, render, text
from edgedeploy.report.reasons import LABEL, names
from edgedeploy.text import duration, plural, size, times_faster
from edgedeploy_partitioner.diff import Change, Move, Place, PlanDiff
from edgedeploy_partitioner.plan import Plan

MOVES_SHOWN = 20
INPUT_NAMES = {
    "model.sha256": "model file",
    "model.fingerprints": "graph",
    "board.profile_sha256": "board profile",
    "board.stack": "NPU stack",
    "runtime.sha256": "runtime profile",
    "tables.": "table {1}",
    "kernels_sha256": "NEON kernels",
    "measurements_sha256": "measurements",
}
"""What inputs are called, by the start of their key; others by the key itself."""


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
        ("Inputs", [_input(c, style) for c in found.inputs]),
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
    """A value of a plan as a person would write it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_value(each)}" for key, each in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_value, value)) or "none"
    return "none" if value is None else str(value)


def _input(change: Change, style: Style) -> tuple[str, str]:
    """What differs in what the plans depend on, called by its name; of hashes only that they differ."""
    parts = change.key.split(".")[1:]
    known = next((words for start, words in INPUT_NAMES.items() if change.key.startswith(f"inputs.{start}")), "")
    own = parts[1:] if parts[0] == "options" else parts
    name = known.format(*parts) or " ".join(own).replace("_", " ")
    if style.depth < 1 and change.key.endswith(("sha256", "fingerprints")):
        return name, "another"
    if parts[0] == "tables" and len(parts) == 2:
        a, b = (value and f"SDK {value['sdk_version']}" for value in (change.before, change.after))
        return name, f"{_value(a)} {style.arrow} {_value(b)}"
    return name, _change(change, style)[1]


def _moves(moved: tuple[Move, ...], before: Plan, style: Style) -> Iterator[tuple[str, str]]:
    """Ops that moved the same way for one cause share a line; where its numbers differ, one of them is told."""
    groups: dict[tuple[object, ...], list[Move]] = {}
    for m in moved:
        own = m.detail if style.depth > 0 or m.cause == "option" else ""
        groups.setdefault((m.subgraph, m.before, m.after, m.cause, own), []).append(m)
    lines = list(groups.values())
    shown = lines if style.depth > 0 else lines[:MOVES_SHOWN]
    for ops in shown:
        first = ops[0]
        alike = len({m.detail for m in ops}) == 1
        detail = first.detail if alike else f"e.g. op {op_label(before, (first.subgraph, first.index))}: {first.detail}"
        label = ops_label(before, [(m.subgraph, m.index) for m in ops], None if style.depth > 0 else LABEL)
        places = f"{_words(first.before)} {style.arrow} {_words(first.after)}"
        yield label, f"{names(m.op for m in ops)}: {places}; {detail}"
    if len(shown) < len(lines):
        yield "", f"and {plural(sum(map(len, lines[len(shown) :])), 'op')} more: -v shows all"


def _words(place: Place) -> str:
    return f"{place.backend}/{place.kernel}"
