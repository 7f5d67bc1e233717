# SPDX-License-Identifier: Apache-2.0
"""Somebody who uses the command line: a home with a key in it, and what the commands answer."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from edgedeploy import __main__ as program
from edgedeploy.link import ssh_config
from edgedeploy.link.ssh import SshLink
from edgedeploy.link.ssh_config import parse_target
from edgedeploy.link.ssh_connect import Trust

SOON_S = 10.0


def soon(what: Callable[[], bool], within_s: float = SOON_S) -> bool:
    """Does it become true?"""
    deadline = time.monotonic() + within_s
    while not what() and time.monotonic() < deadline:
        time.sleep(0.05)
    return what()


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine, for one test; ``home`` is empty but for a key."""

    home: Path
    capture: pytest.CaptureFixture[str]
    accepted: list[str] = field(default_factory=list)
    """What was said of host keys that a link accepted."""

    @property
    def key(self) -> Path:
        return self.home / ".ssh" / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.home / ".ssh" / "known_hosts"

    def configure(self, text: str) -> None:
        (self.home / ".ssh" / "config").write_text(text)

    def knows(self, *lines: str) -> None:
        self.known_hosts.write_text("".join(lines))

    @contextlib.contextmanager
    def link(self, target: str, *, accept_new: bool = False) -> Iterator[SshLink]:
        trust = Trust("do this", accept_new, self.accepted.append)
        link = SshLink("pi", parse_target(target), self.home / "own", trust)
        try:
            yield link
        finally:
            link.close()

    def types(self, *arguments: str) -> Answer:
        """Run ``edgedeploy`` with these arguments."""
        self.capture.readouterr()
        code = program.main(arguments)
        return Answer(code, *self.capture.readouterr())


def account(home: Path, key: Path, monkeypatch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> Account:
    """Let ``home`` be the user's, and ``key`` the user's key."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("PATH", os.environ["PATH"] + ":/usr/sbin")
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr(ssh_config, "_SYSTEM", home)
    made = Account(home, capture)
    made.key.parent.mkdir(parents=True)
    for suffix in ("", ".pub"):
        shutil.copy(f"{key}{suffix}", f"{made.key}{suffix}")
    return made
