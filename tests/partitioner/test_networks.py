# SPDX-License-Identifier: Apache-2.0
"""The networks of benchmarks/cost have the products and parameters that their authors publish."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.cost.networks import classic, small, yolo, yolo_others
from edgedeploy_partitioner.model.graph import DType, Graph
from edgedeploy_partitioner.model.work import macs

# Millions of multiply-adds and of parameters. From the papers and their repositories: MobileNets, ResNet and
# EfficientNet-Lite from TensorFlow's and torchvision's lists, YOLO from the tables of Ultralytics, THU-MIG, Meituan,
# WongKinYiu and Megvii, which give GFLOPs, two to a multiply-add. None where no figure was found.
PUBLISHED: dict[str, tuple[Callable[[], Graph], float | None, float | None]] = {
    "mobilenet_v1": (classic.mobilenet_v1, 569, 4.24),
    "mobilenet_v2": (classic.mobilenet_v2, 300, 3.5),
    "resnet50": (classic.resnet50, 4_090, 25.6),
    "efficientnet_lite0": (classic.efficientnet_lite0, 400, 4.65),
    "ssd_mobilenet_v1": (classic.ssd_mobilenet_v1, 1_200, 6.8),
    "deeplab_v3_mobilenet_v2": (classic.deeplab_v3_mobilenet_v2, 2_750, 2.1),
    "retinaface_mobilenet": (classic.retinaface_mobilenet, None, 0.43),
    "retinaface_resnet50": (classic.retinaface_resnet50, None, 27.3),
    "wav2letter": (small.wav2letter, None, 23.6),
    "ds_cnn_kws": (small.ds_cnn_kws, 2.7, 0.023),
    "yolov5n": (lambda: yolo.yolov5("n"), 2_250, 1.9),
    "yolov5s": (lambda: yolo.yolov5("s"), 8_250, 7.2),
    "yolov5m": (lambda: yolo.yolov5("m"), 24_500, 21.2),
    "yolov5n-seg": (lambda: yolo.yolov5("n", masks=True), 3_550, 2.0),
    "yolov5s-seg": (lambda: yolo.yolov5("s", masks=True), 13_200, 7.6),
    "yolov5m-seg": (lambda: yolo.yolov5("m", masks=True), 35_400, 22.0),
    "yolov6n": (lambda: yolo_others.yolov6("n"), 5_700, 4.7),
    "yolov6s": (lambda: yolo_others.yolov6("s"), 22_650, 18.5),
    "yolov6m": (lambda: yolo_others.yolov6("m"), 42_900, 34.9),
    "yolov7-tiny": (yolo_others.yolov7_tiny, 6_900, 6.2),
    "yolov7": (yolo_others.yolov7, 52_350, 36.9),
    "yolov8n": (lambda: yolo.yolov8("n"), 4_350, 3.2),
    "yolov8s": (lambda: yolo.yolov8("s"), 14_300, 11.2),
    "yolov8m": (lambda: yolo.yolov8("m"), 39_450, 25.9),
    "yolov8n-seg": (lambda: yolo.yolov8("n", task="segment"), 6_300, 3.4),
    "yolov8n-pose": (lambda: yolo.yolov8("n", task="pose"), 4_600, 3.3),
    "yolov8n-obb": (lambda: yolo.yolov8("n", task="obb"), None, 3.1),
    "yolov10n": (lambda: yolo.yolov10("n"), 3_350, 2.3),
    "yolov10s": (lambda: yolo.yolov10("s"), 10_800, 7.2),
    "yolo11n": (lambda: yolo.yolo11("n"), 3_250, 2.6),
    "yolo11s": (lambda: yolo.yolo11("s"), 10_750, 9.4),
    "yolo11m": (lambda: yolo.yolo11("m"), 34_000, 20.1),
    "yolox_s": (lambda: yolo_others.yolox("s"), 13_400, 9.0),
    "yolox_m": (lambda: yolo_others.yolox("m"), 36_900, 25.3),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_products_and_parameters_are_the_published_ones(name: str) -> None:
    build, million_macs, million_parameters = PUBLISHED[name]
    graph = build()
    main = graph.subgraphs[0]
    # Sizes and axes are int32 vectors with their bytes in the file; biases are int32 too, without.
    weights = [t for t in main.tensors if t.data is not None and t.quantization is not None]
    if million_macs is not None:
        assert sum(macs(graph, op) for op in main.ops) / 1e6 == pytest.approx(million_macs, rel=0.05)
    if million_parameters is not None:
        assert sum(t.elements for t in weights) / 1e6 == pytest.approx(million_parameters, rel=0.03)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "float32"])
def test_types_go_all_the_way(dtype: str) -> None:
    main = classic.mobilenet_v2(64, dtype=dtype).subgraphs[0]
    flowing = {t.dtype for t in main.tensors if t.data is None}
    assert flowing == {DType(dtype)}
    assert {t.quantization is None for t in main.tensors if t.data is None} == {dtype.startswith("float")}
    per_channel = {t.quantization.per_channel for t in main.tensors if t.data is not None and t.quantization}
    assert per_channel == {"int8": {True, False}, "uint8": {False}}.get(dtype, set())


def test_the_same_network_has_the_same_hash_and_another_one_another() -> None:
    assert classic.mobilenet_v2().sha256 == classic.mobilenet_v2().sha256
    assert classic.mobilenet_v2().sha256 != classic.mobilenet_v2(160).sha256
