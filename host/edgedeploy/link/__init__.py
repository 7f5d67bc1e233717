# SPDX-License-Identifier: Apache-2.0
"""How the host reaches a machine: run a command on it, move files, reach its ports. A `Link` is one open way to it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol


class LinkError(Exception):
    """The machine is not usable. The message is one line: what, where, what to do."""

    exit_code: ClassVar[int] = 4


class Unreachable(LinkError):
    """No connection: no such host, refused, or no answer in time."""


class HostKeyUnknown(LinkError):
    """The machine's key is in no known_hosts file."""


class HostKeyChanged(LinkError):
    """The machine shows another key than the known one."""


class AuthenticationFailed(LinkError):
    """The machine took none of the user's keys."""


class LinkTimeout(LinkError):
    """Connected, but no answer in time."""


class LinkLost(LinkError):
    """The connection, or the program at its other end, is gone."""


class Finished(NamedTuple):
    """How a command ended. ``code`` is negative for the signal that killed it."""

    code: int
    stdout: bytes
    stderr: bytes


def ended(code: int) -> str:
    """An exit code (negative: the signal) in words."""
    if code >= 0:
        return f"it ended with code {code}"
    known = {number.value: number.name for number in signal.Signals}
    return f"it was killed by {known.get(-code, f'signal {-code}')}"


class Process(Protocol):
    """A program on the machine, with pipes."""

    def write(self, data: bytes) -> None:
        """Write to its stdin; raises LinkLost if it does not read any more."""

    def close_stdin(self) -> None: ...

    def read_line(self, timeout_s: float) -> str:
        """The next line of its stdout, without the end. Raises LinkTimeout; LinkLost at the end of the output."""

    def stderr_tail(self) -> str:
        """The last lines it wrote on stderr, so far."""

    def poll(self) -> int | None:
        """Its exit code (negative: the signal), None while it runs."""

    def why_ended(self, timeout_s: float) -> str:
        """In words: how it ended, or that the connection did; empty if neither is known after ``timeout_s``."""

    def stop(self) -> None:
        """End it and what it started. Safe to call again."""


class Link(Protocol):
    """One machine, for as long as it is needed. Every method raises `LinkError`."""

    name: str

    def run(self, command: str, *, input: bytes = b"", timeout_s: float = 30) -> Finished:  # noqa: A002
        """Run a shell command to its end; raises LinkTimeout and ends it after ``timeout_s``."""

    def start(self, command: str) -> Process:
        """Start a shell command; whoever starts it stops it."""

    def forward(self, port: int) -> int:
        """A port of this machine's loopback that leads to the machine's 127.0.0.1:``port``."""

    def push(self, source: Path, target: str, progress: Callable[[int], None] | None = None) -> None:
        """Copy a file there; ``target`` appears whole or not at all. ``progress`` gets the bytes copied so far."""

    def pull(self, path: str) -> bytes:
        """A file's content."""

    def close(self) -> None: ...
