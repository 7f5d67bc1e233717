# SPDX-License-Identifier: Apache-2.0
"""An emulated board that somebody has named ``pi`` and set up."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgedeploy_profiles.schema import Core
from support.board import another_server, programs
from support.sshd import Sshd, make_key
from support.userland import CACHE, Userland

COMMAND = (sys.executable, "-m", "edgedeploy")


@dataclass(frozen=True, slots=True)
class Ready:
    """``home`` is the user's, who reaches it as the host ``board``."""

    home: Path
    programs: Path
    server: Sshd

    @property
    def store(self) -> Path:
        return self.server.home / ".local/share/edgedeploy"

    @property
    def key(self) -> Path:
        return self.home / ".ssh/id_ed25519"

    @property
    def environment(self) -> dict[str, str]:
        """Of a process of the user's."""
        config = self.home / "config"
        own = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(config), "XDG_CACHE_HOME": str(CACHE)}
        return {**{name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"}, **own}

    def files(self) -> dict[str, int]:
        """Models and inputs on it, and when they were written."""
        return {file.name: file.stat().st_mtime_ns for file in (self.store / "files").glob("*")}


@contextlib.contextmanager
def ready(machine: Userland, core: Core, folder: Path) -> Iterator[Ready]:
    """Serve a board of ``core`` and set it up. Raises LookupError where the wheels cannot be got."""
    home, served = folder / "home", folder / "board"
    (home / ".ssh").mkdir(parents=True)
    served.mkdir()
    key = make_key(home / ".ssh/id_ed25519")
    made = programs(machine, core, served)
    with another_server(made, served, key) as server:
        (home / ".ssh/config").write_text(f"Host board\n HostName 127.0.0.1\n Port {server.port}\n")
        there = Ready(home, made, server)
        for arguments in (("add", "pi", "board", "--accept-new"), ("setup", "pi", "-q")):
            done = subprocess.run(
                [*COMMAND, "device", *arguments], env=there.environment, capture_output=True, text=True, check=False
            )
            if "Could not find a version" in done.stderr or "Connection" in done.stderr:
                raise LookupError(f"the wheels of the board's runtime cannot be got: {done.stderr}")
            assert done.returncode == 0, done.stderr
        yield there


def copied(there: Ready, home: Path) -> None:
    """Let the user of ``home`` know the device, too."""
    for name in (".ssh", "config"):
        shutil.copytree(there.home / name, home / name, dirs_exist_ok=True)
