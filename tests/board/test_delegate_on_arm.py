# SPDX-License-Identifier: Apache-2.0
"""The library that is built for boards carries out plans on emulated arm64 as it does here."""

from __future__ import annotations

import pytest

import edgedeploy_kernels
from edgedeploy_profiles.load import load_core, load_kernels
from support.delegates import Job, claims, library, planned, run, same, scattered
from support.random_model import random_dag
from support.runtimes import OTHERS
from support.scenes import EXAMPLES, check_same_as_stock, check_with_xnnpack, example_scenes, random_scenes
from support.userland import Userland

pytestmark = pytest.mark.board

NOT_STOCK = ("tflite-runtime", "tfmr_64x128.int8.tflite")
"""Ends the process on emulated arm64 (SIGSEGV), with and without XNNPACK, and without our library too."""


@pytest.mark.parametrize("core", ["cortex-a53", "cortex-a76"])
def test_plans_are_carried_out(board: Userland, core: str) -> None:
    runtime = board.runtime(load_core(core))
    check_same_as_stock(random_scenes(range(4000, 4012), runtime, xnnpack="off"), runtime)
    check_with_xnnpack(random_scenes(range(5000, 5006), runtime), runtime)


@pytest.mark.parametrize("name", OTHERS, ids="-".join)
def test_plans_are_carried_out_in_other_runtimes(board: Userland, name: tuple[str, str]) -> None:
    try:
        runtime = board.other(load_core("cortex-a76"), *name)
    except LookupError as error:
        pytest.skip(str(error))
    check_same_as_stock(random_scenes(range(4000, 4012), runtime, xnnpack="off"), runtime)
    check_with_xnnpack(random_scenes(range(5000, 5006), runtime), runtime)
    scenes = [s for s in example_scenes("imx8mp", runtime) if (name[0], s.name) != NOT_STOCK]
    check_same_as_stock(scenes, runtime)


def test_examples_run_as_planned(board: Userland) -> None:
    runtime = board.runtime(load_core("cortex-a76"))
    check_same_as_stock(example_scenes("imx8mp", runtime), runtime)


def test_the_shipped_kernels_give_the_stock_runtime_s_bits(board: Userland) -> None:
    """On the machine that they are for: of some ops the runtime has another kernel on x86-64."""
    shipped = load_kernels(edgedeploy_kernels.manifest())
    if not shipped.kernels:
        pytest.skip("the manifest has no kernels")
    runtime = board.runtime(load_core("cortex-a76"))
    models = [EXAMPLES[f"{name}.tflite"] for name in ("unet_128.int8", "tfmr_64x128.int8")]
    plans = [planned(model, "rpi5", kernels=shipped, xnnpack="off") for model in models]
    assert all(map(claims, plans))
    models += [random_dag(seed, 30, "int8") for seed in range(12)]
    plans += [scattered(m, "rpi5", i, share=0.9, kernels=shipped, xnnpack="off") for i, m in enumerate(models[2:])]
    mine = [Job(model, plan, xnnpack=False) for model, plan in zip(models, plans, strict=True)]
    ran = run([*mine, *(Job(model, xnnpack=False) for model in models)], runtime, library(runtime.machine))
    for number, (a, b) in enumerate(zip(ran[: len(mine)], ran[len(mine) :], strict=True)):
        assert (a.error, "edgedeploy" in a.stderr) == ("", False), number
        assert same(a.outputs, b.outputs), number


@pytest.mark.parametrize("name", ["rpi4", "rk3588"])
def test_the_shipped_kernels_run_beside_xnnpack_as_planned(board: Userland, name: str) -> None:
    """A U-Net, a transformer, an SSD and a YOLO, as a user gets them: strict, and with the stock runtime's bits."""
    shipped = load_kernels(edgedeploy_kernels.manifest())
    runtime = board.runtime(load_core("cortex-a76"))
    models = [
        EXAMPLES[f"{model}.tflite"] for model in ("unet_128.int8", "tfmr_64x128.int8", "ssd_96.int8", "yolo_96.int8")
    ]
    plans = [planned(model, name, npu="none", kernels=shipped) for model in models]
    assert all(map(claims, plans))
    mine = [Job(model, plan, {"strict": "1"}) for model, plan in zip(models, plans, strict=True)]
    ran = run([*mine, *map(Job, models)], runtime, library(runtime.machine))
    for plan, ours, stock in zip(plans, ran[: len(mine)], ran[len(mine) :], strict=True):
        assert ours.error == ""
        assert [set(node) for node in ours.delegate_nodes] == claims(plan)
        assert same(ours.outputs, stock.outputs)


def test_threads_give_the_same_bits(board: Userland) -> None:
    model = random_dag(77, 20, "float32")
    plan = scattered(model, "rpi5", 77, xnnpack="off")
    runtime = board.runtime(load_core("cortex-a76"))
    ran = run([Job(model, plan, {"threads": n}, xnnpack=False) for n in ("1", "2", "4")], runtime)
    assert all(r.error == "" and same(r.outputs, ran[0].outputs) for r in ran)


def test_times_are_told(board: Userland) -> None:
    model = EXAMPLES["dscnn_kws.fp32.tflite"]
    runtime = board.runtime(load_core("cortex-a76"))
    [ran] = run([Job(model, planned(model, "rpi5", npu="none"), {"times": "1"}, times=1)], runtime)
    begun, times, *_ = ran.times
    assert begun == 0
    assert {op for t in times if t["unit"] == 2 for op in t["ops"]} == set(range(12))
