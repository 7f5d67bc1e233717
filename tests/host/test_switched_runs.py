# SPDX-License-Identifier: Apache-2.0
"""A bundle whose plan switches XNNPACK on, from ``partition`` to ``bench`` and ``verify`` on the runtime it is for."""

from __future__ import annotations

import json
import os
import shlex
import sysconfig
from pathlib import Path

import pytest

import edgedeploy_kernels
from edgedeploy.__main__ import main
from edgedeploy.devices import reach
from support.delegates import library
from support.runtimes import ROOT, SWITCHED, other_or_skip

MODEL = ROOT / "examples" / "mnv1_025_128.int8.tflite"
MOST_LSB = 8  # XNNPACK rounds some results of quantised ops otherwise


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """And ``local`` is the Python that has the runtime, with what the agent needs beside it."""
    runtime = other_or_skip(*SWITCHED[:2])
    packages, beside = Path(sysconfig.get_path("platlib")), tmp_path / "packages"
    beside.mkdir()
    for name in ("grpc", "google", "typing_extensions.py"):
        (beside / name).symlink_to(packages / name)
    path = os.pathsep.join(map(str, (ROOT / "device_agent", ROOT / "protos", beside)))
    command = f"PYTHONPATH={shlex.quote(path)} exec {shlex.join(runtime.command)} -m edgedeploy_agent.server"
    monkeypatch.setattr(reach, "LOCAL_COMMAND", command)
    monkeypatch.setattr(edgedeploy_kernels, "library", library)
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # the lock of this machine's agents is there
    options = ("--board", "local", "--runtime", "==".join(SWITCHED[:2]), "--xnnpack", "switch", "--threads", "1")
    assert main(["partition", str(MODEL), *options, "-o", str(tmp_path / "bundle"), "-q"]) == 0
    capsys.readouterr()
    return tmp_path / "bundle"


@pytest.mark.runtimes
def test_it_runs_as_planned(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = json.loads((bundle / "plan.json").read_text())
    planned = [op["kernel"] for op in plan["ops"]].count("xnnpack")
    assert planned > len(plan["ops"]) // 2
    main(
        ["bench", str(bundle), "--on", "local", "--runs", "6", "--memory", "--json"]
    )  # on a busy machine it is not valid
    measured = json.loads(capsys.readouterr().out)
    code = main(["verify", str(bundle), "--on", "local", "--max-lsb", str(MOST_LSB), "--json"])
    verified = json.loads(capsys.readouterr().out)
    assert (code, verified["ok"]) == (0, True)
    for found in (measured["runtime"], verified["runtime"]):
        assert (found["name"], found["version"]) == SWITCHED[:2]
        assert found["xnnpack_ops"] == planned
        assert found["delegates"][0]["as_planned"], found
    assert measured["memory"]["arena_bytes"] == plan["memory"]["arena_bytes"] + plan["memory"]["persistent_bytes"]
    if measured["memory"]["peak_bytes"] is not None:  # the kernel lets us measure it
        grown = measured["memory"]["peak_bytes"] - measured["memory"]["baseline_bytes"]
        assert plan["memory"]["peak_low_bytes"] <= grown <= plan["memory"]["peak_high_bytes"]
    assert verified["references"][0]["runtime"]["xnnpack_ops"] == 0
