# SPDX-License-Identifier: Apache-2.0
"""known_hosts means what ``ssh-keygen -F`` says that it means."""

from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedeploy.link.known_hosts import add, fingerprint, known
from support.sshd import make_key

NAMES = ("board", "[board]:2222", "10.0.0.7", "a.lab", "not.lab", "[10.0.0.7]:23", "gate")


@pytest.fixture
def key(tmp_path: Path) -> str:
    if not shutil.which("ssh-keygen"):
        pytest.skip("no ssh-keygen here: make system-deps")
    return " ".join((make_key(tmp_path / "key").with_suffix(".pub")).read_text().split()[:2])


def test_lines_speak_of_the_hosts_that_openssh_finds(key: str, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    lines = ("board", "[board]:2222,10.0.0.7", "*.lab,!not.lab", "[10.0.0.*]:23", "other?name", "GATE")
    file.write_text("# a comment\n\nnonsense\n" + "".join(f"{line} {key} who@where\n" for line in lines))
    hashed = tmp_path / "hashed"
    hashed.write_text("".join(f"{name} {key}\n" for name in NAMES[:3]))
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(hashed)], check=True, capture_output=True)
    assert "board" not in hashed.read_text()
    found = 0
    for path in (file, hashed):
        for name in NAMES:
            command = ["ssh-keygen", "-F", name, "-f", str(path)]
            said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            wanted = [int(line.split()[-1]) for line in said.splitlines() if line.startswith("#")]
            assert [entry.line for entry in known([path], name)] == wanted, (path, name)
            found += len(wanted)
    assert found > 6


def test_fingerprints_are_openssh_s(key: str, tmp_path: Path) -> None:
    said = subprocess.run(["ssh-keygen", "-l", "-f", str(tmp_path / "key")], capture_output=True, text=True, check=True)
    assert fingerprint(base64.b64decode(key.split()[1])) == said.stdout.split()[1]


@pytest.mark.parametrize("hashed", [True, False])
def test_what_is_added_is_found_by_openssh(hashed: bool, key: str, tmp_path: Path) -> None:
    file = tmp_path / "new" / "known_hosts"
    kind, text = key.split()
    add(file, "[board]:2222", kind, base64.b64decode(text), hashed=hashed)
    file.write_text(file.read_text().rstrip("\n"))  # a file whose last line has no end
    add(file, "gate", kind, base64.b64decode(text), hashed=hashed)
    for name in ("[board]:2222", "gate"):
        subprocess.run(["ssh-keygen", "-F", name, "-f", str(file)], check=True, capture_output=True)
    assert ("board" in file.read_text()) != hashed
    assert file.stat().st_mode & 0o077 == 0


def test_revoked_keys_are_told_apart(key: str, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"@revoked * {key}\n@cert-authority * {key}\nboard {key}\n")
    assert [(entry.line, entry.revoked) for entry in known([file], "board")] == [(1, True), (3, False)]


@given(st.binary(max_size=200))
def test_any_file_can_be_read(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any"
    file.write_bytes(b"|1|x|y ssh-ed25519 AAAA\n|1|AAAA ssh-ed25519 !!\n" + content)
    known([file, file.with_name("missing")], "board")
