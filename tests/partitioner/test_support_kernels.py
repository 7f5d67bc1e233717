# SPDX-License-Identifier: Apache-2.0
"""The predicates of the C kernels' manifest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgedeploy_partitioner.model.build import Model, per_tensor
from edgedeploy_partitioner.model.read import read_bytes
from support.boundaries import Boundary, check
from support.single_op import Made, T, ints, single_op, unary


def quantize(before: T, after: T) -> Made:
    return single_op("QUANTIZE", [before], [after])


def scaled(scale: float, zero_point: int = 0, dtype: str = "int8") -> T:
    return T((4,), dtype, scales=(scale,), zero_point=zero_point)


def between(before: float, after: float) -> Made:
    return single_op("HARD_SWISH", [scaled(before)], [scaled(after)])


def parts(first: T, second: T, axis: T | None = None) -> Made:
    return single_op("SPLIT", [axis or ints(0), T((8,), scales=first.scales, zero_point=1)], [first, second])


def slopes(*shape: int) -> Made:
    image = T((1, 2, 2, 4))
    return single_op("PRELU", [image, T(shape)], [image])


def mean(scale: float = 0.5, row: int = 4, results: int = 1, constant: bool = True, biases: int = 1) -> Made:
    image = T((1, 2, 3, 4), scales=(1,))
    filters = T((1, 1, 1, row), constant=constant, scales=(scale,))
    return single_op("CONV_2D", [image, filters, ints(*[0] * biases)], [T((1, 2, 3, results), scales=(1,))])


def behind(code: str, dtype: str = "float16", sparse: bool = False) -> Made:
    """PRELU with slopes that ``code`` makes of a constant."""
    model = Model()
    g = model.subgraph()
    quant = per_tensor(1.0) if dtype.startswith("int") else None
    values = np.arange(4).astype(dtype)
    stored = g.sparse_constant(values, dtype, quant) if sparse else g.constant(values, dtype, quant)
    slopes = g.apply(code, [stored], (4,), dtype if code == "DENSIFY" else "float32")
    g.outputs(g.apply("PRELU", [g.input((1, 4)), slopes], (1, 4)))
    graph = read_bytes(model.build())
    return graph, graph.subgraphs[0].ops[-1]


def resize(before: int, after: int, *sampling: str) -> Made:
    image, larger = T((1, before, 4, 8)), T((1, after, 4, 8))
    options: dict[str, Any] = dict.fromkeys(sampling, True)
    return single_op("RESIZE_BILINEAR", [image, ints(after, 4)], [larger], **options)


UNPACKED = ["float16", "int8"]
EIGHTHS = {"scale": 0.125, "zero_point": {"int8": 0, "uint8": 7}}
ABS = {"ABS": ["int8"]}
HALVES = {"HARD_SWISH": {"low": 0.5, "high": 2}}
BOUNDARIES = [
    Boundary("types_by_op", ABS, unary(T((4,)), "ABS"), unary(T((4,), "uint8"), "ABS"), "input 0 is uint8"),
    Boundary("scale_ratios", HALVES, between(0.5, 0.25), between(0.75, 0.25), "an input scale of 3 times the output's"),
    Boundary("scale_ratios", HALVES, between(0.25, 0.5), between(0.25, 1), "an input scale of 0.25 times the output's"),
    Boundary(
        "flips_sign", True,
        quantize(scaled(0.5, 130, "uint8"), scaled(0.5, 2)), quantize(scaled(0.5, 130, "uint8"), scaled(0.5, 3)),
        "scale 0.5 and zero point 130 before, scale 0.5 and zero point 3 after",
    ),
    Boundary(
        "flips_sign", True,
        quantize(scaled(0.5, 2), scaled(0.5, 130, "uint8")), quantize(scaled(0.5, 2), scaled(0.25, 130, "uint8")),
        "scale 0.5 and zero point 2 before, scale 0.25 and zero point 130 after",
    ),
    Boundary(
        "flips_sign", True,
        quantize(scaled(0.5, 2), scaled(0.5, 130, "uint8")), quantize(scaled(0.5, 2), scaled(0.5, 130)), "int8 to int8",
    ),
    Boundary(
        "moved_alike", True, parts(scaled(0.5, 1), scaled(0.5, 1)), parts(scaled(0.5, 1), scaled(0.5, 2)),
        "output 1 and input 1 differ in scale or zero point",
    ),
    Boundary(
        "output_scale", EIGHTHS, between(1, 0.125), between(1, 0.25), "the output has scale 0.25 and zero point 0"
    ),
    Boundary(
        "output_scale", EIGHTHS, quantize(scaled(1), scaled(0.125, 7, "uint8")), quantize(scaled(1), scaled(0.125, 7)),
        "the output has scale 0.125 and zero point 7",
    ),
    Boundary("scales_below", 1, between(0.5, 2), between(1, 0.5), "input 0 has scale 1"),
    Boundary("row", [2, 4], unary(T((9, 4))), unary(T((1, 5))), "5 elements"),
    Boundary("row", [2, 4], unary(T((9, 2))), unary(T((9, 1))), "1 elements"),
    Boundary(
        "second_repeats", True, slopes(1, 1, 4), slopes(2, 1, 1), "a second input of shape [2, 1, 1] for [1, 2, 2, 4]"
    ),
    Boundary(
        "second_repeats", True, slopes(1), slopes(1, 1, 1, 1, 4),
        "a second input of shape [1, 1, 1, 1, 4] for [1, 2, 2, 4]",
    ),
    Boundary("weighted_mean", True, mean(255), mean(256), "scales [1, 256, 1]"),
    Boundary(
        "weighted_mean", True, mean(), mean(row=5), "a filter of shape [1, 1, 1, 5] for [1, 2, 3, 4] to [1, 2, 3, 1]"
    ),
    Boundary(
        "weighted_mean", True, mean(), mean(results=2),
        "a filter of shape [1, 1, 1, 4] for [1, 2, 3, 4] to [1, 2, 3, 2]",
    ),
    Boundary("weighted_mean", True, mean(), mean(biases=2), "a bias of shape [2]"),
    Boundary("weighted_mean", True, mean(), mean(constant=False), "a filter or bias that is computed"),
    Boundary(
        "unpacked_from", UNPACKED, behind("DEQUANTIZE"), behind("DEQUANTIZE", "int16"), "input 1 is made of int16"
    ),
    Boundary(
        "unpacked_from", UNPACKED, behind("DEQUANTIZE", "int8"), behind("DEQUANTIZE", "int8", sparse=True),
        "input 1 is stored sparse",
    ),
    Boundary(
        "unpacked_from", UNPACKED, behind("DEQUANTIZE", "int8"), behind("DENSIFY", "float32", sparse=True),
        "input 1 is stored sparse",
    ),
    Boundary(
        "between_pixels", 16, resize(4, 32, "half_pixel_centers"), resize(4, 64, "half_pixel_centers"),
        "4 to 64 pixels",
    ),
    Boundary("between_pixels", 16, resize(4, 64), resize(4, 12), "4 to 12 pixels"),
    Boundary(
        "between_pixels", 16, resize(33, 513, "align_corners"), resize(33, 528, "align_corners"),
        "33 to 528 pixels",
    ),
    Boundary(
        "between_pixels", 8, resize(9, 17, "align_corners"),
        resize(9, 9, "align_corners", "half_pixel_centers"), "both align_corners and half_pixel_centers",
    ),
    Boundary("between_pixels", 16, resize(4, 4), resize(4, 2), "4 to 2 pixels"),
    Boundary("between_pixels", 16, resize(1, 9), resize(2, 9), "2 to 9 pixels"),
    Boundary("between_pixels", 16, resize(32768, 65536), resize(32769, 65538), "32769 to 65538 pixels"),
    Boundary(
        "between_pixels", 16, unary(T((1, 4, 4, 8)), "RESIZE_BILINEAR"), unary(T((4, 4, 8)), "RESIZE_BILINEAR"),
        "no image of 4 dimensions",
    ),
    Boundary(
        "constant_parameters", True, parts(scaled(1), scaled(1)), parts(scaled(1), scaled(1), axis=T((), "int32")),
        "input 0 is computed",
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", BOUNDARIES, ids=lambda row: f"{row.name}-{row.found}")
def test_where_a_predicate_begins_to_break(row: Boundary) -> None:
    check(row)


def test_ops_that_are_not_named_are_free() -> None:
    check(Boundary("types_by_op", ABS, unary(T((4,), "uint8"), "RELU"), *BOUNDARIES[0][3:]))
    check(Boundary("scale_ratios", HALVES, quantize(scaled(9), scaled(0.5)), *BOUNDARIES[1][3:]))
