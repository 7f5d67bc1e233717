# SPDX-License-Identifier: Apache-2.0
"""``edgedeploy memory``: the gate, and that what is said to lower a peak does."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from edgedeploy import api, arenaview, lowering
from edgedeploy.report import memory as report
from edgedeploy.report import memory_html
from edgedeploy.report.page import Style
from edgedeploy_partitioner.errors import NotDeployable
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.plan import Plan, builtins
from support.memory_runs import ROOT, TINY, UNET, plan_of, run
from support.plans import sample

# --- the gate ----------


def test_the_gate_works_in_a_shell_script(tmp_path: Path) -> None:
    peak = plan_of(TINY)[0].memory.peak_bytes
    script = tmp_path / "gate.sh"
    tool = f"{shlex.quote(sys.executable)} -m edgedeploy memory {shlex.quote(str(TINY))} --board rk3588 -q"
    script.write_text(
        f"set -e\n{tool} --limit {peak} && echo fits\n"
        f"if {tool} --limit {peak - 1}; then echo fits; else echo no $?; fi\n"
        f"{tool} --limit nonsense || echo usage $?\n{tool} --limit 1\necho never\n"
    )
    done = subprocess.run(["sh", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    said = [line for line in done.stdout.splitlines() if line in ("fits", "never") or line.startswith(("no ", "usage"))]
    assert (said, done.returncode) == (["fits", "no 1", "usage 2"], 1)
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["edgedeploy"] * 3
    assert f"({peak} bytes), 1 B (1 bytes) over the limit" in done.stderr
    assert "Invalid value for --limit: not a size: 'nonsense'" in done.stderr


@pytest.mark.parametrize("form", [("-q",), ("--json",), ()])
def test_the_limit_is_the_most_that_passes(form: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    peak = plan_of(TINY)[0].memory.peak_bytes
    assert run(capsys, TINY, "--board", "rk3588", "--limit", str(peak), *form)[::2] == (0, "")
    code, out, err = run(capsys, TINY, "--board", "rk3588", "--limit", str(peak - 1), *form)
    assert code == 1
    assert len(err.splitlines()) == 1
    assert err.startswith("edgedeploy: gate failed on rk3588: ")
    assert out


def test_a_limit_on_the_upper_bound_is_stricter(capsys: pytest.CaptureFixture[str]) -> None:
    memory = plan_of(TINY)[0].memory
    assert memory.peak_high_bytes is not None
    assert memory.peak_high_bytes > memory.peak_bytes
    on_high = (TINY, "--board", "rk3588", "-q", "--limit-on", "high", "--limit")
    assert run(capsys, *on_high, str(memory.peak_high_bytes))[::2] == (0, "")
    code, _, err = run(capsys, *on_high, str(memory.peak_high_bytes - 1))
    assert (code, "upper bound 1 B (1 bytes) over the limit" in err) == (1, True)
    told = json.loads(run(capsys, *on_high, str(memory.peak_bytes), "--json")[1])
    assert (told["limit_on"], told["over"]) == ("high", True)


def test_what_has_no_upper_bound_keeps_no_limit_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    model = ROOT / "examples" / "lstm_kws.fp32.tflite"
    code, _, err = run(capsys, model, "--board", "rk3588", "-q", "--limit", "1GiB", "--limit-on", "high")
    assert (code, "no upper bound: a run may take more than the limit of 1.00 GiB" in err) == (1, True)


def test_json_is_the_memory_of_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of(UNET)[0]
    for limit, over in ((None, False), (plan.memory.peak_bytes, False), (plan.memory.peak_bytes - 1, True)):
        options = ("--limit", str(limit)) if limit else ()
        shown = json.loads(run(capsys, UNET, "--board", "rk3588", "--json", *options)[1])
        assert shown == {
            "schema": "edgedeploy.memory/1", "inputs": builtins(plan.inputs), "memory": builtins(plan.memory),
            "limit_bytes": limit, "limit_on": "peak", "over": over,
        }  # fmt: skip


def test_options_reach_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--npu", "rknn", "--threads", "2", "--cpus", "little", "--max-partitions", "3", "--xnnpack", "off")
    wishes = ("--force", "0=cpu", "--forbid", "SOFTMAX=rknn", "--assume-unknown", "supported")
    shown = json.loads(run(capsys, UNET, "--board", "rk3588", *options, *wishes, "--json")[1])["inputs"]
    assert shown["runtime"]["xnnpack"] == "off"
    assert shown["options"] == {
        "threads": 2, "cpus": "0,1,2,3", "memory_limit_bytes": None, "max_partitions": 3, "force": ["0=cpu"],
        "forbid": ["SOFTMAX=rknn"], "assume_unknown": "supported", "signature": None, "input_shapes": {},
    }  # fmt: skip


@pytest.mark.parametrize("form", ["-q", "--json"])
def test_a_script_pays_for_one_plan(
    form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = []
    partition = api.partition

    def counted(*arguments: Any, **options: Any) -> Plan:
        calls.append(options)
        return partition(*arguments, **options)

    monkeypatch.setattr(api, "partition", counted)
    out = run(capsys, TINY, "--board", "rk3588", form)[1]
    assert len(calls) == 1
    assert form == "--json" or len(out.splitlines()) == 2


# --- what would lower it ----------


def _two_activations(read_twice: bool) -> Graph:
    """ABS, EXP, ABS on 4 KiB: input and output stay, in between TFLite takes two and in place one would do."""
    written = Model()
    g = written.subgraph()
    x = g.input((1, 1024))
    a = g.apply("ABS", [x], (1, 1024))
    b = g.apply("EXP", [a], (1, 1024))
    c = g.apply("SUB", [b, a], (1, 1024)) if read_twice else b
    g.outputs(g.apply("SUM", [c, g.constant(np.array([1], np.int32))], (1,)))
    return read_bytes(written.build())


def test_in_place_saves_the_operand() -> None:
    graph = _two_activations(read_twice=False)
    plan = api.partition(graph, "rpi5", xnnpack="off")
    found = arenaview.in_place(plan, graph)
    assert found is not None
    assert found.before_bytes == plan.memory.arena_bytes
    assert found.ops == ((0, 1),), "op 0 reads the input, which is never freed"
    assert found.before_bytes == 3 * 4096
    assert 2 * 4096 < found.arena_bytes < 2 * 4096 + 256, "the input, what is computed, and the small sum"
    twice = _two_activations(read_twice=True)
    assert arenaview.in_place(api.partition(twice, "rpi5", xnnpack="off"), twice) is None


def _lowered(plan: Plan, graph: Graph, limit: int | None = None, **options: Any) -> lowering.Lowering:
    def planner(**changes: Any) -> Plan:
        return api.partition(graph, "rk3588", **{**options, **changes})

    return lowering.lowering(plan, graph, planner, limit)


def test_what_is_said_to_lower_the_peak_does() -> None:
    plan, graph = plan_of(UNET)
    found = _lowered(plan, graph)
    assert len(found.ways) >= 2
    options = {way.title.partition(":")[0] for way in (*found.ways, *found.useless)}
    assert options > {"--npu none", "--xnnpack off"}
    without = next(way for way in (*found.ways, *found.useless) if way.title.startswith("--npu none"))
    alone = api.partition(graph, "rk3588", npu="none")
    assert (without.peak_bytes, without.latency_ns) == (alone.memory.peak_bytes, alone.predicted.latency_ns)
    for way in found.ways:
        assert way.peak_bytes < plan.memory.peak_bytes
        if match := re.match(r"--memory-limit (\d+): ", way.title):
            again = api.partition(graph, "rk3588", memory_limit_bytes=int(match[1]))
            assert (again.memory.peak_bytes, again.memory.arena_bytes) == (way.peak_bytes, way.arena_bytes)
            assert again.predicted.latency_ns == way.latency_ns
    assert all(way.peak_bytes >= plan.memory.peak_bytes for way in found.useless)
    if found.infeasible_bytes is not None:
        with pytest.raises(NotDeployable):
            api.partition(graph, "rk3588", memory_limit_bytes=found.infeasible_bytes)


def test_scratch_is_named_and_what_avoids_it() -> None:
    """Built-in convolutions of this network unfold their input; XNNPACK's do not."""
    plan, graph = plan_of(UNET, npu="none", xnnpack="off")
    found = _lowered(plan, graph, npu="none", xnnpack="off")
    out = " ".join(report.memory_report(plan, graph, None, found, Style()).split())
    assert "6.75 MiB scratch of op 18 CONV_2D" in out
    way = next(way for way in found.ways if way.title.startswith("--xnnpack default"))
    assert way.peak_bytes == plan_of(UNET, npu="none")[0].memory.peak_bytes
    assert "scratch of op 18 CONV_2D, 7077888 bytes at " in memory_html.memory_page(plan, graph, None, found)


