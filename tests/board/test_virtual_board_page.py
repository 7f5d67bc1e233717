# SPDX-License-Identifier: Apache-2.0
"""What docs/virtual-board.md has a reader type, typed on an emulated board: it works, and prints what is shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgedeploy_profiles.load import load_core
from support.accounts import account
from support.board import board as serve
from support.documents import ROOT
from support.sshd import make_key, server_program
from support.userland import CACHE, Userland

pytestmark = pytest.mark.board
PAGE = ROOT / "docs/virtual-board.md"
ADDRESS = "root@127.0.0.1:2222"
CODES = {"--require-valid": 5}
"""Exit codes that the page speaks of, by an option of the command; all others are 0."""
LABEL = re.compile(r"^  (?:ok|note|FAIL)?\s*([A-Za-z][\w ]*?)  +\S")


def typed() -> Iterator[tuple[str, str]]:
    """(command, what it prints) in the order of the page."""
    for block in re.findall(r"^```text\n\$ (.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        command, _, printed = block.partition("\n")
        yield command, printed


def labels(printed: str) -> set[str]:
    """What the lines of a report are called."""
    return {match[1] for line in printed.splitlines() if (match := LABEL.match(line))}


def test_the_page_shows_commands() -> None:
    commands = [command.split()[1] for command, _ in typed()]
    assert list(dict.fromkeys(commands)) == ["device", "doctor", "verify", "bench"]
    assert all(labels(printed) for command, printed in typed() if command.split()[1] in ("doctor", "verify"))


def test_what_the_page_has_one_type_works(
    board: Userland, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        server_program()
    except LookupError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE))
    monkeypatch.chdir(ROOT)
    user = account(tmp_path / "user", make_key(tmp_path / "key"), monkeypatch, capsys)
    with serve(board, load_core("cortex-a76"), tmp_path / "board", user.key) as running:
        for command, printed in typed():
            assert command.startswith("edgedeploy ")
            arguments = shlex.split(command.replace(ADDRESS, running.target))[1:]
            answer = user.types(*arguments)
            if "Could not find a version" in answer.err or "Connection" in answer.err:
                pytest.skip("the wheels of the board's runtime cannot be got")
            code = next((CODES[word] for word in arguments if word in CODES), 0)
            assert answer.code == code, (command, answer.err)
            assert labels(printed) <= labels(answer.out), command
