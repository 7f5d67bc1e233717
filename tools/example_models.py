# SPDX-License-Identifier: Apache-2.0
"""Write the detectors in examples/: a YOLO-like head and an SSD with TFLite's own post-processing, both int8.

    python tools/example_models.py

The networks are drawn as graphs of shapes (benchmarks/cost/networks) and get random weights by seed. They are quantised
as a converter does it: the float model runs on random images, each tensor takes the range it was seen with, weights one
scale per output channel, and what an op passes on unchanged keeps its scale.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flatbuffers import flexbuffers
from numpy.typing import NDArray

from edgedeploy_partitioner.model.build import Model, per_channel, per_tensor
from edgedeploy_partitioner.model.graph import DType, Op, Quantization

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.cost.networks.net import scaled  # noqa: E402
from benchmarks.cost.networks.yolo import Yolo  # noqa: E402

Array = NDArray[Any]
Scales = Mapping[int, Quantization]

_IMAGES = 4
_CLASSES = 20
# Versions of the ops that take int8, as converters write them.
_INT8_VERSION = {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3}
_FIXED = {"LOGISTIC": per_tensor(1 / 256, -128), "SOFTMAX": per_tensor(1 / 256, -128)}
_PASSING = ("CONCATENATION", "MAX_POOL_2D", "RESHAPE", "RESIZE_NEAREST_NEIGHBOR", "SPLIT", "STRIDED_SLICE", "TRANSPOSE")
_INPUT = per_tensor(1 / 128, 0)
_POST_PROCESS = "TFLite_Detection_PostProcess"


class Drawn(Yolo):
    """A network with values: random weights, and constants as given. Its type is float32; :func:`written` quantises."""

    def __init__(self, name: str, act: str) -> None:
        super().__init__(name, "float32", (1.0, 1.0, 1024), act)
        self.values: dict[int, Array] = {}
        self.random = np.random.default_rng(7)

    def known(self, value: Any) -> int:
        """A float constant."""
        array = np.asarray(value, np.float32)
        tensor = super()._constant(array.shape, self.dtype, None)
        self.values[tensor] = array
        return tensor

    def _constant(self, shape: tuple[int, ...], dtype: DType, quantization: Quantization | None) -> int:
        tensor = super()._constant(shape, dtype, quantization)
        depthwise = len(shape) == 4 and shape[0] == 1 and shape[3] > 1
        reads = math.prod(shape[1:3]) if depthwise else math.prod(shape[1:])
        self.values[tensor] = (self.random.standard_normal(shape) * (1.5 / reads) ** 0.5).astype(np.float32)
        return tensor

    def strided(self, x: int, begin: Sequence[int], end: Sequence[int], step: Sequence[int]) -> int:
        shape = tuple(-(-(e - b) // s) for b, e, s in zip(begin, end, step, strict=True))
        bounds = [self.integers(*values) for values in (begin, end, step)]
        return self.op("STRIDED_SLICE", [x, *bounds], shape)

    def stacked(self, *xs: int) -> int:
        """Along the second dimension."""
        first, _, *rest = self.shape(xs[0])
        shape = (first, sum(self.shape(x)[1] for x in xs), *rest)
        return self.op("CONCATENATION", xs, shape, {"axis": 1, "fused_activation_function": "NONE"})


# --- networks ----------


def yolo(size: int = 96) -> tuple[Drawn, list[int]]:
    """Focus stem, C2f blocks that join six parts, SPPF, an upsampling neck, and YOLOv8's head decoded to boxes."""
    net = Drawn(f"yolo_{size}", "SILU")
    image = net.input(size, size, 3)
    corners = [net.strided(image, (0, i, j, 0), (1, size, size, 3), (1, 2, 2, 1)) for j in (0, 1) for i in (0, 1)]
    x = net.cv(net.concat(*corners), 16, 3)
    p3 = net.c2f(net.cv(x, 32, 3, 2), 32, 4, shortcut=True)
    p4 = net.c2f(net.cv(p3, 48, 3, 2), 48, 1, shortcut=True)
    p5 = net.sppf(net.cv(p4, 64, 3, 2))
    n4 = net.c2f(net.concat(net.upsample(p5), p4), 48, 1, shortcut=False)
    n3 = net.cv(net.concat(net.upsample(n4), p3), 32)
    return net, _decoded(net, [(n3, 4), (n4, 8), (p5, 16)])


