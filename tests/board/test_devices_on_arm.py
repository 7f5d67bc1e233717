# SPDX-License-Identifier: Apache-2.0
"""An emulated arm64 board behind a real SSH server, from ``device add`` to the runtime that it then has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgedeploy.devices.reach import reached
from edgedeploy_profiles.load import load_core
from support.accounts import Account, account
from support.board import COMPATIBLE, MODEL
from support.board import board as serve
from support.processes import command_line
from support.sshd import Sshd, make_key, server_program, sshd
from support.userland import BOOKWORM, CACHE, OTHERS, Userland, userland

pytestmark = pytest.mark.board


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Account:
    try:
        server_program()
    except LookupError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE))  # the wheels are got once
    return account(tmp_path / "user", make_key(tmp_path / "key"), monkeypatch, capsys)


@pytest.fixture(params=(BOOKWORM, *OTHERS), ids=lambda release: release.suite)
def machine(request: pytest.FixtureRequest) -> Userland:
    try:
        return userland(request.param, make=request.param == BOOKWORM)
    except LookupError as error:
        pytest.skip(f"no emulated board: {error}")


@pytest.fixture
def server(machine: Userland, user: Account, tmp_path: Path) -> Iterator[Sshd]:
    with serve(machine, load_core("cortex-a76"), tmp_path / "board", user.key) as running:
        yield running


@pytest.fixture
def gate(user: Account, tmp_path: Path) -> Iterator[Sshd]:
    with sshd(tmp_path / "gate", user.key) as running:
        yield running


RUNTIMES = {"3.9": "ai-edge-litert==2.1.0", "3.11": "ai-edge-litert==2.3.0", "3.13": "ai-edge-litert==2.3.0"}


def test_a_board_behind_a_jump_host_is_named_set_up_and_used(
    user: Account, machine: Userland, server: Sshd, gate: Sshd
) -> None:
    user.configure(
        f"Host gate\n HostName 127.0.0.1\n Port {gate.port}\n"
        f"Host board\n HostName 127.0.0.1\n Port {server.port}\n ProxyJump gate\n"
    )
    refused = user.types("device", "add", "pi", "board")
    assert refused.code == 4
    assert "pi: jump host gate" in refused.err
    added = user.types("device", "add", "pi", "board", "--accept-new", "--json")
    assert added.code == 0, added.err
    facts = added.json["facts"]
    assert (facts["machine"], facts["model"], facts["compatible"]) == ("aarch64", MODEL, list(COMPATIBLE))
    assert added.json["board"] == "rk3588"

    done = user.types("device", "setup", "pi", "--json", "-q")
    if "Could not find a version" in done.err or "Connection" in done.err:
        pytest.skip("the wheels of the board's runtime cannot be got")
    assert done.code == 0, done.err
    assert done.json["setup"]["runtime"] == RUNTIMES[machine.release.python]
    assert len(done.json["sent"]) == len(done.json["setup"]["trees"])
    assert user.types("device", "setup", "pi", "--json", "-q").json["sent"] == []
    assert user.types("doctor", "pi").code == 0

    with reached("pi") as (link, command):
        what = "platform, ai_edge_litert, grpc; print(platform.machine(), ai_edge_litert.__file__, grpc.__file__)"
        process = link.start(command.replace("-m edgedeploy_agent.server", f"-c 'import {what}'"))
        architecture, *files = process.read_line(60).split()
        process.stop()
    assert architecture == "aarch64"
    assert all(file.startswith(f"{server.home}/.local/share/edgedeploy/") for file in files)
    assert user.types("device", "clean", "pi").code == 0
    assert not list((server.home / ".local/share").iterdir())
    assert not [pid for pid in server.sessions() if _is_emulated(pid)]


def _is_emulated(pid: int) -> bool:
    return "qemu-aarch64" in command_line(pid)
