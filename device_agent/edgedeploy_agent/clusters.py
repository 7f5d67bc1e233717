# SPDX-License-Identifier: Apache-2.0
"""The CPUs: which are alike, what they can do, how fast they may run and do now."""

from __future__ import annotations

from typing import Any

from edgedeploy_agent.machine import Machine, parse_cpus

CPU = "sys/devices/system/cpu"
_ISA = frozenset({
    "asimd", "asimdhp", "asimddp", "fphp", "i8mm", "bf16", "sve", "sve2", "sme", "neon", "vfpv4",
    "sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx_vnni", "amx_int8",
})  # fmt: skip
"""Of the flags in /proc/cpuinfo, those that kernels of neural networks ask for."""


def clusters(machine: Machine) -> list[dict[str, Any]]:
    """Fields of the protocol's Cluster, the fastest last: cores of one kind that share a clock."""
    kinds = _kinds(machine)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for cpu in online(machine):
        shared = machine.text(f"{CPU}/cpu{cpu}/cpufreq/related_cpus") or ""
        groups.setdefault((_speed(machine, cpu), shared, kinds.get(cpu, ("", ()))), []).append(cpu)
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], item[1]))
    return [
        {"cpus": cpus, "core": core, "isa": list(isa), **_clock(machine, cpus[0])}
        for (_, _, (core, isa)), cpus in ordered
    ]


def clocks(machine: Machine) -> list[dict[str, Any]]:
    """:func:`clusters` as they are now, without what never changes."""
    return [{**each, "core": "", "isa": []} for each in clusters(machine)]


def online(machine: Machine) -> list[int]:
    return parse_cpus(machine.text(f"{CPU}/online") or machine.text(f"{CPU}/present") or "0")


def choose(asked: str, found: list[dict[str, Any]], allowed: set[int]) -> list[int]:
    """The CPUs that ``big``, ``little`` or a list mean; the fastest cluster for "". Raises ValueError."""
    if asked in ("", "big", "little"):
        usable = [each["cpus"] for each in found if allowed & set(each["cpus"])]
        cpus = set(usable[0 if asked == "little" else -1]) & allowed if usable else allowed
        return sorted(cpus)
    try:
        listed = parse_cpus(asked)
    except ValueError:
        raise ValueError(f"--cpus {asked!r} is not big, little or a list such as 0,2-3") from None
    if not listed or not set(listed) <= allowed:
        raise ValueError(f"--cpus {asked}: this device lets the agent use {','.join(map(str, sorted(allowed)))}")
    return listed


def _speed(machine: Machine, cpu: int) -> tuple[int, int]:
    """(highest clock, capacity): orders clusters, 0 where the kernel does not tell."""
    clock = machine.number(f"{CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq") or 0
    return machine.number(f"{CPU}/cpu{cpu}/cpu_capacity") or 0, clock


def _clock(machine: Machine, cpu: int) -> dict[str, Any]:
    policy = f"{CPU}/cpu{cpu}/cpufreq"
    return {
        "min_khz": machine.number(f"{policy}/scaling_min_freq"),
        "max_khz": machine.number(f"{policy}/scaling_max_freq"),
        "now_khz": machine.number(f"{policy}/scaling_cur_freq"),
        "governor": machine.text(f"{policy}/scaling_governor") or "",
    }


def _kinds(machine: Machine) -> dict[int, tuple[str, tuple[str, ...]]]:
    """CPU -> (core, ISA), from /proc/cpuinfo."""
    found = {}
    for block in (machine.text("proc/cpuinfo") or "").split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines())
        said = {key.strip().lower(): value.strip() for key, _, value in pairs}
        if said.get("processor", "").isdigit():
            part = f"{said['cpu implementer']}:{said['cpu part']}" if "cpu part" in said else ""
            flags = set((said.get("features") or said.get("flags") or "").split())
            found[int(said["processor"])] = said.get("model name") or part, tuple(sorted(flags & _ISA))
    return found
