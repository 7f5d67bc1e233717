# SPDX-License-Identifier: Apache-2.0
"""The emulated board for the tests in this folder, which are skipped where it cannot be made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgedeploy_profiles.load import load_core
from support.accounts import Account, account
from support.ready import Ready, copied, ready
from support.remains import left, ports
from support.sshd import server_program
from support.userland import CACHE, Userland


@pytest.fixture(scope="session")
def there(board: Userland, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ready]:
    """A board of a Cortex-A76 that was set up once."""
    try:
        server_program()
        with ready(board, load_core("cortex-a76"), tmp_path_factory.mktemp("ready")) as made:
            yield made
    except LookupError as error:
        pytest.skip(str(error))


@pytest.fixture
def user(
    there: Ready, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Account]:
    """A user of that board, who finds nothing of what others did there, and leaves nothing but models."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE))
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # the lock of this machine is not that of others who test on it
    made = account(tmp_path / "user", there.key, monkeypatch, capsys)
    copied(there, made.home)
    assert left(there.server, there.programs) == []
    before = ports()
    yield made
    assert left(there.server, there.programs) == []
    assert ports() == before
