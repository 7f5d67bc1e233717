# SPDX-License-Identifier: Apache-2.0
"""From a device's name to a session on it."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator

from edgedeploy.link.local import LocalLink
from edgedeploy.measure.errors import BadRequest
from edgedeploy.measure.session import Session, session

LOCAL = "local"


@contextlib.contextmanager
def reach(name: str) -> Iterator[Session]:
    """A session on the device ``name``. Raises BadRequest for one that is not known."""
    if name != LOCAL:
        raise BadRequest(f"no device {name!r}; known are: {LOCAL}")
    command = f"exec {shlex.quote(sys.executable)} -P -m edgedeploy_agent.server"
    with session(LocalLink(), command, shares_files=True) as opened:
        yield opened
