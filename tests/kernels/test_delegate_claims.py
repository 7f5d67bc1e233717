# SPDX-License-Identifier: Apache-2.0
"""Plans of the real planner, carried out by libedgedeploy.so in the installed runtime: claims and outputs."""

from __future__ import annotations

import pytest

from support.delegates import claims
from support.runtimes import other_or_skip
from support.scenes import check_same_as_stock, check_with_xnnpack, dense_scenes, example_scenes, random_scenes

OTHERS = [("ai-edge-litert", "2.1.0"), ("tflite-runtime", "2.14.0")]


@pytest.mark.parametrize("block", range(5))
def test_random_graphs_run_as_planned(block: int) -> None:
    check_same_as_stock(random_scenes(range(block * 20, block * 20 + 20), xnnpack="off"))


@pytest.mark.parametrize("block", range(3))
def test_large_partitions_of_our_kernels_share_memory_as_planned(block: int) -> None:
    check_same_as_stock(dense_scenes(range(6000 + block * 20, 6020 + block * 20)))


@pytest.mark.parametrize("block", range(3))
def test_xnnpack_takes_what_is_left(block: int) -> None:
    check_with_xnnpack(random_scenes(range(1000 + block * 20, 1020 + block * 20)))


@pytest.mark.parametrize("board", ["rpi5", "imx8mp", "a311d"])
def test_example_models_run_as_planned(board: str) -> None:
    scenes = example_scenes(board)
    assert any(claims(scene.plan) for scene in scenes)
    check_same_as_stock(scenes)


@pytest.mark.runtimes
@pytest.mark.parametrize(("name", "version"), OTHERS)
def test_other_runtimes_run_as_planned(name: str, version: str) -> None:
    runtime = other_or_skip(name, version)
    check_same_as_stock(random_scenes(range(2000, 2040), runtime, xnnpack="off"), runtime)
    check_same_as_stock(example_scenes("imx8mp", runtime), runtime)
    check_with_xnnpack(random_scenes(range(3000, 3020), runtime), runtime)
