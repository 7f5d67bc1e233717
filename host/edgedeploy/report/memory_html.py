# SPDX-License-Identifier: Apache-2.0
"""The memory report as one HTML file: no script, nothing loaded from anywhere, the same plan gives the same bytes."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from edgedeploy.arenaview import ArenaView, executed, main_arena, placed
from edgedeploy.lowering import Lowering, this_plan
from edgedeploy.output import stoppable
from edgedeploy.report.memory import ARENA_WARNINGS, Gate, bounds_in_words, lines, missing_lines
from edgedeploy.text import duration, plural, printable, shape, size, times_faster
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.plan import Plan

START = "<!doctype html>\n<html lang=en data-by=edgedeploy>"
"""Of every page, and what tells it from a file that must not be replaced."""
WIDTH, LEFT, TIMELINE_HEIGHT, ARENA_HEIGHT, BELOW = 1000, 80, 220, 420, 20
LONGEST_TEMPORARY = 40
"""Characters of the file's name that the temporary one beside it has, so that no longest name is too long."""
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 68rem; padding: 0 1rem; color: #1c1c1c }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse } td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top }
th { font-weight: 600; border-bottom: 1px solid #bbb } td.n, th.n { text-align: right; white-space: nowrap }
td { overflow-wrap: anywhere } svg { width: 100%; height: auto; background: #fafafa }
svg text { font-size: 12px; fill: #555 } .step { fill: #7aa6c2 } .top { fill: #d9822b } .axis { stroke: #999 }
.tensor { fill: #9cc5a1; stroke: #fff } .scratch { fill: #c9b7d8; stroke: #fff } .atpeak { fill: #e9a35f }
rect:hover { fill-opacity: .6 } .over { color: #b3261e } .note { color: #666 }
"""


def memory_page(plan: Plan, graph: Graph, gate: Gate | None, lowered: Lowering | None) -> str:
    """The whole page. ``graph`` is the planned model."""
    view = ArenaView(plan, graph)
    name = _safe(plan.inputs.model.name)
    parts = [
        START,
        "<head>\n<meta charset=utf-8>",
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>Memory of {name}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
        *_top(plan, gate),
        *_lines(plan),
        *_timeline(view),
        *_arena(view),
        *_at_peak(view),
        *(_ways(plan, lowered) if lowered else ()),
        *(f"<p class=note>{_safe(warn.message)}</p>" for warn in plan.warnings if warn.code in ARENA_WARNINGS),
        "</body>\n</html>\n",
    ]
    return "\n".join(parts)


def _safe(words: str) -> str:
    """Text from anywhere, as text in HTML."""
    return escape(printable(words), quote=True)


def _rows(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int]) -> Iterator[str]:
    """A table. The cells are plain text; ``numbers`` are the columns that are aligned right."""
    ways = [" class=n" if i in numbers else "" for i in range(len(header))]
    yield "<table>"
    yield f"<tr>{''.join(f'<th{way}>{_safe(cell)}</th>' for way, cell in zip(ways, header, strict=True))}</tr>"
    for row in rows:
        yield f"<tr>{''.join(f'<td{way}>{_safe(cell)}</td>' for way, cell in zip(ways, row, strict=True))}</tr>"
    yield "</table>"


def _top(plan: Plan, gate: Gate | None) -> Iterator[str]:
    inputs, memory = plan.inputs, plan.memory
    stack = f" ({inputs.board.stack})" if inputs.board.stack else ""
    yield f"<h1>Memory of {_safe(inputs.model.name)} on {_safe(inputs.board.name + stack)}</h1>"
    yield (
        f"<p><b>{'at least ' if missing_lines(memory) else ''}{size(memory.peak_bytes)} at the peak</b>"
        f" ({memory.peak_bytes} bytes), predicted, not run on hardware;"
        f" {_safe(inputs.runtime.name)} {_safe(inputs.runtime.version)}, {plural(inputs.options.threads, 'thread')}</p>"
    )
    if gate is not None:
        yield f"<p{' class=over' if gate.is_over else ''}>{_safe(gate.words)}</p>"


def _lines(plan: Plan) -> Iterator[str]:
    yield "<h2>Lines</h2>"
    rows = [
        (
            line.name,
            "not modelled" if line.bytes is None else _amount(line.bytes),
            bounds_in_words(line) if line.low != line.high else "",
            line.kind,
            line.definition,
        )
        for line in lines(plan.memory)
    ]
    yield from _rows(("line", "bytes", "bounds", "kind", "what it is"), rows, (1,))


# --- the plots ----------


def _timeline(view: ArenaView) -> Iterator[str]:
    memory, top = view.plan.memory, view.peak
    steps = memory.timeline
    if top is None:
        return
    scale = max(memory.arena_bytes if memory.arena_exact else 0, top.live_bytes, 1)
    wide = (WIDTH - LEFT) / len(steps)
    yield f"<h2>Alive in the arena, {plural(len(steps), 'step')}</h2>"
    yield f"<svg viewBox='0 0 {WIDTH} {TIMELINE_HEIGHT + BELOW}' role=img>"
    for i, step in enumerate(steps):
        high = TIMELINE_HEIGHT * step.live_bytes / scale
        title = f"step {i}: {view.step(step)}, {size(step.live_bytes)} ({step.live_bytes} bytes)"
        kind = "top" if step.live_bytes == top.live_bytes else "step"
        yield _rect(kind, LEFT + i * wide, TIMELINE_HEIGHT - high, wide, high, title)
    yield from _axes(TIMELINE_HEIGHT, size(scale))
    words = f"peak {size(top.live_bytes)} at {view.step(top)}"
    yield f"<text x={LEFT} y={TIMELINE_HEIGHT + 15}>{_safe(words)}</text></svg>"


def _arena(view: ArenaView) -> Iterator[str]:
    """Where every tensor of the main subgraph lies: time to the right, addresses upwards."""
    plan, top = view.plan, view.peak
    subgraph = view.graph.subgraphs[plan.main]
    nodes = executed(plan, subgraph)
    its = main_arena(plan, view.graph)
    if not its.bytes or not nodes:
        return
    wide, tall = (WIDTH - LEFT) / len(nodes), ARENA_HEIGHT / its.bytes
    at_peak = set(plan.memory.peak_tensors) if top is not None and top.subgraph == plan.main else set()
    yield f"<h2>Where tensors lie in the arena of {size(its.bytes)}</h2>"
    yield "<p class=note>To the right: steps; upwards: addresses. Green: tensors; orange: those at the peak;"
    yield "violet: scratch of one op. Point at one for its name.</p>"
    yield f"<svg viewBox='0 0 {WIDTH} {ARENA_HEIGHT + BELOW}' role=img>"
    for each in placed(its, subgraph, nodes):
        kind = "scratch" if each.tensor is None else "tensor atpeak" if each.tensor in at_peak else "tensor"
        what = "scratch" if each.tensor is None else _tensor(view, plan.main, each.tensor)
        if each.tensor is None and (op := nodes[each.first].op) is not None:
            what = f"scratch of {view.op(plan.main, op)}"
        title = f"{what}, {each.bytes} bytes at {each.offset}"
        y = ARENA_HEIGHT - tall * (each.offset + each.bytes)
        yield _rect(kind, LEFT + each.first * wide, y, (each.last + 1 - each.first) * wide, tall * each.bytes, title)
    yield from _axes(ARENA_HEIGHT, size(its.bytes))
    words = f"{plural(len(nodes), 'step')} of the main subgraph"
    yield f"<text x={LEFT} y={ARENA_HEIGHT + 15}>{_safe(words)}</text></svg>"


def _rect(kind: str, x: float, y: float, width: float, height: float, title: str) -> str:
    box = f"x={x:.2f} y={y:.2f} width={width:.2f} height={height:.2f}"
    return f"<rect class='{kind}' {box}><title>{_safe(title)}</title></rect>"


def _axes(height: int, most: str) -> Iterator[str]:
    yield f"<line class=axis x1={LEFT} y1=0 x2={LEFT} y2={height} />"
    yield f"<line class=axis x1={LEFT} y1={height} x2={WIDTH} y2={height} />"
    yield f"<text x={LEFT - 6} y=12 text-anchor=end>{_safe(most)}</text>"
    yield f"<text x={LEFT - 6} y={height} text-anchor=end>0 B</text>"


def _tensor(view: ArenaView, subgraph: int, id_: int) -> str:
    tensor = view.graph.tensor(subgraph, id_)
    return f"{view.name(subgraph, id_)} {shape(tensor.shape)} {tensor.dtype.value} ({view.kept(subgraph, id_)})"


# --- tables below them ----------


def _at_peak(view: ArenaView) -> Iterator[str]:
    top = view.peak
    if top is None:
        return
    tensors = [view.graph.tensor(top.subgraph, t) for t in view.plan.memory.peak_tensors]
    yield f"<h2>At the peak of the arena: {_safe(view.step(top))}</h2>"
    rows = [
        (
            _amount(t.nbytes),
            f"{shape(t.shape)} {t.dtype.value}",
            view.kept(top.subgraph, t.id),
            view.name(top.subgraph, t.id),
        )
        for t in tensors
    ]
    if rest := top.live_bytes - sum(t.nbytes for t in tensors):
        rows.append((_amount(rest), "", "", view.rest(top)))
    yield from _rows(("bytes", "shape", "kept", "tensor"), rows, (0,))


def _ways(plan: Plan, lowered: Lowering) -> Iterator[str]:
    yield "<h2>What would lower it</h2>"
    if not lowered.ways:
        yield "<p>Nothing that was tried.</p>"
        return
    rows = []
    for way in (this_plan(plan), *lowered.ways):
        latency = ""
        if way.latency_ns is not None:
            latency = f"{duration(way.latency_ns)}, {times_faster(way.latency_ns, plan.predicted.latency_ns)}"
        peak = f"{'' if way.is_whole else '>= '}{_amount(way.peak_bytes)}"
        high = "no bound" if way.high_bytes is None else _amount(way.high_bytes)
        rows.append((peak, high, _amount(way.arena_bytes), latency, way.title))
    yield from _rows(("peak, bytes", "at most", "arena, bytes", "latency", "how"), rows, (0, 1, 2))


def _amount(bytes_: int) -> str:
    return f"{bytes_} ({size(bytes_)})"


# --- the file ----------


def check_place(file: Path) -> None:
    """Raise InputError where the page must not go: before the work that it needs is done."""
    where = printable(str(file))
    if not file.parent.is_dir():
        raise InputError(f"--html {where}: there is no folder {printable(str(file.parent))}")
    if file.is_file():
        with file.open("rb") as existing:
            if existing.read(len(START)) not in (START.encode(), b""):
                raise InputError(f"--html {where}: the file there is no report of edgedeploy and is not replaced")
    elif file.exists():
        raise InputError(f"--html {where}: not a file")


def write_page(file: Path, page: str) -> None:
    """Write ``page`` whole or not at all: what is at ``file`` is the old page or the new one. Raises InputError."""
    target = Path(os.path.realpath(file))
    temporary = target.with_name(f".{target.name[:LONGEST_TEMPORARY]}.{secrets.token_hex(4)}")
    try:
        check_place(file)
        with stoppable():
            try:
                with temporary.open("x", encoding="utf-8", newline="\n") as stream:
                    stream.write(page)
                    stream.flush()
                    os.fsync(stream.fileno())
                temporary.replace(target)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    temporary.unlink()
    except OSError as error:
        raise InputError(f"--html {printable(str(file))}: {error.strerror or error}") from None
