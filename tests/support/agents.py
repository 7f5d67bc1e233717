# SPDX-License-Identifier: Apache-2.0
"""Sessions with an agent on this machine for tests, and what must not be left of them."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from edgedeploy.link.local import LocalLink, LocalProcess
from edgedeploy.measure.session import Session, session


class Watched(LocalLink):
    """A link that remembers what it started."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[LocalProcess] = []

    def start(self, command: str) -> LocalProcess:
        self.started.append(super().start(command))
        return self.started[-1]

    @property
    def agent(self) -> int:
        """Process id."""
        return self.started[-1].pid


def command(folder: Path, *, root: Path | str = "/") -> str:
    """Of an agent with its files, and the lock, in ``folder``."""
    program = [
        sys.executable,
        "-P",
        "-m",
        "edgedeploy_agent.server",
        "--folder",
        f"{folder}/store",
        "--root",
        str(root),
    ]
    return f"TMPDIR={shlex.quote(str(folder))} exec {shlex.join(program)}"


@contextlib.contextmanager
def agent(folder: Path, *, link: Watched | None = None, shares_files: bool = True) -> Iterator[Session]:
    with session(link or Watched(), command(folder), shares_files=shares_files) as opened:
        yield opened
