# SPDX-License-Identifier: Apache-2.0
"""An agent on this machine, with its files and the lock in a folder of the test's."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from edgedeploy.measure.session import Session
from support import agents, processes


@pytest.fixture
def link() -> agents.Watched:
    return agents.Watched()


@pytest.fixture
def opened(tmp_path: Path, link: agents.Watched) -> Generator[Session, None, None]:
    with agents.agent(tmp_path, link=link) as session:
        yield session
    assert processes.ends(link.agent)
