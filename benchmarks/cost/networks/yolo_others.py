# SPDX-License-Identifier: Apache-2.0
"""YOLOv6 3.0, YOLOv7 and YOLOX, with Rockchip's heads: cut before anchors, boxes and suppression."""

from __future__ import annotations

from benchmarks.cost.networks.yolo import Yolo
from edgedeploy_partitioner.model.graph import Graph

_CLASSES = 80


# --- YOLOX ----------


def yolox(size: str = "s", pixels: int = 640, dtype: str = "int8") -> Graph:
    """YOLOX: 26.8/73.8 GFLOPs (s, m). Its first op cuts the image into four, here a 6x6 convolution of stride 2."""
    net = Yolo(f"yolox_{size}_{pixels}", dtype, {"s": (0.33, 0.5, 1024), "m": (0.67, 0.75, 1024)}[size])
    w, d = net.wide, net.deep
    x = net.cv(net.input(pixels, pixels, 3), w(64), 6, 2)
    x = net.c3(net.cv(x, w(128), 3, 2), w(128), d(3))
    p3 = net.c3(net.cv(x, w(256), 3, 2), w(256), d(9))
    p4 = net.c3(net.cv(p3, w(512), 3, 2), w(512), d(9))
    p5 = net.c3(net.sppf(net.cv(p4, w(1024), 3, 2)), w(1024), d(3), shortcut=False)
    n5 = net.cv(p5, w(512))
    x = net.c3(net.concat(net.upsample(n5), p4), w(512), d(3), shortcut=False)
    n4 = net.cv(x, w(256))
    o3 = net.c3(net.concat(net.upsample(n4), p3), w(256), d(3), shortcut=False)
    o4 = net.c3(net.concat(net.cv(o3, w(256), 3, 2), n4), w(512), d(3), shortcut=False)
    o5 = net.c3(net.concat(net.cv(o4, w(512), 3, 2), n5), w(1024), d(3), shortcut=False)
    outs = []
    for x in (o3, o4, o5):
        x = net.cv(x, w(256))
        scored = net.cv(net.cv(x, w(256), 3), w(256), 3)
        boxed = net.cv(net.cv(x, w(256), 3), w(256), 3)
        there = net.conv(boxed, 1, act="LOGISTIC")
        outs.append(net.concat(net.conv(boxed, 4, act="NONE"), there, net.conv(scored, _CLASSES, act="LOGISTIC")))
    return net.build(*outs)


# --- YOLOv7 ----------


def yolov7_tiny(pixels: int = 640, dtype: str = "int8") -> Graph:
    """YOLOv7-tiny: 13.8 GFLOPs and 6.2 M parameters."""
    net = Yolo(f"yolov7_tiny_{pixels}", dtype, (1.0, 1.0, 1024), "LEAKY_RELU")
    x = net.cv(net.cv(net.input(pixels, pixels, 3), 32, 3, 2), 64, 3, 2)
    x = _elan_tiny(net, x, 32)
    p3 = _elan_tiny(net, net.max_pool(x, 2, 2), 64)
    p4 = _elan_tiny(net, net.max_pool(p3, 2, 2), 128)
    p5 = _elan_tiny(net, net.max_pool(p4, 2, 2), 256)
    side = net.cv(p5, 256)
    y = net.cv(_pooled(net, net.cv(p5, 256)), 256)
    n5 = net.cv(net.concat(y, side), 256)
    n4 = _elan_tiny(net, net.concat(net.cv(p4, 128), net.upsample(net.cv(n5, 128))), 64)
    o3 = _elan_tiny(net, net.concat(net.cv(p3, 64), net.upsample(net.cv(n4, 64))), 32)
    o4 = _elan_tiny(net, net.concat(net.cv(o3, 128, 3, 2), n4), 64)
    o5 = _elan_tiny(net, net.concat(net.cv(o4, 256, 3, 2), n5), 128)
    return _anchors(net, [net.cv(o3, 128, 3), net.cv(o4, 256, 3), net.cv(o5, 512, 3)])


def yolov7(pixels: int = 640, dtype: str = "int8") -> Graph:
    """YOLOv7: 104.7 GFLOPs and 36.9 M parameters."""
    net = Yolo(f"yolov7_{pixels}", dtype, (1.0, 1.0, 1024))
    x = net.cv(net.cv(net.input(pixels, pixels, 3), 32, 3), 64, 3, 2)
    x = _elan(net, net.cv(net.cv(x, 64, 3), 128, 3, 2), 64, 256)
    p3 = _elan(net, _down(net, x, 128), 128, 512)
    p4 = _elan(net, _down(net, p3, 256), 256, 1024)
    p5 = _elan(net, _down(net, p4, 512), 256, 1024)
    side = net.cv(p5, 512)
    y = net.cv(net.cv(net.cv(p5, 512), 512, 3), 512)
    y = net.cv(net.cv(_pooled(net, y), 512), 512, 3)
    n5 = net.cv(net.concat(y, side), 512)
    n4 = _elan_wide(net, net.concat(net.cv(p4, 256), net.upsample(net.cv(n5, 256))), 256)
    o3 = _elan_wide(net, net.concat(net.cv(p3, 128), net.upsample(net.cv(n4, 128))), 128)
    o4 = _elan_wide(net, net.concat(_down(net, o3, 128), n4), 256)
    o5 = _elan_wide(net, net.concat(_down(net, o4, 256), n5), 512)
    return _anchors(net, [net.cv(o3, 256, 3), net.cv(o4, 512, 3), net.cv(o5, 1024, 3)])


