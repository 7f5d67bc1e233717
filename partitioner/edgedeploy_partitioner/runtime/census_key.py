# SPDX-License-Identifier: Apache-2.0
"""What a delegate may look at in one op, as a flat key: the census of a runtime is a table over such keys.

``types`` and the features are all that XNNPACK's decision may depend on. Features are switches, small numbers or
words, so that a sweep can see every value; only scales are real numbers. A feature is left out where it has no
meaning. Two ops with the same key must be treated alike: the tool that takes the census stops when they are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from edgedeploy_partitioner.model.graph import DType, Graph, Op, Quantization, Subgraph, Tensor

Feature = bool | int | float | str

_MOST_OPERANDS = 4  # of which source and quantisation are looked at
_MOST_RANK = 7  # stands for all above XNNPACK's limit of six
_EIGHT_BIT = (DType.INT8, DType.UINT8)
_NUMPY = {DType.INT32: np.int32, DType.INT64: np.int64}
_VARIADIC = ("ADD_N", "CONCATENATION", "PACK", "SPLIT", "SPLIT_V", "UNPACK")
_WEIGHTED = {"CONV_2D": (0, 1), "DEPTHWISE_CONV_2D": (0, 1), "FULLY_CONNECTED": (0, 1), "TRANSPOSE_CONV": (2, 1)}
"""Ops with weights: positions of the data and of the weights."""
_DATA = {"TRANSPOSE_CONV": 2, "SPLIT": 1}
"""Position of the data operand where it is not the first."""


class Key(NamedTuple):
    op: str
    types: str
    features: Mapping[str, Feature]


def key_of(graph: Graph, op: Op, unpacked: Mapping[int, bool] | None = None) -> Key:
    """The key of ``op``. ``unpacked`` are tensors of its subgraph that XNNPACK makes constant itself, each with whether
    it is also read otherwise than as weights or bias, or by somebody else."""
    view = _View(graph, op, unpacked or {})
    with np.errstate(all="ignore"):  # absurd scales give infinite ratios, which is what they are
        return Key(_name(op), _types(view), dict(_features(view)))


def is_shared(subgraph: Subgraph, tensor: int, available: Collection[int]) -> bool:
    """Whether not only ops in ``available`` read ``tensor``, and only as weights or bias."""
    readers = subgraph.consumers.get(tensor, ())
    return tensor in subgraph.outputs or not all(
        r in available and _reads_as_weights(subgraph.ops[r], tensor) for r in readers
    )


def _reads_as_weights(op: Op, tensor: int) -> bool:
    return op.code in _WEIGHTED and tensor not in op.inputs[_WEIGHTED[op.code][0] :][:1]


class _View:
    """One op with its tensors at hand."""

    def __init__(self, graph: Graph, op: Op, unpacked: Mapping[int, bool]) -> None:
        tensors = graph.subgraphs[op.subgraph].tensors
        self.graph, self.op, self.unpacked = graph, op, unpacked
        self.inputs = [tensors[t] if t >= 0 else None for t in op.inputs]
        self.outputs = [tensors[t] for t in op.outputs if t >= 0]
        self.data = self.input(_DATA.get(op.code, 0))

    def input(self, position: int) -> Tensor | None:
        return self.inputs[position] if position < len(self.inputs) else None

    def option(self, name: str) -> Any:
        return self.op.options.get(name, 0)

    def values(self, position: int) -> list[int] | None:
        """The integers of a constant operand; None if it is no such constant or too short for its shape."""
        tensor = self.input(position)
        if tensor is None or tensor.data is None or tensor.dtype not in _NUMPY or tensor.data.size < tensor.nbytes:
            return None
        data = self.graph.bytes_of(tensor.data)[: tensor.nbytes]
        values: list[int] = np.frombuffer(data, _NUMPY[tensor.dtype]).tolist()
        return values


def _name(op: Op) -> str:
    if op.code == "STABLEHLO_COMPOSITE":
        return f"{op.code}:{op.options.get('name', '')}"
    return f"{op.code}:{op.custom_code}" if op.custom_code else op.code


def _types(view: _View) -> str:
    """Element types of inputs and outputs, ``-`` for an absent one; repetitions once in ops on any number of them."""

    def listed(tensors: Sequence[Tensor | None]) -> str:
        types = ["-" if t is None else t.dtype.value for t in tensors]
        return " ".join(kind for kind, _ in groupby(types)) if view.op.code in _VARIADIC else " ".join(types)

    return f"{listed(view.inputs)} -> {listed(view.outputs)}"


def _features(view: _View) -> Iterator[tuple[str, Feature]]:
    yield "inputs", len(view.inputs)
    yield "outputs", len(view.outputs)
    for name, value in view.op.options.items():
        if isinstance(value, bool | str) and name not in ("name", "quantized_bias_type"):
            yield name, value
    for i, tensor in enumerate(view.inputs[:_MOST_OPERANDS]):
        if tensor is not None:
            yield f"in{i}", _source(view, tensor)
            yield f"in{i}.rank", _rank(tensor)
            yield f"in{i}.empty", 0 in tensor.shape
            yield from _quantization(f"in{i}", tensor)
    for tensor in view.outputs[:1]:
        yield "out.rank", _rank(tensor)
        yield "out.empty", 0 in tensor.shape
        yield from _quantization("out", tensor)
    yield from _scales(view)
    yield from _SPECIAL.get(view.op.code, _nothing)(view)


def _rank(tensor: Tensor | None) -> int:
    return 0 if tensor is None else min(len(tensor.shape), _MOST_RANK)


def _source(view: _View, tensor: Tensor | None) -> str:
    if tensor is None:
        return "-"
    if tensor.id in view.unpacked:
        return "unpacked"
    if tensor.is_constant:
        return "sparse" if tensor.is_sparse else "const"
    return "variable" if tensor.is_variable else "fed"


def _quantization(name: str, tensor: Tensor) -> Iterator[tuple[str, Feature]]:
    if tensor.dtype in (DType.FLOAT32, DType.FLOAT16, DType.BOOL, DType.INT64):
        return
    quant = tensor.quantization
    if quant is None:
        yield f"{name}.quant", "none"
    elif quant.block_size:
        even = bool(tensor.shape) and tensor.shape[-1] % quant.block_size == 0
        yield f"{name}.quant", "odd_blocks" if quant.block_size % 32 else "blocks" if even else "uneven_blocks"
    elif any(map(math.isnan, quant.scales)):
        yield f"{name}.quant", "nan"
    elif any(map(math.isinf, quant.scales)):
        yield f"{name}.quant", "infinite"
    elif min(quant.scales) < np.finfo(np.float32).tiny:
        yield f"{name}.quant", "vanishing"
    else:
        yield f"{name}.quant", _granularity(tensor, quant) + ("_off" if any(quant.zero_points) else "")


def _granularity(tensor: Tensor, quant: Quantization) -> str:
    """``_off`` is added to this where a zero point is not zero."""
    if len(quant.scales) == 1:
        return "tensor" if quant.axis == 0 else "tensor_axis"
    fits = quant.axis < len(tensor.shape) and tensor.shape[quant.axis] == len(quant.scales)
    return f"channel{quant.axis}" if fits else "uneven"


# --- scales ----------------------------------------------------------


def _scales(view: _View) -> Iterator[tuple[str, Feature]]:
    """Ratios of input to output scales, in single precision as the runtime computes them."""
    out = _scale(view.outputs[0]) if view.outputs else None
    if view.op.code in _WEIGHTED:
        data, weights = (view.input(i) for i in _WEIGHTED[view.op.code])
        scale = _scale(data)
        if weights is not None and weights.quantization is not None and scale and out:
            ratios = np.float32(scale) * np.array(weights.quantization.scales, np.float32) / np.float32(out)
            if ratios.size:
                yield "scale_max", float(ratios.max())
                yield "scale_min", float(ratios.min())
        return
    ins = [_scale(t) for t in view.inputs[:2]]
    if out and len(ins) == 2 and ins[0] and ins[1] and _multiplies(view):
        yield "scale_product", float(np.float32(ins[0]) * np.float32(ins[1]) / np.float32(out))
    for i, scale in enumerate(ins):
        if scale and out:
            yield f"scale{i}", float(np.float32(scale) / np.float32(out))
    eight_bit = [t for t in (*view.inputs, *view.outputs) if t is not None and t.dtype in _EIGHT_BIT]
    if len(eight_bit) > 1:
        yield "same_quant", len({_affine(t) for t in eight_bit}) == 1


def _multiplies(view: _View) -> bool:
    """A product whose scale matters: of a matrix with constant weights it is fixed, of two activations it is not."""
    constant = ("const", "unpacked", "sparse")
    return view.op.code == "MUL" or (view.op.code == "BATCH_MATMUL" and _source(view, view.inputs[1]) in constant)


def _scale(tensor: Tensor | None) -> float | None:
    if tensor is None or tensor.dtype not in _EIGHT_BIT or tensor.quantization is None:
        return None
    scales = tensor.quantization.scales
    return scales[0] if len(scales) == 1 and math.isfinite(scales[0]) and scales[0] > 0 else None


def _affine(tensor: Tensor) -> tuple[DType, object, object]:
    quant = tensor.quantization
    return tensor.dtype, quant and quant.scales, quant and quant.zero_points


# --- one op at a time ------------------------------------------------

_Special = Callable[[_View], Iterator[tuple[str, Feature]]]


def _nothing(view: _View) -> Iterator[tuple[str, Feature]]:
    del view
    return iter(())


def _conv(view: _View) -> Iterator[tuple[str, Feature]]:
    x, w = view.input(0), view.input(1)
    yield from _window(view, w)
    yield from _bias(view, w, view.input(2))
    if x is not None and w is not None and len(x.shape) == len(w.shape) == 4 and w.shape[3]:
        yield "groups", min(x.shape[3] // w.shape[3], 2)


def _depthwise(view: _View) -> Iterator[tuple[str, Feature]]:
    x, w, multiplier = view.input(0), view.input(1), view.option("depth_multiplier")
    yield from _window(view, w)
    yield from _bias(view, w, view.input(2))
    if w is not None and len(w.shape) == 4:
        yield "multiplier_fits", multiplier > 0 and w.shape[3] % multiplier == 0
        yield "channels_fit", x is not None and x.shape[-1:] == (w.shape[3] // max(multiplier, 1),)


def _bias(view: _View, w: Tensor | None, bias: Tensor | None) -> Iterator[tuple[str, Feature]]:
    if w is not None and bias is not None:
        unpacked = w.id in view.unpacked, bias.id in view.unpacked
        which = {(True, True): "both", (True, False): "weights", (False, True): "bias"}.get(unpacked, "none")
        yield "unpacked", which + "_shared" * any(view.unpacked.get(t.id) for t in (w, bias))
    if w is not None and w.quantization is not None and bias is not None and bias.quantization is not None:
        yield "bias_like_weights", len(w.quantization.scales) == len(bias.quantization.scales)


def _window(view: _View, w: Tensor | None) -> Iterator[tuple[str, Feature]]:
    steps = ("stride_w", "stride_h", "dilation_w_factor", "dilation_h_factor")
    yield "steps_positive", all(view.option(name) > 0 for name in steps)
    x = view.data
    if x is not None and w is not None and len(x.shape) == len(w.shape) == 4:
        dilations = view.option("dilation_h_factor"), view.option("dilation_w_factor")
        spans = [(size - 1) * dilation + 1 for size, dilation in zip(w.shape[1:3], dilations, strict=True)]
        wide = any(span > size for span, size in zip(spans, x.shape[1:3], strict=True))
        yield "window_fits", view.option("padding") != "VALID" or not wide


def _fully_connected(view: _View) -> Iterator[tuple[str, Feature]]:
    x, w, bias = (view.input(i) for i in range(3))
    yield "sparse_version", view.op.version == 8
    yield from _bias(view, w, bias)
    if w is not None and len(w.shape) == 2:
        yield "depth_even", w.shape[1] % 2 == 0
        yield "depth_fits", x is not None and w.shape[1] > 0 and x.elements % w.shape[1] == 0
        if bias is not None:
            yield "bias_fits", bias.elements == w.shape[0]


def _transpose_conv(view: _View) -> Iterator[tuple[str, Feature]]:
    w, x, shape = view.input(1), view.input(2), view.values(0)
    yield from _bias(view, w, view.input(3))
    if w is not None and x is not None and shape is not None and len(w.shape) == len(x.shape) == 4:
        strides = view.option("stride_h"), view.option("stride_w")
        yield "steps_positive", min(strides) > 0
        yield "shape_fits", len(shape) == 4 and shape[3] == w.shape[0] and x.shape[3] == w.shape[3]
        if len(shape) == 4 and min(strides) > 0:
            yield "size_fits", all(_covers(view, axis, shape, strides[axis - 1]) for axis in (1, 2))


def _covers(view: _View, axis: int, shape: Sequence[int], stride: int) -> bool:
    """Whether a convolution of the output gives back the size of the input along ``axis``; with SAME it must."""
    x = view.input(2)
    return view.option("padding") != "SAME" or (x is not None and -(-shape[axis] // stride) == x.shape[axis])


def _concatenation(view: _View) -> Iterator[tuple[str, Feature]]:
    rank = len(view.outputs[0].shape) if view.outputs else 0
    yield "axis_fits", -rank <= view.option("axis") < rank


def _pool(view: _View) -> Iterator[tuple[str, Feature]]:
    h, w = view.option("filter_height"), view.option("filter_width")
    stride_h, stride_w = view.option("stride_h"), view.option("stride_w")
    yield "steps_positive", min(h, w, stride_h, stride_w) > 0
    yield "stride_over_filter", stride_h > h or stride_w > w


def _block(view: _View) -> Iterator[tuple[str, Feature]]:
    size = view.option("block_size")
    yield "block_over_one", size > 1
    if view.op.code == "SPACE_TO_DEPTH" and view.data is not None and len(view.data.shape) == 4 and size > 0:
        yield "block_fits", all(n % size == 0 for n in view.data.shape[1:3])


def _pad(view: _View) -> Iterator[tuple[str, Feature]]:
    pads = view.values(1)
    if pads is not None:
        yield "pads_positive", min(pads, default=0) >= 0
        yield "first_pads_positive", min(pads[:4], default=0) >= 0
        yield "pads_fit", view.data is not None and len(pads) == 2 * len(view.data.shape)


def _reduce(view: _View) -> Iterator[tuple[str, Feature]]:
    axes, rank = view.values(1), len(view.data.shape) if view.data is not None else 0
    if axes is not None:
        from_front = [a + rank if a < 0 else a for a in axes]
        spatial = {(1, 2): "spatial", (2,): "width"} if rank == 4 else {}
        yield "axes", spatial.get(tuple(sorted(from_front)), "others" if axes else "none")
        yield "axes_fit", all(0 <= a < rank for a in from_front)
        yield "axes_distinct", len(set(from_front)) == len(axes)
        yield "any_negative", min(axes, default=0) < 0


def _reshape(view: _View) -> Iterator[tuple[str, Feature]]:
    operand = view.input(1)
    if operand is not None:
        yield "shape_flat", all(n == 1 for n in operand.shape[:-1])
    shape = (view.option("new_shape") or ()) if operand is None else (view.values(1) or ())
    yield "shape_says_nothing", tuple(shape) in ((0,), (-1,))


def _resize(view: _View) -> Iterator[tuple[str, Feature]]:
    size = view.values(1)
    if size is not None:
        yield "size_positive", min(size, default=0) > 0
        yield "size_pair", len(size) == 2


def _slice(view: _View) -> Iterator[tuple[str, Feature]]:
    begin, size = view.values(1), view.values(2)
    if begin is not None and size is not None:
        yield "begin_negative", min(begin, default=0) < 0
        yield "size_positive", min(size, default=1) > 0
        yield "operands_fit", len(begin) == len(size)
        data, result = (t.shape if t is not None else () for t in (view.data, next(iter(view.outputs), None)))
        ranks_fit = len(data) == len(result) == len(begin) == len(size)
        yield "inside", ranks_fit and all(b + s <= n for b, s, n in zip(begin, size, data, strict=True))
        yield "fits_result", ranks_fit and all(s in (-1, n) for s, n in zip(size, result, strict=True))


def _strided_slice(view: _View) -> Iterator[tuple[str, Feature]]:
    for mask in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask"):
        yield f"any_{mask}", view.option(mask) != 0
    begin, end, strides = (view.values(i) for i in (1, 2, 3))
    shape = view.data.shape if view.data is not None else ()
    if strides is not None:
        yield "unit_strides", all(s == 1 for s in strides)
    if begin is not None and end is not None and strides is not None:
        yield "operands_fit", len(begin) == len(end) == len(strides) == len(shape)
        cuts = [_cut(view, *cut) for cut in zip(range(len(shape)), begin, end, shape, strict=False)]
        yield "inside", all(start + length <= extent for (start, length), extent in zip(cuts, shape, strict=False))
        yield "cuts_something", all(length > 0 for _, length in cuts)


def _cut(view: _View, axis: int, begin: int, end: int, extent: int) -> tuple[int, int]:
    """Where the cut of one dimension starts, and its length, with begin and end as the runtime reads them."""
    start = 0 if view.option("begin_mask") >> axis & 1 else begin
    stop = end + start if view.option("offset") else end
    if view.option("end_mask") >> axis & 1:
        stop = 0
    offset = start + extent if start < 0 else start
    return offset, (stop + extent if stop <= 0 else stop) - offset


def _split(view: _View) -> Iterator[tuple[str, Feature]]:
    yield "splits_fit", view.option("num_splits") == len(view.outputs)


def _softmax(view: _View) -> Iterator[tuple[str, Feature]]:
    yield "unit_beta", view.option("beta") == 1.0


def _leaky_relu(view: _View) -> Iterator[tuple[str, Feature]]:
    alpha = np.float32(view.option("alpha"))
    yield "alpha_normal", bool(np.isfinite(alpha) and abs(alpha) >= np.finfo(np.float32).tiny)
    ratio = dict(_scales(view)).get("scale0")
    if isinstance(ratio, float):
        yield "scale_negative", float(np.float32(ratio) * alpha)
        yield "scale_negative_size", float(abs(np.float32(ratio) * alpha))


def _transpose(view: _View) -> Iterator[tuple[str, Feature]]:
    order = view.values(1)
    if order is not None:
        rank = len(order)
        yield "is_permutation", sorted(p + rank if p < 0 else p for p in order) == list(range(rank))
        yield "any_negative", min(order, default=0) < 0


def _batch_matmul(view: _View) -> Iterator[tuple[str, Feature]]:
    b = view.input(1)
    if b is not None and b.quantization is not None and len(b.quantization.scales) > 1:
        yield "channels_last", b.quantization.axis == len(b.shape) - (2 if view.option("adj_y") else 1)


def _attention(view: _View) -> Iterator[tuple[str, Feature]]:
    q, k, v, mask = (view.input(i) for i in range(4))
    shapes = [t.shape for t in (q, k, v) if t is not None]
    if len(shapes) < 3 or not all(shapes):
        return
    yield "head_size_fits", len({shape[-1] for shape in shapes}) == 1
    if all(len(shape) > 2 for shape in shapes):
        queries, keys = shapes[0][2], shapes[1][2]
        yield "heads_fit", keys > 0 and queries % keys == 0
        yield "heads", "each" if queries == keys else "one" if keys == 1 else "groups"
        yield "mask_fits", mask is None or not mask.shape or shapes[1][1] == shapes[2][1] == mask.shape[-1]


_SPECIAL: Mapping[str, _Special] = {
    "CONV_2D": _conv, "DEPTHWISE_CONV_2D": _depthwise, "FULLY_CONNECTED": _fully_connected,
    "TRANSPOSE_CONV": _transpose_conv, "AVERAGE_POOL_2D": _pool, "MAX_POOL_2D": _pool, "DEPTH_TO_SPACE": _block,
    "SPACE_TO_DEPTH": _block, "PAD": _pad, "PADV2": _pad, "MIRROR_PAD": _pad, "MEAN": _reduce, "SUM": _reduce,
    "REDUCE_MAX": _reduce, "REDUCE_MIN": _reduce, "RESHAPE": _reshape, "RESIZE_BILINEAR": _resize, "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice, "TRANSPOSE": _transpose, "SPLIT": _split, "SOFTMAX": _softmax,
    "LEAKY_RELU": _leaky_relu, "CONCATENATION": _concatenation, "BATCH_MATMUL": _batch_matmul,
    "STABLEHLO_COMPOSITE": _attention,
}  # fmt: skip
