# SPDX-License-Identifier: Apache-2.0
"""An emulated arm64 board behind a real SSH server: what logs in finds an arm64 shell, its tools and its Python.

QEMU starts one program at a time, and a program that it runs cannot start another one of its kind. So the board's PATH
has a script for each of its programs, which starts that program under QEMU; `python -m support.board` serves one
to the user.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from edgedeploy import output
from edgedeploy_agent.machine import parse_cpus
from edgedeploy_profiles.load import load_core
from edgedeploy_profiles.schema import Core
from support.sshd import Sshd, sshd
from support.userland import CACHE, Userland, userland

MODEL = "Emulated board"
COMPATIBLE = ("emulated,board", "rockchip,rk3588")
GOVERNORS = ("schedutil", "performance")
"""Of each CPU, the first at the start."""


@contextlib.contextmanager
def board(machine: Userland, core: Core, folder: Path, key: Path, *, port: int = 0) -> Iterator[Sshd]:
    """Serve an emulated board of ``core`` to the owner of ``key``."""
    folder.mkdir(exist_ok=True)
    with another_server(programs(machine, core, folder), folder, key, port=port) as server:
        yield server


@contextlib.contextmanager
def another_server(
    programs: Path, folder: Path, key: Path, *options: str, port: int = 0, mounts: str = ""
) -> Iterator[Sshd]:
    """A server of its own for the board that has these programs; the other options are those of `sshd`."""
    temporary = programs.with_name("tmp")  # a board shares neither files nor locks with this machine
    temporary.mkdir(exist_ok=True)
    before = f"export TMPDIR={shlex.quote(str(temporary))}"
    with sshd(folder, key, *options, port=port, path=str(programs), before=before, mounts=mounts) as server:
        yield server


def programs(machine: Userland, core: Core, folder: Path) -> Path:
    """A folder of scripts, one for each program of a board of ``core``."""
    view, programs = folder / "view", folder / "bin"
    qemu, *start, _ = machine.command(core)
    prefix = start.index("-L") + 1
    _view(machine, Path(start[prefix]), view)
    start[prefix] = str(view)
    programs.mkdir()
    for place in ("usr/bin", "bin"):  # in newer releases the same
        for program in (machine.root / place).iterdir():
            # under the name that it is called by, which is what Python starts when it starts itself
            command = shlex.join([shutil.which(qemu) or qemu, *start, "-0"])
            script = programs / program.name
            script.write_text(f'#!/bin/sh\nexec {command} "$0" {shlex.quote(str(program))} "$@"\n')
            script.chmod(0o755)
    return programs


def _view(machine: Userland, seen: Path, view: Path) -> None:
    """The root as the board's programs see it: with a device tree, and without a runtime or any other package."""
    packages = view / "usr" / "local" / "lib" / f"python{machine.release.python}" / "dist-packages"
    packages.mkdir(parents=True)
    for place in (machine.root / "usr").iterdir():
        if place.name != "local":
            (view / "usr" / place.name).symlink_to(place)
    for name in ("etc", "lib"):
        (view / name).symlink_to(seen / name)
    cpus = view / "sys" / "devices" / "system" / "cpu"
    cpus.mkdir(parents=True)
    for file in (seen / cpus.relative_to(view)).iterdir():
        (cpus / file.name).symlink_to(file)
    for number in parse_cpus((cpus / "online").read_text().strip()):  # or what this machine says of its own CPUs counts
        policy = cpus / f"cpu{number}" / "cpufreq"
        policy.mkdir(parents=True)
        (policy.parent / "cpu_capacity").write_text("1024\n")
        (policy / "scaling_governor").write_text(f"{GOVERNORS[0]}\n")
        (policy / "scaling_available_governors").write_text(f"{' '.join(GOVERNORS)}\n")
    tree = view / "proc" / "device-tree"
    tree.mkdir(parents=True)
    (view / "proc" / "cpuinfo").symlink_to(seen / "proc" / "cpuinfo")
    (tree / "model").write_text(f"{MODEL}\0")
    (tree / "compatible").write_text("".join(f"{name}\0" for name in COMPATIBLE))


def _serve(port: int) -> None:
    """Serve a board to the user's own key until stopped. What is put on it stays in the checkout's ``.board``."""
    keys = [path for kind in ("ed25519", "ecdsa", "rsa") if (path := Path.home() / ".ssh" / f"id_{kind}").exists()]
    if not keys:
        raise LookupError("you have no SSH key: ssh-keygen -t ed25519")
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise LookupError(f"port {port}: {why}; is a board served already? PORT=N takes another port") from None
    folder = CACHE.parent / "served"
    for made in ("bin", "view"):
        shutil.rmtree(folder / made, ignore_errors=True)
    with output.stoppable(), board(userland(), load_core("cortex-a76"), folder, keys[0], port=port) as server:
        print(f"edgedeploy device add board {server.target} --accept-new", flush=True)
        server.process.wait()


if __name__ == "__main__":
    try:
        _serve(int(sys.argv[1]) if sys.argv[1:] else 2222)
    except LookupError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        pass
