# SPDX-License-Identifier: Apache-2.0
"""What a device's agent tells of it, each line with where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType

from edgedeploy.report.page import BAD, DIM, grid, text
from edgedeploy.text import plural, ranges, size
from edgedeploy_profiles import arm_cores, load_core

_LABEL, _SOURCE = 12, 26
_MOST_ZONES = 3


def machine_sheet(told: Mapping[str, Any]) -> RenderableType:
    """``told`` is the protocol's Device by field names."""
    rows = [
        (text((label, DIM)), text(words), text((source or _origin(told, field), DIM)))
        for field, label, words, source in _lines(told)
    ]
    rows += [
        (text(("unreadable", BAD)), text(f"{source['origin']}: {source['problem']}"), text((source["field"], DIM)))
        for source in told["sources"]
        if source["problem"]
    ]
    return grid(rows, ("left", _LABEL), ("left", None), ("left", _SOURCE))


def _origin(told: Mapping[str, Any], field: str) -> str:
    """The file that a field comes from, the first where there are several."""
    read = [source["origin"] for source in told["sources"] if source["field"] == field and not source["problem"]]
    return "" if not read else read[0] if len(read) == 1 else f"{read[0]} +{len(read) - 1}"


def _lines(told: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """(field, label, words, source if it is not the field's)."""
    for cluster in told["clusters"]:
        yield "clusters", "CPUs", _cluster(cluster), ""
    zones = sorted(told["temperatures"], key=lambda zone: -zone["celsius"])
    if zones:
        hottest = ", ".join(f"{zone['celsius']:.0f} C {zone['zone']}" for zone in zones[:_MOST_ZONES])
        more = len(zones) - _MOST_ZONES
        yield "temperatures", "hottest", f"{hottest}, {more} more" if more > 0 else hottest, ""
    for throttle in told["throttles"]:
        yield "throttles", "throttling", _throttle(throttle), ""
    if told["load_average"] is not None:
        yield "load_average", "load", f"{told['load_average']:.2f}, average of the last minute", ""
    ram = told["ram"]
    yield "ram", "memory", f"{size(ram['total_bytes'])}, {size(ram['available_bytes'])} available", ""
    yield "ram", "swap", _part_free(ram["swap_bytes"], ram["swap_free_bytes"]), ""
    yield "ram", "CMA", _part_free(ram["cma_bytes"], ram["cma_free_bytes"]), ""
    if ram["dma_heaps"]:
        yield "ram", "DMA heaps", ", ".join(ram["dma_heaps"]), "/dev/dma_heap"
    yield "iommu", "IOMMU", _iommu(told["iommu"]), ""
    for part in told["npus"]:
        yield "npus", f"{part['backend']}"[:_LABEL], _npu(part), part["source"]
    if not told["npus"]:
        yield "npus", "NPU", "no device file, driver or library of one", "/dev, /sys and libraries"
    runtime = told["runtime"]
    yield "runtime", "runtime", f"{runtime['name']} {runtime['version']}" if runtime else told["runtime_error"], ""


def _cluster(cluster: Mapping[str, Any]) -> str:
    words = [f"{ranges(cluster['cpus'])}: {_core(cluster['core'])}"]
    if cluster["max_khz"]:
        slowest = f"{cluster['min_khz'] / 1e6:.2f} to " if cluster["min_khz"] else ""
        words.append(f"{slowest}{cluster['max_khz'] / 1e6:.2f} GHz")
    if cluster["now_khz"]:
        words.append(f"now {cluster['now_khz'] / 1e6:.2f}")
    if cluster["governor"]:
        words.append(cluster["governor"])
    return ", ".join([*words, " ".join(cluster["isa"])]).rstrip(", ")


def _core(said: str) -> str:
    """The name of an Arm core whose part number is known, or what the kernel said."""
    implementer, _, part = said.partition(":")
    name = arm_cores().get(int(part, 16)) if implementer == "0x41" and part else None
    return load_core(name).title if name else said or "unknown core"


def _throttle(throttle: Mapping[str, Any]) -> str:
    state, most, count = throttle["state"], throttle["most"], throttle["count"]
    if state is not None and most is None:
        words = [f"flags 0x{state:x}"]
    else:
        words = [] if state is None else [f"state {state} of {most}"]
    if count is not None:
        words.append(f"{'throttled' if state is None else 'changed'} {plural(count, 'time')} since it started")
    return f"{throttle['name']}: {', '.join(words) or 'tells nothing'}"


def _part_free(total: int | None, free: int | None) -> str:
    if total is None:
        return "the kernel tells none"
    return f"{size(total)}, {size(free)} free" if total else "none"


def _iommu(iommu: Mapping[str, Any]) -> str:
    if iommu["groups"] is None:
        return "the kernel has none"
    if not iommu["units"] and not iommu["groups"]:
        return "none"
    return f"{plural(len(iommu['units']), 'unit')}, {plural(iommu['groups'], 'group')} of devices"


def _npu(part: Mapping[str, Any]) -> str:
    words = [part["path"] if part["kind"] != "driver" else f"driver {part['driver']}"]
    if part["version"]:
        words.append(part["version"])
    elif part["problem"]:
        words.append(f"version unknown ({part['problem']})")
    if part["kind"] == "node" and part["driver"]:
        words.append(f"of driver {part['driver']}")
    if part["iommu"] is not None:
        words.append("behind an IOMMU" if part["iommu"] else "without an IOMMU")
    return ", ".join(words)
