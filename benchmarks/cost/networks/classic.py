# SPDX-License-Identifier: Apache-2.0
"""Image classifiers and the detectors and segmenters built on them, from their papers."""

from __future__ import annotations

from benchmarks.cost.networks.net import Net, scaled
from edgedeploy_partitioner.model.graph import Graph


def mobilenet_v1(size: int = 224, alpha: float = 1.0, dtype: str = "int8", classes: int = 1001) -> Graph:
    """Howard et al. 2017: 569 MMAC and 4.24 M parameters at 224 px."""
    net = Net(f"mobilenet_v1_{alpha}_{size}", dtype)
    x, _ = _mobilenet_v1_body(net, net.input(size, size, 3), alpha)
    x = net.average_pool(x, net.shape(x)[1], 2, "VALID")
    x = net.conv(x, classes, act="NONE")
    return net.build(net.softmax(net.reshape(x, 1, classes)))


def _mobilenet_v1_body(net: Net, x: int, alpha: float) -> tuple[int, int]:
    """The last features and those at stride 16."""
    x = net.conv(x, scaled(32, alpha), 3, 2, "RELU6")
    middle = x
    for channels, stride in [
        (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1),
    ]:  # fmt: skip
        if (channels, stride) == (1024, 2):
            middle = x
        x = net.conv(net.depthwise(x, 3, stride, "RELU6"), scaled(channels, alpha), act="RELU6")
    return x, middle


_V2 = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
"""(expansion, channels, repetitions, first stride) of MobileNetV2's stages."""


def _inverted(net: Net, x: int, expansion: int, out: int, s: int, act: str = "RELU6", dilation: int = 1) -> int:
    """MobileNetV2's block."""
    shortcut, hidden = x, net.channels(x) * expansion
    if expansion > 1:
        x = net.conv(x, hidden, act=act)
    x = net.conv(net.depthwise(x, 3, s, act, dilation=dilation), out, act="NONE")
    return net.add(x, shortcut) if s == 1 and net.channels(shortcut) == out else x


def mobilenet_v2(size: int = 224, alpha: float = 1.0, dtype: str = "int8", classes: int = 1000) -> Graph:
    """Sandler et al. 2018: 300 MMAC and 3.5 M parameters at 224 px."""
    net = Net(f"mobilenet_v2_{alpha}_{size}", dtype)
    x = net.conv(net.input(size, size, 3), scaled(32, alpha), 3, 2, "RELU6")
    for expansion, channels, repeats, stride in _V2:
        for i in range(repeats):
            x = _inverted(net, x, expansion, scaled(channels, alpha), stride if i == 0 else 1)
    x = net.conv(x, scaled(1280, max(alpha, 1.0)), act="RELU6")
    return net.build(net.fully_connected(net.global_pool(x), classes))


def resnet50(size: int = 224, dtype: str = "int8", version: int = 1, classes: int = 1000) -> Graph:
    """He et al. 2015: 4.09 GMAC and 25.6 M parameters at 224 px, strides in the 3x3 convolutions.

    In ``version`` 2 each block starts with a normalisation that no convolution can take in: a 1x1 depthwise one here.
    """
    net = Net(f"resnet50_v{version}_{size}", dtype)
    x = net.max_pool(net.conv(net.input(size, size, 3), 64, 7, 2), 3, 2)
    x = _resnet50_stages(net, x, version)[-1]
    if version == 2:
        x = net.depthwise(x, 1)
    return net.build(net.fully_connected(net.global_pool(x), classes))


def _resnet50_stages(net: Net, x: int, version: int = 1) -> list[int]:
    """The results of the four stages."""
    found = []
    for channels, repeats, first in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
        for i in range(repeats):
            x = _bottleneck(net, x, channels, first if i == 0 else 1, version)
        found.append(x)
    return found


