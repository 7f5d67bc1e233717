# SPDX-License-Identifier: Apache-2.0
"""What ``edgedeploy memory`` prints, its plot, and where the arena's tensors lie."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from edgedeploy import arenaview, lowering
from edgedeploy.report import memory as report
from edgedeploy.report.page import Style
from edgedeploy.report.plot import HEIGHT, LABEL, Columns, plot
from edgedeploy.text import parse_size, size
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.plan import Memory, Plan
from support import handmade
from support.memory_runs import EXAMPLES, HOSTILE, ROOT, plan_of, run
from support.plans import sample

TARGETS: list[tuple[str, dict[str, str]]] = [("rk3588", {}), ("rpi5", {"xnnpack": "off"}), ("imx8mp", {"npu": "vx"})]


# --- the report ----------


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_reads_well_on_every_example(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, graph = plan_of(path)
    if len(plan.ops) < 60:
        code, out, err = run(capsys, path, "--board", "rk3588")
        assert (code, err) == (0, "")
    else:  # the other plans take too long for a test
        out = report.memory_report(plan, graph, None, None, Style())
    assert out.isascii()
    assert max(map(len, out.splitlines())) <= 80
    assert len(out.splitlines()) <= 70
    assert "not run on hardware" in out
    assert all(name in out for name in report.NAMES.values())
    top = arenaview.ArenaView(plan, graph).peak
    assert top is not None
    assert arenaview.ArenaView(plan, graph).step(top) in " ".join(out.split())
    assert size(plan.memory.peak_bytes) in out
    assert all(f"{size(plan.memory.arena_bytes)}" in line for line in out.splitlines() if "activation arena" in line)


def test_control_flow_says_that_the_arena_is_a_bound_and_where_it_peaks(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, ROOT / "examples" / "lstm_kws.fp32.tflite", "--board", "rk3588")[1]
    assert "the arena is a bound: control flow" in out
    assert "subgraph 2 (body)" in out
    assert "At the peak of the arena: partition 3 (xnnpack, 14 ops from op 2:3)" in out
    assert "no upper bound" in out


def test_tensors_at_the_peak_add_up() -> None:
    for path in EXAMPLES:
        plan, graph = plan_of(path, "rpi5", xnnpack="off")
        out = report.memory_report(plan, graph, None, None, Style(width=200, depth=1))
        shown = out[out.index("At the peak of") :].splitlines()[1:]
        sizes = [re.match(r" +([\d.]+) (B|KiB|MiB)  ", line) for line in shown]
        total = sum(parse_size(f"{m[1]}{m[2]}") for m in sizes if m and float(m[1]))
        top = arenaview.ArenaView(plan, graph).peak
        assert top is not None
        assert total == pytest.approx(top.live_bytes, rel=0.01)
        assert all(arenaview.ArenaView(plan, graph).name(top.subgraph, t) in out for t in plan.memory.peak_tensors)


def _memory(**changes: Any) -> Memory:
    return replace(handmade.plan().memory, **changes)


def test_every_line_has_a_kind_and_bounds() -> None:
    found = {line.name: line for line in report.lines(_memory(arena_exact=False, lowest_arena_bytes=7, bounds={}))}
    assert list(found) == list(report.NAMES.values())
    assert (found["NPU pool"].bytes, found["NPU pool"].kind) == (None, "unknown")
    assert (found["activation arena"].kind, found["activation arena"].low) == ("modelled", 7)
    assert found["model file"].kind == "exact"
    told = _memory(packed_bytes=50, kinds={"packed_bytes": "assumed"}, bounds={"packed_bytes": (40, None)})
    line = next(line for line in report.lines(told) if line.name == "XNNPACK's own")
    assert (line.kind, line.low, line.high) == ("assumed", 40, None)
    assert "from 40 B, no upper bound" in _words(replace(handmade.plan(), memory=told), handmade.graph())


def test_a_bound_over_the_limit_is_told() -> None:
    plan = handmade.plan()
    peak = plan.memory.peak_bytes
    known = {line: 0 for line in lowering.LINES if getattr(plan.memory, line) is None}
    plan = replace(plan, memory=replace(plan.memory, **known, peak_high_bytes=peak + 9))
    assert "upper bound" in _words(plan, handmade.graph(), report.Gate(peak + 8, peak))
    assert "upper bound" not in _words(plan, handmade.graph(), report.Gate(peak + 9, peak))
    assert "at least" not in _words(plan, handmade.graph())
    assert "at least: not modelled are XNNPACK's own, delegate's own, NPU pool" in _words(
        handmade.plan(), handmade.graph()
    )


def _words(plan: Plan, graph: Graph, gate: report.Gate | None = None) -> str:
    return " ".join(report.memory_report(plan, graph, gate, None, Style()).split())


@pytest.mark.parametrize("name", ["t{}" + HOSTILE, "t{}[bold]x[/bold]", "\ud800{}", "n" * 100_000 + "{}", ""])
def test_names_from_the_file_are_only_text(name: str) -> None:
    plan, graph = sample(["builtin", "builtin"], tensor_name=name)
    told = replace(plan.memory, timeline=handmade.plan().memory.timeline[1:2], peak_tensors=(0, 1))
    step = replace(told.timeline[0], op=1, live_bytes=9)
    plan = replace(plan, memory=replace(told, timeline=(step,)))
    for depth in (0, 1):
        out = report.memory_report(plan, graph, None, None, Style(depth=depth))
        assert all(line.isprintable() for line in out.splitlines())
        assert max(map(len, out.splitlines())) <= 80
        assert len(out) < 10_000


# --- the plot ----------


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=300), st.integers(40, 120), st.booleans())
@example([*range(99), 5, 200, *range(200)], 40, False)
def test_no_step_is_lost_in_the_plot(values: list[int], width: int, unicode: bool) -> None:
    style = Style(width=width, unicode=unicode)
    columns = Columns.of(values, width - LABEL - 3)
    assert len(columns.values) == len(columns.starts) <= width - LABEL - 3
    assert max(columns.values) == max(values)
    for step, value in enumerate(values):
        assert columns.values[columns.column_of(step)] >= value
    at = values.index(max(values))
    drawn = [line.plain for line in plot(values, 0, style, [(at, "here")])]
    assert len(drawn) == HEIGHT + 1
    assert all(len(line) <= width for line in drawn)
    if max(values) > 0:
        full = "█" if unicode else "#"
        cells = [line[LABEL + 2 :].ljust(len(columns.values)) for line in drawn[:HEIGHT]]
        assert all(row[columns.column_of(at)] == full for row in cells), "the highest fills its column"
        for a, b in combinations(range(min(20, len(columns.values))), 2):
            heights = [sum(row[i] != " " for row in cells) for i in (a, b)]
            assert columns.values[a] != columns.values[b] or heights[0] == heights[1]
            assert columns.values[a] <= columns.values[b] or heights[0] >= heights[1]
    pointer = "▲" if unicode else "^"
    assert drawn[-1].index(pointer) - LABEL - 2 == columns.column_of(at)


# --- the arena again ----------


@pytest.mark.parametrize(("board", "options"), TARGETS, ids=[board for board, _ in TARGETS])
def test_the_arena_of_a_plan_is_found_again(board: str, options: dict[str, str]) -> None:
    checked = 0
    for path in EXAMPLES:
        plan, graph = plan_of(path, board, **options)
        its = arenaview.main_arena(plan, graph)
        if not plan.memory.arena_exact:
            continue
        checked += 1
        assert its.bytes == plan.memory.arena_bytes
        steps = [step for step in plan.memory.timeline if step.subgraph == plan.main]
        assert its.live_bytes == tuple(step.live_bytes for step in steps)
        subgraph = graph.subgraphs[plan.main]
        boxes = list(arenaview.placed(its, subgraph, arenaview.executed(plan, subgraph)))
        assert max(box.offset + box.bytes for box in boxes) == its.bytes
        for a, b in combinations(boxes, 2):
            apart = a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
            assert apart or a.last < b.first or b.last < a.first
    assert checked >= 8


def test_a_tensor_is_kept_from_its_maker_to_its_last_reader() -> None:
    plan, graph = handmade.plan(), handmade.graph()
    view = arenaview.ArenaView(plan, graph)
    ops = graph.subgraphs[0].ops
    kept = [view.kept(0, t) for t in (ops[1].inputs[0], *(op.outputs[0] for op in ops[1:]))]
    assert kept == ["input, never freed", "op 1 to 5", "op 2 to 3", "op 3 to 4", "op 4, result", "op 5 to 6",
                    "op 6, result"]  # fmt: skip
    labels = [view.step(step) for step in plan.memory.timeline]
    assert labels == ["partition 0 (rknn + neon, 3 ops from op 1)", "op 4 CUMSUM", "partition 1 (xnnpack, op 5 ADD)",
                      "partition 2 (rknn, op 6 CONV_2D)"]  # fmt: skip
