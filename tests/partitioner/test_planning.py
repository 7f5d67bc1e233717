# SPDX-License-Identifier: Apache-2.0
"""Whole plans of real models on every board: what must hold of each, whatever the numbers are."""

from __future__ import annotations

import random
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from edgedeploy_partitioner import plan as p
from edgedeploy_partitioner.checker import check
from edgedeploy_partitioner.errors import InputError, NotDeployable
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes, read_model
from edgedeploy_partitioner.planning import Request, partition
from edgedeploy_profiles import load_board, load_runtime
from edgedeploy_profiles.schema import Kernels
from support.random_model import random_dag

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.tflite"))
BOARDS = ("rk3588", "rpi5", "local")
RUNTIME = load_runtime("ai-edge-litert", "2.3.0")


@cache
def graph(path: Path) -> Graph:
    return read_model(path)


def plan(path: Path, board: str = "rk3588", **options: Any) -> p.Plan:
    return partition(graph(path), load_board(board), Request(RUNTIME, **options), path.name)


def example(name: str) -> Path:
    return next(path for path in EXAMPLES if path.name == name)


NONE = Kernels("edgedeploy.kernels/1")
"""No C kernels."""


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_plan(path: Path, board: str) -> None:
    found = plan(path, board)
    assert check(found, graph(path)) == ()
    data = p.to_json(found)
    assert p.to_json(plan(path, board)) == data, "two runs give the same bytes"
    assert p.from_json(data) == found, "nothing is lost in JSON"
    assert found.predicted.latency_ns <= found.baselines.all_cpu.latency_ns
    if found.baselines.stock_delegate is not None:
        assert found.predicted.latency_ns <= found.baselines.stock_delegate.latency_ns
    assert found.solver.lower_bound_ns <= found.solver.objective_ns == found.predicted.latency_ns


@pytest.mark.parametrize("name", ["unet_128.int8.tflite", "tfmr_64x128.int8.tflite", "dscnn_kws.fp16.tflite"])
def test_forcing_an_op_elsewhere_is_never_better(name: str) -> None:
    """A forced plan that beat the free one would have had its order tried by it."""
    path = example(name)
    free = plan(path)
    rng = random.Random(name)
    movable = [op for op in free.ops if not op.folded]
    compared = 0
    for op in rng.sample(movable, 6):
        for backend in sorted({c.backend for c in op.candidates if c.verdict == "supported"}):
            forced = plan(path, force=(f"{op.subgraph}:{op.index}={backend}",))
            assert forced.ops[free.ops.index(op)].backend == backend
            assert check(forced, graph(path)) == ()
            if free.solver.status == "optimal" and forced.subgraphs[0].order == free.subgraphs[0].order:
                assert forced.solver.objective_ns >= free.solver.objective_ns
                compared += 1
    assert compared


def test_a_forced_npu_op_is_a_partition_with_its_transitions() -> None:
    found = plan(example("mnv1_025_128.int8.tflite"), force=("CONV_2D=rknn", "DEPTHWISE_CONV_2D=rknn"), kernels=NONE)
    npu = [part for part in found.partitions if part.delegate != "xnnpack"]
    assert npu
    assert {t.kind for t in found.transitions} == {"enter", "leave"}
    assert found.solver.objective_ns > found.baselines.all_cpu.latency_ns


def test_forbidding_the_npu_gives_the_cpu_plan() -> None:
    path = example("unet_128.int8.tflite")
    everywhere = f"0-{len(graph(path).subgraphs[0].ops) - 1}=rknn"
    forbidden = plan(path, forbid=(everywhere,), kernels=NONE)
    assert forbidden.predicted.latency_ns == forbidden.baselines.all_cpu.latency_ns
    assert plan(path, kernels=NONE).predicted.latency_ns < forbidden.predicted.latency_ns, (
        "this model gains from the NPU"
    )
    assert plan(path, npu="none", kernels=NONE).predicted.latency_ns == forbidden.predicted.latency_ns


