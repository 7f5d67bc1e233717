# SPDX-License-Identifier: Apache-2.0
"""Models on an emulated arm64 board, measured and verified over SSH, by one client and by two.

Times mean nothing here, and nothing is said of them.
"""

from __future__ import annotations

import re
import subprocess
import threading
from pathlib import Path

import pytest

import edgedeploy_kernels
from edgedeploy.bundle import write_bundle
from edgedeploy.measure.session import Settings
from edgedeploy.measure.targets import reach
from support.accounts import Account
from support.delegates import library_with_test_kernels, scattered
from support.random_model import random_dag
from support.ready import COMMAND, Ready

pytestmark = pytest.mark.board
EXAMPLES = Path(__file__).parents[2] / "examples"
KWS = EXAMPLES / "dscnn_kws.int8.tflite"
ON = ("--on", "pi", "--threads", "1")


def test_a_model_is_measured(user: Account) -> None:
    found = user.types("bench", str(KWS), *ON, "--runs", "20", "--json")
    assert (found.code, found.err) == (0, "")
    assert (found.json["device"], len(found.json["warm"]["samples_us"])) == ("pi", 20)
    assert found.json["runtime"]["xnnpack_ops"] == 11


@pytest.mark.parametrize("name", ["unet_128.int8", "dscnn_kws.fp32", "dscnn_kws.fp16"])
def test_a_model_computes_what_it_should_and_is_sent_once(there: Ready, user: Account, name: str) -> None:
    model = str(EXAMPLES / f"{name}.tflite")
    verified = user.types("verify", model, *ON, "--json")
    assert verified.code == 0, verified.err
    assert [each["name"] for each in verified.json["references"]] == ["the runtime's own kernels", "this machine"]
    stored = there.files()
    assert verified.json["model"]["sha256"] in stored
    again = user.types("bench", model, *ON, "--runs", "3")
    assert (again.code, again.err) == (0, "")
    assert there.files() == stored


def test_a_bundle_is_carried_out(user: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edgedeploy_kernels, "library", library_with_test_kernels)
    model = random_dag(12, 20, "float32")
    assert write_bundle(scattered(model, "rpi5", 12), model, tmp_path / "bundle", overwrite=False).manifest.runnable
    found = user.types("bench", str(tmp_path / "bundle"), *ON, "--runs", "20", "--json")
    assert found.code == 0, found.err
    [delegate] = found.json["runtime"]["delegates"]
    assert (delegate["partitions"] > 0, delegate["as_planned"]) == (True, True)
    verified = user.types("verify", str(tmp_path / "bundle"), *ON, "--json")
    assert verified.code == 0, verified.err
    assert verified.json["runtime"]["delegates"] == [delegate]


def test_a_second_client_is_told_who_measures_or_waits(there: Ready, user: Account) -> None:
    with reach("pi") as session:
        events = session.measure(Settings(KWS, threads=1))
        next(event for event in events if event.WhichOneof("event") == "batch")
        told = user.types("bench", str(KWS), *ON)
        assert (told.code, told.out) == (4, "")
        assert re.fullmatch(r"edgedeploy: error: pi: \S+ \(process \d+\) measures there, for \d+ s now\n", told.err)
        waiting = (*COMMAND, "bench", str(KWS), *ON, "--runs", "3", "--wait", "-q")
        with subprocess.Popen(waiting, env=there.environment, stdout=-1, stderr=-1, text=True) as other:
            ending = threading.Timer(5, events.close)
            ending.start()
            out, err = other.communicate(timeout=120)
            ending.join()
        assert (other.returncode, err) == (0, "")
        assert "dscnn_kws" in out
