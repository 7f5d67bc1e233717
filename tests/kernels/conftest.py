# SPDX-License-Identifier: Apache-2.0
"""What the tests in this folder need, or why they are skipped without it."""

from __future__ import annotations

import os

import pytest

from edgedeploy_profiles.load import load_core
from support.runtimes import Runtime
from support.userland import Userland

COUNT = int(os.environ.get("KERNEL_CASES", "40"))
"""Cases of each op that a test takes; ``make kernels-test`` takes more."""


@pytest.fixture(scope="session")
def emulated(board: Userland) -> Runtime:
    """The runtime of an emulated board with Cortex-A76 cores."""
    return board.runtime(load_core("cortex-a76"))
