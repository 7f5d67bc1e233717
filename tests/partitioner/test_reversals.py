# SPDX-License-Identifier: Apache-2.0
"""Where "on the NPU" is known to be slower than the CPU, the plan says CPU; where it is faster, NPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cost import networks
from benchmarks.cost.networks import mlperf_tiny
from benchmarks.cost.networks.net import Net
from edgedeploy_partitioner.checker import check
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.plan import ON_ARM, XNNPACK, Plan
from edgedeploy_partitioner.planning import Request, partition
from edgedeploy_profiles import load, load_board, load_runtime

RUNTIME = load_runtime("ai-edge-litert", "2.3.0")
TABLES = Path(load.__file__).parent / "backends"


def plan(graph: Graph, board: str, npu: str) -> Plan:
    found = partition(graph, load_board(board), Request(RUNTIME, npu=npu))
    assert check(found, graph) == ()
    return found


def stock_over_cpu(found: Plan) -> float:
    """How many times the CPU's time the stock delegate takes."""
    assert found.baselines.stock_delegate is not None
    return found.baselines.stock_delegate.latency_ns / found.baselines.all_cpu.latency_ns


def macs_on_npu(found: Plan) -> float:
    return sum(op.macs for op in found.ops if op.backend not in ON_ARM) / sum(op.macs for op in found.ops)


def test_wav2letter_on_imx8mp() -> None:
    """NXP's zoo: 1,329 ms on the NPU, 203 ms on the CPU, for convolutions with kernels 48 and 32 wide."""
    found = plan(networks.wav2letter(), "imx8mp", "vx")
    assert stock_over_cpu(found) == pytest.approx(1329 / 203, rel=0.3)
    wide = [op for op in found.ops if op.index in (0, 8)]
    assert [op.backend for op in wide] == ["cpu", "cpu"]
    assert found.predicted.latency_ns < found.baselines.all_cpu.latency_ns


def test_keywords_on_imx93() -> None:
    """NXP's zoo: 0.409 ms on the NPU, as two custom ops around a pool that the image's Vela leaves to the CPU, and
    0.321 ms on the two cores. XNNPACK, which the plan is for, is faster than the built-in kernels of that figure."""
    found = plan(networks.ds_cnn_kws(), "imx93", "ethosu")
    assert {op.backend for op in found.ops} <= {"cpu", "neon"}
    assert found.baselines.stock_delegate is not None
    assert found.baselines.stock_delegate.partitions == 2
    assert found.baselines.stock_delegate.latency_ns == pytest.approx(409_000, rel=0.15)
    assert stock_over_cpu(found) > 409 / 321


def test_larger_networks_on_imx93() -> None:
    """NXP's zoo: MobileNetV2 3.46 ms on the NPU, 44 ms on the CPU; MLPerf Tiny's ResNet 0.33 ms and 1.65 ms."""
    assert stock_over_cpu(plan(networks.mobilenet_v2(224), "imx93", "ethosu")) < 0.3
    assert stock_over_cpu(plan(mlperf_tiny.tiny_resnet(), "imx93", "ethosu")) < 1


@pytest.mark.parametrize("board", ["rk3588", "rk3576", "rk3568"])
def test_tiny_keyword_nets_on_rockchip(board: str) -> None:
    """Hand-overs and the fixed time of each op cost more than the whole network on the CPU."""
    found = plan(networks.ds_cnn_kws(), board, "rknn")
    assert {op.backend for op in found.ops} <= {"cpu", "neon"}
    assert stock_over_cpu(found) > 1.5


def test_tiny_keyword_nets_on_imx8mp() -> None:
    """NXP publishes 0.18 ms on its NPU and 0.38 ms on the CPU: there the NPU wins."""
    assert stock_over_cpu(plan(networks.ds_cnn_kws(), "imx8mp", "vx")) < 1


def test_a_mobilenet_of_which_the_npu_takes_scattered_ops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an i.MX 95 (Toradex community 29531): all of MobileNetV2 at 224 pixels is far faster on the NPU; at 320 it
    takes 22 of 88 ops, here and there, and is slower than the CPU alone (87.4 ms against 76.1)."""
    whole = plan(networks.mobilenet_v2(224), "imx8mp", "vx")
    assert macs_on_npu(whole) == 1
    assert stock_over_cpu(whole) < 0.5
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    table = tmp_path / "edgedeploy" / "backends" / "vx.toml"
    table.parent.mkdir(parents=True)
    only = '[[rules]]\nmaps_to = { DEPTHWISE_CONV_2D = "depthwise" }\nsource = "assumed: for this test"\n'
    head = (TABLES / "vx.toml").read_text().partition("\n[[")[0]
    table.write_text(f"{head}\n\n{only}")
    scattered = plan(networks.mobilenet_v2(320), "imx8mp", "vx")
    assert scattered.baselines.stock_delegate is not None
    assert scattered.baselines.stock_delegate.partitions == 17
    assert 1 < stock_over_cpu(scattered) < 1.3, "published: 87.4 / 76.1 = 1.15"
    assert {op.backend for op in scattered.ops} == {"cpu"}


def detector(dtype: str = "int8") -> Graph:
    """YOLO-like: a backbone of 640x640 images, heads, and a tail that no NPU takes."""
    net = Net("detector", dtype)
    x = net.conv(net.input(640, 640, 3), 32, 6, 2)
    for width in (64, 128, 256):
        x = net.conv(net.conv(x, width, 3, 2), width, 3)
    head = net.conv(x, 255, act="LOGISTIC")
    _, h, w, _ = net.shape(head)
    rows = net.reshape(head, 1, h * w * 3, 85)
    boxes = net.op("SLICE", [rows, net.integers(0, 0, 0), net.integers(1, h * w * 3, 4)], (1, h * w * 3, 4))
    grown = net.op("EXP", [boxes], net.shape(boxes))
    best = net.op("TOPK_V2", [net.reshape(grown, 1, h * w * 12), net.integers(100)], (1, 100))
    return net.build(best)


@pytest.mark.parametrize("board", ["rk3588", "rk3576", "rk3568", "rk3566"])
def test_a_detector_goes_to_the_npu_and_its_tail_to_the_cpu(board: str) -> None:
    found = plan(detector(), board, "rknn")
    assert macs_on_npu(found) > 0.9
    assert {found.ops[i].backend for i in range(-3, 0)} <= {"cpu", "neon"}, "EXP, RESHAPE, TOPK_V2"
    assert len({op.partition for op in found.ops if op.backend == "rknn"}) <= 2
    assert found.predicted.latency_ns < 0.7 * found.baselines.all_cpu.latency_ns


@pytest.mark.parametrize("board", ["rk3588", "rk3576", "rk3568", "rk3566"])
def test_yolo_as_rockchip_cuts_it_is_one_partition(board: str) -> None:
    """Perhaps without its first layer, which wastes the NPU's array on three channels."""
    found = plan(networks.yolov5("n"), board, "rknn")
    assert macs_on_npu(found) > 0.9
    assert sum(p.delegate != XNNPACK for p in found.partitions) == 1
