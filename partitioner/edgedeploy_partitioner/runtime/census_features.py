# SPDX-License-Identifier: Apache-2.0
"""Features that only some kinds of op have: what XNNPACK may look at beside types, ranks and quantisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from edgedeploy_partitioner.model.graph import Tensor
from edgedeploy_partitioner.runtime.census_view import Feature, View, quantised_as, scales_of

_Special = Callable[[View], Iterator[tuple[str, Feature]]]


def nothing(view: View) -> Iterator[tuple[str, Feature]]:
    del view
    return iter(())


def _conv(view: View) -> Iterator[tuple[str, Feature]]:
    x, w = view.input(0), view.input(1)
    yield from _window(view, w)
    yield from _bias(view, w, view.input(2))
    if x is not None and w is not None and len(x.shape) == len(w.shape) == 4 and w.shape[3]:
        yield "groups", min(x.shape[3] // w.shape[3], 2)


def _depthwise(view: View) -> Iterator[tuple[str, Feature]]:
    x, w, multiplier = view.input(0), view.input(1), view.option("depth_multiplier")
    yield from _window(view, w)
    yield from _bias(view, w, view.input(2))
    if w is not None and len(w.shape) == 4:
        yield "multiplier_fits", multiplier > 0 and w.shape[3] % multiplier == 0
        yield "channels_fit", x is not None and x.shape[-1:] == (w.shape[3] // max(multiplier, 1),)


def _bias(view: View, w: Tensor | None, bias: Tensor | None) -> Iterator[tuple[str, Feature]]:
    if w is not None and bias is not None:
        halves = view.unpacked.get(w.id) == "half", view.unpacked.get(bias.id) == "half"
        yield "halves", {(True, True): "both", (True, False): "weights", (False, True): "bias"}.get(halves, "none")
    if w is not None and w.quantization is not None and bias is not None and bias.quantization is not None:
        yield "bias_like_weights", len(w.quantization.scales) == len(bias.quantization.scales)


def _window(view: View, w: Tensor | None) -> Iterator[tuple[str, Feature]]:
    steps = ("stride_w", "stride_h", "dilation_w_factor", "dilation_h_factor")
    yield "steps_positive", all(view.option(name) > 0 for name in steps)
    x = view.data
    if x is not None and w is not None and len(x.shape) == len(w.shape) == 4:
        dilations = view.option("dilation_h_factor"), view.option("dilation_w_factor")
        spans = [(size - 1) * dilation + 1 for size, dilation in zip(w.shape[1:3], dilations, strict=True)]
        wide = any(span > size for span, size in zip(spans, x.shape[1:3], strict=True))
        yield "window_fits", view.option("padding") != "VALID" or not wide


def _fully_connected(view: View) -> Iterator[tuple[str, Feature]]:
    x, w, bias = (view.input(i) for i in range(3))
    yield "sparse_version", view.op.version == 8
    yield from _bias(view, w, bias)
    if w is not None and len(w.shape) == 2:
        yield "depth_even", w.shape[1] % 2 == 0
        yield "depth_fits", x is not None and w.shape[1] > 0 and x.elements % w.shape[1] == 0
        if bias is not None:
            yield "bias_fits", bias.elements == w.shape[0]


def _transpose_conv(view: View) -> Iterator[tuple[str, Feature]]:
    w, x, shape = view.input(1), view.input(2), view.values(0)
    yield from _bias(view, w, view.input(3))
    if w is not None and x is not None and shape is not None and len(w.shape) == len(x.shape) == 4:
        strides = view.option("stride_h"), view.option("stride_w")
        yield "steps_positive", min(strides) > 0
        yield "shape_fits", len(shape) == 4 and shape[3] == w.shape[0] and x.shape[3] == w.shape[3]
        if len(shape) == 4 and min(strides) > 0:
            yield "size_fits", all(_covers(view, axis, shape, strides[axis - 1]) for axis in (1, 2))


def _covers(view: View, axis: int, shape: Sequence[int], stride: int) -> bool:
    """Whether a convolution of the output gives back the size of the input along ``axis``; with SAME it must."""
    x = view.input(2)
    return view.option("padding") != "SAME" or (x is not None and -(-shape[axis] // stride) == x.shape[axis])


def _concatenation(view: View) -> Iterator[tuple[str, Feature]]:
    rank = len(view.outputs[0].shape) if view.outputs else 0
    yield "axis_fits", -rank <= view.option("axis") < rank


def _pool(view: View) -> Iterator[tuple[str, Feature]]:
    h, w = view.option("filter_height"), view.option("filter_width")
    stride_h, stride_w = view.option("stride_h"), view.option("stride_w")
    yield "steps_positive", min(h, w, stride_h, stride_w) > 0
    yield "stride_over_filter", stride_h > h or stride_w > w


def _block(view: View) -> Iterator[tuple[str, Feature]]:
    size = view.option("block_size")
    yield "block_over_one", size > 1
    if view.op.code == "SPACE_TO_DEPTH" and view.data is not None and len(view.data.shape) == 4 and size > 0:
        yield "block_fits", all(n % size == 0 for n in view.data.shape[1:3])


def _pad(view: View) -> Iterator[tuple[str, Feature]]:
    pads = view.values(1)
    if pads is not None:
        yield "pads_positive", min(pads, default=0) >= 0
        # Older versions look at four pads, and so past the end of the operand where there are two.
        yield "first_pads_positive", min(view.in_file(1, 4) or (), default=0) >= 0
        yield "pads_fit", view.data is not None and len(pads) == 2 * len(view.data.shape)


def _reduce(view: View) -> Iterator[tuple[str, Feature]]:
    axes, rank = view.values(1), len(view.data.shape) if view.data is not None else 0
    if axes is not None:
        from_front = [a + rank if a < 0 else a for a in axes]
        spatial = {(1, 2): "spatial", (2,): "width"} if rank == 4 else {}
        yield "axes", spatial.get(tuple(sorted(from_front)), "others" if axes else "none")
        yield "axes_fit", all(0 <= a < rank for a in from_front)
        yield "axes_distinct", len(set(from_front)) == len(axes)
        yield "any_negative", min(axes, default=0) < 0


def _reshape(view: View) -> Iterator[tuple[str, Feature]]:
    operand = view.input(1)
    if operand is not None:
        yield "shape_flat", all(n == 1 for n in operand.shape[:-1])
    if view.data is not None and view.outputs:
        yield "elements_fit", view.data.elements == view.outputs[0].elements
    shape = (view.option("new_shape") or ()) if operand is None else (view.values(1) or ())
    yield "shape_says_nothing", tuple(shape) in ((0,), (-1,))


def _resize(view: View) -> Iterator[tuple[str, Feature]]:
    size = view.values(1)
    if size is not None:
        yield "size_positive", min(size, default=0) > 0
        yield "size_pair", len(size) == 2


def _slice(view: View) -> Iterator[tuple[str, Feature]]:
    begin, size = view.values(1), view.values(2)
    if begin is not None and size is not None:
        yield "begin_negative", min(begin, default=0) < 0
        yield "size_positive", min(size, default=1) > 0
        yield "operands_fit", len(begin) == len(size)
        data, result = (t.shape if t is not None else () for t in (view.data, next(iter(view.outputs), None)))
        ranks_fit = len(data) == len(result) == len(begin) == len(size)
        yield "inside", ranks_fit and all(b + s <= n for b, s, n in zip(begin, size, data, strict=True))
        yield "fits_result", ranks_fit and all(s in (-1, n) for s, n in zip(size, result, strict=True))


def _strided_slice(view: View) -> Iterator[tuple[str, Feature]]:
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
        older = [_older_cut(view, *cut) for cut in zip(range(len(shape)), begin, end, shape, strict=False)]
        yield "ends_after", all(start < stop for start, stop in older)
        yield "ends_inside", all(start >= 0 and stop <= n for (start, stop), n in zip(older, shape, strict=False))


def _cut(view: View, axis: int, begin: int, end: int, extent: int) -> tuple[int, int]:
    """Where the cut of one dimension starts, and its length, with begin and end as the runtime reads them."""
    start = 0 if view.option("begin_mask") >> axis & 1 else begin
    stop = end + start if view.option("offset") else end
    if view.option("end_mask") >> axis & 1:
        stop = 0
    offset = start + extent if start < 0 else start
    return offset, (stop + extent if stop <= 0 else stop) - offset


def _older_cut(view: View, axis: int, begin: int, end: int, extent: int) -> tuple[int, int]:
    """The same as older versions read it, and where it stops: a negative end is from the back, and zero is zero."""
    start = 0 if view.option("begin_mask") >> axis & 1 else begin + extent if begin < 0 else begin
    if view.option("offset"):
        return start, start + end
    masked = view.option("end_mask") >> axis & 1
    return start, extent if masked else end + extent if end < 0 else end


def _prelu(view: View) -> Iterator[tuple[str, Feature]]:
    slope = view.input(1)
    if slope is not None:
        yield "slope_flat", all(n == 1 for n in slope.shape[:-1])


def _split(view: View) -> Iterator[tuple[str, Feature]]:
    yield "splits_fit", view.option("num_splits") == len(view.outputs)


def _softmax(view: View) -> Iterator[tuple[str, Feature]]:
    yield "unit_beta", view.option("beta") == 1.0


def _tanh(view: View) -> Iterator[tuple[str, Feature]]:
    yield "result_as_specified", any(quantised_as(t, 1 / 128, 0) for t in view.outputs)


def _logistic(view: View) -> Iterator[tuple[str, Feature]]:
    yield "result_as_specified", any(quantised_as(t, 1 / 256, -128) for t in view.outputs)


def _leaky_relu(view: View) -> Iterator[tuple[str, Feature]]:
    alpha = np.float32(view.option("alpha"))
    yield "alpha_normal", bool(np.isfinite(alpha) and abs(alpha) >= np.finfo(np.float32).tiny)
    ratio = dict(scales_of(view)).get("scale0")
    if isinstance(ratio, float):
        yield "scale_negative", float(np.float32(ratio) * alpha)
        yield "scale_negative_size", float(abs(np.float32(ratio) * alpha))


def _transpose(view: View) -> Iterator[tuple[str, Feature]]:
    order = view.values(1)
    if order is not None:
        rank = len(order)
        yield "is_permutation", sorted(p + rank if p < 0 else p for p in order) == list(range(rank))
        yield "any_negative", min(order, default=0) < 0


def _batch_matmul(view: View) -> Iterator[tuple[str, Feature]]:
    b = view.input(1)
    if b is not None and b.quantization is not None and len(b.quantization.scales) > 1:
        yield "channels_last", b.quantization.axis == len(b.shape) - (2 if view.option("adj_y") else 1)


def _attention(view: View) -> Iterator[tuple[str, Feature]]:
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


SPECIAL: Mapping[str, _Special] = {
    "CONV_2D": _conv, "DEPTHWISE_CONV_2D": _depthwise, "FULLY_CONNECTED": _fully_connected,
    "TRANSPOSE_CONV": _transpose_conv, "AVERAGE_POOL_2D": _pool, "MAX_POOL_2D": _pool, "DEPTH_TO_SPACE": _block,
    "SPACE_TO_DEPTH": _block, "PAD": _pad, "PADV2": _pad, "MIRROR_PAD": _pad, "MEAN": _reduce, "SUM": _reduce,
    "REDUCE_MAX": _reduce, "REDUCE_MIN": _reduce, "RESHAPE": _reshape, "RESIZE_BILINEAR": _resize, "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice, "TRANSPOSE": _transpose, "SPLIT": _split, "SOFTMAX": _softmax,
    "LEAKY_RELU": _leaky_relu, "CONCATENATION": _concatenation, "BATCH_MATMUL": _batch_matmul,
    "PRELU": _prelu, "TANH": _tanh, "LOGISTIC": _logistic, "STABLEHLO_COMPOSITE": _attention,
}  # fmt: skip
