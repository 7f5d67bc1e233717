# SPDX-License-Identifier: Apache-2.0
"""The base cases of the census: every builtin op, in the element types a model may hold it in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from census_cases import SCALE, Case, Operand, attributes
from edgedeploy_partitioner.model.build import per_channel, per_tensor
from edgedeploy_partitioner.model.graph import Quantization
from edgedeploy_partitioner.model.schema import names

_SHAPE = (1, 4, 4, 6)
_ACTIVATIONS = ("float32", "int8", "uint8", "int16")
_OTHERS = ("float16", "int32", "int64", "bool")

_UNARY = (
    "ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH", "LEAKY_RELU", "LOG", "LOGISTIC", "NEG", "RELU",
    "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND", "RSQRT", "SIGN", "SIN", "SQRT", "SQUARE", "TANH", "SOFTMAX",
    "LOG_SOFTMAX", "L2_NORMALIZATION", "ZEROS_LIKE",
)  # fmt: skip
_BINARY = (
    "ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "PRELU", "POW", "FLOOR_DIV", "FLOOR_MOD",
    "ATAN2",
)  # fmt: skip
CUSTOM = (
    "AudioSpectrogram", "Convolution2DTransposeBias", "MaxPoolingWithArgmax2D", "MaxUnpooling2D", "Mfcc",
    "NumericVerify", "TFLite_Detection_PostProcess", "aeq.hadamard_rotation", "odml.cache_update",
    "odml.scaled_dot_product_attention", "odml.update_external_kv_cache", "odml.update_kv_cache",
)  # fmt: skip
"""Names of custom ops that TFLite's own sources know."""
UNPACKING = ("DENSIFY", "DEQUANTIZE")
"""Ops that turn one constant into another."""
_OUTPUT_SCALES = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0), "SOFTMAX": (1 / 256, -128)}


def base_cases() -> Iterator[Case]:
    """Cases of ops that a delegate for neural networks may take, to be varied."""
    for dtype in _ACTIVATIONS:
        yield from _elementwise(dtype)
        yield from _weighted(dtype)
        yield from _movers(dtype)
        yield from _reducers(dtype)
    yield from _conversions()
    yield from _variables()
    yield from _attention()
    yield from _mediapipe()


def grid_cases() -> Iterator[Case]:
    """Further cases, not to be varied: numbers of operands, axes and shapes one by one, and every builtin op."""
    for dtype in _ACTIVATIONS:
        yield from _reductions(dtype)
        yield from _reshapes(dtype)
        yield from _joins(dtype)
        yield from _ranks(dtype)
    for dtype in _OTHERS:
        yield from _elementwise(dtype)
        yield from _movers(dtype)
        yield from _reducers(dtype)
    yield from _plain()


def _plain() -> Iterator[Case]:
    """Every builtin op of the schema on plain operands, to see if it is looked at at all. Most are no valid models."""
    for code in names("BuiltinOperator").values():
        if code in ("CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES", "STABLEHLO_COMPOSITE"):
            continue
        for dtype in ("float32", "int8", "uint8", "int32"):
            for count in (1, 2, 3):
                yield Case(code, (act(dtype),) * count, (act(dtype),), label=f"plain {dtype} x {count}")


def act(dtype: str, shape: tuple[int, ...] = _SHAPE, scale: float = SCALE, **more: Any) -> Operand:
    """An activation."""
    return Operand(shape, dtype, None if dtype in ("float32", *_OTHERS) else per_tensor(scale), **more)


def ints(*values: int, dtype: str = "int32", shape: tuple[int, ...] | None = None) -> Operand:
    """A constant operand of indices."""
    return Operand((len(values),) if shape is None else shape, dtype, source="const", value=values)


def _elementwise(dtype: str) -> Iterator[Case]:
    for code in _UNARY:
        scale, zero = _OUTPUT_SCALES.get(code, (SCALE, 0))
        out = act(dtype)
        if dtype == "int8":
            out = replace(out, quant=per_tensor(scale, zero))
        elif dtype == "uint8":
            out = replace(out, quant=per_tensor(scale, zero + 128))
        options = {"LEAKY_RELU": {"alpha": 0.5}, "SOFTMAX": {"beta": 1.0}}.get(code, {})
        yield Case(code, (act(dtype),), (out,), options)
    for code in _BINARY:
        yield Case(code, (act(dtype), act(dtype)), (act(dtype),))
        yield Case(code, (act(dtype), act(dtype, (6,), source="const")), (act(dtype),), label="constant vector")
        yield Case(code, (act(dtype), act(dtype, (), source="const")), (act(dtype),), label="constant scalar")