def _branches(order: str) -> Graph:
    """Two branches that each make 16 KiB and add it up, written in ``order``: A and B make, a and b add up."""
    written = Model()
    g = written.subgraph()
    x = g.input((1, 1024))
    axis = g.constant(np.array([1], np.int32))
    made: dict[str, int] = {}
    for step in order:
        if step.isupper():
            made[step] = g.apply("CONCATENATION", [x] * 4, (1, 4096), axis=1)
        else:
            made[step] = g.apply("SUM", [made[step.upper()], axis], (1,))
    g.outputs(g.apply("ADD", [made["a"], made["b"]], (1,)))
    return read_bytes(written.build())


def test_another_order_is_offered_with_the_arena_that_it_has() -> None:
    worse, better = _branches("ABab"), _branches("AaBb")
    plan, best = (api.partition(graph, "rpi5", xnnpack="off") for graph in (worse, better))
    way = next(way for way in _lowered(plan, worse, npu="none").ways if way.title.startswith("reorder: "))
    assert way.arena_bytes == best.memory.arena_bytes < plan.memory.arena_bytes - 16_000
    assert way.peak_bytes == plan.memory.peak_bytes - plan.memory.arena_bytes + best.memory.arena_bytes
    assert not [way for way in _lowered(best, better, npu="none").ways if way.title.startswith("reorder: ")]


