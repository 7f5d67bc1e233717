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
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    found: list[int] = []
    todo = [pid]
    while todo:
        todo += (children := parents.get(todo.pop(), []))
        found += children
    return found


def children(parent: int) -> list[int]:
    """Processes that ``parent`` started and that still are."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, ppid = status.read_text().rpartition(") ")[2].split()[:2]
            if int(ppid) == parent and state != "Z":
                found.append(int(status.parent.name))
    return found


def command_line(pid: int) -> str:
    """With a space after each word; empty if the process has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def command_lines() -> dict[int, str]:
    """Of every process that has one, as a zombie has not, by its number."""
    pids = (int(place.name) for place in Path("/proc").glob("[0-9]*"))
    return {pid: line for pid in pids if (line := command_line(pid))}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def ends(*pids: int, within_s: float = 5.0) -> bool:
    """Do all of them end in time?"""
    until = time.monotonic() + within_s
    while any(map(alive, pids)):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Also one that has ended by itself meanwhile: its parent was killed before it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
