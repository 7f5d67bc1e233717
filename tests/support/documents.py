# SPDX-License-Identifier: Apache-2.0
"""Commands shown in the documents, with what they print. ``python -m support.documents`` pastes it again."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "docs/cli.md", "docs/devices.md", "docs/memory.md", "docs/virtual-board.md")
BLOCK = re.compile(r"^```console\n\$ (edgedeploy[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shown(text: str) -> Iterator[tuple[str, str]]:
    """(command, what it is said to print) of every block of ``text``."""
    return ((match[1], match[2]) for match in BLOCK.finditer(text))


def output_of(command: str) -> str:
    """What ``command`` prints to a pipe, run in the repository's root."""
    arguments = [sys.executable, "-m", "edgedeploy", *shlex.split(command)[1:]]
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(
        arguments, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    return done.stdout + done.stderr


def refreshed(text: str) -> str:
    """``text`` with every block's output made new."""
    return BLOCK.sub(lambda match: f"```console\n$ {match[1]}\n{output_of(match[1])}```", text)


if __name__ == "__main__":
    for name in DOCUMENTS:
        path = ROOT / name
        path.write_text(refreshed(path.read_text()))