def _bottleneck(net: Net, x: int, channels: int, s: int, version: int) -> int:
    before = net.depthwise(x, 1) if version == 2 else x
    y = net.conv(net.conv(before, channels), channels, 3, s)
    y = net.conv(y, 4 * channels, act="NONE")
    if net.channels(x) != 4 * channels:
        x = net.conv(before, 4 * channels, 1, s, "NONE")
    return net.add(y, x, "NONE" if version == 2 else "RELU")


def efficientnet_lite0(size: int = 224, dtype: str = "int8", classes: int = 1000) -> Graph:
    """TensorFlow's EfficientNet without squeeze-and-excitation: about 0.4 GMAC and 4.65 M parameters at 224 px."""
    net = Net(f"efficientnet_lite0_{size}", dtype)
    x = net.conv(net.input(size, size, 3), 32, 3, 2, "RELU6")
    for expansion, out, repeats, stride, kernel in [
        (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    ]:  # fmt: skip
        for i in range(repeats):
            s, shortcut = (stride if i == 0 else 1), x
            if expansion > 1:
                x = net.conv(x, net.channels(x) * expansion, act="RELU6")
            x = net.conv(net.depthwise(x, kernel, s, "RELU6"), out, act="NONE")
            x = net.add(x, shortcut) if i else x
    x = net.conv(x, 1280, act="RELU6")
    return net.build(net.softmax(net.fully_connected(net.global_pool(x), classes)))


def ssd_mobilenet_v1(size: int = 300, dtype: str = "int8", classes: int = 91) -> Graph:
    """TensorFlow's COCO detector, boxes and scores before the post-processing op: about 1.2 GMAC at 300 px."""
    net = Net(f"ssd_mobilenet_v1_{size}", dtype)
    x, middle = _mobilenet_v1_body(net, net.input(size, size, 3), 1.0)
    return net.build(*_ssd_heads(net, [middle, x, *_ssd_extra(net, x)], classes))


def ssd_mobilenet_v2(size: int = 300, dtype: str = "int8", classes: int = 91) -> Graph:
    """TensorFlow's COCO detector with plain convolutions in its heads, before the post-processing op."""
    net = Net(f"ssd_mobilenet_v2_{size}", dtype)
    x = net.conv(net.input(size, size, 3), 32, 3, 2, "RELU6")
    middle = x
    for expansion, channels, repeats, stride in _V2:
        for i in range(repeats):
            if channels == 160 and i == 0:  # the expanded features of this block, at stride 16
                middle = net.conv(x, net.channels(x) * expansion, act="RELU6")
                x = net.conv(net.depthwise(middle, 3, stride, "RELU6"), channels, act="NONE")
            else:
                x = _inverted(net, x, expansion, channels, stride if i == 0 else 1)
    x = net.conv(x, 1280, act="RELU6")
    return net.build(*_ssd_heads(net, [middle, x, *_ssd_extra(net, x)], classes))


def _ssd_extra(net: Net, x: int) -> list[int]:
    found = []
    for squeezed, out in [(256, 512), (128, 256), (128, 256), (64, 128)]:
        x = net.conv(net.conv(x, squeezed, act="RELU6"), out, 3, 2, "RELU6")
        found.append(x)
    return found


def _ssd_heads(net: Net, features: list[int], classes: int) -> tuple[int, int]:
    boxes, scores = [], []
    for i, x in enumerate(features):
        _, h, w, _ = net.shape(x)
        anchors = 3 if i == 0 else 6
        boxes.append(net.reshape(net.conv(x, 4 * anchors, act="NONE"), 1, h * w * anchors, 1, 4))
        scores.append(net.reshape(net.conv(x, classes * anchors, act="NONE"), 1, h * w * anchors, classes))
    return _stacked(net, boxes), net.activation(_stacked(net, scores), "LOGISTIC")


def _stacked(net: Net, xs: list[int]) -> int:
    """CONCATENATION along the anchors."""
    _, _, *rest = net.shape(xs[0])
    shape = (1, sum(net.shape(x)[1] for x in xs), *rest)
    return net.op("CONCATENATION", xs, shape, {"axis": 1, "fused_activation_function": "NONE"})


def deeplab_v3_mobilenet_v2(
    size: int = 513, dtype: str = "int8", alpha: float = 1.0, classes: int = 21, output_stride: int = 16
) -> Graph:
    """TensorFlow's segmenter without decoder, logits enlarged to the input's size: 2.75 GMAC at stride 16."""
    net = Net(f"deeplab_v3_mobilenet_v2_{alpha}_{size}_{output_stride}", dtype)
    x = net.conv(net.input(size, size, 3), scaled(32, alpha), 3, 2, "RELU6")
    stride, dilation = 2, 1
    for expansion, channels, repeats, wanted in _V2:
        for i in range(repeats):
            s, atrous = (wanted if i == 0 else 1), dilation
            if s == 2 and stride == output_stride:
                s, dilation = 1, dilation * 2
            x = _inverted(net, x, expansion, scaled(channels, alpha), s, dilation=atrous)
            stride *= s
    _, h, w, _ = net.shape(x)
    pooled = net.conv(net.global_pool(x, keep=True), 256)
    x = net.concat(net.resize(pooled, h, w, bilinear=True), net.conv(x, 256))
    x = net.conv(net.conv(x, 256), classes, act="NONE")
    return net.build(net.resize(x, size, size, bilinear=True))


def retinaface_mobilenet(size: int = 320, dtype: str = "int8") -> Graph:
    """RetinaFace on MobileNetV1 0.25 with 64 channels in its pyramid: 0.43 M parameters."""
    net = Net(f"retinaface_mobilenet_{size}", dtype)
    x = net.conv(net.input(size, size, 3), 8, 3, 2, "LEAKY_RELU")
    features = []
    for channels, stride in [
        (16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1),
    ]:  # fmt: skip
        if stride == 2 and channels > 64:
            features.append(x)
        x = net.conv(net.depthwise(x, 3, stride, "LEAKY_RELU"), channels, act="LEAKY_RELU")
    return _retinaface(net, [*features, x], 64, "LEAKY_RELU")


def retinaface_resnet50(size: int = 320, dtype: str = "int8") -> Graph:
    """RetinaFace on ResNet50 with 256 channels in its pyramid: 27.3 M parameters."""
    net = Net(f"retinaface_resnet50_{size}", dtype)
    x = net.max_pool(net.conv(net.input(size, size, 3), 64, 7, 2), 3, 2)
    return _retinaface(net, _resnet50_stages(net, x)[1:], 256, "RELU")


def _retinaface(net: Net, features: list[int], out: int, act: str) -> Graph:
    """The pyramid, a context module on each level and three heads; scores go through SOFTMAX."""
    small, middle, large = (net.conv(x, out, act=act) for x in reversed(features))
    middle = net.conv(net.add(middle, _enlarged(net, small, middle)), out, 3, act=act)
    large = net.conv(net.add(large, _enlarged(net, middle, large)), out, 3, act=act)
    found: dict[int, list[int]] = {4: [], 2: [], 10: []}
    for x in (large, middle, small):
        x = _context(net, x, act)
        _, h, w, _ = net.shape(x)
        for values, xs in found.items():
            xs.append(net.reshape(net.conv(x, 2 * values, act="NONE"), 1, h * w * 2, values))
    boxes, scores, marks = (_stacked(net, xs) for xs in found.values())
    return net.build(boxes, net.softmax(scores), marks)


def _enlarged(net: Net, x: int, like: int) -> int:
    return net.resize(x, net.shape(like)[1], net.shape(like)[2])


def _context(net: Net, x: int, act: str) -> int:
    out = net.channels(x)
    wide = net.conv(x, out // 2, 3, act="NONE")
    first = net.conv(x, out // 4, 3, act=act)
    second = net.conv(first, out // 4, 3, act="NONE")
    third = net.conv(net.conv(first, out // 4, 3, act=act), out // 4, 3, act="NONE")
    return net.activation(net.concat(wide, second, third), "RELU")
