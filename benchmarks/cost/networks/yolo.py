# SPDX-License-Identifier: Apache-2.0
"""Ultralytics' YOLOv5, v8, 11 and THU's v10, with Rockchip's heads: cut before anchors, boxes and suppression.

Depth and width multiples make the sizes n, s and m. Attention inside v10 and 11 is written as the exported file has it:
reshaped, split, multiplied.
"""

from __future__ import annotations

from benchmarks.cost.networks.net import Net
from edgedeploy_partitioner.model.graph import Graph

_SILU = "SILU"
_SIZES = {"n": (0.33, 0.25, 1024), "s": (0.33, 0.5, 1024), "m": (0.67, 0.75, 768)}
_SIZES_5 = {**_SIZES, "m": (0.67, 0.75, 1024)}
_SIZES_11 = {"n": (0.5, 0.25, 1024), "s": (0.5, 0.5, 1024), "m": (0.5, 1.0, 512)}
_CLASSES = 80


class Yolo(Net):
    """Blocks that the versions share; ``act`` is the activation of all convolutions."""

    def __init__(self, name: str, dtype: str, scale: tuple[float, float, int], act: str = _SILU) -> None:
        super().__init__(name, dtype)
        self.depth, self.width, self.most = scale
        self.act = act

    def wide(self, channels: int) -> int:
        return -(-int(min(channels, self.most) * self.width) // 8) * 8

    def deep(self, repeats: int) -> int:
        return max(round(repeats * self.depth), 1)

    def cv(self, x: int, out: int, k: int = 1, s: int = 1) -> int:
        return self.conv(x, out, k, s, self.act)

    def bottleneck(self, x: int, out: int, kernels: tuple[int, int], hidden: float, *, shortcut: bool) -> int:
        y = self.cv(self.cv(x, int(out * hidden), kernels[0]), out, kernels[1])
        return self.add(y, x) if shortcut and self.channels(x) == out else y

    def c3(self, x: int, out: int, repeats: int, *, shortcut: bool = True, kernels: tuple[int, int] = (1, 3)) -> int:
        """Two branches, one through bottlenecks, joined."""
        half = out // 2
        y = self.cv(x, half)
        for _ in range(repeats):
            y = self.bottleneck(y, half, kernels, 1.0, shortcut=shortcut)
        return self.cv(self.concat(y, self.cv(x, half)), out)

    def c2f(self, x: int, out: int, repeats: int, *, shortcut: bool, kind: str = "", hidden: float = 0.5) -> int:
        """Splits, and joins what every block of a chain gives; ``kind`` is what the blocks are."""
        half = int(out * hidden)
        parts = list(self.split(self.cv(x, 2 * half)))
        for _ in range(repeats):
            parts.append(self._inner(parts[-1], half, kind, shortcut=shortcut))
        return self.cv(self.concat(*parts), out)

    def _inner(self, x: int, out: int, kind: str, *, shortcut: bool) -> int:
        if kind == "c3k":
            return self.c3(x, out, 2, shortcut=shortcut, kernels=(3, 3))
        if kind in ("cib", "cib_large"):
            return self._cib(x, out, kind, shortcut=shortcut)
        return self.bottleneck(x, out, (3, 3), 0.5 if kind == "half" else 1.0, shortcut=shortcut)

    def _cib(self, x: int, out: int, kind: str, *, shortcut: bool) -> int:
        y = self.cv(self.depthwise(x, 3, act=self.act), 2 * out)
        y = self.depthwise(y, 7 if kind == "cib_large" else 3, act=self.act)
        y = self.depthwise(self.cv(y, out), 3, act=self.act)
        return self.add(y, x) if shortcut else y

    def sppf(self, x: int) -> int:
        out = self.channels(x)
        parts = [self.cv(x, out // 2)]
        for _ in range(3):
            parts.append(self.max_pool(parts[-1], 5, 1))
        return self.cv(self.concat(*parts), out)

    def scdown(self, x: int, out: int) -> int:
        return self.depthwise(self.cv(x, out), 3, 2, "NONE")

    def attention(self, x: int) -> int:
        """Multi-head attention over all places, with keys half as long as values and a depthwise encoding."""
        _, h, w, c = self.shape(x)
        heads = c // 64
        size, key, places = c // heads, c // heads // 2, h * w
        qkv = self.conv(x, c + 2 * heads * key, act="NONE")
        rows = self.transpose(self.reshape(qkv, 1, places, heads, size + 2 * key), 0, 2, 1, 3)
        q, k, v = self._parts(rows, (key, key, size))
        weights = self.softmax(self.batch_matmul(q, k, adj_y=True))
        y = self.reshape(self.transpose(self.batch_matmul(weights, v), 0, 2, 1, 3), 1, h, w, c)
        encoded = self.depthwise(self.reshape(self.transpose(v, 0, 2, 1, 3), 1, h, w, c), 3, act="NONE")
        return self.conv(self.add(y, encoded), c, act="NONE")

    def psa(self, x: int, blocks: int = 1) -> int:
        """Attention and a small perceptron on half of the channels."""
        c = self.channels(x)
        a, b = self.split(self.cv(x, c))
        for _ in range(blocks):
            b = self.add(self.attention(b), b)
            b = self.add(self.conv(self.cv(b, c), c // 2, act="NONE"), b)
        return self.cv(self.concat(a, b), c)

    def _parts(self, x: int, sizes: tuple[int, ...]) -> list[int]:
        outs, start = [], 0
        rank = len(self.shape(x))
        for size in sizes:
            begin, end = [0] * rank, [*self.shape(x)]
            begin[-1], end[-1] = start, start + size
            length = [e - b for b, e in zip(begin, end, strict=True)]
            outs.append(self.op("SLICE", [x, self.integers(*begin), self.integers(*length)], tuple(length)))
            start += size
        return outs


def yolov5(size: str = "s", pixels: int = 640, dtype: str = "int8", *, act: str = _SILU, masks: bool = False) -> Graph:
    """YOLOv5 6.x: 4.5/16.5/49.0 GFLOPs; with ``masks`` its segmentation model. ``act="RELU"`` is Rockchip's variant."""
    net = Yolo(f"yolov5{size}_{pixels}_{act}_{masks}", dtype, _SIZES_5[size], act)
    w, d = net.wide, net.deep
    x = net.cv(net.input(pixels, pixels, 3), w(64), 6, 2)
    x = net.c3(net.cv(x, w(128), 3, 2), w(128), d(3))
    p3 = net.c3(net.cv(x, w(256), 3, 2), w(256), d(6))
    p4 = net.c3(net.cv(p3, w(512), 3, 2), w(512), d(9))
    p5 = net.sppf(net.c3(net.cv(p4, w(1024), 3, 2), w(1024), d(3)))
    n5 = net.cv(p5, w(512))
    x = net.c3(net.concat(net.upsample(n5), p4), w(512), d(3), shortcut=False)
    n4 = net.cv(x, w(256))
    o3 = net.c3(net.concat(net.upsample(n4), p3), w(256), d(3), shortcut=False)
    o4 = net.c3(net.concat(net.cv(o3, w(256), 3, 2), n4), w(512), d(3), shortcut=False)
    o5 = net.c3(net.concat(net.cv(o4, w(512), 3, 2), n5), w(1024), d(3), shortcut=False)
    values = 5 + _CLASSES + (32 if masks else 0)
    outs = [net.conv(o, 3 * values, act="LOGISTIC" if not masks else "NONE") for o in (o3, o4, o5)]
    if masks:
        y = net.cv(net.upsample(net.cv(o3, w(256), 3)), w(256), 3)
        outs.append(net.cv(y, 32))
    return net.build(*outs)


def yolov8(size: str = "n", pixels: int = 640, dtype: str = "int8", *, task: str = "detect") -> Graph:
    """YOLOv8: 8.7/28.6/78.9 GFLOPs; ``task`` is detect, segment, pose (of one class) or obb (of 15)."""
    net = Yolo(f"yolov8{size}_{pixels}_{task}", dtype, _SIZES[size])
    w, d = net.wide, net.deep
    x = net.cv(net.cv(net.input(pixels, pixels, 3), w(64), 3, 2), w(128), 3, 2)
    x = net.c2f(x, w(128), d(3), shortcut=True)
    p3 = net.c2f(net.cv(x, w(256), 3, 2), w(256), d(6), shortcut=True)
    p4 = net.c2f(net.cv(p3, w(512), 3, 2), w(512), d(6), shortcut=True)
    p5 = net.sppf(net.c2f(net.cv(p4, w(1024), 3, 2), w(1024), d(3), shortcut=True))
    n4 = net.c2f(net.concat(net.upsample(p5), p4), w(512), d(3), shortcut=False)
    o3 = net.c2f(net.concat(net.upsample(n4), p3), w(256), d(3), shortcut=False)
    o4 = net.c2f(net.concat(net.cv(o3, w(256), 3, 2), n4), w(512), d(3), shortcut=False)
    o5 = net.c2f(net.concat(net.cv(o4, w(512), 3, 2), p5), w(1024), d(3), shortcut=False)
    classes = {"pose": 1, "obb": 15}.get(task, _CLASSES)
    outs = _decoupled(net, (o3, o4, o5), classes, light=False)
    extra = {"segment": 32, "pose": 51, "obb": 1}.get(task)
    if extra is not None:
        hidden = max(net.channels(o3) // 4, extra)
        outs += [net.conv(net.cv(net.cv(o, hidden, 3), hidden, 3), extra, act="NONE") for o in (o3, o4, o5)]
    if task == "segment":
        y = net.transpose_conv(net.cv(o3, w(256), 3), w(256))
        outs.append(net.cv(net.cv(y, w(256), 3), 32))
    return net.build(*outs)


def yolov10(size: str = "n", pixels: int = 640, dtype: str = "int8") -> Graph:
    """YOLOv10 with its one-to-one head: 6.7/21.6 GFLOPs (n, s)."""
    net = Yolo(f"yolov10{size}_{pixels}", dtype, _SIZES[size])
    w, d = net.wide, net.deep
    x = net.cv(net.cv(net.input(pixels, pixels, 3), w(64), 3, 2), w(128), 3, 2)
    x = net.c2f(x, w(128), d(3), shortcut=True)
    p3 = net.c2f(net.cv(x, w(256), 3, 2), w(256), d(6), shortcut=True)
    p4 = net.c2f(net.scdown(p3, w(512)), w(512), d(6), shortcut=True)
    x = net.c2f(net.scdown(p4, w(1024)), w(1024), d(3), shortcut=True, kind="" if size == "n" else "cib_large")
    p5 = net.psa(net.sppf(x))
    n4 = net.c2f(net.concat(net.upsample(p5), p4), w(512), d(3), shortcut=False)
    o3 = net.c2f(net.concat(net.upsample(n4), p3), w(256), d(3), shortcut=False)
    o4 = net.c2f(net.concat(net.cv(o3, w(256), 3, 2), n4), w(512), d(3), shortcut=False)
    o5 = net.c2f(net.concat(net.scdown(o4, w(512)), p5), w(1024), d(3), shortcut=True, kind="cib_large")
    return net.build(*_decoupled(net, (o3, o4, o5), _CLASSES, light=True))


def yolo11(size: str = "n", pixels: int = 640, dtype: str = "int8") -> Graph:
    """YOLO11: 6.5/21.5/68.0 GFLOPs."""
    net = Yolo(f"yolo11{size}_{pixels}", dtype, _SIZES_11[size])
    w, d = net.wide, net.deep
    first, then = ("c3k", "c3k") if size == "m" else ("half", "c3k")
    x = net.cv(net.cv(net.input(pixels, pixels, 3), w(64), 3, 2), w(128), 3, 2)
    x = net.c2f(x, w(256), d(2), shortcut=True, kind=first, hidden=0.25)
    p3 = net.c2f(net.cv(x, w(256), 3, 2), w(512), d(2), shortcut=True, kind=first, hidden=0.25)
    p4 = net.c2f(net.cv(p3, w(512), 3, 2), w(512), d(2), shortcut=True, kind=then)
    x = net.c2f(net.cv(p4, w(1024), 3, 2), w(1024), d(2), shortcut=True, kind=then)
    p5 = net.psa(net.sppf(x), d(2))
    n4 = net.c2f(net.concat(net.upsample(p5), p4), w(512), d(2), shortcut=True, kind=first)
    o3 = net.c2f(net.concat(net.upsample(n4), p3), w(256), d(2), shortcut=True, kind=first)
    o4 = net.c2f(net.concat(net.cv(o3, w(256), 3, 2), n4), w(512), d(2), shortcut=True, kind=first)
    o5 = net.c2f(net.concat(net.cv(o4, w(512), 3, 2), p5), w(1024), d(2), shortcut=True, kind=then)
    return net.build(*_decoupled(net, (o3, o4, o5), _CLASSES, light=True))


def _decoupled(net: Yolo, features: tuple[int, ...], classes: int, *, light: bool) -> list[int]:
    """Per level: box distributions of 4 x 16 values, scores, and the sum of the scores that Rockchip's export adds."""
    first = net.channels(features[0])
    hidden, scored = max(16, first // 4, 64), max(first, min(classes, 100))
    outs = []
    for x in features:
        outs.append(net.conv(net.cv(net.cv(x, hidden, 3), hidden, 3), 64, act="NONE"))
        y = x
        for _ in range(2):
            y = net.cv(net.depthwise(y, 3, act=net.act), scored) if light else net.cv(y, scored, 3)
        scores = net.conv(y, classes, act="LOGISTIC")
        outs += [scores, net.conv(scores, 1, act="NONE")]
    return outs
