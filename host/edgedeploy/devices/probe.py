# SPDX-License-Identifier: Apache-2.0
"""What a device is, found with a shell alone, and whether it can be used."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
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


class BadFolder(LinkError):
    """What ``--remote-dir`` names is no folder's path."""

    exit_code = 2


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
    """Folders to try, as words for the device's shell; all are this program's own. Raises BadFolder."""
    if remote_dir is not None:
        if not re.fullmatch("~|~?/.*", remote_dir) or not remote_dir.isprintable():
            raise BadFolder(f"--remote-dir {remote_dir!r}: a path on the device begins with / or ~/")
        place = remote_dir.rstrip("/")
        place = place if place.endswith(f"/{STORE}") else f"{place}/{STORE}"
        return f'"$HOME"/{shlex.quote(place[2:])}' if place.startswith("~/") else shlex.quote(place)
    mine = f'{STORE}-"$(id -u)"'
    places = ('"${XDG_DATA_HOME:-$HOME/.local/share}"', "/var/lib", "/opt", "/data", "/userdata")
    return " ".join([*(f"{place}/{STORE}" for place in places), f"/var/tmp/{mine}", f'"${{TMPDIR:-/tmp}}"/{mine}'])


def parse(text: str) -> Facts:
    """The lines that the script prints; what is none of them counts for nothing."""
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, _, value = line.partition("=")
        values.setdefault(key, []).append(value.strip())
    first = {key: found[0] for key, found in values.items()}
    started = [match for line in values.get("python", ()) if (match := _PYTHON.fullmatch(line))]
    libcs = [first.get("libc", ""), *(match["libc"].replace("-", " ") for match in started)]
    libc, _, version = next(filter(str.strip, libcs), "").partition(" ")
    folders = (match for line in values.get("folder", ()) if (match := _FOLDER.fullmatch(line)))
    machine = first.get("machine", "")
    return Facts(
        system=first.get("system", ""),
        machine=MACHINES.get(machine, machine),
        kernel=first.get("kernel", ""),
        libc=libc.lower(),
        libc_version=tuple(map(int, re.findall(r"[0-9]{1,9}", version)[:2])),
        bits=_number(first.get("bits", "")),
        model=first.get("model", ""),
        compatible=tuple(first.get("compatible", "").split()),
        memory_bytes=_kib(first.get("memory_kib", "")),
        is_root=first.get("user") == "0",
        pythons=_pythons(started),
        folders=tuple(Folder(m["path"], _state(m["state"]), _kib(m["free"])) for m in folders),
    )


_PYTHON = re.compile(
    r"(?P<version>[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}) (?P<bits>[0-9]{1,4}) (?P<abiflags>\S+) "
    r"(?P<lacks>\S+) (?P<libc>\S+) (?P<path>/.+)"
)
_FOLDER = re.compile(r"(?P<state>\S+) (?P<free>\S+) (?P<path>/.+)")


def _pythons(answers: Iterable[re.Match[str]]) -> tuple[Python, ...]:
    found: dict[str, Python] = {}
    for each in answers:
        major, minor, patch = map(int, each["version"].split("."))
        without = () if each["lacks"] == "-" else tuple(each["lacks"].split(","))
        python = Python(each["path"], (major, minor, patch), int(each["bits"]), each["abiflags"].strip("-"), without)
        found.setdefault(python.path, python)
    return tuple(found.values())


def _state(word: str) -> State:
    return word if word in WHY else "readonly"


def _kib(text: str) -> int | None:
    number = _number(text)
    return None if number is None else number * 1024


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else None
