# SPDX-License-Identifier: Apache-2.0
"""Whatever is killed in mid-run, on the emulated arm64 board or here, and when: a result, and nothing is left of it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from support.accounts import Account, soon
from support.board import GOVERNORS
from support.processes import command_line, descendants, kill
from support.ready import COMMAND, Ready
from support.remains import governors, is_locked, left, processes

pytestmark = pytest.mark.board

KWS = Path(__file__).parents[2] / "examples" / "dscnn_kws.int8.tflite"
BENCH = ("bench", str(KWS), "--on", "pi", "--threads", "1")

Victims = Callable[[Ready], list[int]]


def of_the_agent(module: str) -> Victims:
    """Only Python itself: the shells that started it have its name in their command line, too."""
    return lambda there: processes(there.programs, f"/usr/bin/python3 -m edgedeploy_agent.{module}")


def of_the_board(program: str) -> Victims:
    return lambda there: processes(there.programs, f"/bin/{program} ")


def the_session(there: Ready) -> list[int]:
    """The SSH server's processes for this connection."""
    return [p for p in descendants(there.server.process.pid) if "sshd: " in command_line(p)]


ENDED = "edgedeploy: error: pi: the agent was told to end\n"
CASES: dict[str, tuple[Victims, int, str]] = {
    "worker": (of_the_agent("worker"), 6, "killed by SIGKILL, as the kernel does when the memory of the machine runs"),
    "agent": (of_the_agent("server"), 4, "error: pi: the agent is gone: it was killed by SIGKILL\n"),
    "session": (the_session, 4, "error: pi: the agent is gone: the connection was lost\n"),
    "shells": (of_the_board("sh"), 4, ENDED),
    "its watcher": (of_the_board("cat"), 4, ENDED),
}  # fmt: skip


@pytest.fixture
def running(there: Ready, user: Account) -> subprocess.Popen[str]:
    """A bench that would go on for long, with the governor set."""
    del user
    command = [*COMMAND, *BENCH, "--min-time", "600", "--set-governor", GOVERNORS[1]]
    started = subprocess.Popen(command, env=there.environment, text=True, stdout=-1, stderr=-1)
    assert soon(lambda: GOVERNORS[1] in governors(there.programs), within_s=60)
    assert is_locked(there.programs)
    return started


@pytest.mark.parametrize("who", CASES)
def test_a_process_of_the_board_that_is_killed_is_a_result(
    there: Ready, user: Account, running: subprocess.Popen[str], who: str
) -> None:
    victims, code, words = CASES[who]
    time.sleep(Random(who).uniform(0, 4))
    assert soon(lambda: bool(victims(there)))
    for process in victims(there):
        kill(process)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (code, "")
    assert words in err
    assert len(err.splitlines()) == 1
    assert left(there.server, there.programs) == []
    again = user.types(*BENCH, "--runs", "3", "--json")
    assert (again.code, again.err) == (0, "")


@pytest.mark.parametrize("after_s", [0, 2])
def test_the_command_that_is_killed_leaves_nothing(
    there: Ready, user: Account, running: subprocess.Popen[str], after_s: float
) -> None:
    time.sleep(after_s)
    kill(running.pid)
    assert running.communicate() == ("", "")
    assert left(there.server, there.programs) == []
    assert user.types(*BENCH, "--runs", "3").code == 0
