# SPDX-License-Identifier: Apache-2.0
"""The emulated board for the tests in this folder, which are skipped where it cannot be made."""

from __future__ import annotations

import pytest

from support.userland import Userland, userland


@pytest.fixture(scope="session")
def board() -> Userland:
    try:
        return userland()
    except LookupError as error:
        pytest.skip(f"no emulated board: {error}")
