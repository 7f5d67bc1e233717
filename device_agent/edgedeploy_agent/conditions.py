# SPDX-License-Identifier: Apache-2.0
"""What a measurement is taken in: clocks, temperatures, what throttles the CPUs, and what else runs on them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import Any

from edgedeploy_agent.clusters import CPU, clocks
from edgedeploy_agent.machine import Machine

_RASPBERRY = "sys/devices/platform/soc/soc:firmware/get_throttled"
_LEAST_S = 0.1  # the kernel counts in ticks, most often of 10 ms: over less time they say nothing
_RASPBERRY_NOW = 0xF  # under-voltage, capped, throttled, soft temperature limit; higher bits: since it was started


class Observer:
    """Looks at the machine now and then; what is a rate is that since it last looked."""

    def __init__(self, machine: Machine, cpus: Iterable[int]) -> None:
        self._machine = machine
        self._cpus = frozenset(cpus)
        self._throttles = throttle_count(machine)
        self._then = time.monotonic(), self._busy(), _own_s()

    def look(self) -> dict[str, Any]:
        """Fields of the protocol's Conditions."""
        return {
            "clusters": clocks(self._machine),
            "temperatures": temperatures(self._machine),
            "throttled": self._throttled(),
            "load": self._load(),
            "load_average": load_average(self._machine),
        }

    def _throttled(self) -> list[str]:
        count = throttle_count(self._machine)
        found = []
        if count is not None and self._throttles is not None and count > self._throttles:
            found.append(f"the CPU throttled {count - self._throttles} times")
        self._throttles = count
        found += (f"cooling by {each['name']}" for each in _cooling(self._machine) if each["state"])
        flags = self._machine.text(_RASPBERRY)
        if flags and int(flags, 16) & _RASPBERRY_NOW:
            found.append(f"the firmware reports throttling or low voltage (0x{int(flags, 16):x})")
        return found

    def _load(self) -> float | None:
        now = time.monotonic(), self._busy(), _own_s()
        (passed, busy, own), (was, was_busy, was_own) = now, self._then
        if passed - was < _LEAST_S:
            return None
        self._then = now
        if busy is None or was_busy is None:
            return None
        return max(0.0, ((busy - was_busy) - (own - was_own)) / (passed - was))

    def _busy(self) -> float | None:
        """Seconds that the CPUs in use have not been idle, since the start of the machine."""
        ticks = 0
        for line in (self._machine.text("proc/stat") or "").splitlines():
            name, *times = line.split()
            if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in self._cpus:
                user, nice, system, _idle, _wait, *more = map(int, times[:8])
                ticks += user + nice + system + sum(more)
        return ticks / os.sysconf("SC_CLK_TCK") if ticks else None  # some sandboxes count nothing


def temperatures(machine: Machine) -> list[dict[str, Any]]:
    found = []
    for zone in machine.names("sys/class/thermal/thermal_zone*"):
        value = machine.number(f"{zone}/temp")
        if value is not None:
            found.append({"zone": machine.text(f"{zone}/type") or os.path.basename(zone), "celsius": value / 1000})
    return found


def hottest(machine: Machine) -> float | None:
    """Of all zones, in degrees Celsius."""
    return max((each["celsius"] for each in temperatures(machine)), default=None)


def throttle_count(machine: Machine) -> int | None:
    """How often the CPUs were throttled since the machine was started, where they count it."""
    counts = [machine.number(name) for name in machine.names(f"{CPU}/cpu*/thermal_throttle/core_throttle_count")]
    return sum(count or 0 for count in counts) if counts else None


def throttles(machine: Machine) -> list[dict[str, Any]]:
    """Fields of the protocol's Throttle: all that slows CPUs down and says so."""
    count = throttle_count(machine)
    found = [] if count is None else [{"name": "CPU cores", "count": count}]
    found += _cooling(machine)
    flags = machine.text(_RASPBERRY)
    return [*found, {"name": "Raspberry Pi firmware", "state": int(flags, 16)}] if flags else found


def _cooling(machine: Machine) -> Iterator[dict[str, Any]]:
    """Cooling devices that slow CPUs down."""
    for device in machine.names("sys/class/thermal/cooling_device*"):
        kind = machine.text(f"{device}/type") or ""
        if "cpu" in kind.lower():
            yield {
                "name": kind,
                "state": machine.number(f"{device}/cur_state"),
                "most": machine.number(f"{device}/max_state"),
                "count": machine.number(f"{device}/stats/total_trans"),
            }


def load_average(machine: Machine) -> float | None:
    said = machine.text("proc/loadavg")
    return float(said.split()[0]) if said else None


def _own_s() -> float:
    times = os.times()
    return times.user + times.system
