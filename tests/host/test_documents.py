# SPDX-License-Identifier: Apache-2.0
"""What the documents show is what the commands print. ``make docs`` pastes it again."""

from __future__ import annotations

import re

import pytest

from support.documents import DOCUMENTS, ROOT, output_of, refreshed, shown

BLOCKS = [(name, *block) for name in DOCUMENTS for block in shown((ROOT / name).read_text())]


@pytest.mark.parametrize(("document", "command", "printed"), BLOCKS, ids=[f"{b[0]}:{b[1]}" for b in BLOCKS])
def test_a_block_shows_what_the_command_prints(document: str, command: str, printed: str) -> None:
    del document
    assert printed == output_of(command)


def test_every_command_is_shown() -> None:
    commands = {command for document, command, _ in BLOCKS if document == "docs/cli.md"}
    modules = {path.stem for path in (ROOT / "host/edgedeploy/commands").glob("[!_]*.py")}
    assert commands == {"edgedeploy --help", *(f"edgedeploy {name} --help" for name in modules)}
    assert any(document == "README.md" for document, _, _ in BLOCKS)


def test_blocks_are_found_and_pasted() -> None:
    text = "a\n```console\n$ edgedeploy --version\nold\n```\nb\n"
    assert list(shown(text)) == [("edgedeploy --version", "old\n")]
    assert re.fullmatch(r"a\n```console\n\$ edgedeploy --version\nedgedeploy [\d.]+\n```\nb\n", refreshed(text))


def test_links_lead_somewhere() -> None:
    for name in DOCUMENTS:
        path = ROOT / name
        links = re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text())
        assert not [link for link in links if not (path.parent / link).exists()]
