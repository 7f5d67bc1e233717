# SPDX-License-Identifier: Apache-2.0
"""From a device's name to an open link, and to the agent on it."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgedeploy.devices.registry import LOCAL, Device, Registry, user_registry
from edgedeploy.link import Link, LinkError
from edgedeploy.link.local import LocalLink
from edgedeploy.output import say

if TYPE_CHECKING:
    from edgedeploy.link.ssh import SshLink

LOCAL_COMMAND = f"exec {shlex.quote(sys.executable)} -P -m edgedeploy_agent.server"


@contextlib.contextmanager
def reached(name: str) -> Iterator[tuple[Link, str]]:
    """A link to the device ``name`` and the command that starts this program's agent there.

    Raises UnknownDevice; LinkError if it cannot be reached or nothing was ever put on it.
    """
    if name == LOCAL:
        yield LocalLink(), LOCAL_COMMAND
        return
    from edgedeploy.devices.setup import renewed

    registry = user_registry()
    device = registry.get(name)
    with linked(registry, name, device) as link:
        yield link, renewed(link, registry, name, device).command


@contextlib.contextmanager
def linked(
    registry: Registry, name: str, device: Device, *, fix: str = "", accept_new: bool = False
) -> Iterator[SshLink]:
    """An open link; ``fix`` is the command that the user is told for a host key that is not known. Raises LinkError."""
    from edgedeploy.link.ssh import SshLink
    from edgedeploy.link.ssh_config import parse_target
    from edgedeploy.link.ssh_connect import Trust

    try:
        target = parse_target(device.target)
    except ValueError as error:
        raise LinkError(f"{name}: {error}") from error
    trust = Trust(fix or f"edgedeploy device probe {name} --accept-new", accept_new, say)
    link = SshLink(name, target, registry.known_hosts, trust)
    try:
        yield link
    finally:
        link.close()