def _weighted(dtype: str) -> Iterator[Case]:
    for weights, axis in _weights(dtype):
        yield from _convolutions(dtype, weights, axis)
    if dtype == "float32":
        for bits in ("int4", "int2"):
            yield from _fully_connected(dtype, Operand((4, 64), bits, per_channel([SCALE] * 4, 0), "const"))
        yield from _fully_connected(dtype, Operand((4, 64), "int4", Quantization((), (), 0, 32, 0), "const"))
    if dtype == "int8":
        for bits in ("int4", "int2"):
            yield from _fully_connected(dtype, Operand((4, 64), bits, per_channel([SCALE] * 4, 0), "const"))
    for second in ("fed", "const"):
        b = act(dtype, (1, 2, 6, 3), source=second)
        yield Case("BATCH_MATMUL", (act(dtype, (1, 2, 5, 6)), b), (act(dtype, (1, 2, 5, 3)),))
    if dtype == "float32":
        for quant in (per_tensor(SCALE), per_channel([SCALE] * 3, 3)):
            b = Operand((1, 2, 6, 3), "int8", quant, "const")
            yield Case("BATCH_MATMUL", (act(dtype, (1, 2, 5, 6)), b), (act(dtype, (1, 2, 5, 3)),), label="hybrid")


def _weights(dtype: str) -> Iterator[tuple[str, bool]]:
    """Element type of the weights and whether they have a scale per channel."""
    yield {"int16": "int8"}.get(dtype, dtype), dtype in ("int8", "int16")
    if dtype in ("int8", "float32"):
        yield "int8", False
    if dtype == "float32":
        yield "int8", True


def _weight(dtype: str, shape: tuple[int, ...], per_channel_axis: int | None) -> Operand:
    quant = None if dtype == "float32" else per_tensor(SCALE)
    if per_channel_axis is not None:
        quant = per_channel([SCALE / (1 + i % 2) for i in range(shape[per_channel_axis])], per_channel_axis)
    return Operand(shape, dtype, quant, "const")


def _bias(dtype: str, weights: Operand, channels: int) -> Operand:
    if dtype == "float32":
        return Operand((channels,), source="const")
    scales = weights.quant.scales if weights.quant is not None else (SCALE,)
    quant = Quantization(tuple(SCALE * s for s in scales), (0,) * len(scales), 0)
    return Operand((channels,), "int64" if dtype == "int16" else "int32", quant, "const")


def _convolutions(dtype: str, weights: str, channelwise: bool) -> Iterator[Case]:
    label = f"{dtype} by {weights}{' per channel' if channelwise else ''}"
    steps = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
    dilated = {**steps, "dilation_w_factor": 1, "dilation_h_factor": 1}

    def cases(code: str, w: Operand, channels: int, out: tuple[int, ...], options: dict[str, Any]) -> Iterator[Case]:
        bias = _bias(dtype, w, channels)
        for biases, name in (((bias,), ""), ((replace(bias, source="-"),), " bias absent"), ((), " two operands")):
            yield Case(code, (act(dtype), w, *biases), (act(dtype, out),), options, label=label + name)

    for channels, depth in ((4, 6), (4, 3), (1, 6)):
        w = _weight(weights, (channels, 3, 3, depth), 0 if channelwise else None)
        yield from cases("CONV_2D", w, channels, (1, 4, 4, channels), dilated)
    for multiplier in (1, 2):
        w = _weight(weights, (1, 3, 3, 6 * multiplier), 3 if channelwise else None)
        options = {**dilated, "depth_multiplier": multiplier}
        yield from cases("DEPTHWISE_CONV_2D", w, 6 * multiplier, (1, 4, 4, 6 * multiplier), options)
    w = _weight(weights, (4, 6), 0 if channelwise else None)
    for keep, out in ((True, (1, 4, 4, 4)), (False, (16, 4))):
        yield from cases("FULLY_CONNECTED", w, 4, out, {"keep_num_dims": keep})
    w = _weight(weights, (4, 3, 3, 6), 0 if channelwise else None)
    for stride in (1, 2):
        shape = (1, 4 * stride, 4 * stride, 4)
        deconvolution = Case(
            "TRANSPOSE_CONV", (ints(*shape), w, act(dtype), _bias(dtype, w, 4)), (act(dtype, shape),),
            {"padding": "SAME", "stride_w": stride, "stride_h": stride}, label=label,
        )  # fmt: skip
        yield deconvolution
        yield replace(deconvolution, inputs=deconvolution.inputs[:3], label=f"{label} without bias")


