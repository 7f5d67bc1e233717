# SPDX-License-Identifier: Apache-2.0
"""What a plan's report shows, on plans made by hand."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from edgedeploy.bundle import missing_files
from edgedeploy.report.boards import comparison
from edgedeploy.report.diff import diff_report
from edgedeploy.report.page import Style, render, style_for, text
from edgedeploy.report.plan import plan_report
from edgedeploy.report.reasons import fallback_ops, refused_ops
from edgedeploy.report.runs import Row, blocks, by_kind, counted, one_by_one, patterns, stretches
from edgedeploy_partitioner.diff import diff
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.plan import Baseline, Baselines, OpEntry, Plan, Predicted, Warn
from support.plans import sample

SIXTY = ["rknn"] * 30 + ["xnnpack"] * 3 + ["rknn"] * 25 + ["builtin"] * 2
MANY_NAMES = tuple(f"OP_{chr(65 + i % 26)}{i}" for i in range(60))
backends = st.lists(st.sampled_from(["rknn", "xnnpack", "builtin"]), min_size=1, max_size=40)


def _numbers(labels: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, labels.split(",")):
        first, _, last = part.strip().partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.parametrize("names", [("CONV_2D", "DEPTHWISE_CONV_2D"), MANY_NAMES])
@pytest.mark.parametrize("unicode", [False, True])
def test_sixty_ops_fit_a_screen(names: tuple[str, ...], unicode: bool) -> None:
    lines = plan_report(*sample(SIXTY, names), Style(80, unicode=unicode)).splitlines()
    assert len(lines) <= 49, "50 lines, less one for the prompt"
    assert max(map(len, lines)) <= 80


@given(backends, st.sampled_from([80, 97, 120]), st.sampled_from([-1, 0, 1]))
def test_lines_fit_and_a_pipe_gets_ascii(placed: list[str], width: int, depth: int) -> None:
    shown = plan_report(*sample(placed), Style(width, depth=depth))
    assert max(map(len, shown.splitlines())) <= width
    assert shown.isascii()
    assert "\x1b" not in shown
    assert not re.search(r"[ \t]+$", shown, re.MULTILINE)


@given(backends, st.sampled_from([one_by_one, patterns, by_kind, counted]))
@example(["rknn"] * 40, by_kind)
@example(["rknn"] * 40, patterns)
def test_collapsing_loses_no_op(placed: list[str], cut: Callable[[Sequence[OpEntry]], Iterable[Row]]) -> None:
    ops = sample(placed, ("A", "B", "B", *"ACDEFGHIJKLMNOPQ"))[0].ops
    rows = list(cut(ops))
    assert sorted(op.index for row in rows for op in row.ops) == list(range(len(ops)))
    for row in rows:
        once = [op.op for op in row.ops[: row.pattern]]
        assert not row.pattern or [op.op for op in row.ops] == once * (len(row.ops) // row.pattern)


@given(backends, st.integers(min_value=1, max_value=60))
def test_blocks_hold_every_op_in_at_most_the_lines_given(placed: list[str], lines: int) -> None:
    plan, _ = sample(placed)
    shown, least = blocks(plan, lines), blocks(plan, 0)
    assert sorted(op.index for block in shown for row in block.rows for op in row.ops) == list(range(len(placed)))
    assert sum(block.lines for block in shown) <= max(lines, sum(block.lines for block in least))


@given(backends)
def test_stretches_add_up_to_the_objective(placed: list[str]) -> None:
    plan, _ = sample(placed)
    parts = stretches(plan)
    assert [op.index for part in parts for op in part.ops] == list(range(len(placed)))
    assert sum(part.total_ns * part.use.times for part in parts) + plan.overhead_ns == plan.solver.objective_ns


@given(backends)
def test_every_op_is_in_the_table_and_every_fallback_has_its_reason(placed: list[str]) -> None:
    plan, graph = sample(placed)
    shown = plan_report(plan, graph, Style(120, depth=1))
    table, _, rest = shown.partition("Not on the NPU\n")
    listed = re.findall(r"^  (\d[\d, -]*?)  +[A-Z]", table, re.MULTILINE)
    assert set().union(*map(_numbers, listed)) == set(range(len(placed)))
    labels = re.findall(r"^  (\d[\d, -]*?)  [A-Z_0-9]+: kernel", rest, re.MULTILINE)
    reasons = set().union(*map(_numbers, labels)) if labels else set()
    assert reasons == {op.index for op in fallback_ops(plan)}


def test_it_says_that_nothing_was_run() -> None:
    assert "not run on hardware" in plan_report(*sample(["rknn"]), Style())


def _with_times(plan: Plan, latency_ns: int, cpu_ns: int, stock_ns: int | None) -> Plan:
    stock = None if stock_ns is None else Baseline(stock_ns, None, 3)
    predicted = Predicted(latency_ns, latency_ns, latency_ns, None, None, ())
    return replace(plan, predicted=predicted, baselines=Baselines(Baseline(cpu_ns, None, 0), stock))


@pytest.mark.parametrize(
    ("placed", "times", "words"),
    [
        (
            ["rknn"],
            (1_000, 2_500, 1_100),
            ("2.50x faster than all on the CPU", "1.10x faster than stock TFLite partitioning"),
        ),
        (["rknn"], (1_000, 2_500, 1_000), ("the same as stock TFLite partitioning",)),
        (["rknn"], (1_000, 2_500, None), ("2.50x faster than all on the CPU",)),
        (["rknn"], (2_000, 1_000, None), ("2.00x slower than all on the CPU",)),
        (
            ["xnnpack"],
            (1_000, 1_000, 3_000),
            ("everything stays on the CPU", "stock TFLite partitioning: 3.00x slower"),
        ),
    ],
)
def test_the_comparison_in_words(placed: list[str], times: tuple[int, int, int | None], words: tuple[str, ...]) -> None:
    plan, graph = sample(placed)
    shown = plan_report(_with_times(plan, *times), graph, Style())
    assert all(each in shown for each in words)


def test_one_partition_a_model_is_told_with_the_op_that_ended_it() -> None:
    """Two stretches on the NPU with a CPU op between; the back end allows one: the second stays on the CPU."""
    plan, graph = sample(["rknn", "xnnpack", "xnnpack"])
    taken = tuple(replace(c, verdict="supported", predicted_ns=1) for c in plan.ops[2].candidates)
    limited = replace(
        plan,
        backends=(replace(plan.backends[0], max_partitions=1),),
        ops=(*plan.ops[:2], replace(plan.ops[2], candidates=taken)),
    )
    shown = " ".join(plan_report(limited, graph, Style()).split())
    assert "rknn takes it, but no further partition of a model" in shown
    assert "rknn allows 1 partition a model, ended by op 1 DEPTHWISE_CONV_2D" in shown
    assert "left to the CPU with it: 1 op that rknn takes" in shown
    assert "ended by" not in plan_report(plan, graph, Style())


def test_the_cpu_wins_for_one_of_two_reasons() -> None:
    plan, graph = sample(["xnnpack", "builtin"])
    assert "rknn supports none of the 2 ops" in " ".join(plan_report(plan, graph, Style()).split())
    taken = tuple(replace(c, verdict="supported", predicted_ns=1) for c in plan.ops[0].candidates)
    priced = replace(plan, ops=(replace(plan.ops[0], candidates=taken), plan.ops[1]))
    shown = " ".join(plan_report(priced, graph, Style()).split())
    assert "the CPU alone is the fastest" in shown
    assert "getting there and back costs more" in shown


def _words_of(plan: Plan, graph: Graph, style: Style | None = None) -> str:
    return " ".join(plan_report(plan, graph, style or Style()).split())


def test_a_move_that_takes_long_has_its_bar() -> None:
    plan, graph = sample(["rknn"])
    slow = replace(plan.transitions[0], predicted_ns=plan.predicted.latency_ns // 2)
    plan = replace(plan, transitions=(slow, *plan.transitions[1:]))
    lines = plan_report(plan, graph, Style(100, color=True)).splitlines()
    enter, leave, handover = (
        next(line for line in lines if word in line) for word in ("> enter", "< leave", "hand-over  ")
    )
    assert [re.sub(r"\x1b\[[\d;]*m", "", line).split()[-1] for line in (enter, leave)] == ["####", "#"]
    assert re.sub(r"\x1b\[[\d;]*m", "", handover).split()[-1].startswith("##")
    assert "\x1b[2m" not in enter + handover, "what takes long is not dimmed"
    assert "\x1b[2m" in leave


def test_a_line_of_reasons_names_one_reason_and_an_example() -> None:
    plan, graph = sample(["builtin", "xnnpack"] * 9, ["CONV_2D"])
    taken = [
        replace(op.candidates[0], verdict="supported", predicted_ns=op.predicted_ns * (2 + op.index)) for op in plan.ops
    ]
    ops = tuple(replace(op, candidates=(way,)) for op, way in zip(plan.ops, taken, strict=True) if op.index != 4)
    refused = replace(plan, ops=(*ops[:4], plan.ops[4], *ops[4:]))
    shown = plan_report(refused, graph, Style()).partition("Not on the NPU\n")[2].splitlines()
    assert shown[0].startswith("  0-3, 5-17  CONV_2D: rknn takes it, but is slower: e.g. op 0: ")
    assert re.search(r"  4 +CONV_2D: kernel 13x9 is larger", "".join(shown))
    assert ".." not in "".join(shown).replace("...", "")


def test_a_plan_that_the_runtime_will_not_run_says_so_first() -> None:
    plan, graph = sample(["builtin"])
    plan = replace(
        plan, warnings=(Warn("no_runtime_kernel", "tflite has no kernel for Erf; it costs nothing", (0, 0)),)
    )
    for depth in (-1, 0, 1):
        assert "\nnot runnable: tflite has no kernel for Erf\n" in plan_report(plan, graph, Style(depth=depth))
    assert missing_files(plan) == ("tflite has no kernel for Erf",)
    compared = comparison({"a": plan, "b": sample(["builtin"])[0], "c": plan}, Style())
    assert "not runnable on a, c: tflite has no kernel for Erf\n" in compared


def test_segments_are_still_to_be_compiled() -> None:
    assert "2 NPU segments still to be compiled by rknn-toolkit2" in _words_of(*sample(["rknn", "builtin", "rknn"]))
    assert "compiled" not in _words_of(*sample(["builtin"]))


def test_the_dearest_ops_on_the_cpu_are_named_with_their_time() -> None:
    plan, graph = sample(["builtin"] * 4, ["ADD", "MUL", "ADD", "ADD"])
    assert (
        "op 0 ADD and 2 alike take 192 us of 276 us on the CPU; the NPU refuses them, for the reason above: change"
        in _words_of(plan, graph)
    )
    ops = tuple(
        replace(op, candidates=(replace(op.candidates[0], verdict="supported", predicted_ns=10**6),)) for op in plan.ops
    )
    assert "2 alike take 192 us of 276 us on the CPU, the most of any kind" in _words_of(replace(plan, ops=ops), graph)


def test_the_advice_on_open_shapes_is_the_option_to_give() -> None:
    plan, graph = sample(["builtin"])
    way = replace(plan.ops[0].candidates[0], rule="static_shape")
    plan = replace(plan, ops=(replace(plan.ops[0], candidates=(way,)),))
    sub = graph.subgraphs[0]
    tensors = (dataclasses.replace(sub.tensors[0], signature=(-1, 32, 32, 64)), *sub.tensors[1:])
    graph = dataclasses.replace(graph, subgraphs=(dataclasses.replace(sub, tensors=tensors),))
    assert "1 op refused for shapes that are not fixed; fix them, for example with --input-shape t0=1,32,32,64" in (
        _words_of(plan, graph)
    )


def test_inputs_that_differ_are_told_in_words() -> None:
    plan, _ = sample(["rknn"])
    inputs = plan.inputs
    other = replace(
        plan,
        inputs=replace(
            inputs,
            board=replace(inputs.board, profile_sha256="1" * 64, stack=None),
            runtime=replace(inputs.runtime, sha256="1" * 64),
            tables={},
            options=replace(inputs.options, force=("0=cpu", "1=cpu"), input_shapes={"x": (1, 2)}),
        ),
    )
    shown = diff_report(diff(plan, other), plan, other, Style())
    told = dict(
        line.strip().split("  ", 1) for line in shown.partition("Inputs\n")[2].splitlines() if "  " in line.strip()
    )
    assert {key: value.strip() for key, value in told.items()} == {
        "board profile": "another", "NPU stack": "rknn -> none", "runtime profile": "another",
        "table rknn": "SDK 2.3.2 -> none", "force": "none -> 0=cpu, 1=cpu", "input shapes x": "none -> 1, 2",
    }  # fmt: skip
    assert not set("[]{}'\"") & set(shown)


def test_ops_that_moved_for_one_cause_share_a_line() -> None:
    before, _ = sample(["rknn"] * 12)
    after, _ = sample(["builtin"] * 12)
    shown = diff_report(diff(before, after), before, after, Style())
    moved = shown.partition("12 ops moved\n")[2].partition("\n\n")[0]
    assert moved.startswith("  0-11  CONV_2D, DEPTHWISE_CONV_2D, ADD: rknn/npu -> cpu/builtin; e.g. op 0:")
    assert moved.count("->") == 1


def test_what_nothing_calls_is_not_shown() -> None:
    plan, _ = sample(["builtin", "xnnpack"])
    uses = {role: replace(plan.subgraphs[0], times=0, role=role) for role in ("unused", "decomposition", "branch")}
    shown = {role: blocks(replace(plan, subgraphs=(use,)), None) for role, use in uses.items()}
    assert (len(shown["unused"]), len(shown["decomposition"]), len(shown["branch"])) == (0, 0, 2)
    assert fallback_ops(replace(plan, subgraphs=(uses["unused"],))) == ()


def test_unknown_counts_as_the_option_says() -> None:
    plan, _ = sample(["xnnpack"])
    unknown = replace(plan.ops[0], candidates=(replace(plan.ops[0].candidates[0], verdict="unknown"),))
    plan = replace(plan, ops=(unknown,))
    options = replace(plan.inputs.options, assume_unknown="supported")
    assert refused_ops(plan) == (unknown,)
    assert refused_ops(replace(plan, inputs=replace(plan.inputs, options=options))) == ()


@pytest.mark.parametrize("name", ["[red]x[/red]{}", "\x1b[31mx{}", "a\nb{}", "\u202eabc{}", ":smile:{}", ""])
def test_names_from_the_file_are_only_text(name: str) -> None:
    for style in (Style(120, depth=1), Style(120, unicode=True, depth=1)):
        shown = plan_report(*sample(["rknn", "builtin"], tensor_name=name), style)
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        if name.startswith("[red]"):
            assert "[red]x[/red]0" in shown


def test_text_has_no_markup_and_no_control_characters() -> None:
    assert render(Style(), text("[b]\x1b[1m", ("\u202e\n", "bold"))) == "[b]\\x1b[1m\\u202e\\n\n"


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_the_style_suits_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    assert style_for(io.StringIO()) == Style(80)
    monkeypatch.setenv("COLUMNS", "100")
    assert style_for(io.StringIO()) == Style(100)
    assert style_for(_Terminal()) == Style(100, color=True, unicode=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert style_for(_Terminal()) == Style(100, color=False, unicode=True)
    monkeypatch.setenv("TERM", "dumb")
    assert style_for(_Terminal()) == Style(100)
    monkeypatch.setenv("COLUMNS", "nonsense")
    assert style_for(io.StringIO()) == Style(80)


def test_colour_only_adds_escapes() -> None:
    plan, graph = sample(SIXTY)
    plain = plan_report(plan, graph, Style(100, unicode=True))
    coloured = plan_report(plan, graph, Style(100, color=True, unicode=True))
    assert "\x1b[" in coloured
    bare = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert [line.rstrip() for line in bare.splitlines()] == plain.splitlines()


@given(st.floats(min_value=0, max_value=1), st.booleans())
def test_a_bar_is_as_long_as_its_share(share: float, unicode: bool) -> None:
    bar = Style(unicode=unicode).bar(share, 8)
    assert abs(len(bar) - share * 8) <= 1
    assert render(Style(), text(bar)).strip() == bar
