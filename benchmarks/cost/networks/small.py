# SPDX-License-Identifier: Apache-2.0
"""Speech and tiny networks."""

from __future__ import annotations

from benchmarks.cost.networks.net import Net
from edgedeploy_partitioner.model.graph import Graph, OptionValue


def wav2letter(frames: int = 296, dtype: str = "int8") -> Graph:
    """Arm's ML-Zoo wav2letter: 39 MFCC features a frame, 11 convolutions over time, 29 letters; 23 M parameters."""
    net = Net(f"wav2letter_{frames}", dtype)
    x = net.conv(net.input(1, frames, 39), 250, (1, 48), 2)
    for _ in range(7):
        x = net.conv(x, 250, (1, 7))
    x = net.conv(net.conv(x, 2000, (1, 32)), 2000)
    x = net.conv(x, 29, act="NONE")
    return net.build(net.softmax(x))


def ds_cnn_kws(dtype: str = "int8", channels: int = 64, blocks: int = 4) -> Graph:
    """MLPerf Tiny's keyword spotter: 49x10 MFCCs, 2.7 MMAC and 23 k parameters."""
    net = Net(f"ds_cnn_{channels}", dtype)
    x = net.conv(net.input(49, 10, 1), channels, (10, 4), 2)
    for _ in range(blocks):
        x = net.conv(net.depthwise(x), channels)
    _, h, w, c = net.shape(x)
    whole = {"stride_h": h, "stride_w": w, "filter_height": h, "filter_width": w}
    options: dict[str, OptionValue] = {"padding": "VALID", "fused_activation_function": "NONE", **whole}
    x = net.op("AVERAGE_POOL_2D", [x], (1, 1, 1, c), options)
    return net.build(net.softmax(net.fully_connected(net.reshape(x, 1, c), 12)))
