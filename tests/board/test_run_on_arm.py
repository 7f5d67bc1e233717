# SPDX-License-Identifier: Apache-2.0
"""Models on an emulated arm64 board: measured and verified over SSH; those that do harm, and processes that are killed.

Times mean nothing here, and nothing is said of them.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgedeploy.measure.session import Settings
from edgedeploy.measure.targets import reach
from edgedeploy_profiles.load import load_core
from support import hostile
from support.accounts import Account, account
from support.agents import kill
from support.board import board as serve
from support.sshd import Sshd, make_key, server_program
from support.userland import CACHE, Userland

pytestmark = pytest.mark.board
EXAMPLES = Path(__file__).parents[2] / "examples"
KWS = EXAMPLES / "dscnn_kws.int8.tflite"
ON = ("--on", "pi", "--threads", "1")


@pytest.fixture
def server(
    board: Userland, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[tuple[Account, Sshd]]:
    """A board that is set up under the name ``pi``."""
    try:
        server_program()
    except LookupError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE))
    user = account(tmp_path / "user", make_key(tmp_path / "key"), monkeypatch, capsys)
    with serve(board, load_core("cortex-a76"), tmp_path / "board", user.key) as running:
        user.configure(f"Host board\n HostName 127.0.0.1\n Port {running.port}\n")
        assert user.types("device", "add", "pi", "board", "--accept-new").code == 0
        done = user.types("device", "setup", "pi", "-q")
        if "Could not find a version" in done.err or "Connection" in done.err:
            pytest.skip("the wheels of the board's runtime cannot be got")
        assert done.code == 0, done.err
        yield user, running


def emulated(server: Sshd, word: str) -> list[int]:
    """Processes of the board whose command line has ``word``."""
    found = []
    for process in server.sessions():
        with contextlib.suppress(OSError):
            if word.encode() in Path(f"/proc/{process}/cmdline").read_bytes():
                found.append(process)
    return found


def nothing_is_left(server: Sshd) -> bool:
    until = time.monotonic() + 10
    while emulated(server, "edgedeploy_agent") and time.monotonic() < until:
        time.sleep(0.1)
    return not emulated(server, "edgedeploy_agent")


def test_models_run_on_an_arm_board(server: tuple[Account, Sshd], tmp_path: Path) -> None:
    user, sshd = server
    found = user.types("bench", str(KWS), *ON, "--runs", "20", "--json")
    assert found.code == 0, found.err
    assert (found.json["device"], len(found.json["warm"]["samples_us"])) == ("pi", 20)
    assert found.json["runtime"]["xnnpack_ops"] == 11
    for name in ("unet_128.int8", "dscnn_kws.fp32", "dscnn_kws.fp16"):
        verified = user.types("verify", str(EXAMPLES / f"{name}.tflite"), *ON, "--json")
        assert verified.code == 0, verified.err
        assert [each["name"] for each in verified.json["references"]] == ["the runtime's own kernels", "this machine"]
    stored = {file.name: file.stat().st_mtime_ns for file in sshd.home.rglob("*") if len(file.name) == 64}
    assert user.types("verify", str(KWS), *ON, "-q").code == 0
    assert stored == {file.name: file.stat().st_mtime_ns for file in sshd.home.rglob("*") if len(file.name) == 64}

    harmful = tmp_path / "harm.tflite"
    for model, words in ((hostile.crashing(), "killed by SIG"), (hostile.endless(), "no sign of life within 20 s")):
        harmful.write_bytes(model.build())
        failed = user.types("bench", str(harmful), *ON, "--deadline", "20")
        assert failed.code == 6
        assert words in failed.err
        assert len(failed.err.splitlines()) == 1
    assert nothing_is_left(sshd)

    with reach("pi") as session:
        events = session.measure(Settings(KWS, threads=1))
        next(event for event in events if event.WhichOneof("event") == "batch")
        told = user.types("bench", str(KWS), *ON)
        assert (told.code, "measures there" in told.err) == (4, True)
        waiting = threading.Timer(1, events.close)
        waiting.start()
        assert user.types("bench", str(KWS), *ON, "--runs", "3", "--wait").code == 0
        waiting.join()
        for process in emulated(sshd, "edgedeploy_agent.server"):
            kill(process)
    assert nothing_is_left(sshd)
