# SPDX-License-Identifier: Apache-2.0
"""MLPerf Tiny's networks beside the keyword spotter."""

from __future__ import annotations

from benchmarks.cost.networks.classic import mobilenet_v1
from benchmarks.cost.networks.net import Net
from edgedeploy_partitioner.model.graph import Graph


def tiny_resnet(dtype: str = "int8") -> Graph:
    """CIFAR-10 at 32 px: 12.5 MMAC and 78 k parameters."""
    net = Net("tiny_resnet", dtype)
    x = net.conv(net.input(32, 32, 3), 16, 3)
    for channels, s in [(16, 1), (32, 2), (64, 2)]:
        y = net.conv(net.conv(x, channels, 3, s), channels, 3, act="NONE")
        x = net.add(y, x if s == 1 else net.conv(x, channels, 1, s, "NONE"), "RELU")
    x = net.average_pool(x, 8, 8, "VALID")
    return net.build(net.softmax(net.fully_connected(net.reshape(x, 1, 64), 10)))


def visual_wake_words(dtype: str = "int8") -> Graph:
    """Person or not, MobileNetV1 0.25 at 96 px: 7.5 MMAC and 0.22 M parameters."""
    return mobilenet_v1(96, 0.25, dtype, classes=2)


def deep_autoencoder(dtype: str = "int8") -> Graph:
    """Anomalies in 640 sound features: ten fully connected layers, 0.26 MMAC."""
    net = Net("deep_autoencoder", dtype)
    x = net.input(640)
    for out in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        x = net.fully_connected(x, out, "RELU")
    return net.build(net.fully_connected(x, 640))


def mnist_mlp(dtype: str = "int8") -> Graph:
    """Two layers over 28x28 pixels, as small as networks get: 0.1 MMAC. Not of MLPerf."""
    net = Net("mnist_mlp", dtype)
    return net.build(net.softmax(net.fully_connected(net.fully_connected(net.input(784), 128, "RELU"), 10)))
