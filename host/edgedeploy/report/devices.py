# SPDX-License-Identifier: Apache-2.0
"""Devices: the list, one of them, what a setup did, and what a doctor found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from edgedeploy.devices.probe import WHY, Facts, why_not
from edgedeploy.devices.registry import LOCAL, Device
from edgedeploy.report.machine import machine_sheet
from edgedeploy.report.page import BAD, DIM, NPU, STRONG, Style, grid, render, text
from edgedeploy.text import plural, size

if TYPE_CHECKING:
    from edgedeploy.devices.doctor import Check
    from edgedeploy.devices.setup import Done

_LABEL = 12
_MOST_TOLD = 4


def device_list(devices: Mapping[str, Device], style: Style) -> str:
    rows = [tuple(text((word, DIM)) for word in ("device", "board", "runtime", "address"))]
    rows.append((text((LOCAL, STRONG)), text((LOCAL, NPU)), text(("ready", DIM)), text("this machine")))
    for name, device in devices.items():
        state = device.setup.runtime if device.setup else "not set up"
        rows.append((text((name, STRONG)), text((device.board or "-", NPU)), text((state, DIM)), text(device.target)))
    widths = [min(24, max(len(row[i].plain) for row in rows)) for i in range(3)]
    return render(style, grid(rows, *(("left", width) for width in widths), ("left", None), indent=0))


def device_sheet(
    name: str,
    device: Device,
    facts: Facts | None,
    style: Style,
    more: Mapping[str, Any] | None = None,
    problem: str = "",
) -> str:
    """What is known of a device; ``facts`` are what its shell just said, ``more`` its agent, or ``problem`` why not."""
    lines = list(_registered(device))
    if facts is not None:
        lines += (line for line in _told(facts) if more is None or line[0] != "memory")  # the agent tells more of it
    if problem:
        lines.append(("problem", problem))
    rows = [
        (text((label, DIM)), text((words, BAD) if label in ("problem", "lacks") else words)) for label, words in lines
    ]
    pieces = [text((name, STRONG)), grid(rows, ("left", _LABEL), ("left", None))]
    if more is not None:
        pieces += [text(), machine_sheet(more)]
    elif facts is not None and device.setup is None and not facts.problem:
        pieces += [text(), text((f"next: edgedeploy device setup {name}; 'device probe {name}' then tells more", DIM))]
    return render(style, *pieces)


def setup_report(name: str, done: Done, style: Style) -> str:
    sent = sum(tree.unpacked_bytes for tree in done.sent)
    what = f"{plural(len(done.sent), 'package')}, {size(sent)}" if done.sent else "nothing, all is there"
    rows = [
        ("runtime", done.setup.runtime),
        ("Python", done.setup.python),
        ("folder", done.setup.folder),
        ("sent", what),
    ]
    return render(
        style,
        text((name, STRONG), " is ready"),
        grid([(text((label, DIM)), text(words)) for label, words in rows], ("left", _LABEL), ("left", None)),
    )


def doctor_report(found: Mapping[str, Sequence[Check]], style: Style) -> str:
    width = max(len(check.name) for checks in found.values() for check in checks)
    pieces: list[RenderableType] = []
    for name, checks in found.items():
        rows = []
        for check in checks:
            word = {True: ("ok", NPU), False: ("FAIL", BAD), None: ("note", DIM)}[check.ok]
            what = f"{check.detail}: {check.fix}" if check.fix else check.detail
            rows.append((text(word), text((check.name, STRONG)), text(what)))
        pieces += [text((name, STRONG)), grid(rows, ("left", 4), ("left", width), ("left", None))]
    return render(style, *pieces)


def _registered(device: Device) -> Iterator[tuple[str, str]]:
    yield "address", "this machine" if device.target == LOCAL else device.target
    yield "board", device.board or "not known"
    if device.setup:
        yield "runtime", device.setup.runtime
        yield "folder", device.setup.folder
    elif device.target != LOCAL:
        yield "setup", "not yet"


def _told(facts: Facts) -> Iterator[tuple[str, str]]:
    if facts.model:
        yield "model", facts.model
    if facts.compatible:
        yield "compatible", " ".join(facts.compatible)
    yield "system", f"{facts.system} {facts.kernel}, {facts.machine}"
    yield "C library", " ".join((facts.libc or "unknown", ".".join(map(str, facts.libc_version)))).strip()
    if facts.memory_bytes:
        yield "memory", size(facts.memory_bytes)
    pythons = {(python.version, python.bits, python.lacks): python for python in reversed(facts.pythons)}
    for python in [python for python in facts.pythons if python in pythons.values()][:_MOST_TOLD]:
        version = ".".join(map(str, python.version))
        yield "Python", f"{version}, {python.path}" if python.is_usable else f"{python.path} {why_not(python)}"
    for folder in facts.folders:
        if folder.state != "absent":
            yield "folder", f"{folder.path} {WHY[folder.state]}, {size(folder.free_bytes)} free"
    if facts.problem:
        yield "problem", facts.problem
    for each in facts.missing:
        yield "lacks", each
