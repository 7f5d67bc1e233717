# SPDX-License-Identifier: Apache-2.0
"""What a device's agent tells of it, beyond what its shell does: clocks, memory for devices, what NPUs need."""

from __future__ import annotations

from typing import Any

from edgedeploy.link import Link
from edgedeploy.measure.messages import plain
from edgedeploy.measure.session import session
from edgedeploy_profiles import backend_names, load_backend
from edgedeploy_protos import agent_pb2


def details(link: Link, command: str) -> dict[str, Any]:
    """The protocol's Device by field names, of the agent that ``command`` starts. Raises LinkError, ProfileError."""
    with session(link, command) as opened:
        return plain(opened.probe([software(name) for name in backend_names()]))


def software(name: str) -> Any:
    """The protocol's Software: what the table of a back end says to look for, first of all its library."""
    backend = load_backend(name)
    wanted = backend.software
    libraries = {backend.library: "", **wanted.libraries}
    return agent_pb2.Software(
        backend=name,
        nodes=wanted.nodes,
        drivers=wanted.drivers,
        driver_versions=wanted.driver_versions,
        libraries=[agent_pb2.Library(name=library, version=version) for library, version in libraries.items()],
    )
