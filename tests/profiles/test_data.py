# SPDX-License-Identifier: Apache-2.0
"""The profiles that ship: each loads, hangs together and says where its numbers come from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import edgedeploy_profiles as profiles

PACKAGE = Path(profiles.__file__).parent
FILES = sorted(PACKAGE.glob("*/*.toml"))
BACKENDS = sorted(file.stem for file in PACKAGE.glob("backends/*.toml"))


@pytest.mark.parametrize("name", sorted(file.stem for file in PACKAGE.glob("boards/*.toml")))
def test_every_board_loads_under_its_own_name(name: str) -> None:
    board = profiles.load_board(name)
    assert board.name == name
    assert {cluster.core for cluster in board.clusters} <= {file.stem for file in PACKAGE.glob("cores/*.toml")}
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


def test_the_clusters_of_a_board_are_fastest_first() -> None:
    for name in ("rk3588", "rpi5"):
        clocks = [cluster.clock_ghz.value for cluster in profiles.load_board(name).clusters]
        assert clocks == sorted(clocks, reverse=True)


def test_what_was_not_run_on_hardware_says_so() -> None:
    for name in ("rk3588", "rpi5"):
        assert any("Not run on hardware" in note for note in profiles.load_board(name).notes)
    assert "Not run on hardware" in (PACKAGE / "backends/rknn.toml").read_text()


def test_rknn_constants_reproduce_the_published_latencies_they_were_chosen_for() -> None:
    """MobileNetV2 and ResNet50 by their ops, MMACs and megabytes; YOLOv5s-relu needs its layers."""
    costs = {name: q.value for name, q in profiles.load_board("rk3588").stacks["rknn"].costs.items()}
    # Sums over a model bound the sum of max(compute, memory): the larger of the two below, both together above.
    for ops, mmacs, megabytes, published_us in [(54, 300.8, 17.2, 2219), (56, 4089.2, 53.9, 9083)]:
        compute = (
            mmacs * 1e6 / (costs["int8_macs_per_cycle"] * costs["compute_efficiency"] * costs["npu_clock_ghz"] * 1e3)
        )
        memory = megabytes * 1e3 / costs["npu_bandwidth_gb_s"]
        overhead = ops * costs["op_overhead_us"]
        assert overhead + max(compute, memory) <= 1.09 * published_us
        assert overhead + compute + memory >= published_us / 1.09
