# SPDX-License-Identifier: Apache-2.0
"""The folder of files on a device. Each entry has its SHA-256 as its name and never changes, so none is sent twice."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from importlib import resources
from pathlib import PurePosixPath
from typing import IO, Protocol

from edgedeploy.devices.probe import STORE, Unusable
from edgedeploy.devices.wheels import Tree
from edgedeploy.link import Finished, Link
from edgedeploy.text import size

_SPARE_BYTES = 16 << 20  # left free on the device
_BLOCK_BYTES = 4096

# What a program that is gone has left behind goes; what one that runs is writing stays.
_LOOK = """umask 077
mkdir -p {folder}/files && cd {folder} || exit 1
[ -O . ] || {{ echo "it belongs to another user" >&2; exit 1; }}
for part in *.part-* files/*.part-*; do [ -e "$part" ] && [ ! -d "/proc/${{part##*-}}" ] && rm -rf "$part"; done
for name in {names}; do [ -d "$name" ] && echo "$name"; done
df -Pk . 2>/dev/null | {{ read -r _; read -r _ _ _ free _; echo "free $free"; }}"""


class Pipe(Link, Protocol):
    """A link that can feed a command from a file."""

    def stream(self, command: str, content: IO[bytes], progress: Callable[[int], None] | None = None) -> Finished: ...


class Store:
    """``folder`` on the device at the other end of ``link``."""

    def __init__(self, link: Pipe, folder: str) -> None:
        self._link, self.folder = link, folder

    @property
    def files(self) -> str:
        """Where models and inputs go, by the same kind of name."""
        return f"{self.folder}/files"

    def path(self, tree: Tree) -> str:
        return f"{self.folder}/{tree.sha256}"

    def missing(self, trees: Iterable[Tree]) -> tuple[list[Tree], int | None]:
        """The trees that are not there, and the bytes that are free, if the device says. Makes the folder."""
        wanted = {tree.sha256: tree for tree in trees}
        done = self._link.run(_LOOK.format(folder=shlex.quote(self.folder), names=" ".join(wanted)), timeout_s=60)
        if done.code:
            said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise Unusable(f"{self._link.name}: cannot make {self.folder}: {said or 'no word of why'}")
        lines = done.stdout.decode(errors="replace").splitlines()
        free = next((words[1] for line in lines if (words := line.split())[:1] == ["free"] and len(words) == 2), "")
        there = set(lines)
        return [tree for sha256, tree in wanted.items() if sha256 not in there], _kib(free)

    def put(self, trees: Iterable[Tree], free_bytes: int | None, python: str, sent: Callable[[Tree], None]) -> None:
        """Send trees that are missing, if all have room; ``python`` unpacks them. ``sent`` is told of each before."""
        trees = list(trees)
        need = sum(map(needed_bytes, trees))
        if free_bytes is not None and need + _SPARE_BYTES > free_bytes:
            raise Unusable(
                f"{self._link.name}: no space in {self.folder}: needs {size(need + _SPARE_BYTES)}, "
                f"free are {size(free_bytes)}; 'edgedeploy device clean {self._link.name}', or name another folder "
                f"with --remote-dir"
            )
        source = resources.files("edgedeploy_agent").joinpath("unpack.py").read_text()
        for tree in trees:
            sent(tree)
            command = shlex.join([python, "-I", "-c", source, self.folder, tree.sha256])
            with tree.packed.open("rb") as content:
                done = self._link.stream(command, content)
            if done.code:
                said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
                raise Unusable(f"{self._link.name}: cannot unpack {tree.title} in {self.folder}: {said}")

    def clean(self) -> None:
        """Remove the folder, which is this program's own."""
        name = PurePosixPath(self.folder).name
        if name != STORE and not name.startswith(f"{STORE}-"):
            raise Unusable(f"{self._link.name}: {self.folder} is no folder of edgedeploy")
        done = self._link.run(f"rm -rf {shlex.quote(self.folder)}", timeout_s=120)
        if done.code:
            said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise Unusable(f"{self._link.name}: cannot remove {self.folder}: {said}")


def needed_bytes(tree: Tree) -> int:
    """Of disk: what it holds, and at most a block more for each file."""
    return tree.unpacked_bytes + tree.files * _BLOCK_BYTES


def _kib(text: str) -> int | None:
    return int(text) * 1024 if text.isdecimal() else None
