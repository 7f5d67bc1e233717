# SPDX-License-Identifier: Apache-2.0
"""The board ``local``: the profile of the machine this runs on.

Only facts that stay the same from run to run are read: which CPUs are online, their core types and highest clocks.
The clock of the moment is not, so the same machine always gives the same plan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec

from edgedeploy_profiles.schema import Board, Cluster, Rate

OTHER_CORE = {"arm": "cortex-a55", "x86": "generic-x86-64"}
"""What an unknown core is taken for: on Arm the slower profile."""
_AVX512_CORE = "x86-64-avx512"
_AVX512 = {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}
"""What TFLite's libraries ask for before they use any of it."""


class Cpu(NamedTuple):
    """One online CPU: its number, core profile and highest clock in kHz, 0 if the kernel does not tell."""

    number: int
    core: str
    max_khz: int


def with_this_machine(
    board: Board, arm_cores: Mapping[int, str], proc: Path = Path("/proc"), sys: Path = Path("/sys")
) -> Board:
    """``board`` with the CPUs of this machine in place of its assumed ones; unchanged if they cannot be read.

    ``arm_cores``: Arm's part number of a core -> its profile.
    """
    folders = sys / "devices/system/cpu"
    clocks = {int(f.parent.parent.name[3:]): _read(f) for f in folders.glob("cpu[0-9]*/cpufreq/cpuinfo_max_freq")}
    max_khz = {cpu: int(text) for cpu, text in clocks.items() if text.strip().isdigit()}
    cpus = probe(_read(proc / "cpuinfo"), max_khz, arm_cores)
    return msgspec.structs.replace(board, clusters=clusters(cpus, board.clusters[0])) if cpus else board


def probe(cpuinfo: str, max_khz: Mapping[int, int], arm_cores: Mapping[int, str]) -> tuple[Cpu, ...]:
    """The online CPUs from the text of ``/proc/cpuinfo`` and the highest clock of each CPU number."""
    blocks = (block for block in cpuinfo.split("\n\n") if re.search(r"^processor\s*:\s*\d+$", block, re.M))
    return tuple(_cpu(block, max_khz, arm_cores) for block in blocks)


def clusters(cpus: tuple[Cpu, ...], assumed: Cluster) -> tuple[Cluster, ...]:
    """CPUs of the same core and clock as one cluster, fastest first. What was not read is as in ``assumed``."""
    kinds = sorted(cpus, key=lambda cpu: (-cpu.max_khz, cpu.core, cpu.number))
    return tuple(
        msgspec.structs.replace(
            assumed,
            name=f"{core}@{max_khz / 1e6:g}" if max_khz else core,
            core=core,
            cpus=tuple(cpu.number for cpu in group),
            clock_ghz=Rate(max_khz / 1e6, "probed") if max_khz else assumed.clock_ghz,
        )
        for (core, max_khz), group in groupby(kinds, key=lambda cpu: (cpu.core, cpu.max_khz))
    )


def _cpu(block: str, max_khz: Mapping[int, int], arm_cores: Mapping[int, str]) -> Cpu:
    """One paragraph of ``/proc/cpuinfo``. x86 names its clock in the model name when the kernel has no cpufreq."""
    fields = dict(re.findall(r"^([^:\t]+?)\s*:[ \t]*(.*)$", block, re.M))
    number = int(fields["processor"])
    named = re.search(r"@ (\d+\.\d+)GHz", fields.get("model name", ""))
    khz = max_khz.get(number, round(float(named[1]) * 1e6) if named else 0)
    if "CPU part" not in fields:
        has_avx512 = set(fields.get("flags", "").split()) >= _AVX512
        return Cpu(number, _AVX512_CORE if has_avx512 else OTHER_CORE["x86"], khz)
    part = int(fields["CPU part"], 16) if fields.get("CPU implementer") == "0x41" else -1
    return Cpu(number, arm_cores.get(part, OTHER_CORE["arm"]), khz)


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
