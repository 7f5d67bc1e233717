# SPDX-License-Identifier: Apache-2.0
"""Settings for all tests."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from support.userland import Userland, userland

settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a terminal or a user's own profiles would change."""
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-config"))


@pytest.fixture(scope="session")
def board() -> Userland:
    """The emulated board; where it cannot be made, what asks for it is skipped."""
    try:
        return userland()
    except LookupError as error:
        pytest.skip(f"no emulated board: {error}")
