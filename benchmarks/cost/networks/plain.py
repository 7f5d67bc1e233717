# SPDX-License-Identifier: Apache-2.0
"""Networks that published CPU latencies are about: Inception, VGG, SqueezeNet, YOLOv4-tiny and SSDLite."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cost.networks.net import Net
from edgedeploy_partitioner.model.graph import Graph

_ROW, _COLUMN = (1, 7), (7, 1)


def vgg(depth: int = 16, dtype: str = "int8") -> Graph:
    """Simonyan & Zisserman 2014: 15.5 GMAC and 138 M parameters with 16 layers, 19.6 GMAC with 19."""
    net = Net(f"vgg{depth}", dtype)
    x = net.input(224, 224, 3)
    last = {16: 3, 19: 4}[depth]
    for repeats, channels in [(2, 64), (2, 128), (last, 256), (last, 512), (last, 512)]:
        for _ in range(repeats):
            x = net.conv(x, channels, 3)
        x = net.max_pool(x, 2, 2)
    x = net.reshape(x, 1, 7 * 7 * 512)
    for units in (4096, 4096):
        x = net.fully_connected(x, units, "RELU")
    return net.build(net.softmax(net.fully_connected(x, 1000)))


def squeezenet(size: int = 224, dtype: str = "int8") -> Graph:
    """Iandola et al. 2016, version 1.0: 1.25 M parameters."""
    net = Net(f"squeezenet_{size}", dtype)
    x = net.max_pool(net.conv(net.input(size, size, 3), 96, 7, 2), 3, 2)
    for i, (squeezed, out) in enumerate(
        [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)]
    ):
        y = net.conv(x, squeezed)
        x = net.concat(net.conv(y, out), net.conv(y, out, 3))
        if i in (2, 6):
            x = net.max_pool(x, 3, 2)
    return net.build(net.softmax(net.global_pool(net.conv(x, 1000))))


def inception_v1(size: int = 224, dtype: str = "int8") -> Graph:
    """Szegedy et al. 2014: 1.5 GMAC and 6.6 M parameters at 224 px."""
    net = Net(f"inception_v1_{size}", dtype)
    x = net.max_pool(net.conv(net.input(size, size, 3), 64, 7, 2), 3, 2)
    x = net.max_pool(net.conv(net.conv(x, 64), 192, 3), 3, 2)
    for i, (a, b, c, d, e, f) in enumerate([
        (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128),
        (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128),
    ]):  # fmt: skip
        if i in (2, 7):
            x = net.max_pool(x, 3 if i == 2 else 2, 2)
        x = net.concat(
            net.conv(x, a), net.conv(net.conv(x, b), c, 3), net.conv(net.conv(x, d), e, 3),
            net.conv(net.max_pool(x, 3, 1), f),
        )  # fmt: skip
    return _classified(net, x)


def inception_v3(size: int = 299, dtype: str = "int8") -> Graph:
    """Szegedy et al. 2015: 5.7 GMAC and 23.8 M parameters at 299 px."""
    net = Net(f"inception_v3_{size}", dtype)
    x = net.conv(net.input(size, size, 3), 32, 3, 2, padding="VALID")
    x = net.max_pool(net.conv(net.conv(x, 32, 3, padding="VALID"), 64, 3), 3, 2, "VALID")
    x = net.max_pool(net.conv(net.conv(x, 80), 192, 3, padding="VALID"), 3, 2, "VALID")
    for pooled in (32, 64, 64):
        c = _chain(net, x, (96, 3), (96, 3), first=64)
        x = net.concat(net.conv(x, 64), net.conv(net.conv(x, 48), 64, 5), c, net.conv(_smoothed(net, x), pooled))
    c = net.conv(_chain(net, x, (96, 3), first=64), 96, 3, 2, padding="VALID")
    x = net.concat(net.conv(x, 384, 3, 2, padding="VALID"), c, net.max_pool(x, 3, 2, "VALID"))
    for m in (128, 160, 160, 192):
        b = _chain(net, x, (m, _ROW), (192, _COLUMN), first=m)
        c = _chain(net, x, (m, _COLUMN), (m, _ROW), (m, _COLUMN), (192, _ROW), first=m)
        x = net.concat(net.conv(x, 192), b, c, net.conv(_smoothed(net, x), 192))
    b = net.conv(net.conv(x, 192), 320, 3, 2, padding="VALID")
    c = net.conv(_chain(net, x, (192, _ROW), (192, _COLUMN), first=192), 192, 3, 2, padding="VALID")
    x = net.concat(b, c, net.max_pool(x, 3, 2, "VALID"))
    for _ in range(2):
        b, c = net.conv(x, 384), net.conv(net.conv(x, 448), 384, 3)
        forks = [net.conv(y, 384, k) for y in (b, c) for k in ((1, 3), (3, 1))]
        x = net.concat(net.conv(x, 320), *forks, net.conv(_smoothed(net, x), 192))
    return _classified(net, x)


def inception_v4(size: int = 299, dtype: str = "int8") -> Graph:
    """Szegedy et al. 2016: 12.3 GMAC and 42.6 M parameters at 299 px."""
    net = Net(f"inception_v4_{size}", dtype)
    x = net.conv(net.input(size, size, 3), 32, 3, 2, padding="VALID")
    x = net.conv(net.conv(x, 32, 3, padding="VALID"), 64, 3)
    x = net.concat(net.max_pool(x, 3, 2, "VALID"), net.conv(x, 96, 3, 2, padding="VALID"))
    b = net.conv(net.conv(x, 64), 96, 3, padding="VALID")
    c = net.conv(_chain(net, x, (64, _ROW), (64, _COLUMN), first=64), 96, 3, padding="VALID")
    x = net.concat(b, c)
    x = net.concat(net.conv(x, 192, 3, 2, padding="VALID"), net.max_pool(x, 3, 2, "VALID"))
    for _ in range(4):
        c = _chain(net, x, (96, 3), (96, 3), first=64)
        x = net.concat(net.conv(x, 96), net.conv(net.conv(x, 64), 96, 3), c, net.conv(_smoothed(net, x), 96))
    c = net.conv(_chain(net, x, (224, 3), first=192), 256, 3, 2, padding="VALID")
    x = net.concat(net.conv(x, 384, 3, 2, padding="VALID"), c, net.max_pool(x, 3, 2, "VALID"))
    for _ in range(7):
        b = _chain(net, x, (224, _ROW), (256, _COLUMN), first=192)
        c = _chain(net, x, (192, _COLUMN), (224, _ROW), (224, _COLUMN), (256, _ROW), first=192)
        x = net.concat(net.conv(x, 384), b, c, net.conv(_smoothed(net, x), 128))
    b = net.conv(net.conv(x, 192), 192, 3, 2, padding="VALID")
    c = net.conv(_chain(net, x, (256, _ROW), (320, _COLUMN), first=256), 320, 3, 2, padding="VALID")
    x = net.concat(b, c, net.max_pool(x, 3, 2, "VALID"))
    for _ in range(3):
        b, c = net.conv(x, 384), _chain(net, x, (448, (3, 1)), (512, (1, 3)), first=384)
        forks = [net.conv(y, 256, k) for y in (b, c) for k in ((1, 3), (3, 1))]
        x = net.concat(net.conv(x, 256), *forks, net.conv(_smoothed(net, x), 256))
    return _classified(net, x)


def yolov4_tiny(size: int = 416, dtype: str = "int8") -> Graph:
    """Bochkovskiy et al. 2020, before the decoding of boxes: 3.45 GMAC and 6.05 M parameters at 416 px."""
    net = Net(f"yolov4_tiny_{size}", dtype)
    x = net.input(size, size, 3)
    for out in (32, 64):
        x = net.conv(x, out, 3, 2, "LEAKY_RELU")
    for out in (64, 128, 256):
        x = net.conv(x, out, 3, act="LEAKY_RELU")
        a = net.conv(net.split(x)[1], out // 2, 3, act="LEAKY_RELU")
        b = net.conv(a, out // 2, 3, act="LEAKY_RELU")
        features = net.conv(net.concat(b, a), out, act="LEAKY_RELU")
        x = net.max_pool(net.concat(x, features), 2, 2)
    x = net.conv(net.conv(x, 512, 3, act="LEAKY_RELU"), 256, act="LEAKY_RELU")
    coarse = net.conv(net.conv(x, 512, 3, act="LEAKY_RELU"), 255, act="NONE")
    y = net.concat(net.upsample(net.conv(x, 128, act="LEAKY_RELU")), features)
    return net.build(coarse, net.conv(net.conv(y, 256, 3, act="LEAKY_RELU"), 255, act="NONE"))


def ssdlite_mobilenet_v2(size: int = 300, dtype: str = "int8", classes: int = 91) -> Graph:
    """Sandler et al. 2018, before the decoding of boxes: 0.8 GMAC and 4.3 M parameters at 320 px."""
    net = Net(f"ssdlite_mobilenet_v2_{size}", dtype)
    x = net.conv(net.input(size, size, 3), 32, 3, 2, "RELU6")
    features = []
    for expansion, out, repeats, stride in [
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ]:  # fmt: skip
        for i in range(repeats):
            shortcut, s = x, stride if i == 0 else 1
            if expansion > 1:
                x = net.conv(x, expansion * net.channels(x), act="RELU6")
            if (out, i) == (160, 0):
                features.append(x)
            x = net.conv(net.depthwise(x, 3, s, "RELU6"), out, act="NONE")
            x = net.add(x, shortcut) if i else x
    features.append(net.conv(x, 1280, act="RELU6"))
    for out in (512, 256, 256, 128):
        x = net.depthwise(net.conv(features[-1], out // 2, act="RELU6"), 3, 2, "RELU6")
        features.append(net.conv(x, out, act="RELU6"))
    heads = []
    for i, x in enumerate(features):
        anchors = 3 if i == 0 else 6
        heads += [net.conv(net.depthwise(x, act="RELU6"), n * anchors, act="NONE") for n in (4, classes)]
    return net.build(*heads)


def _chain(net: Net, x: int, *steps: tuple[int, int | tuple[int, int]], first: int) -> int:
    """A 1x1 convolution to ``first`` channels, then one per (channels, kernel)."""
    x = net.conv(x, first)
    for out, kernel in steps:
        x = net.conv(x, out, kernel)
    return x


def _smoothed(net: Net, x: int) -> int:
    return net.average_pool(x, 3, 1)


def _classified(net: Net, x: int) -> Graph:
    side: Sequence[int] = net.shape(x)
    x = net.conv(net.average_pool(x, side[1], 1, "VALID"), 1001, act="NONE")
    return net.build(net.softmax(net.reshape(x, 1, 1001)))