@pytest.mark.parametrize("least_bytes", [0, 1_250_000])
def test_the_ladder_is_short_and_goes_down(least_bytes: int) -> None:
    plan, graph = sample(["rknn"] * 5 + ["builtin"])
    model, first = plan.memory.model_bytes, plan.memory.peak_bytes
    asked: list[int] = []

    def planner(**changes: Any) -> Plan:
        limit = changes.get("memory_limit_bytes", 0)
        if "memory_limit_bytes" in changes:
            asked.append(limit)
        if limit < max(1, least_bytes):
            raise NotDeployable("no plan")
        return replace(plan, memory=replace(plan.memory, peak_bytes=limit))

    found = lowering.lowering(plan, graph, planner, None)
    step = first - 1 - (first - 1 - model) // lowering.RUNG
    if least_bytes:
        assert asked[:3] == [first - 1, step, (first - 1 + step) // 2], "halfway back where an eighth is too much"
        kept = [limit for limit in asked if limit >= least_bytes]
        assert [way.peak_bytes for way in found.ways] == kept == sorted(kept, reverse=True)
        assert found.infeasible_bytes == max(limit for limit in asked if limit < least_bytes)
    else:
        assert asked[:2] == [first - 1, step]
        assert [way.peak_bytes for way in found.ways] == asked
        assert asked == sorted(set(asked), reverse=True)
        assert found.infeasible_bytes is None
    assert len(asked) == lowering.MOST_PLANS
    asked.clear()
    lowering.lowering(plan, graph, planner, first - 1000)
    assert asked[0] == first - 1000, "a limit it is over comes first"


def test_a_limit_without_plan_still_gets_the_ladder() -> None:
    plan, graph = plan_of(UNET)
    found = _lowered(plan, graph, 1000)
    assert any("--memory-limit" in way.title for way in found.ways)
    gate = report.Gate(1000, plan.memory.peak_bytes)
    out = report.memory_report(plan, graph, gate, found, Style())
    assert "no plan found keeps the limit of 0.98 KiB" in out or "no plan found keeps the limit of 1000 B" in out


def test_it_says_what_the_limit_costs() -> None:
    plan, graph = plan_of(UNET)
    limit = plan.memory.peak_bytes - 1
    found = _lowered(plan, graph, limit)
    within = api.partition(graph, "rk3588", memory_limit_bytes=limit)
    off = api.partition(graph, "rk3588", xnnpack="off")
    assert off.memory.peak_bytes <= limit
    is_off = off.predicted.latency_ns < within.predicted.latency_ns
    cheapest = "--xnnpack off" if is_off else f"--memory-limit {within.memory.peak_bytes}"
    out = " ".join(report.memory_report(plan, graph, report.Gate(limit, limit + 1), found, Style()).split())
    assert f"the limit is kept with {cheapest}: " in out
    assert " slower" in out[out.index("the limit is kept") :]
