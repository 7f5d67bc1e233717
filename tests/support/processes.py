# SPDX-License-Identifier: Apache-2.0
"""Processes of this machine, any of which may end while it is looked at."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """Of a process that runs, by what /proc says."""
    found: list[int] = []
    todo, parents = [pid], {child: parent for child, (_, parent) in _stats().items()}
    while todo:
        parent = todo.pop()
        todo += (own := [child for child, its in parents.items() if its == parent])
        found += own
    return found


def children(pid: int) -> list[int]:
    """Processes that ``pid`` started and that still are."""
    return [child for child, (state, parent) in _stats().items() if parent == pid and state != "Z"]


def alive(pid: int) -> bool:
    return (stat := _stat(pid)) is not None and stat[0] != "Z"


def _stats() -> dict[int, tuple[str, int]]:
    pids = (int(place.name) for place in Path("/proc").glob("[0-9]*"))
    return {pid: stat for pid in pids if (stat := _stat(pid)) is not None}


def _stat(pid: int) -> tuple[str, int] | None:
    """State and parent; None if the process has ended."""
    with contextlib.suppress(OSError):
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[:2]
        return state, int(parent)
    return None


def command_line(pid: int) -> str:
    """With a space after each word; empty if the process has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def command_lines() -> dict[int, str]:
    """Of every process that has one, as a zombie has not, by its number."""
    pids = (int(place.name) for place in Path("/proc").glob("[0-9]*"))
    return {pid: line for pid in pids if (line := command_line(pid))}


def ends(*pids: int, within_s: float = 5.0) -> bool:
    """Do all of them end in time?"""
    until = time.monotonic() + within_s
    while any(map(alive, pids)):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Signal one that may have ended meanwhile, by itself or with its parent."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
