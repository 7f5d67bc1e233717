# SPDX-License-Identifier: Apache-2.0
"""``bench`` and ``verify`` on this machine: what they print, and their exit codes."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedeploy import api
from edgedeploy.__main__ import main
from edgedeploy.bundle import write_bundle
from edgedeploy.measure import bench as benches
from edgedeploy.measure import verify as verifying
from edgedeploy.measure.errors import ModelFailed
from edgedeploy.measure.session import Session
from edgedeploy.measure.subject import subject
from edgedeploy_partitioner.model.build import Model
from support import hostile, processes

EXAMPLES = Path(__file__).parents[2] / "examples"
KWS = EXAMPLES / "dscnn_kws.int8.tflite"
RESULT = {
    "schema", "device", "model", "plan_sha256", "signature", "inputs", "runtime", "threads", "cpus", "load_us",
    "first_run_us", "warm", "conditions", "verdict", "reasons", "memory", "predicted",
}  # fmt: skip
ON = ("--on", "local")


@pytest.fixture(autouse=True)
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([*map(str, arguments)])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_a_measurement_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    code, out, err = run(capsys, "bench", KWS, *ON, "--runs", 120, "--threads", 1, "--memory", "--json", "-o", file)
    assert (code, err) == (0, "")
    assert file.read_text() == out
    found = json.loads(out)
    assert found.keys() == RESULT
    assert (found["schema"], found["device"], found["threads"]) == ("edgedeploy.bench/1", "local", 1)
    assert found["model"]["sha256"] == hashlib.sha256(KWS.read_bytes()).hexdigest()
    assert (found["runtime"]["xnnpack_ops"], found["runtime"]["ops"]) == (11, 12)
    warm = found["warm"]
    assert len(warm["samples_us"]) == 120
    assert warm["median_us"] == pytest.approx(statistics.median(warm["samples_us"]), abs=0.001)
    assert warm["min_us"] <= warm["ci95_us"][0] <= warm["median_us"] <= warm["ci95_us"][1]
    assert [each["when"] for each in found["conditions"]][:: len(found["conditions"]) - 1] == [
        "before",
        "after 120 runs",
    ]
    plan = api.partition(KWS, "local", npu="none", threads=1)
    assert found["predicted"]["peak_bytes"] == plan.memory.peak_bytes
    if found["memory"]["peak_bytes"] is not None:  # the kernel lets us measure it
        grown = found["memory"]["peak_bytes"] - found["memory"]["baseline_bytes"]
        assert grown == pytest.approx(plan.memory.peak_bytes, rel=0.25, abs=1 << 17)
    assert found["predicted"]["latency_us"] == plan.predicted.latency_ns / 1000


def test_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "bench", KWS, *ON, "--min-time", 0.1, "--memory", "-v")
    assert (code, err, out.isascii()) == (0, "", True)
    for words in ("dscnn_kws.int8.tflite on local", "median of", "predicted", "of 12 ops", "baseline", "before"):
        assert words in out
    code, out, _ = run(capsys, "bench", KWS, *ON, "--runs", 6, "-q")
    assert (code, "CPUs" in out, "\n\n" in out) == (0, True, False)


def test_a_measurement_that_cannot_be_trusted_exits_5(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(capsys, "bench", KWS, *ON, "--runs", 3)[0] == 0
    code, out, err = run(capsys, "bench", KWS, *ON, "--runs", 3, "--require-valid")
    assert (code, "3 samples are too few" in err, "too few" in out) == (5, True, True)
    monkeypatch.setattr(benches, "judge", lambda *_: ("valid", []))
    assert run(capsys, "bench", KWS, *ON, "--runs", 3, "--require-valid")[0] == 0


def test_a_model_that_fails_exits_6_and_the_other_devices_go_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "endless.tflite"
    path.write_bytes(hostile.endless().build())
    code, out, err = run(capsys, "bench", path, *ON, "--deadline", 1)
    assert (code, out) == (6, "")
    assert err == "edgedeploy: error: local: the model hung (stage: invoke): no sign of life within 1 s\n"
    code, out, err = run(capsys, "verify", EXAMPLES / "custom_erf.int8.tflite", *ON, "--json")
    assert (code, json.loads(out)["exit_code"], "the model was refused" in err) == (6, 6, True)
    code, out, err = run(capsys, "bench", KWS, "--on", "local,nowhere", "--runs", 3, "--json")
    assert (code, [each["device"] for each in json.loads(out)]) == (2, ["local", "nowhere"])
    assert "no device 'nowhere'" in err


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (hostile.crashing_by(signal.SIGABRT), (), r"crashed \(stage: invoke\): killed by SIGABRT"),
        (hostile.crashing_by(signal.SIGSEGV), (), r"crashed \(stage: invoke\): killed by SIGSEGV"),
        (hostile.huge(), ("--memory-cap", "256MiB"), r"ran out of memory \(stage: allocate\): .*cannot be allocated"),
        (hostile.huge(1 << 20, 1 << 20), (), r"ran out of memory \(stage: allocate\): .*cannot be allocated"),
    ],
)  # fmt: skip
def test_what_ended_the_model_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, model: Model, options: tuple[str, ...], words: str
) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(model.build())
    code, out, err = run(capsys, "bench", path, *ON, *options)
    assert (code, out) == (6, "")
    assert re.fullmatch(rf"edgedeploy: error: local: the model {words}.*\n", err), err
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bench", KWS, *ON, "--runs", "3", "--min-time", "1"], "exclude each other"),
        (["bench", KWS, "--on", "local,"], "empty name"),
        (["bench", KWS, *ON, "-o", "no/such/folder"], "no folder"),
        (["bench", "none.tflite", *ON], "none.tflite"),
        (["bench", KWS, *ON, "--cpus", "9999"], "--cpus 9999"),
        (["bench", KWS, *ON, "--set-governor", "never"], "governor"),
        (["bench", KWS, *ON, "--inputs", KWS, "--runs", "3"], "no .npz file"),
        (["verify", KWS, *ON, "--inputs", KWS], "no .npz file"),
        (["bench", EXAMPLES, *ON], "manifest.json"),
        (["bench", "/dev/null", *ON], "pipe or device"),
        (["bench", EXAMPLES.parent / "LICENSE", *ON], "not a .tflite model but a text file"),
        (["bench", KWS, *ON, "-o", EXAMPLES], "it is a folder"),
        (["bench", KWS, *ON, "-o", "/proc/no/file"], "no folder /proc/no"),
        (["bench", KWS, *ON, "--runs", 2**32], "--runs"),
        (["bench", KWS, *ON, "--warmup", 2**32], "--warmup"),
        (["bench", KWS, *ON, "--min-time", "inf"], "--min-time"),
        (["bench", KWS, *ON, "--min-time", "nan"], "--min-time"),
        (["bench", KWS, *ON, "--cooldown", "nan"], "--cooldown"),
        (["bench", KWS, *ON, "--cooldown", "inf"], "--cooldown"),
        (["bench", KWS, *ON, "--threads", 2**31], "--threads"),
        (["bench", KWS, *ON, "--deadline", "inf"], "--deadline"),
        (["bench", KWS, *ON, "--deadline", 3_000_000], "--deadline"),
        (["bench", KWS, *ON, "--memory-cap", "9999999999GB"], "more than any machine has"),
        (["verify", KWS, *ON, "--rtol", "inf"], "--rtol"),
        (["verify", KWS, *ON, "--atol", "inf", "--json"], "--atol"),
        (["verify", KWS, *ON, "--max-lsb", 2**70], "--max-lsb"),
        (["verify", KWS, *ON, "--seed", 2**70], "--seed"),
    ],
)
def test_usage_that_cannot_be_exits_2(capsys: pytest.CaptureFixture[str], arguments: list[object], words: str) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_what_is_written_is_whole_and_printed_all_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, place = tmp_path / "link.json", tmp_path / "elsewhere" / "out.json"
    place.parent.mkdir()
    link.symlink_to(place)
    code, out, _ = run(capsys, "bench", KWS, *ON, "--runs", 1, "--json", "-o", link)
    assert (code, place.read_text(), link.is_symlink()) == (0, out, True)
    assert place.stat().st_mode & 0o777 == 0o666 & ~_umask()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = place.read_bytes()
    monkeypatch.setattr("edgedeploy.files.os.fsync", full)
    code, out, err = run(capsys, "bench", KWS, *ON, "--runs", 1, "--json", "-o", link)
    assert (code, err) == (2, "edgedeploy: error: No space left on device\n")
    assert json.loads(out)["schema"] == "edgedeploy.bench/1"  # what was measured is not lost
    assert (place.read_bytes(), [*place.parent.iterdir()]) == (before, [place])
    assert run(capsys, "bench", KWS, *ON, "--runs", 1, "-q", "-o", "/dev/null")[0] == 0
    assert Path("/dev/null").is_char_device()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_model_without_outputs_is_not_verified(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = Model()
    g = model.subgraph()
    g.apply("NEG", [g.input((3,))], (3,))
    (tmp_path / "m.tflite").write_bytes(model.build())
    code, out, err = run(capsys, "verify", tmp_path / "m.tflite", *ON)
    assert (code, out, "nothing to compare" in err) == (2, "", True)


@pytest.mark.parametrize(
    "name", [b"\xff\xfe.tflite", b"-o.tflite", b"a 'b' \"$(c)\" ;\n.tflite", "\u00fc\U0001f600".encode()]
)
def test_a_file_may_have_any_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: bytes
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / os.fsdecode(name)
    path.write_bytes(KWS.read_bytes())
    code, out, err = run(capsys, "bench", path, *ON, "--runs", 1, "--json")
    assert (code, err, json.loads(out)["model"]["name"]) == (0, "", path.name)


def test_a_bundle_that_was_changed_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    graph = api.read_model(KWS)
    write_bundle(api.partition(graph, "local", npu="none"), graph.source, tmp_path / "b", overwrite=False)
    for part in ("plan.json", "model.tflite"):
        content = (tmp_path / "b" / part).read_bytes()
        for changed in (content + b"\n", None):
            (tmp_path / "b" / part).unlink()
            if changed:
                (tmp_path / "b" / part).write_bytes(changed)
            code, out, err = run(capsys, "bench", tmp_path / "b", *ON, "--runs", 1)
            assert (code, out, part in err or changed is None) == (2, "", True)
        (tmp_path / "b" / part).write_bytes(content)


def test_a_bundle_runs_with_its_own_prediction(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    graph = api.read_model(KWS)
    written = write_bundle(api.partition(graph, "local", npu="none"), graph.source, tmp_path / "b", overwrite=False)
    code, out, _ = run(capsys, "bench", tmp_path / "b", *ON, "--runs", 6, "--json")
    found = json.loads(out)
    assert (code, found["plan_sha256"]) == (0, written.manifest.plan_sha256)
    assert run(capsys, "verify", tmp_path / "b", *ON)[0] == 0
    graph = api.read_model(EXAMPLES / "unet_128.int8.tflite")
    write_bundle(api.partition(graph, "rk3588"), graph.source, tmp_path / "npu", overwrite=False)
    code, out, err = run(capsys, "bench", tmp_path / "npu", *ON)
    assert (code, out, "missing: " in err) == (3, "", True)


def test_outputs_are_compared_with_the_runtime_s_own_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    model = EXAMPLES / "unet_128.int8.tflite"
    code, out, err = run(capsys, "verify", model, *ON, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    [reference] = found["references"]
    [output] = reference["outputs"]
    assert (found["ok"], found["runtime"]["xnnpack_ops"], reference["runtime"]["xnnpack_ops"]) == (True, 20, 0)
    assert (output["shape"], output["max_lsb"], output["over"]) == ([1, 128, 128, 4], 1, 0)
    code, out, err = run(capsys, "verify", model, *ON, "--max-lsb", 0)
    assert (code, "too far" in out) == (1, True)
    assert err.startswith("edgedeploy: mismatch on local: unet_128.int8.tflite")


def test_given_inputs_are_what_is_computed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [name] = verifying.seeded_inputs(subject(KWS), 1)
    values: dict[str, Any] = {name: np.full((1, 49, 10, 1), 3, np.int8)}
    np.savez(tmp_path / "in.npz", **values)
    seen: list[dict[str, Any]] = []
    original = Session.run

    def remembered(self: Session, settings: Any, inputs: Any) -> Any:
        seen.append(inputs)
        return original(self, settings, inputs)

    monkeypatch.setattr(Session, "run", remembered)
    assert main(["verify", str(KWS), *ON, "--inputs", str(tmp_path / "in.npz")]) == 0
    assert all(np.array_equal(each[name], values[name]) for each in seen)
    assert len(seen) == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_whatever_ends_the_command_leaves_nothing(tmp_path: Path, number: signal.Signals, code: int) -> None:
    command = [sys.executable, "-m", "edgedeploy", "bench", str(KWS), *ON, "--min-time", "60"]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(tmp_path)}, stderr=-1, stdout=-1) as started:
        until = time.monotonic() + 20
        family: set[int] = set()
        while len(family) < 2 and time.monotonic() < until:  # the agent and a worker
            family = {each for child in processes.children(started.pid) for each in (child, *processes.children(child))}
            time.sleep(0.01)
        assert len(family) == 2
        os.kill(started.pid, number)
        assert processes.ends(started.pid, *family)
        assert started.communicate()[0] == b""
    assert started.returncode == code
    assert not list(tmp_path.iterdir())


def test_failures_are_one_line() -> None:
    failed = ModelFailed("pi", "crashed", "invoke", "killed by SIGSEGV")
    assert str(failed) == "pi: the model crashed (stage: invoke): killed by SIGSEGV"
    assert "no word of why" in str(dataclasses.replace(failed, message=""))