def _anchors(net: Yolo, features: list[int]) -> Graph:
    return net.build(*(net.conv(x, 3 * (5 + _CLASSES), act="LOGISTIC") for x in features))


def _elan_tiny(net: Yolo, x: int, c: int) -> int:
    a, b = net.cv(x, c), net.cv(x, c)
    d = net.cv(b, c, 3)
    return net.cv(net.concat(net.cv(d, c, 3), d, b, a), 2 * c)


def _elan(net: Yolo, x: int, c: int, out: int) -> int:
    a, b = net.cv(x, c), net.cv(x, c)
    d = net.cv(net.cv(b, c, 3), c, 3)
    e = net.cv(net.cv(d, c, 3), c, 3)
    return net.cv(net.concat(e, d, b, a), out)


def _elan_wide(net: Yolo, x: int, c: int) -> int:
    parts = [net.cv(x, c), net.cv(x, c)]
    for _ in range(4):
        parts.append(net.cv(parts[-1], c // 2, 3))
    return net.cv(net.concat(*reversed(parts)), c)


def _down(net: Yolo, x: int, c: int) -> int:
    return net.concat(net.cv(net.cv(x, c), c, 3, 2), net.cv(net.max_pool(x, 2, 2), c))


def _pooled(net: Yolo, x: int) -> int:
    """Pools of 5, 9 and 13 as chains of 5, as pools over 7 do not fit the NPU."""
    chain = [x]
    for _ in range(3):
        chain.append(net.max_pool(chain[-1], 5, 1))
    return net.concat(*reversed(chain))


# --- YOLOv6 ----------

_WIDTHS = {"n": 0.25, "s": 0.5, "m": 0.75}


def yolov6(size: str = "n", pixels: int = 640, dtype: str = "int8") -> Graph:
    """YOLOv6 3.0, its RepVGG blocks merged: 11.4/45.3/85.8 GFLOPs."""
    net = Yolo(f"yolov6{size}_{pixels}", dtype, (0.6 if size == "m" else 0.33, _WIDTHS[size], 1024), "RELU")
    w, d = net.wide, net.deep
    stage = _bep_c3 if size == "m" else _rep
    x = net.cv(net.input(pixels, pixels, 3), w(64), 3, 2)
    p2 = stage(net, net.cv(x, w(128), 3, 2), w(128), d(6))
    p3 = stage(net, net.cv(p2, w(256), 3, 2), w(256), d(12))
    p4 = stage(net, net.cv(p3, w(512), 3, 2), w(512), d(18))
    p5 = stage(net, net.cv(p4, w(1024), 3, 2), w(1024), d(6))
    p5 = net.sppf(p5) if size == "m" else _csp_sppf(net, p5)
    n5 = net.cv(p5, w(256))
    x = stage(net, _bifusion(net, n5, p4, p3, w(256)), w(256), d(12))
    n4 = net.cv(x, w(128))
    o3 = stage(net, _bifusion(net, n4, p3, p2, w(128)), w(128), d(12))
    o4 = stage(net, net.concat(net.cv(o3, w(128), 3, 2), n4), w(256), d(12))
    o5 = stage(net, net.concat(net.cv(o4, w(256), 3, 2), n5), w(512), d(12))
    net.act = "SILU"
    outs = []
    for x in (o3, o4, o5):
        c = net.channels(x)
        x = net.cv(x, c)
        scores = net.conv(net.cv(x, c, 3), _CLASSES, act="LOGISTIC")
        outs += [net.conv(net.cv(x, c, 3), 68 if size == "m" else 4, act="NONE"), scores]
        outs.append(net.conv(scores, 1, act="NONE"))
    return net.build(*outs)


def _rep(net: Yolo, x: int, out: int, repeats: int) -> int:
    for _ in range(repeats):
        x = net.cv(x, out, 3)
    return x


def _bep_c3(net: Yolo, x: int, out: int, repeats: int) -> int:
    c = int(out * 2 / 3)
    y = net.cv(x, c)
    for _ in range(max(repeats // 2, 1)):
        y = net.add(net.cv(net.cv(y, c, 3), c, 3), y)
    return net.cv(net.concat(y, net.cv(x, c)), out)


def _csp_sppf(net: Yolo, x: int) -> int:
    out = net.channels(x)
    side = net.cv(x, out // 2)
    chain = [net.cv(net.cv(net.cv(x, out // 2), out // 2, 3), out // 2)]
    for _ in range(3):
        chain.append(net.max_pool(chain[-1], 5, 1))
    y = net.cv(net.cv(net.concat(*chain), out // 2), out // 2, 3)
    return net.cv(net.concat(side, y), out)


def _bifusion(net: Yolo, low: int, same: int, high: int, out: int) -> int:
    down = net.cv(net.cv(high, out), out, 3, 2)
    return net.cv(net.concat(net.transpose_conv(low, out), net.cv(same, out), down), out)