def _fully_connected(dtype: str, w: Operand) -> Iterator[Case]:
    bias = _bias(dtype, w, w.shape[0])
    for biases in ((bias,), (replace(bias, source="-"),), ()):
        inputs = (act(dtype, (2, w.shape[1])), w, *biases)
        yield Case("FULLY_CONNECTED", inputs, (act(dtype, (2, w.shape[0])),), label=f"{dtype} by {w.dtype}")


def _movers(dtype: str) -> Iterator[Case]:
    """Ops that move values without changing them, and pooling and resizing."""
    x = act(dtype)
    pool = {"padding": "SAME", "stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2}
    half = act(dtype, (1, 2, 2, 6))
    for code in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
        yield Case(code, (x,), (half,), pool)
        unit = {**pool, "stride_w": 1, "stride_h": 1, "filter_width": 1, "filter_height": 1}
        yield Case(code, (x,), (x,), unit, label="1x1")
    yield Case("CONCATENATION", (x, x), (act(dtype, (1, 4, 4, 12)),), {"axis": 3})
    yield Case("SPLIT", (ints(3, shape=()), x), (act(dtype, (1, 4, 4, 3)),) * 2, {"num_splits": 2})
    yield Case("DEPTH_TO_SPACE", (act(dtype, (1, 4, 4, 8)),), (act(dtype, (1, 8, 8, 2)),), {"block_size": 2})
    yield Case("SPACE_TO_DEPTH", (x,), (act(dtype, (1, 2, 2, 24)),), {"block_size": 2})
    pads = ints(0, 0, 1, 1, 1, 1, 0, 0, shape=(4, 2))
    for code in ("PAD", "MIRROR_PAD"):
        yield Case(code, (x, pads), (act(dtype, (1, 6, 6, 6)),))
        yield Case(code, (x, replace(pads, dtype="int64")), (act(dtype, (1, 6, 6, 6)),))
    yield Case("PADV2", (x, pads, act(dtype, (), source="const")), (act(dtype, (1, 6, 6, 6)),))
    yield Case("RESHAPE", (x, ints(1, 16, 6)), (act(dtype, (1, 16, 6)),))
    yield Case("RESHAPE", (x,), (act(dtype, (1, 16, 6)),), {"new_shape": (1, 16, 6)}, label="no shape operand")
    for code in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
        yield Case(code, (x, ints(8, 8)), (act(dtype, (1, 8, 8, 6)),))
    for index in ("int32", "int64"):
        begin, size = ints(0, 1, 0, 2, dtype=index), ints(1, 2, 4, 3, dtype=index)
        yield Case("SLICE", (x, begin, size), (act(dtype, (1, 2, 4, 3)),))
    begin, end, strides = ints(0, 1, 0, 2), ints(1, 3, 4, 5), ints(1, 1, 1, 1)
    for mask in (0, 2, 15):
        cut = (1, 3 if mask & 2 else 2, 4, 6 if mask == 15 else 3)
        masks = {"begin_mask": mask, "end_mask": mask & 8}
        yield Case("STRIDED_SLICE", (x, begin, end, strides), (act(dtype, cut),), masks)
    yield Case("TRANSPOSE", (x, ints(0, 2, 1, 3)), (x,))
    yield Case("TRANSPOSE", (x, ints(3, 0, 1, 2)), (act(dtype, (6, 1, 4, 4)),))
    yield Case("EXPAND_DIMS", (x, ints(1, shape=())), (act(dtype, (1, 1, 4, 4, 6)),))
    yield Case("SQUEEZE", (x,), (act(dtype, (4, 4, 6)),))


def _reducers(dtype: str) -> Iterator[Case]:
    for code in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
        for keep, shape in ((False, (1, 6)), (True, (1, 1, 1, 6))):
            yield Case(code, (act(dtype), ints(1, 2)), (act(dtype, shape),), {"keep_dims": keep})


def _reductions(dtype: str) -> Iterator[Case]:
    """Every rank and set of axes, counted from the front and from the back."""
    for code, rank, keep in product(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"), range(7), (False, True)):
        whole = (1, 1, 2, 4, 4, 6)[6 - rank :]
        for count in range(rank + 1):
            for axes in combinations(range(rank), count):
                shape = tuple(1 if i in axes else n for i, n in enumerate(whole) if keep or i not in axes)
                for given in (axes, tuple(a - rank for a in axes), axes[::-1]):
                    operands = (act(dtype, whole), ints(*given))
                    label = f"{given} of {rank}"
                    yield Case(code, operands, (act(dtype, shape),), {"keep_dims": keep}, label=label)
                if count == 1:
                    operands = (act(dtype, whole), ints(*axes, shape=()))
                    yield Case(code, operands, (act(dtype, shape),), {"keep_dims": keep}, label="scalar axis")


def _reshapes(dtype: str) -> Iterator[Case]:
    """From every rank to every rank, with the shape as operand, as option, and with one size left open."""
    for rank, to in product(range(8), repeat=2):
        before, after = (1,) * (rank - 1) + (6,) * (rank > 0), (1,) * (to - 1) + (6,) * (to > 0)
        if not rank or not to:
            before, after = (1,) * rank, (1,) * to
        data, out = act(dtype, before), act(dtype, after)
        yield Case("RESHAPE", (data, ints(*after)), (out,), label=f"{rank} to {to}")
        yield Case("RESHAPE", (data, ints(*after[:-1], -1)), (out,), label=f"{rank} to {to} open")
        yield Case("RESHAPE", (data, ints(0)), (out,), label=f"{rank} to {to} by zero")
        yield Case("RESHAPE", (data,), (out,), {"new_shape": (0,)}, label=f"{rank} to {to} by zero option")
        yield Case("RESHAPE", (data,), (out,), {"new_shape": after}, label=f"{rank} to {to} by option")
        yield Case("RESHAPE", (data, ints(*after)), (out,), {"new_shape": after}, label=f"{rank} to {to} both")


def _ranks(dtype: str) -> Iterator[Case]:
    """Ops with an operand that has one value for each dimension, in every rank."""
    for rank in range(1, 8):
        x = act(dtype, (2,) * rank)
        for index in ("int32", "int64"):
            ones, twos = ints(*(1,) * rank, dtype=index), ints(*(2,) * rank, dtype=index)
            zeros = ints(*(0,) * rank, dtype=index)
            label = f"rank {rank} by {index}"
            yield Case("TRANSPOSE", (x, ints(*reversed(range(rank)), dtype=index)), (x,), label=label)
            yield Case("TRANSPOSE", (x, ints(*range(-rank, 0), dtype=index)), (x,), label=f"{label} from the back")
            yield Case("PAD", (x, replace(zeros, shape=(rank, 2))), (x,), label=label)
            yield Case("SLICE", (x, ones, ones), (act(dtype, (1,) * rank),), label=label)
            yield Case("SLICE", (x, zeros, ints(*(-1,) * rank, dtype=index)), (x,), label=f"{label} to the end")
            yield Case("STRIDED_SLICE", (x, zeros, twos, ones), (x,), label=label)
        for axis in (0, rank - 1, -1):
            joined = tuple(4 if i == axis % rank else 2 for i in range(rank))
            yield Case("CONCATENATION", (x, x), (act(dtype, joined),), {"axis": axis}, label=f"rank {rank} on {axis}")
            halves = (act(dtype, tuple(1 if i == axis % rank else 2 for i in range(rank))),) * 2
            yield Case("SPLIT", (ints(axis, shape=()), x), halves, {"num_splits": 2}, label=f"rank {rank} on {axis}")


def _joins(dtype: str) -> Iterator[Case]:
    x = act(dtype)
    for count in range(1, 8):
        for axis, out in ((3, (1, 4, 4, 6 * count)), (-1, (1, 4, 4, 6 * count)), (1, (1, 4 * count, 4, 6))):
            yield Case("CONCATENATION", (x,) * count, (act(dtype, out),), {"axis": axis}, label=f"{count} on {axis}")
    for count in range(1, 7):
        for axis in (1, -1):
            whole = act(dtype, (1, 12 * count, 1, 12 * count))
            part = act(dtype, (1, 12, 1, 12 * count) if axis == 1 else (1, 12 * count, 1, 12))
            yield Case("SPLIT", (ints(axis, shape=()), whole), (part,) * count, {"num_splits": count}, label=f"{count}")


def _conversions() -> Iterator[Case]:
    for dtype in ("int8", "uint8", "int16", "float16", "int4"):
        source = act(dtype)
        for stored in ("fed", "const"):
            yield Case("DEQUANTIZE", (replace(source, source=stored),), (act("float32"),), label=f"{dtype} {stored}")
        for shape in ((4,), (4, 6), (4, 1, 1, 6)):
            stored_so = replace(source, source="const", shape=shape)
            yield Case("DEQUANTIZE", (stored_so,), (act("float32", shape),), label=f"{dtype} {shape}")
        for other in ("int8", "uint8", "int16"):
            if dtype in ("int8", "uint8", "int16"):
                yield Case("QUANTIZE", (source,), (act(other),), label=f"{dtype} to {other}")
    for dtype in ("int8", "uint8", "int16"):
        yield Case("QUANTIZE", (act("float32"),), (act(dtype),), label=f"float32 to {dtype}")
    for dtype in ("float32", "float16", "int8"):
        quant = per_tensor(SCALE) if dtype == "int8" else None
        for shape in ((4, 6), (4, 1, 1, 6)):
            source = Operand(shape, dtype, quant, "sparse")
            yield Case("DENSIFY", (source,), (Operand(shape, dtype, quant),), label=dtype)
    for dtype in ("int32", "int8", "uint8", "float16"):
        yield Case("CAST", (replace(act(dtype), quant=None),), (act("float32"),), label=f"{dtype} to float32")


def _variables() -> Iterator[Case]:
    handle = Operand((), "resource", source="handle")
    for dtype in ("float32", "int8", "uint8", "int16", "int32"):
        yield Case("READ_VARIABLE", (handle,), (act(dtype),))
        yield Case("ASSIGN_VARIABLE", (handle, act(dtype)), ())


def _attention() -> Iterator[Case]:
    def case(heads: int, groups: int, mask: bool, depth: int = 8, **scale: float) -> Case:
        q, kv = act("float32", (1, 4, heads, depth)), act("float32", (1, 5, groups, depth))
        masks = (act("float32", (1, 1, 4, 5)),) if mask else ()
        options = {
            "name": "odml.scaled_dot_product_attention", "decomposition_subgraph_index": 1,
            "composite_attributes": attributes(**scale),
        }  # fmt: skip
        return Case("STABLEHLO_COMPOSITE", (q, kv, kv, *masks), (q,), options, label=f"{heads} of {groups}")

    for heads, groups in ((2, 2), (4, 2), (2, 1), (3, 2)):
        for mask in (False, True):
            yield case(heads, groups, mask)
    yield case(2, 2, True, scale=0.5)
    yield case(2, 2, True, scale=0.5, logit_cap=2.0)
    other = case(2, 2, False)
    yield replace(other, options={**other.options, "name": "odml.rms_norm"}, label="another name")


def _mediapipe() -> Iterator[Case]:
    """Custom ops of models from MediaPipe; their options are structs of the C API."""

    def struct(*values: int) -> bytes:
        return b"".join(v.to_bytes(4, "little") for v in values)

    x = act("float32")
    w, b = Operand((4, 3, 3, 6), source="const"), Operand((4,), source="const")
    out = act("float32", (1, 8, 8, 4))
    yield Case("CUSTOM", (x, w, b), (out,), custom_code="Convolution2DTransposeBias", custom_options=struct(1, 2, 2))
    half, pooling = act("float32", (1, 2, 2, 6)), struct(1, 2, 2, 2, 2)
    yield Case("CUSTOM", (x,), (half, half), custom_code="MaxPoolingWithArgmax2D", custom_options=pooling)
    yield Case("CUSTOM", (half, half), (x,), custom_code="MaxUnpooling2D", custom_options=pooling)
    yield from (Case("CUSTOM", (x,), (x,), custom_code=name) for name in CUSTOM)
