# SPDX-License-Identifier: Apache-2.0
"""Trials of models in a child process: those that run, and those that crash, hang, or want too much."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from edgedeploy.trial import Trial, try_model
from edgedeploy_agent import trial as agent
from edgedeploy_partitioner.model.build import Model
from support.hostile import crashing, endless, huge
from support.processes import command_lines

EXAMPLES = Path(__file__).parents[2] / "examples"


def tried(folder: Path, model: Model, **limits: float | int | bool) -> Trial:
    path = folder / "model.tflite"
    path.write_bytes(model.build())
    return try_model(path, **limits)  # type: ignore[arg-type]


def test_a_model_that_runs() -> None:
    done = try_model(EXAMPLES / "dscnn_kws.int8.tflite")
    assert done.ok
    assert (done.outcome, done.stage, done.message) == ("ran", "done", "")
    assert done.outputs == (("Identity", "int8", (1, 12)),)
    assert done.xnnpack_partitions == 1
    assert done.runtime.startswith("ai-edge-litert ")
    off = try_model(EXAMPLES / "dscnn_kws.int8.tflite", xnnpack=False)
    assert (off.outcome, off.xnnpack_partitions) == ("ran", 0)


def test_strings_booleans_and_indices_are_fed(tmp_path: Path) -> None:
    model = Model()
    g = model.subgraph()
    text, flag, index = g.input((1,), "string"), g.input((2,), "bool"), g.input((2,), "int64")
    half = g.input((2,), "float16")
    g.outputs(text, g.apply("LOGICAL_NOT", [flag], (2,), "bool"), g.apply("NEG", [index], (2,), "int64"), half)
    done = tried(tmp_path, model)
    assert (done.outcome, done.message) == ("ran", "")


def test_a_refusal_carries_the_words_of_the_runtime() -> None:
    done = try_model(EXAMPLES / "custom_erf.int8.tflite")
    assert (done.outcome, done.stage, done.ok) == ("refused", "allocate", False)
    assert "unresolved custom op: Erf" in done.message


@pytest.mark.parametrize("content", [b"", b"TFL3", bytes(64), b"<html>"])
def test_what_is_no_model_is_refused_when_loading(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "no.tflite"
    path.write_bytes(content)
    done = try_model(path)
    assert done.stage == "load"
    assert done.outcome in ("refused", "crashed")
    assert "\n" not in done.message


def test_a_crash_is_a_result(tmp_path: Path) -> None:
    done = tried(tmp_path, crashing())
    assert done.outcome == "crashed"
    assert done.stage in ("invoke", "done")
    assert done.message.startswith("killed by SIG")


def test_a_hang_ends_at_the_deadline_and_nothing_is_left(tmp_path: Path) -> None:
    started = time.monotonic()
    done = tried(tmp_path, endless(), deadline_s=2)
    assert (done.outcome, done.stage) == ("timeout", "invoke")
    assert "2 s" in done.message
    assert time.monotonic() - started < 6  # it would end itself 5 s after the deadline
    assert not _alive(str(tmp_path))


def _alive(word: str) -> list[str]:
    """Command lines of processes that name ``word``."""
    return [line for line in command_lines().values() if word in line]


def test_a_child_whose_parent_is_gone_ends_itself(tmp_path: Path) -> None:
    path = tmp_path / "endless.tflite"
    path.write_bytes(endless().build())
    command = [sys.executable, "-m", "edgedeploy_agent.trial", str(path), "--deadline-s", "2"]
    assert subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == -14  # SIGALRM


def test_a_memory_limit_is_a_result(tmp_path: Path) -> None:
    done = tried(tmp_path, huge(), memory_bytes=1 << 28)
    assert done.outcome == "out-of-memory"
    assert str(1 << 28) in done.message


def test_a_missing_file_is_a_result(tmp_path: Path) -> None:
    assert try_model(tmp_path / "none.tflite").outcome == "refused"


def test_the_answer_is_one_json_line_whatever_the_runtime_logs() -> None:
    command = [sys.executable, "-m", "edgedeploy_agent.trial", str(EXAMPLES / "dscnn_kws.fp32.tflite"), "--tensors"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    [line] = done.stdout.splitlines()
    assert json.loads(line)["stage"] == "done"
    assert [s for s in done.stderr.splitlines() if s.startswith("trial: ")] == [f"trial: {s}" for s in agent.STAGES]
    again = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert again.stdout == done.stdout


def test_what_native_code_prints_does_not_reach_the_answer() -> None:
    program = "import os; from edgedeploy_agent import trial as t; t.own_stdout().write('{}'); os.write(1, b'noise')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("{}", "noise")


def test_inputs_are_seeded_and_cover_their_type() -> None:
    first, second = (agent.sample(np.random.default_rng(1), np.int8, (500,)) for _ in range(2))
    assert (first == second).all()
    assert (first.min(), first.max(), first.dtype) == (-128, 127, np.int8)
    assert set(agent.sample(np.random.default_rng(1), np.int64, (50,))) == {0, 1}
    assert agent.sample(np.random.default_rng(1), np.bytes_, (1,)).tolist() == [b"a b"]
    assert agent.sample(np.random.default_rng(1), np.complex64, (2,)).dtype == np.complex64


def test_without_a_runtime_it_says_so(tmp_path: Path) -> None:
    """A Python that cannot import the runtime, as on a board where it is not installed."""
    for package in ("ai_edge_litert", "tflite_runtime"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise ImportError('wrong glibc')")
    command = [sys.executable, "-m", "edgedeploy_agent.trial", "any.tflite"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    answer = json.loads(done.stdout)
    assert (answer["stage"], answer["runtime"], done.returncode) == ("start", None, 1)
    assert "wrong glibc" in answer["error"]