def _decoded(net: Drawn, features: list[tuple[int, int]]) -> list[int]:
    """Boxes (1, places, 4) as corners in pixels and scores (1, places, classes)."""
    sides, scores, centres, strides = [], [], [], []
    for x, stride in features:
        _, h, w, _ = net.shape(x)
        sides.append(net.reshape(net.conv(net.cv(x, 32, 3), 64, act="NONE"), 1, h * w, 4, 16))
        scores.append(net.reshape(net.conv(net.cv(x, 32), _CLASSES, act="NONE"), 1, h * w, _CLASSES))
        centres.append(_places(h, w))
        strides.append(np.full((h * w, 1), stride))
    # Each side's distance is the mean of 16 bins by their weights.
    bins = net.softmax(net.stacked(*sides))
    _, places, _, _ = net.shape(bins)
    mean = [bins, net.known(np.arange(16).reshape(1, 1, 1, 16)), net.known([0])]
    options: dict[str, Any] = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "fused_activation_function": "NONE"}
    distances = net.reshape(net.op("CONV_2D", mean, (1, places, 4, 1), options), 1, places, 4)
    before, after = (net.strided(distances, (0, 0, i), (1, places, i + 2), (1, 1, 1)) for i in (0, 2))
    centre = net.known(np.concatenate(centres)[None])
    first = net.op("SUB", [centre, before], (1, places, 2), {"fused_activation_function": "NONE"})
    last = net.op("ADD", [centre, after], (1, places, 2), {"fused_activation_function": "NONE"})
    boxes = net.mul(net.concat(first, last), net.known(np.concatenate(strides)[None]))
    return [boxes, net.activation(net.stacked(*scores), "LOGISTIC")]


def _places(h: int, w: int) -> Array:
    """Centres (x, y) of the cells, row by row."""
    rows, columns = np.mgrid[:h, :w]
    return np.stack([columns, rows], -1).reshape(-1, 2) + 0.5


def ssd(size: int = 96) -> tuple[Drawn, list[int]]:
    """MobileNetV2-like features, SSDLite heads on three levels, and the detections that TFLite's custom op finds."""
    net = Drawn(f"ssd_{size}", "RELU6")
    x = net.conv(net.input(size, size, 3), 16, 3, 2, "RELU6")
    features = []
    for out, stride in [(16, 2), (24, 2), (24, 1), (48, 2), (48, 1), (64, 2), (64, 2)]:
        hidden = net.conv(x, scaled(3 * net.channels(x), 1.0), act="RELU6")
        y = net.conv(net.depthwise(hidden, 3, stride, "RELU6"), out, act="NONE")
        x = net.add(x, y) if stride == 1 else y
        features.append(x)
    boxes: list[int] = []
    scores: list[int] = []
    anchors = []
    for level, x in enumerate(features[-3:]):
        _, h, w, _ = net.shape(x)
        for found, values in ((boxes, 4), (scores, _CLASSES + 1)):
            y = net.conv(net.depthwise(x, 3, 1, "RELU6"), 6 * values, act="NONE")
            net.values[net.ops[-1].inputs[1]] *= 0.3  # scores that differ, not all next to 1
            found.append(net.reshape(y, 1, h * w * 6, values))
        anchors.append(_anchors(h, w, 0.2 + 0.3 * level))
    operands = [net.stacked(*boxes), net.activation(net.stacked(*scores), "LOGISTIC")]
    operands.append(net.known(np.concatenate(anchors)))
    outs = [net._tensor(shape, DType.FLOAT32) for shape in ((1, 10, 4), (1, 10), (1, 10), (1,))]
    net._append("CUSTOM", operands, outs, {})
    return net, outs


def _anchors(h: int, w: int, size: float) -> Array:
    """Rows of y, x, height and width: six shapes a place."""
    centres = np.repeat(_places(h, w)[:, ::-1] / (h, w), 6, axis=0)
    ratios = np.sqrt([1, 2, 0.5, 3, 1 / 3, 1])
    shapes = size * np.stack([1 / ratios, ratios], -1) * np.array([1, 1, 1, 1, 1, 1.4])[:, None]
    return np.concatenate([centres, np.tile(shapes, (h * w, 1))], axis=1)


