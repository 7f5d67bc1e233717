# SPDX-License-Identifier: Apache-2.0
"""The machine's own profile, from texts of /proc and /sys."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedeploy_profiles import board_sha256, load_board, load_core
from edgedeploy_profiles.local import Cpu, probe, with_this_machine

CORES = {0xD05: "cortex-a55", 0xD0B: "cortex-a76"}
ARM = "processor\t: {}\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: {}\nCPU revision\t: 0\n"
X86 = "processor\t: {}\nmodel name\t: Intel(R) Xeon(R) CPU{}\ncpu MHz\t\t: {}\nflags\t: fpu\n"


def arm(*parts: str) -> str:
    return "\n".join(ARM.format(i, part) for i, part in enumerate(parts)) + "\nHardware\t: Rockchip RK3588\n"


def machine(folder: Path, cpuinfo: str, **max_khz: str) -> tuple[Path, Path]:
    (folder / "proc").mkdir()
    (folder / "proc/cpuinfo").write_text(cpuinfo)
    for cpu, khz in max_khz.items():
        cpufreq = folder / "sys/devices/system/cpu" / cpu / "cpufreq"
        cpufreq.mkdir(parents=True)
        (cpufreq / "cpuinfo_max_freq").write_text(khz)
    return folder / "proc", folder / "sys"


def test_big_and_little_cores_become_clusters_fastest_first(tmp_path: Path) -> None:
    proc, sys = machine(
        tmp_path,
        arm("0xd05", "0xd05", "0xd0b", "0xd0b"),
        cpu0="1800000\n",
        cpu1="1800000\n",
        cpu2="2400000\n",
        cpu3="2400000\n",
    )
    board = with_this_machine(load_board("local"), CORES, proc, sys)
    found = [(c.name, c.core, c.cpus, c.clock_ghz.value, c.clock_ghz.source) for c in board.clusters]
    assert found == [
        ("cortex-a76@2.4", "cortex-a76", (2, 3), 2.4, "probed"),
        ("cortex-a55@1.8", "cortex-a55", (0, 1), 1.8, "probed"),
    ]


def test_an_unknown_core_is_taken_for_the_slower_profile() -> None:
    assert probe(arm("0xd99"), {}, CORES) == (Cpu(0, "cortex-a55", 0),)
    assert probe(arm("0xd0b").replace("0x41", "0x61"), {}, CORES)[0].core == "cortex-a55"


@pytest.mark.parametrize(("model", "khz"), [(" @ 2.20GHz", 2_200_000), ("", 0)])
def test_x86_names_its_clock_in_the_model_name(model: str, khz: int) -> None:
    assert probe(X86.format(3, model, "1234.567"), {}, CORES) == (Cpu(3, "generic-x86-64", khz),)
    assert probe(X86.format(3, model, "1234.567"), {3: 3_000_000}, CORES)[0].max_khz == 3_000_000


def test_an_x86_with_all_that_the_libraries_ask_for_has_avx512() -> None:
    every = "avx512f avx512cd avx512bw avx512dq avx512vl"
    for flags, core in ((every, "x86-64-avx512"), (every.replace("avx512vl", ""), "generic-x86-64")):
        found = probe(X86.format(0, "", "800").replace("fpu", f"fpu avx2 {flags}"), {}, CORES)
        assert found == (Cpu(0, core, 0),)
        assert ("avx512" in load_core(core).isa) == (core == "x86-64-avx512")


def test_the_clock_of_the_moment_changes_nothing() -> None:
    assert probe(X86.format(0, "", "800.000"), {}, CORES) == probe(X86.format(0, "", "3600.000"), {}, CORES)


def test_without_a_known_clock_it_stays_assumed(tmp_path: Path) -> None:
    proc, sys = machine(tmp_path, X86.format(0, "", "800.000"), cpu0="what\n")
    assumed = load_board("local")
    [cluster] = with_this_machine(assumed, CORES, proc, sys).clusters
    assert cluster.clock_ghz.source.startswith("assumed:")
    assert cluster.cpus == (0,)


@pytest.mark.parametrize("cpuinfo", ["", "nonsense", "processor : x\n", "\0\n\n\n"])
def test_a_machine_that_tells_nothing_keeps_the_assumed_board(tmp_path: Path, cpuinfo: str) -> None:
    board = load_board("local")
    assert with_this_machine(board, CORES, *machine(tmp_path, cpuinfo)) == board
    assert with_this_machine(board, CORES, tmp_path / "none", tmp_path / "none") == board


def test_the_same_machine_is_the_same_board() -> None:
    assert load_board("local") == load_board("local")
    assert board_sha256(load_board("local")) == board_sha256(load_board("local"))
