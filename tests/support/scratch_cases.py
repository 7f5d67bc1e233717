# SPDX-License-Identifier: Apache-2.0
"""Models of one op whose kernel asks for scratch memory, in every form it has, with sizes drawn at random."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from edgedeploy_partitioner.model.build import per_tensor
from edgedeploy_partitioner.model.graph import Quantization
from support.kernel_cases import Case, Const, In, Operand, Out, case, channels, ones
from support.plain_cases import addition
from support.recurrent_cases import integer_svdf, recurrent

_HWC = tuple[int, int, int, int]


def with_scratch(rng: Random) -> Iterator[Case]:
    yield from convolutions(rng)
    yield from depthwise(rng)
    yield from transposed(rng)
    yield from volumes(rng)
    yield from matrices(rng)
    yield from reductions(rng)
    yield from recurrent(rng)
    yield integer_svdf(rng)
    yield from others(rng)


def bias(n: int, dtype: str, weights: Quantization | None) -> Const:
    if dtype == "float32" or weights is None:
        return ones(n, dtype=dtype)
    scales = tuple(0.05 * s for s in weights.scales)  # that of the input times each of the weights
    return ones(n, dtype=dtype, quant=Quantization(scales, (0,) * len(scales), 0))


def _image(rng: Random, channels_in: int) -> _HWC:
    return rng.randint(1, 3), rng.randint(5, 9), rng.randint(5, 9), channels_in


def convolutions(rng: Random) -> Iterator[Case]:
    # size, stride, dilation, groups
    for size, stride, dilation, groups in (
        (1, 1, 1, 1), (3, 1, 1, 2), (1, 2, 1, 1), (2, 2, 1, 4), (3, 1, 2, 1), (1, 1, 2, 1),
    ):  # fmt: skip
        out, depth = 4 * rng.randint(1, 4), rng.randint(1, 5)
        shape = _image(rng, depth * groups)
        result = (shape[0], -(-shape[1] // stride), -(-shape[2] // stride), out)
        options: dict[str, Any] = {f"stride_{axis}": stride for axis in "hw"}
        options |= {f"dilation_{axis}_factor": dilation for axis in "hw"}
        kinds = {
            "float": ("float32", "float32", None, "float32", 1),
            "int8": ("int8", "int8", channels(out), "int32", 3),
            "uint8": ("uint8", "uint8", per_tensor(0.01), "int32", 1),
            "int16": ("int16", "int8", channels(out), "int64", 4),
            "int8 by int4": ("int8", "int4", channels(out), "int32", 7),
            "hybrid": ("float32", "int8", channels(out), "float32", 5),
            "hybrid int4": ("float32", "int4", channels(out), "float32", 7),
        }
        if groups == 1:
            kinds["hybrid, equal scales"] = ("float32", "int8", channels(out, step=0), "float32", 5)
            kinds["hybrid uint8"] = ("float32", "uint8", per_tensor(0.01), "float32", 2)
        for kind, (x, w, quant, b, version) in kinds.items():
            weights = (out, size, size, depth)
            filters: list[Operand] = [ones(*weights, dtype=w, quant=quant)]
            if kind == "float":
                filters.append(In(weights))
            for operand in filters:
                note = f"{kind} {size}x{size} stride {stride} dilation {dilation} groups {groups}"
                yield case("CONV_2D", [In(shape, x), operand, bias(out, b, quant)], Out(result, x), version=version,
                           note=note, padding="SAME", **options)  # fmt: skip


def depthwise(rng: Random) -> Iterator[Case]:
    ones_of: dict[str, Any] = dict.fromkeys(("stride_w", "stride_h", "dilation_w_factor", "dilation_h_factor"), 1)
    kinds = (
        ("float32", "float32", "float32", 1), ("int8", "int8", "int32", 3), ("uint8", "uint8", "int32", 1),
        ("int16", "int8", "int64", 5), ("int8", "int4", "int32", 7), ("float32", "int8", "float32", 6),
    )  # fmt: skip
    for x, w, b, version in kinds:
        multiplier = rng.randint(1, 3)
        shape = _image(rng, rng.randint(1, 5))
        out = shape[3] * multiplier
        quant = None if w == "float32" else per_tensor(0.01) if w == "uint8" else channels(out, 3)
        operands: list[Operand] = [In(shape, x), ones(1, 3, 3, out, dtype=w, quant=quant), bias(out, b, quant)]
        yield case("DEPTHWISE_CONV_2D", operands, Out((*shape[:3], out), x), version=version, note=f"{x} {w}",
                   padding="SAME", depth_multiplier=multiplier, **ones_of)  # fmt: skip


def transposed(rng: Random) -> Iterator[Case]:
    kinds = (("float32", "float32", "float32", 3), ("int8", "int8", "int32", 3), ("uint8", "uint8", "int32", 3),
             ("int16", "int8", "int64", 4), ("float32", "int8", "float32", 5))  # fmt: skip
    for (x, w, b, version), size in product(kinds, (2, 3)):
        batch, height, width, deep = _image(rng, rng.randint(1, 5))
        out = rng.randint(1, 5)
        quant = None if w == "float32" else per_tensor(0.01) if w == "uint8" else channels(out)
        shape = (batch, 2 * height, 2 * width, out)
        weights = ones(out, size, size, deep, dtype=w, quant=quant)
        operands: list[Operand] = [Const(shape), weights, In((batch, height, width, deep), x), bias(out, b, quant)]
        yield case("TRANSPOSE_CONV", operands, Out(shape, x), version=version, note=f"{x} {w} {size}", padding="SAME",
                   stride_w=2, stride_h=2)  # fmt: skip


def volumes(rng: Random) -> Iterator[Case]:
    for size, stride, dilation in ((1, 1, 1), (1, 2, 1), (1, 1, 2), (2, 1, 1), (2, 2, 1), (2, 1, 2)):
        batch, deep, out = (rng.randint(1, 4) for _ in range(3))
        room = [rng.randint(3, 6) for _ in range(3)]
        options: dict[str, Any] = {f"stride_{axis}": stride for axis in "dhw"}
        options |= {f"dilation_{axis}_factor": dilation for axis in "dhw"}
        note = f"{size} stride {stride} dilation {dilation}"
        filters = ones(size, size, size, deep, out)
        shape = (batch, *(-(-n // stride) for n in room), out)
        yield case("CONV_3D", [In((batch, *room, deep)), filters], Out(shape), note=note, padding="SAME", **options)
        if dilation == 1:
            shape = (batch, *(n * stride for n in room), out)
            operands: list[Operand] = [Const(shape), ones(size, size, size, out, deep), In((batch, *room, deep))]
            yield case("CONV_3D_TRANSPOSE", operands, Out(shape), note=note, padding="SAME", **options)


def matrices(rng: Random) -> Iterator[Case]:
    for dtype in ("float32", "int8", "uint8", "int4", "int2"):
        for units, depth in ((3, 32), (rng.randint(4, 20), 32 * rng.randint(1, 4)), (rng.randint(4, 20), 25)):
            rows = rng.randint(1, 3), rng.randint(1, 4)
            quants = [per_tensor(0.01)] if dtype == "uint8" else [per_tensor(0.01), channels(units)]
            for quant in [None] if dtype == "float32" else quants:
                weights = ones(units, depth, dtype=dtype, quant=quant)
                yield case("FULLY_CONNECTED", [In((*rows, depth)), weights, ones(units)], Out((*rows, units)),
                           version=14 if dtype == "int2" else 9 if len(quants) == 1 or quant == quants[0] else 12,
                           note=f"float by {dtype} {rows} {units}x{depth}", keep_num_dims=True)  # fmt: skip
    for rows_of, units in product((1, 2, 3, 5, 8), (2, 4, 9)):
        weights = ones(units, 64, dtype="int4", block=32)
        yield case("FULLY_CONNECTED", [In((rows_of, 64)), weights, None], Out((rows_of, units)), version=13,
                   note=f"blocks {rows_of} {units}")  # fmt: skip
    kinds = (
        ("int8", "int8", "int32", 4), ("int8", "int4", "int32", 10), ("uint8", "uint8", "int32", 1),
        ("int16", "int8", "int64", 7),
    )  # fmt: skip
    for x, w, b, version in kinds:
        quant = per_tensor(0.01)
        yield case("FULLY_CONNECTED", [In((3, 24), x), ones(5, 24, dtype=w, quant=quant), bias(5, b, quant)],
                   Out((3, 5), x), version=version, note=f"{x} {w}")  # fmt: skip
    shuffled = Out((4, 32), "uint8")
    yield case("FULLY_CONNECTED", [In((4, 32), "uint8"), ones(8, 32, dtype="uint8", quant=per_tensor(0.01, 128)),
               bias(8, "int32", per_tensor(0.01))], Out((4, 8), "int16"), shuffled, version=2, note="shuffled",
               weights_format="SHUFFLED4x16INT8")  # fmt: skip
    yield from _products(rng)


def _products(rng: Random) -> Iterator[Case]:
    kinds = (("float32", "float32"), ("int8", "int8"), ("int16", "int16"), ("float32", "int8"))
    for (x, w), adj_x, adj_y, constant in product(kinds, (False, True), (False, True), (False, True)):
        m, k, n = (rng.randint(1, 20) for _ in range(3))
        batches = tuple(rng.randint(1, 3) for _ in range(rng.randint(0, 2)))
        shared = () if rng.random() < 0.5 else batches  # the right one for all batches
        left, right = (*batches, *((k, m) if adj_x else (m, k))), (*shared, *((n, k) if adj_y else (k, n)))
        operand = Const(np.ones(right), w) if constant else In(right, w)
        yield case("BATCH_MATMUL", [In(left, x), operand], Out((*batches, m, n), x), version=4,
                   note=f"{x} {w} {left} {right} constant {constant}", adj_x=adj_x, adj_y=adj_y)  # fmt: skip


def reductions(rng: Random) -> Iterator[Case]:
    codes = ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN")
    for code, dtype in product(codes, ("float32", "int8", "int32")):
        shape = tuple(rng.randint(1, 6) for _ in range(rng.randint(1, 4)))
        axes = sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape))))
        kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
        left = tuple(n for i, n in enumerate(shape) if i not in axes)
        note = f"{dtype} {shape} {axes}"
        yield case(code, [In(shape, dtype), Const(axes)], Out(left, dtype), note=note)
        yield case(code, [In(shape, dtype), Const(axes)], Out(kept, dtype), note=f"{note} kept", keep_dims=True)
        if dtype != "int8":
            constant = ones(*shape, dtype=dtype)
            yield case(code, [constant, Const(axes)], Out(left, dtype), note=f"{note} of a constant")
    for code in ("REDUCE_ANY", "REDUCE_ALL"):
        yield case(code, [In((2, 6, 4), "bool"), Const([1])], Out((2, 4), "bool"))


def others(rng: Random) -> Iterator[Case]:
    for count, dtype in product((2, 3, 4, 9), ("float32", "int32")):
        terms = In((rng.randint(1, 9), rng.randint(1, 9)), dtype)
        yield case("ADD_N", [terms] * count, Out(terms.shape, dtype), note=f"{count} {dtype} {terms.shape}")
    for _ in range(8):
        height, width = 2 ** rng.randint(0, 7), 2 ** rng.randint(0, 9)
        signal = In((rng.randint(1, 3), rng.randint(1, 130), rng.randint(1, 300)))
        result = Out((signal.shape[0], height, width // 2 + 1), "complex64")
        yield case("RFFT2D", [signal, Const([height, width])], result, note=f"{signal.shape} {height}x{width}")
    for padding, base in (((0, 0, 0, 0), (1, 1)), ((1, 2, 0, 1), (2, 3)), ((-1, 1, 0, -2), (1, 2))):
        shape = (rng.randint(3, 6), rng.randint(3, 6))
        padded = [
            d * (n - 1) + 1 + padding[2 * i] + padding[2 * i + 1]
            for i, (n, d) in enumerate(zip(shape, base, strict=True))
        ]
        yield case("STABLEHLO_REDUCE_WINDOW", [In(shape), Const(0, "float32")], Out((padded[0] - 1, padded[1] - 1)),
                   body=addition, note=f"{shape} {padding} {base}", window_dimensions=(2, 2), window_strides=(1, 1),
                   base_dilations=base, window_dilations=(1, 1), padding=padding, body_subgraph_index=1)  # fmt: skip
    for dtype, stored, regular in product(("uint8", "float32"), (True, False), (True, False)):
        yield detection(rng, dtype, stored, regular)


def detection(rng: Random, dtype: str, stored: bool, regular: bool) -> Case:
    """``stored``: the file says what shapes come out, as most do not."""
    boxes, classes, most, each = rng.randint(5, 30), rng.randint(1, 5), rng.randint(1, 9), rng.randint(1, 2)
    options: dict[str, Any] = {
        "max_detections": most, "max_classes_per_detection": min(each, classes), "detections_per_class": 5,
        "use_regular_nms": regular, "nms_score_threshold": 0.1, "nms_iou_threshold": 0.5, "num_classes": classes,
        **dict.fromkeys(("y_scale", "x_scale", "h_scale", "w_scale"), 5.0),
    }  # fmt: skip
    found = most * min(each, classes)
    shapes = [(1, found, 4), (1, found), (1, found), (1,)]
    anchors = Const(np.ones((boxes, 4)), dtype)
    return case("TFLite_Detection_PostProcess", [In((1, boxes, 4), dtype), In((1, boxes, classes + 1), dtype), anchors],
                *(Out(shape if stored else ()) for shape in shapes), custom=bytes(flexbuffers.Dumps(options)),
                note=f"{dtype} {boxes}x{classes} {found} {stored} {regular}")  # fmt: skip
