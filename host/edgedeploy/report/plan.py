# SPDX-License-Identifier: Apache-2.0
"""The report of ``edgedeploy partition``: one screen that a person can decide from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from rich.console import Group, RenderableType

from edgedeploy.planview import ops_label
from edgedeploy.report.advice import advice
from edgedeploy.report.headline import headline
from edgedeploy.report.page import CPU, DIM, NPU, STRONG, WARN, Style, grid, heading, render, text
from edgedeploy.report.reasons import LABEL, not_on_npu
from edgedeploy.report.runs import MOVES_SHOWN, Block, Row, blocks, stretches
from edgedeploy.text import brief_ranges, count, duration, plural, printable, shape, size
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.plan import Plan, Transition, Warn

SCREEN_LINES = 49
"""A terminal of 50 lines less one for the prompt."""
FEWEST_TABLE_LINES = 10
SAID_ABOVE = "line_not_modelled"
"""The warning that the headline repeats."""
TABLE_FRAME_LINES = 3
LONGEST_NAME = 14
BAR = 8
LARGE = 1 / BAR
"""Share of the time from which a transition or hand-over is shown like an op."""
COLUMNS: tuple[tuple[Literal["left", "right"], int | None], ...] = (
    ("left", 8), ("left", None), ("right", 6), ("left", 8), ("right", 7), ("left", BAR),
)  # fmt: skip
HEADER = ("op", "what", "MACs", "bound by", "time", "share")
SIGNS = {"enter": ">", "leave": "<", "internal": "~"}


def plan_report(plan: Plan, graph: Graph, style: Style) -> str:
    """The whole report. ``graph`` is the planned model, for the names and shapes of its tensors."""
    top = render(style, *headline(plan, style))
    if style.depth < 0:
        return top
    if style.depth > 0:
        return top + _table(plan, graph, None, style) + _rest(plan, graph, None, style)
    titles = len(plan.subgraphs) if len(plan.subgraphs) > 1 else 0
    for reasons in (7, 5, 3):
        rest = _rest(plan, graph, reasons, style)
        left = SCREEN_LINES - len(top.splitlines()) - len(rest.splitlines()) - TABLE_FRAME_LINES - titles
        report = top + _table(plan, graph, max(FEWEST_TABLE_LINES, left), style) + rest
        if len(report.splitlines()) <= SCREEN_LINES:
            break
    return report


def _table(plan: Plan, graph: Graph, lines: int | None, style: Style) -> str:
    return render(style, text(), *_op_table(plan, graph, lines, style))


def _rest(plan: Plan, graph: Graph, reasons: int | None, style: Style) -> str:
    """Reasons (at most that many groups of them), advice and warnings."""
    sections = (
        ("Not on the NPU", not_on_npu(plan, graph, reasons)),
        ("Advice", advice(plan, graph)),
        ("Warnings", _warnings(plan, style)),
    )
    told = ((title, lines) for title, lines in sections if lines)
    return render(style, *(piece for title, lines in told for piece in (text(), text((title, STRONG)), _list(lines))))


def _list(lines: Sequence[tuple[str, str]]) -> RenderableType:
    width = min(LABEL, max(len(label) for label, _ in lines))
    return grid([(text((label, DIM)), text(words)) for label, words in lines], ("left", width), ("left", None))


def _warnings(plan: Plan, style: Style) -> list[tuple[str, str]]:
    """Warnings of one kind on several ops of a subgraph share a line, with the first one's words."""
    whole = style.depth > 0
    by_kind: dict[tuple[str, int | None, str], list[Warn]] = {}
    for warn in plan.warnings:
        if warn.code == SAID_ABOVE and not whole:
            continue
        key = (warn.code, warn.op and warn.op[0], warn.message if whole or warn.op is None else "")
        by_kind.setdefault(key, []).append(warn)
    return [_warning(warns, plan, whole) for warns in by_kind.values()]


def _warning(warns: Sequence[Warn], plan: Plan, whole: bool) -> tuple[str, str]:
    alike = f" (and {len(warns) - 1} alike)" if len({warn.message for warn in warns}) > 1 else ""
    ops = [warn.op for warn in warns if warn.op]
    return ops_label(plan, ops, None if whole else LABEL) if ops else "!", warns[0].message + alike


# --- the op table ----------


def _op_table(plan: Plan, graph: Graph, lines: int | None, style: Style) -> Iterator[RenderableType]:
    shown = blocks(plan, lines)
    whole_ns = max(1, plan.predicted.latency_ns)
    subgraph = None
    yield grid([[text((word, DIM)) for word in HEADER]], *COLUMNS)
    for number, block in enumerate(shown):
        if lines is not None and sum(each.lines for each in shown[: number + 1]) > lines > 0 < number:
            yield text((f"and {plural(len(shown) - number, 'stretch', 'stretches')} more: -v shows all", DIM))
            break
        use = block.stretch.use
        if len(plan.subgraphs) > 1 and use.index != subgraph:
            subgraph = use.index
            yield text((f"subgraph {subgraph} {use.name} ({use.role}, runs {use.times}x)", STRONG))
        yield from _block(block, graph, whole_ns, style)
    yield text((_sum(plan), DIM))


