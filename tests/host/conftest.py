# SPDX-License-Identifier: Apache-2.0
"""OpenSSH servers on this machine, and somebody who logs in to them; skipped where there is no OpenSSH."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.accounts import Account, account
from support.sshd import Sshd, make_key, server_program, sshd


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        server_program()
    except LookupError as error:
        pytest.skip(str(error))
    return make_key(tmp_path_factory.mktemp("keys") / "id_ed25519")


@pytest.fixture(scope="module")
def server(key: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("server"), key) as running:
        yield running


@pytest.fixture(scope="module")
def gate(key: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("gate"), key) as running:
        yield running


@pytest.fixture
def user(key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Account:
    return account(tmp_path / "user", key, monkeypatch, capsys)
