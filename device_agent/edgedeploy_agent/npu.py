# SPDX-License-Identifier: Apache-2.0
"""What a device has of an NPU's software: device files, kernel drivers and libraries, with their versions.

Nothing is loaded or opened that could start something: versions are in files of /sys, or in the bytes of a library.
What to look for comes from the host, whose tables know each NPU.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Any

from edgedeploy_agent.machine import Machine

_LIBRARIES = (
    "usr/lib", "usr/lib64", "usr/lib/*", "usr/local/lib", "usr/local/lib/*", "lib", "lib64", "lib/*", "opt/*/lib",
    "vendor/lib64",
)  # fmt: skip
_PIECE = 1 << 20
_LONGEST = 256
"""A version that lies across two pieces is found, if it and what stands before it are no longer."""
_NUMBER = re.compile(r"\d[\w.+-]*")
_NUMBERS = re.compile(r"(\.\d+)*")
_OF_FILE = re.compile(r"\.so\.(\d+\.[\d.]+)$")


def npu_parts(machine: Machine, software: dict[str, Any]) -> list[dict[str, Any]]:
    """Fields of the protocol's Npu, for one Software."""
    nodes = _nodes(machine, software)
    parts = [*nodes, *_drivers(machine, software, {node["driver"] for node in nodes}), *_libraries(machine, software)]
    return [{"backend": software["backend"], **part} for part in parts]


def _nodes(machine: Machine, software: dict[str, Any]) -> list[dict[str, Any]]:
    """Device files. Those that GPUs have too (/dev/dri, /dev/accel) count if the driver is one of the NPU's."""
    drivers = {driver.lower() for driver in software["drivers"]}
    found = []
    for pattern in software["nodes"]:
        for node in machine.names(pattern.lstrip("/")):
            device = next(iter(machine.names(f"sys/class/*/{os.path.basename(node)}/device")), "")
            driver = machine.fields(f"{device}/uevent", separator="=").get("DRIVER", "") if device else ""
            shared = os.path.dirname(node) != "dev"
            if driver.lower() in drivers or not (driver or shared):
                part: dict[str, Any] = {"kind": "node", "path": f"/{node}", "driver": driver}
                if device:
                    part["iommu"] = machine.has(f"{device}/iommu_group")
                found.append(part)
    return found


def _drivers(machine: Machine, software: dict[str, Any], of_nodes: set[str]) -> list[dict[str, Any]]:
    """Drivers that the kernel has, built in or loaded."""
    found = []
    for driver in software["drivers"]:
        place = f"sys/module/{driver}"
        if machine.has(place) or driver.lower() in {each.lower() for each in of_nodes}:
            part = {"kind": "driver", "path": f"/{place}", "driver": driver}
            found.append({**part, **_driver_version(machine, software["driver_versions"])})
    return found


def _driver_version(machine: Machine, files: list[str]) -> dict[str, str]:
    problem = "it tells no version: that of the kernel is its own"
    for pattern in files:
        reads: dict[str, str] = {}
        looking = machine._replace(reads=reads)
        for name in looking.names(pattern.lstrip("/")):
            version = _NUMBER.search(looking.text(name) or "")
            if version:
                return {"version": version[0], "source": f"/{name}"}
        looking.text(pattern.lstrip("/"))  # where even its folder is closed, no pattern finds it
        problem = next((f"/{name}: {why}" for name, why in reads.items() if why), problem)
    return {"problem": problem}


def _libraries(machine: Machine, software: dict[str, Any]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for library in software["libraries"]:
        for folder in _folders(machine):
            for name in machine.names(f"{folder}/{library['name']}*"):
                real = os.path.realpath(machine.path(name))
                if real not in found and _is_of(os.path.basename(name), library["name"]):
                    found[real] = {"kind": "library", "path": f"/{name}", **_library_version(real, name, library)}
    return list(found.values())


def _folders(machine: Machine) -> list[str]:
    """Where the loader looks: the usual folders, and those of its configuration."""
    listed: list[str] = []
    for name in ("etc/ld.so.conf", *machine.names("etc/ld.so.conf.d/*.conf")):
        listed += (line.strip() for line in (machine.text(name) or "").splitlines() if line.startswith("/"))
    return list(dict.fromkeys([*_LIBRARIES, *(folder.strip("/") for folder in listed)]))


def _is_of(file: str, library: str) -> bool:
    """``libx.so`` itself, or with a version after it."""
    return file.startswith(library) and _NUMBERS.fullmatch(file[len(library) :]) is not None


def _library_version(path: str, name: str, library: dict[str, str]) -> dict[str, str]:
    """What the library's bytes say, or else its file's name."""
    problem = "no version is in it"
    try:
        if library["version"]:
            version = _version_in(path, re.compile(library["version"].encode()))
            if version:
                return {"version": version, "source": f"/{name}"}
    except OSError as error:
        problem = f"/{name}: {error.strerror}"
    numbered = _OF_FILE.search(path)
    return {"version": numbered[1], "source": os.path.basename(path)} if numbered else {"problem": problem}


def _version_in(path: str, pattern: re.Pattern[bytes]) -> str:
    """The first match in the file, read piece by piece. Raises OSError."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a FIFO of that name must not stop us
    with os.fdopen(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return ""
        before = b""
        while True:
            piece = file.read(_PIECE)
            match = pattern.search(before + piece)
            # at the end of a piece it may go on in the next one
            if match and (not piece or match.end() < len(before + piece)):
                return match[1].decode(errors="replace")
            if not piece:
                return ""
            before = (before + piece)[-_LONGEST:]
