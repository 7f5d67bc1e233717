# SPDX-License-Identifier: Apache-2.0
"""What a device is: names, CPUs, memory, NPUs, system and runtime; and where each of it comes from."""

from __future__ import annotations

import functools
import os
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from edgedeploy_agent.clusters import clusters
from edgedeploy_agent.conditions import load_average, temperatures, throttles
from edgedeploy_agent.machine import Machine
from edgedeploy_agent.npu import npu_parts

_TREE = "proc/device-tree"
_KIB = 1024


def probe(machine: Machine, software: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Fields of the protocol's Device; ``software`` is what to look for, as its Software."""
    found: dict[str, Any] = {}
    sources: list[dict[str, str]] = []
    fields: dict[str, Callable[[Machine], Any]] = {**_FIELDS, "npus": functools.partial(_npus, software=software)}
    for field, read in fields.items():
        reads: dict[str, str] = {}
        found[field] = read(machine._replace(reads=reads))
        sources += _sources(field, reads)
    runtime, error = installed_runtime()
    for field, origin in _OF_PYTHON.items():
        sources.append({"field": field, "origin": origin, "problem": ""})
    return {
        **found,
        "architecture": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "runtime": runtime,
        "runtime_error": error,
        "sources": sources,
    }


_OF_PYTHON = {
    "architecture": "uname",
    "libc": "the agent's Python",
    "python": "the agent's Python",
    "runtime": "packages of that Python",
}


def installed_runtime() -> tuple[dict[str, Any] | None, str]:
    """Name and version of the runtime, or why there is none. It is not loaded: that can end a process."""
    from importlib.metadata import PackageNotFoundError, version

    from edgedeploy_agent.runtime import PACKAGES

    for distribution in PACKAGES:
        try:
            return {"name": distribution, "version": version(distribution)}, ""
        except PackageNotFoundError:  # noqa: PERF203 - two at most
            continue
    return None, f"none of {', '.join(PACKAGES)} is installed"


def _sources(field: str, reads: dict[str, str]) -> Iterator[dict[str, str]]:
    """What was read, files of a kind as one pattern, and each that could not be."""
    read = [name for name, problem in reads.items() if not problem]
    kinds: dict[str, list[str]] = {}
    for name in read:
        if not any(other.startswith(f"{name}/") for other in read):  # a folder in which something else was read
            kinds.setdefault(re.sub(r"\d+", "*", name), []).append(name)
    for kind, names in kinds.items():
        yield {"field": field, "origin": f"/{kind if len(names) > 1 else names[0]}", "problem": ""}
    for name, problem in reads.items():
        if problem:
            yield {"field": field, "origin": f"/{name}", "problem": problem}


def _name(machine: Machine) -> str:
    found = machine.text(f"{_TREE}/model") or machine.text("sys/class/dmi/id/product_name")
    return (found or "").rstrip("\0")


def _compatible(machine: Machine) -> list[str]:
    return [name for name in (machine.text(f"{_TREE}/compatible") or "").split("\0") if name]


def _kernel(machine: Machine) -> str:
    return machine.text("proc/sys/kernel/osrelease") or platform.release()


def _ram(machine: Machine) -> dict[str, Any]:
    said = machine.fields("proc/meminfo")
    keys = {
        "MemTotal": "total", "MemAvailable": "available", "SwapTotal": "swap", "SwapFree": "swap_free",
        "CmaTotal": "cma", "CmaFree": "cma_free",
    }  # fmt: skip
    heaps = [os.path.basename(name) for name in machine.names("dev/dma_heap/*")]
    sizes: dict[str, Any] = {
        f"{name}_bytes": int(said[key].split()[0]) * _KIB for key, name in keys.items() if key in said
    }
    return {**sizes, "dma_heaps": heaps}


def _iommu(machine: Machine) -> dict[str, Any]:
    groups = len(machine.names("sys/kernel/iommu_groups/*")) if machine.has("sys/kernel/iommu_groups") else None
    return {"units": [os.path.basename(name) for name in machine.names("sys/class/iommu/*")], "groups": groups}


def _npus(machine: Machine, software: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for each in software for part in npu_parts(machine, each)]


_FIELDS: dict[str, Callable[[Machine], Any]] = {
    "name": _name,
    "compatible": _compatible,
    "kernel": _kernel,
    "clusters": clusters,
    "temperatures": temperatures,
    "ram": _ram,
    "iommu": _iommu,
    "throttles": throttles,
    "load_average": load_average,
}
