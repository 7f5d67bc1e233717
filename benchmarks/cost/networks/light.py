# SPDX-License-Identifier: Apache-2.0
"""Small classifiers without separable convolutions, from their papers."""

from __future__ import annotations

from benchmarks.cost.networks.net import Net
from edgedeploy_partitioner.model.graph import Graph


def resnet18(size: int = 224, dtype: str = "int8", classes: int = 1000) -> Graph:
    """He et al. 2015: 1.81 GMAC and 11.7 M parameters at 224 px."""
    net = Net(f"resnet18_{size}", dtype)
    x = net.max_pool(net.conv(net.input(size, size, 3), 64, 7, 2), 3, 2)
    for channels, first in [(64, 1), (128, 2), (256, 2), (512, 2)]:
        for s in (first, 1):
            y = net.conv(net.conv(x, channels, 3, s), channels, 3, act="NONE")
            x = net.add(y, x if net.channels(x) == channels else net.conv(x, channels, 1, s, "NONE"), "RELU")
    return net.build(net.fully_connected(net.global_pool(x), classes))


def squeezenet_1_1(size: int = 224, dtype: str = "int8", classes: int = 1000) -> Graph:
    """SqueezeNet 1.1 of Iandola et al. 2016: 349 MMAC and 1.24 M parameters at 224 px."""
    net = Net(f"squeezenet_1_1_{size}", dtype)
    x = net.max_pool(net.conv(net.input(size, size, 3), 64, 3, 2, padding="VALID"), 3, 2, "VALID")
    for i, (squeezed, out) in enumerate(
        [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)]
    ):
        if i in (2, 4):
            x = net.max_pool(x, 3, 2, "VALID")
        x = net.conv(x, squeezed)
        x = net.concat(net.conv(x, out), net.conv(x, out, 3))
    return net.build(net.softmax(net.global_pool(net.conv(x, classes))))
