# SPDX-License-Identifier: Apache-2.0
"""Does this machine have what it takes, does a device? One check after the other, none stops the next."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from edgedeploy.devices.probe import Facts, probe
from edgedeploy.devices.reach import linked
from edgedeploy.devices.registry import Device, Registry
from edgedeploy.devices.runtimes import choose
from edgedeploy.devices.wheels import pip_command
from edgedeploy.link import Link, LinkError
from edgedeploy.text import plural, size


class Check(NamedTuple):
    """``ok`` is None where nothing is wrong, but something is worth knowing."""

    name: str
    ok: bool | None
    detail: str
    fix: str = ""


def host(registry: Registry) -> Iterator[Check]:
    """What this machine needs to use devices."""
    yield Check("edgedeploy", True, f"{metadata.version('edgedeploy')} on Python {platform.python_version()}")
    yield Check("runtime", True, f"ai-edge-litert {metadata.version('ai-edge-litert')}, for 'local'")
    try:
        yield Check("pip", True, f"{' '.join(pip_command())}, gets wheels for devices")
    except LinkError as error:
        yield Check("pip", None, str(error), "or give wheels with --wheels DIR")
    try:
        yield Check("devices", True, f"{plural(len(registry.devices()), 'device')} in {registry.path}")
    except LinkError as error:
        yield Check("devices", False, str(error))
    yield _keys()


def _keys() -> Check:
    """Is there a key to log in with?"""
    import paramiko

    agent = paramiko.Agent()
    count = len(agent.get_keys())
    agent.close()
    files = [path for kind in ("ed25519", "ecdsa", "rsa") if (path := Path.home() / ".ssh" / f"id_{kind}").exists()]
    loose = [path for path in files if os.stat(path).st_mode & (stat.S_IRWXG | stat.S_IRWXO)]
    if loose:
        return Check("keys", None, f"{loose[0]} can be read by others", f"chmod 600 {loose[0]}")
    if not (count or files):
        return Check("keys", None, "no SSH key in ~/.ssh and none in an agent", "ssh-keygen -t ed25519")
    return Check("keys", True, f"{plural(count, 'key')} in the agent, {plural(len(files), 'key file')}")


def device(registry: Registry, name: str, registered: Device) -> Iterator[Check]:
    """What the device ``name`` needs; nothing is changed on it."""
    try:
        with linked(registry, name, registered) as link:
            yield Check("connection", True, f"{registered.target} answers")
            facts = probe(link, registered.remote_dir)
            yield from _usable(facts)
            yield _forwarding(link)
            yield from _store(link, registered, facts)
    except LinkError as error:
        yield Check("connection", False, str(error))


def _usable(facts: Facts) -> Iterator[Check]:
    yield Check(
        "system",
        not facts.problem,
        facts.problem or f"{facts.machine}, {facts.libc} {'.'.join(map(str, facts.libc_version))}",
    )
    for lack in facts.missing:
        yield Check("lacks", False, lack)
    if facts.problem or facts.missing:
        return
    try:
        runtime, python = choose(facts)
        yield Check("runtime", True, f"{runtime} fits {python.path}")
    except LinkError as error:
        yield Check("runtime", False, str(error))


def _forwarding(link: Link) -> Check:
    try:
        link.forward(1)  # nobody listens: it is about whether one may ask
    except LinkError as error:
        refused = "forbids" in str(error)
        return Check("forwarding", not refused, str(error) if refused else "allowed by its SSH server")
    return Check("forwarding", True, "allowed by its SSH server")


def _store(link: Link, registered: Device, facts: Facts) -> Iterator[Check]:
    setup = registered.setup
    if setup is None:
        yield Check("setup", None, "nothing is on it yet", f"edgedeploy device setup {link.name}")
        return
    there = link.run(" ".join(["for tree in", *setup.trees, f'; do [ -d {setup.folder}/"$tree" ] || exit 1; done']))
    free = next((folder.free_bytes for folder in facts.folders if folder.path == setup.folder), None)
    if there.code:
        yield Check("setup", False, f"{setup.folder} is not complete", f"edgedeploy device setup {link.name}")
    else:
        yield Check("setup", True, f"{setup.runtime} in {setup.folder}, {size(free)} free")
