# SPDX-License-Identifier: Apache-2.0
"""What is left on an emulated board, and on this machine, of a command that has ended: there should be nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from support.accounts import soon
from support.board import GOVERNORS
from support.processes import command_lines
from support.sshd import Sshd

_LISTENS = "0A"


def processes(programs: Path, word: str = "") -> list[int]:
    """Processes of the board that has these programs whose command line has ``word``, whoever their parents are."""
    view = f"{programs.with_name('view')}"
    return [pid for pid, line in command_lines().items() if view in line and word in line]


def ports() -> set[int]:
    """On which this process listens."""
    mine = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            mine.add(os.readlink(descriptor))
    found = set()
    for family in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{family}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTENS and f"socket:[{words[9]}]" in mine:
                found.add(int(words[1].rpartition(":")[2], 16))
    return found


def is_locked(programs: Path) -> bool:
    """Does somebody measure there? By the name of the agent's lock."""
    place = programs.with_name("tmp").stat()
    return f"@edgedeploy-measuring-{place.st_dev:x}-{place.st_ino:x}" in Path("/proc/net/unix").read_text()


def governors(programs: Path) -> set[str]:
    policies = programs.with_name("view").glob("sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
    return {policy.read_text().strip() for policy in policies}


def left(server: Sshd, programs: Path) -> list[str]:
    """What is still there of the commands that used the board, after a while; of its store only parts of files."""
    soon(lambda: not any(_left(server, programs)), within_s=30)
    return list(_left(server, programs))


def _left(server: Sshd, programs: Path) -> Iterator[str]:
    lines = command_lines()
    for pid in {*processes(programs), *server.sessions()}:
        yield f"process {pid}: {lines.get(pid, '')}"
    if is_locked(programs):
        yield "the lock"
    if governors(programs) != {GOVERNORS[0]}:
        yield f"governors {governors(programs)}"
    files = [*programs.with_name("tmp").iterdir(), *server.home.rglob("*.part-*"), *server.home.rglob("*.core")]
    yield from map(str, files)
