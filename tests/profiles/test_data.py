# SPDX-License-Identifier: Apache-2.0
"""The profiles that ship: each loads, hangs together and says where its numbers come from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import edgedeploy_profiles as profiles
from edgedeploy_profiles.schema import Cluster

PACKAGE = Path(profiles.__file__).parent
FILES = sorted(PACKAGE.glob("*/*.toml"))
BOARDS = sorted(file.stem for file in PACKAGE.glob("boards/*.toml"))
HARDWARE = [name for name in BOARDS if name != "local"]
CORES = sorted(file.stem for file in PACKAGE.glob("cores/*.toml"))
BACKENDS = sorted(file.stem for file in PACKAGE.glob("backends/*.toml"))


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_loads_under_its_own_name(name: str) -> None:
    board = profiles.load_board(name)
    assert board.name == name
    assert {cluster.core for cluster in board.clusters} <= set(CORES)
    runtime, version = board.default_runtime.split("==")
    assert profiles.load_runtime(runtime, version).version == version


@pytest.mark.parametrize("name", BACKENDS)
def test_every_backend_loads_under_its_own_name(name: str) -> None:
    assert profiles.load_backend(name).name == name


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_source_is_used_and_says_something(file: Path) -> None:
    text = file.read_text()
    sources = dict(
        re.findall(r'^([a-z0-9-]+) = "(.*)"$', text[text.index("[sources]") :].split("\n[")[0], re.MULTILINE)
    )
    used = set(re.findall(r'source = "([^"]*)"', text)) | ({"probed"} if file.stem == "local" else set())
    assert set(sources) <= used
    assert all(len(source) > 20 for source in sources.values())
    assert all(len(source) >= len("assumed: why") for source in used if source.startswith("assumed:"))


@pytest.mark.parametrize("name", HARDWARE)
def test_the_clusters_of_a_board_are_fastest_first(name: str) -> None:
    """By int8 products a second and core: --cpus takes the first cluster, and threads that span several the last."""

    def speed(cluster: Cluster) -> float:
        return (
            profiles.load_core(cluster.core).macs_per_cycle["xnnpack"]["conv"]["int8"].value * cluster.clock_ghz.value
        )

    speeds = [speed(cluster) for cluster in profiles.load_board(name).clusters]
    assert speeds == sorted(speeds, reverse=True)


@pytest.mark.parametrize("name", HARDWARE)
def test_a_board_names_all_its_cpus_once(name: str) -> None:
    cpus = [cpu for cluster in profiles.load_board(name).clusters for cpu in cluster.cpus]
    assert sorted(cpus) == list(range(len(cpus)))


@pytest.mark.parametrize("name", HARDWARE)
def test_one_core_moves_no_more_than_all(name: str) -> None:
    board = profiles.load_board(name)
    for cluster in board.clusters:
        assert cluster.bandwidth_gb_s.value <= board.ram.bandwidth_gb_s.value
        assert cluster.bandwidth_gb_s.highest <= board.ram.bandwidth_gb_s.highest


# Main ID Register parts as the Linux kernel has them in arch/arm64/include/asm/cputype.h.
PARTS = {"cortex-a53": 0xD03, "cortex-a55": 0xD05, "cortex-a72": 0xD08, "cortex-a73": 0xD09, "cortex-a76": 0xD0B,
         "cortex-a78": 0xD41}  # fmt: skip


@pytest.mark.parametrize("name", CORES)
def test_every_core_loads_under_its_own_name(name: str) -> None:
    core = profiles.load_core(name)
    assert (core.name, core.arm_part) == (name, PARTS.get(name))
    # Armv8.0 has neither; Armv8.2 cores of this list have both.
    extensions = {"fp16", "dotprod"} & set(core.isa)
    assert extensions == ({"fp16", "dotprod"} if name in ("cortex-a55", "cortex-a76", "cortex-a78") else set())
    assert bool(core.arm_part) == ("asimd" in core.isa)


def test_the_boards_people_have_are_here() -> None:
    expected = "a311d coral-dev genio1200 imx8mp imx93 local qcs6490 rk3566 rk3568 rk3576 rk3588 rpi4 rpi5"
    assert set(expected.split()) <= set(profiles.board_names())


@pytest.mark.parametrize("name", HARDWARE)
def test_what_was_not_run_on_hardware_says_so(name: str) -> None:
    assert any("Not run on hardware" in note for note in profiles.load_board(name).notes)


def test_the_support_tables_say_that_they_were_not_run_on_hardware() -> None:
    assert "Not run on hardware" in (PACKAGE / "backends/rknn.toml").read_text()