def _post_process_options() -> bytes:
    values = {"max_detections": 10, "max_classes_per_detection": 1, "num_classes": _CLASSES}
    scales = {"x_scale": 10.0, "y_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}
    builder = flexbuffers.Builder()
    with builder.Map():
        for key, value in values.items():
            builder.Int(key, value)
        for key, real in {**scales, "nms_score_threshold": 0.3, "nms_iou_threshold": 0.6}.items():
            builder.Float(key, real)
        builder.Bool("use_regular_nms", False)
    return bytes(builder.Finish())


# --- files ----------


def written(net: Drawn, outputs: Sequence[int], scales: Scales | None = None) -> bytes:
    """The file: float32, or int8 with a quantisation for each tensor that is computed."""
    model = Model(net.name.replace("float32", "float32" if scales is None else "int8"))
    return _Writer(net, model, scales).file(outputs)


class _Writer:
    def __init__(self, net: Drawn, model: Model, scales: Scales | None) -> None:
        self.net, self.model, self.g, self.scales = net, model, model.subgraph(), scales
        self.ids: dict[int, int] = {}

    def file(self, outputs: Sequence[int]) -> bytes:
        for x in self.net.inputs:
            self.ids[x] = self.g.input(self.net.shape(x), *self.kind(x), name="image")
        for op in self.net.ops:
            self.op(op)
        self.g.outputs(*(self.ids[x] for x in outputs))
        return self.model.build()

    def kind(self, x: int) -> tuple[str, Quantization | None]:
        return ("float32", None) if self.scales is None or x not in self.scales else ("int8", self.scales[x])

    def op(self, op: Op) -> None:
        inputs = [self.operand(op, i) for i in range(len(op.inputs))]
        for x in op.outputs:
            self.ids[x] = self.g.tensor(self.net.shape(x), *self.kind(x))
        more: dict[str, Any] = dict(op.options)
        if op.code == "CUSTOM":
            more = {"custom_code": _POST_PROCESS, "custom_options": _post_process_options()}
        elif self.scales is not None:
            more["op_version"] = _INT8_VERSION.get(op.code, 2 if op.code != "RESHAPE" else 1)
        self.g.op(op.code, inputs, [self.ids[x] for x in op.outputs], **more)

    def operand(self, op: Op, place: int) -> int:
        x = op.inputs[place]
        if x in self.ids:
            if op.code != "CUSTOM" or self.scales is None:
                return self.ids[x]
            return self.g.apply("DEQUANTIZE", [self.ids[x]], self.net.shape(x), op_version=2)
        if (span := self.net.tensors[x].data) is not None and x not in self.net.values:
            value = np.frombuffer(self.net._data, np.int32, span.size // 4, span.start)
            # The axis of SPLIT is a scalar.
            self.ids[x] = self.g.constant(value.reshape(()) if op.code == "SPLIT" else value)
        else:
            self.ids[x] = self.real(op, place, self.net.values[x])
        return self.ids[x]

    def real(self, op: Op, place: int, value: Array) -> int:
        if self.scales is None or op.code == "CUSTOM":
            return self.g.constant(value)
        if "CONV" not in op.code:
            quant = _range(value)
            return self.g.constant(_stored(value, quant), quant=quant)
        axis = 3 if op.code.startswith("DEPTHWISE") else 0
        weights = self.net.values[op.inputs[1]]
        most = np.abs(weights).max(axis=tuple(i for i in range(4) if i != axis))
        steps = [_rounded(max(float(m), 1e-6) / 127) for m in most]
        if place == 1:
            shape = [-1 if i == axis else 1 for i in range(4)]
            levels = np.clip(np.rint(weights / np.reshape(steps, shape)), -127, 127).astype(np.int8)
            return self.g.constant(levels, quant=per_channel(steps, axis))
        products = [step * self.scales[op.inputs[0]].scales[0] for step in steps]
        return self.g.constant(np.rint(value / products).astype(np.int32), quant=per_channel(products, 0))


def calibrated(net: Drawn, outputs: Sequence[int]) -> Scales:
    """A quantisation for each tensor that the network computes."""
    low, high = _seen(net, outputs)
    groups = {x: x for x in (*net.inputs, *(t for op in net.ops for t in op.outputs))}

    def root(x: int) -> int:
        while groups[x] != x:
            x = groups[x]
        return x

    fixed = dict.fromkeys(net.inputs, _INPUT)
    for op in net.ops:
        if op.code in _FIXED:
            fixed[op.outputs[0]] = _FIXED[op.code]
        if op.code in _PASSING:
            for x in (*op.inputs, *op.outputs):
                if x in groups:
                    groups[root(x)] = root(op.outputs[0])
    members: dict[int, list[int]] = {}
    for x in groups:
        members.setdefault(root(x), []).append(x)
    scales: dict[int, Quantization] = {}
    for group in members.values():
        known = {fixed[x] for x in group if x in fixed}
        quant = known.pop() if known else _range(np.array([min(low[x] for x in group), max(high[x] for x in group)]))
        scales |= dict.fromkeys(group, quant)
    return {x: quant for x, quant in scales.items() if not _is_of_custom(net, x)}


def _is_of_custom(net: Drawn, x: int) -> bool:
    return any(x in op.outputs for op in net.ops if op.code == "CUSTOM")


def _seen(net: Drawn, outputs: Sequence[int]) -> tuple[Mapping[int, float], Mapping[int, float]]:
    """The least and the largest value of each computed tensor, over random images."""
    from ai_edge_litert.interpreter import Interpreter

    model = Model()
    writer = _Writer(net, model, None)
    data = writer.file(outputs)
    with warnings.catch_warnings(action="ignore"):  # it says that keeping all tensors takes memory
        runner = Interpreter(model_content=data, experimental_preserve_all_tensors=True, num_threads=1)
    runner.allocate_tensors()
    low: dict[int, float] = {}
    high: dict[int, float] = {}
    for image in images(net.shape(net.inputs[0]), _IMAGES):
        runner.set_tensor(writer.ids[net.inputs[0]], image)
        runner.invoke()
        for x in (*net.inputs, *(t for op in net.ops for t in op.outputs)):
            value = runner.get_tensor(writer.ids[x])
            low[x] = min(low.get(x, 0.0), float(value.min()))
            high[x] = max(high.get(x, 0.0), float(value.max()))
    return low, high


def images(shape: Sequence[int], count: int) -> Iterator[Array]:
    """Random pictures in [-1, 1]: blobs, and noise on them."""
    random = np.random.default_rng(0)
    _, h, w, c = shape
    for _ in range(count):
        coarse = random.uniform(-1, 1, (1, -(-h // 16), -(-w // 16), c))
        picture = coarse.repeat(16, 1).repeat(16, 2)[:, :h, :w] + random.normal(0, 0.1, shape)
        yield np.clip(picture, -1, 127 / 128).astype(np.float32)


def _range(values: Array) -> Quantization:
    """int8 over the range of the values and zero."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    scale = _rounded(max(high - low, 1e-6) / 255)
    return per_tensor(scale, int(np.clip(np.rint(-128 - low / scale), -128, 127)))


def _rounded(scale: float) -> float:
    """Three digits, upwards: the same on every machine, whose float kernels differ in the last bits."""
    unit = 10.0 ** (math.floor(math.log10(scale)) - 2)
    return float(np.float32(math.ceil(scale / unit - 1e-3) * unit))


def _stored(values: Array, quant: Quantization) -> Array:
    levels: Array = np.rint(values / quant.scales[0]) + quant.zero_points[0]
    return np.clip(levels, -128, 127).astype(np.int8)


def made() -> dict[str, bytes]:
    """File name -> bytes."""
    return {f"{net.name.removesuffix('.float32')}.int8.tflite": written(net, outputs, calibrated(net, outputs))
            for net, outputs in (yolo(), ssd())}  # fmt: skip


if __name__ == "__main__":
    for name, data in made().items():
        (ROOT / "examples" / name).write_bytes(data)
        print(f"examples/{name}: {len(data)} bytes")
