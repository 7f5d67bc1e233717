# SPDX-License-Identifier: Apache-2.0
"""Several devices side by side: what the table says, and that one that fails takes nothing from the others."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgedeploy import api
from edgedeploy.__main__ import main
from edgedeploy.link import LinkError
from edgedeploy.measure import targets
from edgedeploy.measure.bench import Bench
from edgedeploy.measure.errors import BadRequest, Busy, ModelFailed
from edgedeploy.measure.statistics import summarise
from edgedeploy.measure.subject import subject
from edgedeploy.report.bench_table import bench_table
from edgedeploy.report.page import Style
from support import agents

KWS = Path(__file__).parents[2] / "examples/dscnn_kws.int8.tflite"


def measured(device: str, us: float, spread: float = 0.01, **more: Any) -> Bench:
    """100 samples around ``us``."""
    samples = [round(1000 * us * (1 + spread * (i - 50) / 50)) for i in range(101)]
    runtime = {"name": "ai-edge-litert", "version": "2.3.0", "xnnpack_ops": 11, "ops": 12}
    return Bench(
        device=device, subject=subject(KWS), runtime=runtime, threads=1, cpus=[0], load_ns=10**6, first_run_ns=10**5,
        samples=samples, summary=summarise(samples), conditions=[], verdict="valid", reasons=[], memory=None, **more,
    )  # fmt: skip


def rows(text: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip()}


def test_lines_stand_in_the_order_asked_for_and_ratios_are_to_the_first() -> None:
    plan = api.partition(KWS, "local", npu="none")
    results = {"pi": measured("pi", 500, plan=plan), "fast": measured("fast", 125)}
    text = bench_table(results, Style())
    lines = rows(text)
    assert list(lines)[:4] == ["dscnn_kws.int8.tflite", "device", "pi", "fast"]
    low, high = summarise(results["pi"].samples).ci95 or (0, 0)
    assert lines["pi"][:7] == ["500", "us", f"{low / 1000:.0f}", "us", f"{high / 1000:.0f}", "us", "1.00x"]
    assert lines["fast"][6] == "0.25x"
    assert lines["fast"][-2:] == ["-", "valid"]  # no board, no prediction
    assert f"{plan.predicted.latency_ns / 1000:.1f}" in lines["pi"]
    assert "overlap" not in text
    assert "memory" not in lines["device"]
    assert all(len(line) <= 80 for line in text.splitlines())


def test_intervals_that_overlap_are_no_difference() -> None:
    text = bench_table({"a": measured("a", 100, 0.5), "b": measured("b", 101, 0.5)}, Style())
    assert "the intervals of b and a overlap: no difference is shown" in text


def test_memory_and_what_speaks_against_a_line_are_shown() -> None:
    memory = {"baseline_bytes": 10 << 20, "peak_bytes": 13 << 20}
    slow = dataclasses.replace(measured("b", 100), verdict="busy", reasons=["others ran"])
    text = bench_table({"a": dataclasses.replace(measured("a", 100), memory=memory), "b": slow}, Style())
    assert "3.00 MiB" in text
    assert rows(text)["b"][-1] == "busy"
    assert "busy: others ran" in text
    brief = bench_table({"a": measured("a", 100), "b": slow}, Style(depth=-1))
    assert len(brief.splitlines()) == 5


FAILURES = {
    "away": (LinkError("away: cannot connect"), 4),
    "busy": (Busy("busy: somebody measures there"), 4),
    "odd": (BadRequest("odd: --cpus 9: no"), 2),
    "weak": (ModelFailed("weak", "out-of-memory", "allocate", "needs more"), 6),
}


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Devices by the names above fail as they say, all others are this machine."""

    @contextlib.contextmanager
    def reach(name: str, _: object) -> Iterator[Any]:
        if name in FAILURES:
            raise FAILURES[name][0]
        with agents.agent(tmp_path) as session:
            session.device = name
            yield session

    monkeypatch.setattr(targets, "reach", reach)
    monkeypatch.setattr(targets, "board_of", lambda _: "local")


@pytest.mark.usefixtures("fakes")
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("name", FAILURES)
def test_a_device_that_fails_takes_nothing_from_the_others(
    name: str, place: int, capsys: pytest.CaptureFixture[str]
) -> None:
    error, code = FAILURES[name]
    names = ["one", "two"]
    names.insert(place, name)
    assert main(["bench", str(KWS), "--on", ",".join(names), "--runs", "3", "--threads", "1", "--json"]) == code
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert [each["device"] for each in found] == names
    schemas = ["edgedeploy.error/1" if each == name else "edgedeploy.bench/1" for each in names]
    assert [each["schema"] for each in found] == schemas
    assert (found[place]["exit_code"], found[place]["error"]) == (code, str(error))
    said = [f"edgedeploy: error: {error}", f"edgedeploy: 1 of 3 devices went wrong; exit code {code}, the highest"]
    assert shown.err.splitlines() == said


@pytest.mark.usefixtures("fakes")
def test_the_highest_code_counts_and_what_was_measured_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["bench", str(KWS), "--on", "odd,one,weak,away", "--runs", "3", "--require-valid"])
    shown = capsys.readouterr()
    assert code == 6
    lines = rows(shown.out)
    assert lines["one"][-1] in ("noisy", "busy", "throttled")
    assert {"odd", "weak", "away"} <= lines.keys()
    assert shown.err.splitlines()[-1] == "edgedeploy: 4 of 4 devices went wrong; exit code 6, the highest"
    assert main(["bench", str(KWS), "--on", "odd,away"]) == 4
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("fakes")
def test_a_table_stands_before_the_reports(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(KWS), "--on", "one,two", "--runs", "6", "-v"]) == 0
    out = capsys.readouterr().out
    assert out.index("on 2 devices") < out.index("tflite on one") < out.index("tflite on two")
    assert main(["bench", str(KWS), "--on", "one,two", "--runs", "6"]) == 0
    assert "tflite on one" not in capsys.readouterr().out
