# SPDX-License-Identifier: Apache-2.0
"""The head of a YOLO: boxes from distributions over bins, by SOFTMAX and a convolution that takes their mean."""

from __future__ import annotations

import numpy as np

from edgedeploy_partitioner.model.build import Model, per_tensor
from edgedeploy_partitioner.model.graph import Quantization

SOFTMAX, MEAN = 2, 3  # ops of it


def dfl_model(side: int = 20, bins: int = 16, *, reads_bins: bool = False) -> bytes:
    """A 3x3 convolution, and of its ``4 * bins`` channels four means for each pixel.

    ``reads_bins``: the probabilities are a result too.
    """
    random = np.random.default_rng(5)
    model = Model("a detection head")
    g = model.subgraph()
    x = g.input((1, side, side, 8), "int8", per_tensor(0.02, 3))
    logits = per_tensor(0.07, -5)

    def convolution(x: int, shape: tuple[int, ...], scale: float, result: tuple[int, ...], quant: Quantization) -> int:
        weights = g.constant(random.integers(-127, 128, shape).astype(np.int8), "int8", per_tensor(scale))
        bias = g.constant(random.integers(-500, 500, shape[0]).astype(np.int32), "int32", per_tensor(scale / 50))
        options = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
        return int(g.apply("CONV_2D", [x, weights, bias], result, "int8", quant, **options))

    y = convolution(x, (4 * bins, 3, 3, 8), 0.02, (1, side, side, 4 * bins), logits)
    rows = (1, side * side, 4, bins)
    y = g.apply("RESHAPE", [y, g.constant(np.array(rows, np.int32))], rows, "int8", logits, new_shape=list(rows))
    y = g.apply("SOFTMAX", [y], rows, "int8", per_tensor(1 / 256, -128), beta=1.0)
    weights = g.constant(np.round(np.arange(bins) * 127 / (bins - 1)).astype(np.int8).reshape(1, 1, 1, bins), "int8",
                         per_tensor((bins - 1) / 127))  # fmt: skip
    bias = g.constant(np.zeros(1, np.int32), "int32", per_tensor((bins - 1) / 127 / 256))
    mean = g.apply("CONV_2D", [y, weights, bias], (*rows[:3], 1), "int8", per_tensor((bins - 1) / 255, -128),
                   padding="VALID", stride_w=1, stride_h=1)  # fmt: skip
    boxes = g.apply("RESHAPE", [mean, g.constant(np.array(rows[:3], np.int32))], rows[:3], "int8",
                    per_tensor((bins - 1) / 255, -128), new_shape=list(rows[:3]))  # fmt: skip
    g.outputs(*([boxes, y] if reads_bins else [boxes]))
    return model.build()
