# SPDX-License-Identifier: Apache-2.0
"""Does this machine have what it takes, does a device? One check after the other, none stops the next."""

from __future__ import annotations

import os
import platform
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any, NamedTuple, get_args

import edgedeploy_kernels
from edgedeploy import user
from edgedeploy.bundle import BUILD_LIBRARY, OWN_LIBRARY
from edgedeploy.devices.details import details
from edgedeploy.devices.probe import Facts, probe
from edgedeploy.devices.reach import linked
from edgedeploy.devices.registry import Device, Registry
from edgedeploy.devices.runtimes import choose
from edgedeploy.devices.wheels import pip_command
from edgedeploy.link import Link, LinkError
from edgedeploy.text import plural, size
from edgedeploy_agent.probe import installed_runtime
from edgedeploy_partitioner.plan import Machine
from edgedeploy_profiles import load_backend, load_board
from edgedeploy_profiles.schema import Backend, Board


class Check(NamedTuple):
    """``ok`` is None where nothing is wrong, but something is worth knowing."""

    name: str
    ok: bool | None
    detail: str
    fix: str = ""


def host(registry: Registry) -> Iterator[Check]:
    """What this machine needs to use devices."""
    yield Check("edgedeploy", True, f"{metadata.version('edgedeploy')} on Python {platform.python_version()}")
    runtime, problem = installed_runtime()
    named = runtime and f"{runtime['name']} {runtime['version']}, for 'local'"
    yield Check("runtime", runtime is not None, named or problem)
    yield _library()
    try:
        yield Check("pip", True, f"{' '.join(pip_command())}, gets wheels for devices")
    except LinkError as error:
        yield Check("pip", None, str(error), "or give wheels with --wheels DIR")
    try:
        yield Check("devices", True, f"{plural(len(registry.devices()), 'device')} in {registry.path}")
    except LinkError as error:
        yield Check("devices", False, str(error))
    yield _keys()


def _library() -> Check:
    """Can bundles have the delegate that carries out their plans?"""
    machines: tuple[Machine, ...] = get_args(Machine)
    lacks = [machine for machine in machines if edgedeploy_kernels.library(machine) is None]
    if lacks:
        return Check("library", None, f"no {OWN_LIBRARY} for {' and '.join(lacks)}, bundles lack it", BUILD_LIBRARY)
    return Check("library", True, f"{OWN_LIBRARY} for {' and '.join(machines)}, for bundles")


def _keys() -> Check:
    """Is there a key to log in with?"""
    import paramiko

    try:
        agent = paramiko.Agent()
        count = len(agent.get_keys())
        agent.close()
    except (paramiko.SSHException, OSError, EOFError) as error:
        return Check("keys", None, f"the ssh agent does not answer: {error or type(error).__name__}")
    files = [path for kind in ("ed25519", "ecdsa", "rsa") if (path := user.home() / ".ssh" / f"id_{kind}").exists()]
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
            if registered.setup and not (facts.problem or facts.missing):
                yield from _agent(link, registered)
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
    there = link.run(" && ".join(f"[ -d {shlex.quote(f'{setup.folder}/{tree}')} ]" for tree in setup.trees))
    free = next((folder.free_bytes for folder in facts.folders if folder.path == setup.folder), None)
    if there.code:
        yield Check("setup", False, f"{setup.folder} is not complete", f"edgedeploy device setup {link.name}")
    else:
        yield Check("setup", True, f"{setup.runtime} in {setup.folder}, {size(free)} free")


def _agent(link: Link, registered: Device) -> Iterator[Check]:
    """What only the agent sees. It is asked as it is there: another version is told, not replaced."""
    assert registered.setup is not None
    try:
        told = details(link, registered.setup.command)
    except LinkError as error:
        yield Check("agent", False, str(error))
        return
    runtime = told["runtime"]
    yield (
        Check("agent", True, f"starts, and has {runtime['name']} {runtime['version']}")
        if runtime
        else Check("agent", False, told["runtime_error"], f"edgedeploy device setup {link.name}")
    )
    yield from _condition(told)
    if registered.board:
        yield from npu_checks(load_board(registered.board), told)


def _condition(told: Mapping[str, Any]) -> Iterator[Check]:
    """What may spoil a measurement now."""
    slowed = [each["name"] for each in told["throttles"] if each["most"] and each["state"]]
    if slowed:
        yield Check("throttling", None, f"its CPUs are slowed down now: {', '.join(slowed)}", "let it cool down")
    unlike = sorted({c["governor"] for c in told["clusters"] if c["governor"] not in ("", "performance")})
    if unlike:
        yield Check(
            "clocks", None, f"governor {', '.join(unlike)}: times vary more", "bench --set-governor performance"
        )
    for source in told["sources"]:
        if source["problem"]:
            yield Check("unreadable", None, f"{source['origin']}, for {source['field']}: {source['problem']}")


def npu_checks(board: Board, told: Mapping[str, Any]) -> Iterator[Check]:
    """Does the device have what its board's NPU stacks need? ``told`` is the protocol's Device by field names."""
    for name, stack in board.stacks.items():
        backend = load_backend(stack.backend)
        parts = [part for part in told["npus"] if part["backend"] == stack.backend]
        kinds = {part["kind"] for part in parts}
        lacks = [words for kind, words in _PARTS.items() if kind not in kinds]
        if "library" in kinds and not any(_is_library(part["path"], backend.library) for part in parts):
            lacks.append(backend.library)
        versions = (
            f"{part['path']} {part['version'] or '(version unknown)'}" for part in parts if part["kind"] != "node"
        )
        found = ", ".join(versions)
        if lacks:
            what = f"its {name} stack has no {', no '.join(lacks)}"
            yield Check("NPU", None, f"{what}{f'; it has {found}' if found else ''}", "plans for it do not run there")
        else:
            yield Check("NPU", True, f"{name}: {found}")
        yield from _agreement(name, backend, parts)
        if told["ram"]["cma_bytes"] and any(part["iommu"] is False for part in parts):
            most = size(told["ram"]["cma_bytes"])
            yield Check("NPU", None, f"{name}: no IOMMU maps its memory, so all of it comes from CMA, {most}")


_PARTS = {"node": "device file", "library": "library"}


def _is_library(path: str, library: str) -> bool:
    file = os.path.basename(path)
    return file == library or file.startswith(f"{library}.")


def _agreement(name: str, backend: Backend, parts: Sequence[Mapping[str, Any]]) -> Iterator[Check]:
    """Is the library of the release whose table plans are made with? Their first two numbers have to agree."""
    table = _RELEASE.match(backend.sdk_version)
    for part in parts:
        there = _RELEASE.match(part["version"]) if _is_library(part["path"], backend.library) else None
        if table and there and table[0] != there[0] and backend.software.libraries.get(backend.library):
            detail = f"{name}: {backend.library} there is {part['version']}, plans are made for {backend.sdk_version}"
            yield Check("NPU", None, detail, "compile with the toolkit of the device's version, or update the device")


_RELEASE = re.compile(r"\d+\.\d+")
