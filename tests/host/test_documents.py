# SPDX-License-Identifier: Apache-2.0
"""What the documents show is what the commands print. ``make docs`` pastes it again."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from edgedeploy.cli import app
from support.documents import DOCUMENTS, ROOT, output_of, refreshed, shown

BLOCKS = [(name, *block) for name in DOCUMENTS for block in shown((ROOT / name).read_text())]


@pytest.mark.parametrize(("document", "command", "printed"), BLOCKS, ids=[f"{b[0]}:{b[1]}" for b in BLOCKS])
def test_a_block_shows_what_the_command_prints(document: str, command: str, printed: str) -> None:
    del document
    assert printed == output_of(command)


def test_every_command_is_shown() -> None:
    commands = {command for document, command, _ in BLOCKS if document == "docs/cli.md"}
    modules = {path.stem for path in (ROOT / "host/edgedeploy/commands").glob("[!_]*.py")}
    assert commands == {f"edgedeploy {name} --help".replace("  ", " ") for name in ("", *modules, *_in_groups())}
    assert any(document == "README.md" for document, _, _ in BLOCKS)


def _in_groups() -> Iterator[str]:
    for group in app.registered_groups:
        assert group.typer_instance is not None
        for command in group.typer_instance.registered_commands:
            assert command.callback is not None
            yield f"{group.name} {command.name or command.callback.__name__}"


def test_blocks_are_found_and_pasted() -> None:
    text = "a\n```console\n$ edgedeploy --version\nold\n```\nb\n"
    assert list(shown(text)) == [("edgedeploy --version", "old\n")]
    assert re.fullmatch(r"a\n```console\n\$ edgedeploy --version\nedgedeploy [\d.]+\n```\nb\n", refreshed(text))


def test_links_lead_somewhere() -> None:
    for name in DOCUMENTS:
        path = ROOT / name
        links = re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text())
        assert not [link for link in links if not (path.parent / link).exists()]
