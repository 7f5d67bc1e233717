# SPDX-License-Identifier: Apache-2.0
"""What a device is, found with a shell alone, and whether it can be used."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from importlib import resources
from typing import Literal

import msgspec

from edgedeploy.link import Link, LinkError

MACHINES = {"aarch64": "aarch64", "arm64": "aarch64", "x86_64": "x86_64", "amd64": "x86_64"}
OLDEST_PYTHON = (3, 9)
STORE = "edgedeploy"

State = Literal["ok", "absent", "readonly", "noexec", "full", "foreign"]
WHY: dict[State, str] = {
    "ok": "usable",
    "absent": "is not there",
    "readonly": "cannot be written",
    "noexec": "programs cannot be run from it (mounted noexec)",
    "full": "is full",
    "foreign": "belongs to another user",
}


class Unusable(LinkError):
    """The device cannot run the agent."""


class Python(msgspec.Struct, frozen=True):
    """An interpreter on the device; ``lacks`` are modules that it should have and has not."""

    path: str
    version: tuple[int, int, int]
    bits: int
    abiflags: str
    lacks: tuple[str, ...]

    @property
    def is_usable(self) -> bool:
        return self.version[:2] >= OLDEST_PYTHON and self.bits == 64 and not self.lacks and "t" not in self.abiflags


class Folder(msgspec.Struct, frozen=True):
    """A place for files; ``free_bytes`` is None where the device does not say."""

    path: str
    state: State
    free_bytes: int | None


class Facts(msgspec.Struct, frozen=True):
    """A device as its shell tells. ``libc`` is ``glibc``, ``musl`` or empty."""

    system: str
    machine: str
    kernel: str
    libc: str
    libc_version: tuple[int, ...]
    bits: int | None
    model: str
    compatible: tuple[str, ...]
    memory_bytes: int | None
    is_root: bool
    pythons: tuple[Python, ...]
    folders: tuple[Folder, ...]

    @property
    def problem(self) -> str:
        """Why no setup can help, in one line; empty if one can."""
        if self.system != "Linux":
            return f"it runs {self.system or 'an unknown system'}; only Linux is supported"
        if self.machine not in MACHINES.values():
            return f"its processor is {self.machine or 'unknown'}; only 64-bit ARM and x86-64 are supported"
        bits = max((python.bits for python in self.pythons), default=self.bits) or 64
        if bits != 64:
            return f"its programs are 32-bit under a 64-bit {self.machine} kernel; install a 64-bit system"
        if self.libc != "glibc":
            return f"its C library is {self.libc or 'unknown'}; no TFLite runtime has wheels for other than glibc"
        return ""

    @property
    def missing(self) -> tuple[str, ...]:
        """What must be installed or freed before a setup."""
        found: list[str] = []
        if not any(python.is_usable for python in self.pythons):
            others = "; ".join(f"{python.path} {why_not(python)}" for python in self.pythons)
            found.append(f"Python 3.9 or later with its standard library{f' ({others})' if others else ''}")
        if self.folders and not any(folder.state == "ok" for folder in self.folders):
            told = "; ".join(f"{folder.path} {WHY[folder.state]}" for folder in self.folders)
            found.append(f"a folder for files ({told}): name one with --remote-dir")
        return tuple(found)


def why_not(python: Python) -> str:
    version = ".".join(map(str, python.version))
    if python.version[:2] < OLDEST_PYTHON:
        return f"is {version}"
    if python.bits != 64:
        return f"({version}) is {python.bits}-bit"
    if python.lacks:
        return f"({version}) lacks {', '.join(python.lacks)}"
    return f"({version}) is a build without the GIL"


def probe(link: Link, remote_dir: str | None = None) -> Facts:
    """Ask the device. Raises LinkError; Unusable if there is no answer to understand."""
    script = resources.files(__package__).joinpath("probe.sh").read_text()
    done = link.run(f"set -- {_candidates(remote_dir)}\n{script}", timeout_s=60)
    answer = done.stdout.decode(errors="replace")
    if "machine=" not in answer:
        said = (done.stderr.decode(errors="replace").strip().splitlines() or ["nothing"])[-1]
        raise Unusable(f"{link.name}: its shell is none that a program can use; it says: {said}")
    return parse(answer)


def _candidates(remote_dir: str | None) -> str:
    """Folders to try, as words for the device's shell; all are this program's own."""
    if remote_dir is not None:
        place = remote_dir.rstrip("/")
        place = place if place.endswith(f"/{STORE}") else f"{place}/{STORE}"
        return f'"$HOME"/{shlex.quote(place[2:])}' if place.startswith("~/") else shlex.quote(place)
    mine = f'{STORE}-"$(id -u)"'
    places = ('"${XDG_DATA_HOME:-$HOME/.local/share}"', "/var/lib", "/opt", "/data", "/userdata")
    return " ".join([*(f"{place}/{STORE}" for place in places), f"/var/tmp/{mine}", f'"${{TMPDIR:-/tmp}}"/{mine}'])


def parse(text: str) -> Facts:
    """The lines that the script prints."""
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, _, value = line.partition("=")
        values.setdefault(key, []).append(value.strip())
    first = {key: found[0] for key, found in values.items()}
    lines = [line.split(" ", 5) for line in values.get("python", ())]
    started = [words for words in lines if len(words) == 6 and re.fullmatch(r"\d+\.\d+\.\d+", words[0])]
    libcs = [first.get("libc", ""), *(words[4].replace("-", " ") for words in started)]
    libc, _, version = next(filter(str.strip, libcs), "").partition(" ")
    memory, bits = first.get("memory_kib", ""), first.get("bits", "")
    machine = first.get("machine", "")
    return Facts(
        system=first.get("system", ""),
        machine=MACHINES.get(machine, machine),
        kernel=first.get("kernel", ""),
        libc=libc.lower(),
        libc_version=tuple(map(int, re.findall(r"\d+", version)))[:2],
        bits=int(bits) if bits.isdecimal() else None,
        model=first.get("model", ""),
        compatible=tuple(first.get("compatible", "").split()),
        memory_bytes=int(memory) * 1024 if memory.isdecimal() else None,
        is_root=first.get("user") == "0",
        pythons=_pythons(started),
        folders=tuple(map(_folder, values.get("folder", ()))),
    )


def _pythons(answers: Sequence[Sequence[str]]) -> tuple[Python, ...]:
    found: dict[str, Python] = {}
    for version, bits, abiflags, lacks, _, path in answers:
        major, minor, patch = map(int, version.split("."))
        without = () if lacks == "-" else tuple(lacks.split(","))
        found.setdefault(path, Python(path, (major, minor, patch), int(bits), abiflags.strip("-"), without))
    return tuple(found.values())


def _folder(line: str) -> Folder:
    state, free, path = line.split(" ", 2)
    kib = int(free)
    return Folder(path, state if state in WHY else "readonly", kib * 1024 if kib >= 0 else None)