def _block(block: Block, graph: Graph, whole_ns: int, style: Style) -> Iterator[RenderableType]:
    part = block.stretch
    title = heading(style, part.title, duration(part.total_ns))
    title.stylize(CPU if part.on_cpu else NPU, 0, len(part.title))
    yield title
    run_ns = whole_ns / max(1, part.use.times)
    yield _moves(part.moved("enter"), graph, run_ns, style)
    yield grid([_row(row, run_ns, style) for row in block.rows], *COLUMNS)
    yield _moves(part.moved("internal"), graph, run_ns, style)
    yield _moves(part.moved("leave"), graph, run_ns, style)
    if part.handover_ns and not part.on_cpu:
        yield _move_grid([("", "hand-over", part.handover_ns)], run_ns, style)


def _row(row: Row, run_ns: float, style: Style) -> list[RenderableType]:
    """``run_ns``: the part of the latency that one run of this subgraph has."""
    ns = sum(op.predicted_ns for op in row.ops)
    macs = sum(op.macs for op in row.ops)
    return [
        text(brief_ranges([op.index for op in row.ops], COLUMNS[0][1])),
        text(row.title),
        text((count(macs), DIM) if macs else ""),
        text((_bound(row), DIM)),
        text(duration(ns)),
        text((style.bar(min(1.0, ns / run_ns), BAR), WARN)),
    ]


def _bound(row: Row) -> str:
    """What limits the row: the bound that most of its time is under."""
    by_bound: dict[str, int] = {}
    if all(op.fused_into is not None for op in row.ops):
        return "fused"
    for op in row.ops:
        by_bound[op.bound] = by_bound.get(op.bound, 0) + op.predicted_ns
    return max(by_bound, key=lambda bound: by_bound[bound])


def _moves(moves: Sequence[Transition], graph: Graph, run_ns: float, style: Style) -> RenderableType:
    """Lines for the tensors that cross a border; more than a few are added up."""
    lines = [(f"{SIGNS[m.kind]} {m.kind}", _moved_tensor(m, graph, style), m.predicted_ns) for m in moves]
    if len(moves) > MOVES_SHOWN and style.depth < 1:
        layouts = ", ".join(dict.fromkeys(f"{m.layout_from} {style.arrow} {m.layout_to}" for m in moves))
        what = f"{plural(len(moves), 'tensor')}, {size(sum(m.bytes for m in moves))}, {layouts}"
        lines = [(lines[0][0], what, sum(m.predicted_ns for m in moves))]
    return _move_grid(lines, run_ns, style)


def _moved_tensor(move: Transition, graph: Graph, style: Style) -> str:
    tensor = graph.tensor(move.subgraph, move.tensor)
    name = printable(tensor.name) or f"tensor {move.tensor}"
    short = name if len(name) <= LONGEST_NAME else f"..{name[2 - LONGEST_NAME :].lstrip('/')}"
    layouts = f"{move.layout_from} {style.arrow} {move.layout_to}" if move.layout_from != move.layout_to else "copied"
    way = f", {move.path}" if move.path else ""
    return f"{short} {shape(tensor.shape)}, {size(move.bytes)}, {layouts}{way}"


def _move_grid(lines: Sequence[tuple[str, str, int]], run_ns: float, style: Style) -> RenderableType:
    """What is not an op, in the background unless it is an item that counts."""
    rows = []
    for sign, what, ns in lines:
        share = min(1.0, ns / run_ns)
        how = DIM if share < LARGE else ""
        cells = [text((words, how)) for words in (sign, what, duration(ns))]
        rows.append([*cells, text((style.bar(share, BAR), WARN))])
    return grid(rows, COLUMNS[0], COLUMNS[1], *COLUMNS[-2:]) if rows else Group()


def _sum(plan: Plan) -> str:
    """The terms of the objective, so that the blocks can be added up."""
    parts = stretches(plan)
    ops = sum(part.use.times * op.predicted_ns for part in parts for op in part.ops)
    moves = sum(part.use.times * move.predicted_ns for part in parts for move in part.transitions)
    calls = sum(part.use.times * part.handover_ns for part in parts)
    terms = [(ops, "ops"), (moves, "transitions"), (calls, "hand-overs"), (plan.overhead_ns, "invoke")]
    return f"= {' + '.join(f'{words} {duration(ns)}' for ns, words in terms if ns)}"
