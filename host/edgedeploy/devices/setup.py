# SPDX-License-Identifier: Apache-2.0
"""Putting the agent, its wheels and a runtime on a device. Nothing is installed there: all runs from the store."""

from __future__ import annotations

import contextlib
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from edgedeploy.devices.probe import Facts, Folder, Python, Unusable, probe
from edgedeploy.devices.registry import Device, Registry, Setup
from edgedeploy.devices.runtimes import Runtime, choose
from edgedeploy.devices.store import Pipe, Store
from edgedeploy.devices.wheels import Tree, agent_tree, wheel_trees
from edgedeploy.link import LinkError

_IMPORT_S = 120.0


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user may choose; None leaves it to this program."""

    runtime: str | None = None
    wheels: Path | None = None
    """A folder with the wheels: nothing is asked of a package index."""
    remote_dir: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """A setup, and what of it had to be sent."""

    setup: Setup
    sent: tuple[Tree, ...]


def set_up(link: Pipe, device: Device, wishes: Wishes, sent: Callable[[Tree], None] = lambda _: None) -> Done:
    """Bring a device to what this program needs there. Raises LinkError; Unusable if it cannot be."""
    wishes = replace(wishes, remote_dir=wishes.remote_dir or device.remote_dir)
    facts = probe(link, wishes.remote_dir)
    if why := facts.problem or "; ".join(f"it lacks {each}" for each in facts.missing):
        raise Unusable(f"{link.name}: {why}")
    with _named(link.name):
        runtime, python = choose(facts, wishes.runtime)
    with tempfile.TemporaryDirectory() as scratch, _named(link.name):
        trees = _trees(runtime, python, facts, wishes.wheels, Path(scratch))
        store, (absent, free) = _place(link, facts, device, trees)
        store.put(absent, free, python.path, sent)
        setup = Setup(
            folder=store.folder,
            python=python.path,
            runtime=str(runtime),
            trees=tuple(tree.sha256 for tree in trees),
            command=_command(link.name, store, python, trees),
        )
    if absent or setup != device.setup:
        _check_imports(link, store, python, trees, runtime)
    return Done(setup, tuple(absent))


def renewed(link: Pipe, registry: Registry, name: str, device: Device) -> Setup:
    """The device's setup, with this program's agent: an older one is replaced. Raises Unusable if there is none."""
    setup = device.setup
    if setup is None:
        raise Unusable(f"{name}: nothing is on it yet: edgedeploy device setup {name}")
    with tempfile.TemporaryDirectory() as scratch:
        agent = agent_tree(Path(scratch))
        if agent.sha256 == setup.trees[0]:
            return setup
        store = Store(link, setup.folder)
        absent, free = store.missing([agent])
        store.put(absent, free, setup.python, lambda _: None)
    command = setup.command.replace(setup.trees[0], agent.sha256)
    setup = msgspec.structs.replace(setup, trees=(agent.sha256, *setup.trees[1:]), command=command)
    registry.put(name, msgspec.structs.replace(device, setup=setup))
    return setup


def _trees(runtime: Runtime, python: Python, facts: Facts, offline: Path | None, scratch: Path) -> tuple[Tree, ...]:
    """The agent's first."""
    wheels = wheel_trees(runtime.requirements, python.version[:2], facts.machine, facts.libc_version, offline=offline)
    return agent_tree(scratch), *wheels


def _place(
    link: Pipe, facts: Facts, device: Device, trees: Sequence[Tree]
) -> tuple[Store, tuple[list[Tree], int | None]]:
    """The folder that is used already, or else the first with room; with what it lacks and its free bytes."""
    used = device.setup.folder if device.setup else ""
    need = sum(tree.unpacked_bytes for tree in trees)
    usable = [folder for folder in facts.folders if folder.state == "ok"]
    best = min(usable, key=lambda folder: (folder.path != used, not _has_room(folder, need)))
    store = Store(link, best.path)
    return store, store.missing(trees)


def _has_room(folder: Folder, need: int) -> bool:
    return folder.free_bytes is None or folder.free_bytes > 2 * need


def _command(name: str, store: Store, python: Python, trees: Sequence[Tree]) -> str:
    """What starts the agent, for the device's shell; says what to do where the store is gone.

    What lies in its place must be this user's own: in folders for temporary files it is cleared away, and then any user
    can make one of that name. Before 3.11 Python also imports from the folder that it is started in.
    """
    options = ["-m", "edgedeploy_agent.server", "--folder", store.files]
    gone = shlex.quote(f"what was put on it is gone: edgedeploy device setup {name}")
    folders = shlex.join(map(store.path, trees))
    there = f'for tree in {folders}; do [ -d "$tree" ] && [ -O "$tree" ] || {{ echo {gone} >&2; exit 1; }}; done'
    return f"{there}; cd /; {_environment(store, trees)} exec {shlex.join([python.path, *options])}"


def _environment(store: Store, trees: Sequence[Tree]) -> str:
    path = ":".join(map(store.path, trees))
    return f"PYTHONNOUSERSITE=1 PYTHONSAFEPATH=1 PYTHONPATH={shlex.quote(path)}"


def _check_imports(link: Pipe, store: Store, python: Python, trees: Sequence[Tree], runtime: Runtime) -> None:
    """Import what the agent will: says now what a library lacks there. It also compiles the modules, once."""
    modules = f"import numpy, grpc, google.protobuf, {runtime.module}, edgedeploy_agent, edgedeploy_protos"
    done = link.run(
        f"cd /; {_environment(store, trees)} exec {shlex.join([python.path, '-c', modules])}", timeout_s=_IMPORT_S
    )
    if done.code:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        why = said or f"Python ended with code {done.code}"
        raise Unusable(f"{link.name}: {runtime} does not load there: {why}")


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Put the device in front of what went wrong, once."""
    try:
        yield
    except LinkError as error:
        if str(error).startswith(f"{name}: "):
            raise
        raise type(error)(f"{name}: {error}") from error