def test_partition_limits() -> None:
    path = example("tfmr_64x128.int8.tflite")
    for limit in (0, 1, 2):
        found = plan(path, max_partitions=limit, force=("0=cpu",))
        assert sum(part.delegate != "xnnpack" for part in found.partitions) <= limit
    with pytest.raises(InputError, match="--max-partitions 0"):
        plan(example("unet_128.int8.tflite"), max_partitions=0, force=("CONV_2D=rknn",))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"force": ("SOFTMAX=gpu",)}, "unknown back end 'gpu'"),
        ({"force": ("999=cpu",)}, "no such op"),
        ({"force": ("3",)}, "expected WHAT=BACKEND"),
        ({"force": ("3=cpu", "3=rknn")}, "already forced"),
        ({"force": ("3=cpu",), "forbid": ("3=cpu",)}, "held there"),
        ({"forbid": ("3=cpu", "3=rknn")}, "no place to run"),
        ({"force": ("2=vx",)}, "unknown back end 'vx'; here: cpu, "),
        ({"cpus": "0,5-2"}, "5-2 is no range"),
        ({"cpus": "2000"}, "no range of CPU numbers"),
        ({"npu": "teflon"}, "board rk3588 has rknn"),
        ({"cpus": "9"}, "not 9"),
        ({"cpus": "2-"}, "expected big, little"),
        ({"cpus": "\u00b2"}, "expected big, little"),
        ({"threads": 0}, "expected 1 to 64"),
        ({"signature": "none_such"}, "--signature none_such"),
    ],
)
def test_options_that_cannot_be_met_say_why(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        plan(example("unet_128.int8.tflite"), **options)


@pytest.mark.parametrize("wish", ["0=rknn", "DEQUANTIZE=cpu"])
def test_a_folded_op_cannot_be_placed(wish: str) -> None:
    for option in ("force", "forbid"):
        with pytest.raises(InputError, match="only unpacks a constant"):
            plan(example("dscnn_kws.fp16.tflite"), "rk3588", **{option: (wish,)})


def test_a_refused_force_gives_the_reason_of_the_table() -> None:
    path = example("custom_erf.int8.tflite")
    custom = next(op for op in graph(path).subgraphs[0].ops if op.code == "CUSTOM")
    with pytest.raises(InputError, match=f"op {custom.index} .*cannot run on rknn: "):
        plan(path, force=(f"{custom.index}=rknn",))


def test_the_custom_op_is_planned_with_a_warning() -> None:
    found = plan(example("custom_erf.int8.tflite"))
    assert "no_runtime_kernel" in {warning.code for warning in found.warnings}
    assert [op.predicted_ns for op in found.ops if op.op == "CUSTOM"] == [0]


def test_threads_and_clusters_change_the_price() -> None:
    path = example("dscnn_kws.fp32.tflite")
    one, four, little = (
        plan(path, npu="none", **options).predicted.latency_ns
        for options in ({"threads": 1}, {"threads": 4}, {"threads": 1, "cpus": "little"})
    )
    assert four < one < little


def test_threads_without_a_core_of_their_own_do_not_help() -> None:
    path = example("unet_128.int8.tflite")
    four, sixty = (plan(path, npu="none", threads=n).predicted.latency_ns for n in (4, 60))
    one, crowded = (plan(path, npu="none", threads=n, cpus="4").predicted.latency_ns for n in (1, 4))
    assert four == sixty < one == crowded


def test_a_memory_limit_that_no_plan_meets_is_exit_3() -> None:
    path = example("unet_128.int8.tflite")
    peak = plan(path).memory.peak_bytes
    assert plan(path, memory_limit_bytes=peak).memory.peak_bytes == peak
    with pytest.raises(NotDeployable, match="--memory-limit 1000 bytes"):
        plan(path, memory_limit_bytes=1000)


def test_less_memory_costs_time_until_there_is_no_plan() -> None:
    """Down from the free plan, each time one byte less than the plan before needs."""
    path = example("unet_128.int8.tflite")
    found = [plan(path)]
    refused = ""
    while not refused and len(found) < 20:
        try:
            found.append(plan(path, memory_limit_bytes=found[-1].memory.peak_bytes - 1))
        except NotDeployable as error:
            refused = error.message
    assert "least peak" in refused
    assert len(found) >= 3
    for dearer, leaner in pairwise(found):
        assert leaner.memory.peak_bytes < dearer.memory.peak_bytes
        assert leaner.predicted.latency_ns >= dearer.predicted.latency_ns
        assert leaner.solver.lower_bound_ns >= found[0].predicted.latency_ns or leaner.solver.status == "bounded"


def test_whatever_fits_a_memory_limit_is_a_true_plan() -> None:
    """The free plan or another replayed schedule in its place, with a bound of its own."""
    hit = 0
    for seed in range(12):
        model = read_bytes(random_dag(seed, 30))
        free = partition(model, load_board("rk3588"), Request(RUNTIME))
        for limit in sorted({free.baselines.all_cpu.peak_bytes or 0, free.memory.peak_bytes - 1}):
            try:
                found = partition(model, load_board("rk3588"), Request(RUNTIME, memory_limit_bytes=limit))
            except NotDeployable:
                continue
            assert found.memory.peak_bytes <= limit
            assert check(found, model) == (), f"seed {seed}"
            hit += 1
    assert hit


def test_a_board_value_that_was_changed_has_its_own_hash() -> None:
    board = load_board("rk3588")
    slower = structs.replace(board, overhead_us=structs.replace(board.overhead_us, value=4.0))
    path = example("dscnn_kws.int8.tflite")
    a, b = (partition(graph(path), each, Request(RUNTIME)) for each in (board, slower))
    assert a.inputs.board.profile_sha256 != b.inputs.board.profile_sha256
    assert b.predicted.latency_ns - a.predicted.latency_ns == 2_000


def test_switch_means_nothing_where_xnnpack_is_on_by_itself() -> None:
    with pytest.raises(InputError, match="--xnnpack switch"):
        plan(example("dscnn_kws.int8.tflite"), xnnpack="switch")


def test_fp16_weights_travel_with_their_readers() -> None:
    found = plan(example("dscnn_kws.fp16.tflite"), force=("CONV_2D=rknn", "DEPTHWISE_CONV_2D=rknn"), kernels=NONE)
    folded = [op for op in found.ops if op.folded]
    assert folded
    readers = {t: op for op in found.ops if not op.folded for t in op.inputs}
    for op in folded:
        assert op.predicted_ns == 0
        assert op.partition == readers[op.outputs[0]].partition
