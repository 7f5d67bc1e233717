# SPDX-License-Identifier: Apache-2.0
"""What a device is: names, CPUs, memory, NPUs, system and runtime."""

from __future__ import annotations

import os
import platform
from typing import Any

from edgedeploy_agent.clusters import clusters
from edgedeploy_agent.conditions import load_average, temperatures, throttle_count
from edgedeploy_agent.machine import Machine

_TREE = "proc/device-tree"
_KIB = 1024
_NPUS = {
    "rknpu": ("dev/rknpu", "sys/kernel/debug/rknpu/version", "sys/module/rknpu/version"),
    "accel": ("dev/accel/accel*",),
    "galcore": ("dev/galcore", "sys/module/galcore/version"),
    "ethosu": ("dev/ethosu*",),
    "edgetpu": ("dev/apex_*",),
    "librknnrt": ("usr/lib/librknnrt.so", "usr/lib/*/librknnrt.so"),
    "libteflon": ("usr/lib/libteflon.so", "usr/lib/*/libteflon.so"),
    "libedgetpu": ("usr/lib/libedgetpu.so*", "usr/lib/*/libedgetpu.so*"),
}
"""Driver or library -> where it shows. A path that ends in ``version`` says it."""


def probe(machine: Machine) -> dict[str, Any]:
    """Fields of the protocol's Device."""
    runtime, error = installed_runtime()
    firmware = machine.text("sys/class/dmi/id/product_name")
    return {
        "name": (machine.text(f"{_TREE}/model") or firmware or "").rstrip("\0"),
        "compatible": [name for name in (machine.text(f"{_TREE}/compatible") or "").split("\0") if name],
        "architecture": platform.machine(),
        "kernel": machine.text("proc/sys/kernel/osrelease") or platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "clusters": clusters(machine),
        "temperatures": temperatures(machine),
        "ram": _ram(machine),
        "npus": _npus(machine),
        "runtime": runtime,
        "runtime_error": error,
        "load_average": load_average(machine),
        "throttle_count": throttle_count(machine),
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


def _ram(machine: Machine) -> dict[str, int]:
    said = machine.fields("proc/meminfo")
    keys = {"MemTotal": "total", "MemAvailable": "available", "SwapTotal": "swap", "CmaTotal": "cma"}
    return {f"{name}_bytes": int(said[key].split()[0]) * _KIB for key, name in keys.items() if key in said}


def _npus(machine: Machine) -> list[dict[str, str]]:
    found = []
    for driver, places in _NPUS.items():
        versions = [machine.text(place) for place in places if place.endswith("version")]
        for place in places:
            paths = [] if place.endswith("version") else machine.names(place)
            version = next(filter(None, versions), "")
            found += [{"path": os.path.join("/", path), "driver": driver, "version": version} for path in paths]
    return found
