# SPDX-License-Identifier: Apache-2.0
"""What XNNPACK's operators keep on the heap, by shape: packed weights, tables of pointers, scratch memory.

A matrix kernel makes ``nr`` results at a time out of ``kr`` products each, so weights are padded to multiples of
both. Which kernels run depends on the core: see :mod:`tiles`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from edgedeploy_partitioner.memory.rounding import up
from edgedeploy_partitioner.memory.tiles import Arithmetic, Tile, Tiles
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Tensor

_POINTER_BYTES = 8
_MOST_TAPS = 25  # of the largest depthwise kernel; a larger filter runs as a convolution of one channel a group
_SPARE_ROWS = 10  # of quantisation parameters, which XNNPACK may read beyond the end
_PARAMETER_BYTES = 16
_BLOCK_SCALE_BYTES = 2
_ROW_PARAMETER_BYTES = 8  # where rows are quantised as they are multiplied
_INT8_SUM_BYTES = 96
_MOST_WASTE = 1.01  # rounding results up to the tile may not make more of them than this, or a narrow tile is used
_BLOCK_COST = 2  # of what a kernel does for some rows at once, in rows


@dataclass(frozen=True, slots=True)
class Held:
    """What one operator keeps for as long as the interpreter lives, and what it needs in the workspace while it runs.

    ``quantized_bytes`` is the value it makes of a float input with int8 weights, which lies in the workspace too, and
    ``reshaped_bytes`` the matrix it first makes of its input. ``unwritten_bytes`` of the pointers are asked for and
    never written, so that they take no memory.
    """

    weights_bytes: int = 0
    pointers_bytes: int = 0
    scratch_bytes: int = 0
    quantized_bytes: int = 0
    reshaped_bytes: int = 0
    unwritten_bytes: int = 0


def held(graph: Graph, op: Op, tile_of: Tiles) -> Held:
    """The buffers of ``op``. An op of another kind, or with fewer inputs or dimensions than its kind has, has none."""
    rule = _RULES.get(op.name)
    if rule is None:
        return Held()
    try:
        return rule(_Operator(graph, op, tile_of))
    except (LookupError, ValueError, ZeroDivisionError):
        return Held()


@dataclass(frozen=True, slots=True)
class _Operator:
    """An op as XNNPACK's delegate hands it over."""

    graph: Graph
    op: Op
    tiles: Tiles

    def input(self, position: int) -> Tensor:
        """The tensor there. Raises LookupError if the op has none."""
        return self.graph.operand(self.op, position)

    @property
    def output(self) -> Tensor:
        return self.graph.tensor(self.op.subgraph, self.op.outputs[0])

    def arithmetic(self, x: Tensor, weights: Tensor) -> Arithmetic:
        if x.dtype not in (DType.FLOAT32, DType.FLOAT16):
            return "uint8" if x.dtype is DType.UINT8 else "int8"
        if weights.dtype in (DType.INT4, DType.INT2):
            return "dynamic4"
        return "dynamic" if weights.dtype is DType.INT8 else "float32"

    def filter_tile(self, arithmetic: Arithmetic, results: int) -> Tile:
        tile = self.tiles.filters[arithmetic]
        return self.tiles.narrow if arithmetic == "float32" and results < tile.nr else tile

    def product_tile(self, arithmetic: Arithmetic, results: int) -> Tile:
        """Of FULLY_CONNECTED, and of a convolution that is one."""
        tile = self.tiles.products[arithmetic]
        wastes = up(results, tile.nr) > _MOST_WASTE * results
        return self.tiles.narrow if arithmetic == "float32" and wastes else tile

    def aligned(self, size: int) -> int:
        return up(size, self.tiles.alignment_bytes)

    def number(self, name: str, default: int = 1) -> int:
        value = self.op.options.get(name, default)
        return value if isinstance(value, int) else default

    @property
    def is_same(self) -> bool:
        return self.op.options.get("padding", "SAME") == "SAME"


# A result's bias, its scale and the sum of its weights, as far as the arithmetic needs them.
_PER_RESULT: dict[Arithmetic, int] = {"float32": 4, "int8": 8, "uint8": 4, "dynamic": 12, "dynamic4": 12}


def _weights(
    o: _Operator, weights: Tensor, arithmetic: Arithmetic, tile: Tile, *, depth: int, results: int, taps: int = 1,
    groups: int = 1, parts: int = 1,
) -> int:  # fmt: skip
    bits = 32 if arithmetic == "float32" else min(weights.dtype.bits, 8)
    blocks = depth // weights.quantization.block_size if weights.quantization and weights.quantization.block_size else 0
    one = taps * up(depth, tile.kr) * bits // 8 + parts * _PER_RESULT[arithmetic] + _BLOCK_SCALE_BYTES * blocks
    return o.aligned(one * up(results, tile.nr) * groups)


def _quantized(o: _Operator, x: Tensor, arithmetic: Arithmetic) -> int:
    """A float input in int8, with a scale and an offset for each image."""
    if arithmetic != "dynamic":
        return 0
    return o.aligned(x.elements) + o.aligned(_PARAMETER_BYTES * (x.shape[0] + _SPARE_ROWS))


def _quantized_rows(arithmetic: Arithmetic, tile: Tile, depth: int) -> int:
    """As many rows of a float input in int8 as are multiplied at once."""
    if arithmetic not in ("dynamic", "dynamic4"):
        return 0
    return tile.rows[-1] * (up(depth, tile.kr) + _ROW_PARAMETER_BYTES)


def _rows(count: int, tile: Tile) -> int:
    """``count`` rounded up to what a kernel takes at once; of several kernels XNNPACK takes the cheapest."""

    def cost(rows: int) -> tuple[int, int]:
        return -(-count // rows) * (rows + _BLOCK_COST), -rows

    return count if count in tile.rows else up(count, min(tile.rows, key=cost))


def _conv(o: _Operator) -> Held:
    x, weights = o.input(0), o.input(1)
    arithmetic = o.arithmetic(x, weights)
    results, height, width, depth = weights.shape
    groups = x.shape[3] // depth
    taps, pixels = height * width, prod(o.output.shape[1:3])
    if taps == groups == o.number("stride_w") == o.number("stride_h") == 1:
        tile = o.product_tile(arithmetic, results)
        size = _weights(o, weights, arithmetic, tile, depth=depth, results=results)
        return Held(size, scratch_bytes=_quantized_rows(arithmetic, tile, depth))
    tile = o.filter_tile(arithmetic, results // groups)
    return Held(
        _weights(o, weights, arithmetic, tile, taps=taps, depth=depth, results=results // groups, groups=groups),
        _POINTER_BYTES * taps * _rows(pixels, tile),
        quantized_bytes=_quantized(o, x, arithmetic),
    )


def _depthwise(o: _Operator) -> Held:
    x, weights = o.input(0), o.input(1)
    arithmetic = o.arithmetic(x, weights)
    _, height, width, channels = weights.shape
    taps, (out_height, out_width) = height * width, o.output.shape[1:3]
    if taps > _MOST_TAPS or channels != x.shape[3]:
        results = channels // x.shape[3]
        tile = o.filter_tile(arithmetic, results)
        size = _weights(o, weights, arithmetic, tile, taps=taps, depth=1, results=results, groups=x.shape[3])
        return Held(size, _POINTER_BYTES * taps * _rows(out_height * out_width, tile))
    padded, at_once = min(kernel for kernel in o.tiles.channels[arithmetic].items() if kernel[0] >= taps)
    one = padded * (4 if arithmetic == "float32" else 1) + _PER_RESULT[arithmetic]
    step = width if o.number("dilation_w_factor") > 1 else min(o.number("stride_w"), width)
    pointers = out_height * (taps + (out_width - 1) * step * height) + padded - taps
    return Held(o.aligned(one * up(channels, at_once)), o.aligned(_POINTER_BYTES * pointers))


def _transpose_conv(o: _Operator) -> Held:
    return _transposed(o, o.input(2), o.input(1), o.number("stride_h"), o.number("stride_w"))


def _transpose_bias(o: _Operator) -> Held:
    """MediaPipe's custom op. Its strides are in a blob that we do not read; they follow from the shapes."""
    x, weights = o.input(0), o.input(1)
    return _transposed(o, x, weights, o.output.shape[1] // x.shape[1], o.output.shape[2] // x.shape[2])


def _transposed(o: _Operator, x: Tensor, weights: Tensor, down: int, across: int) -> Held:
    """With strides it is split into one convolution for each of the offsets."""
    arithmetic = o.arithmetic(x, weights)
    results, height, width, depth = weights.shape
    out_height, out_width = o.output.shape[1:3]
    taps = height * width
    tile = o.filter_tile(arithmetic, results)
    if (down > 1 or across > 1) and down <= height and across <= width:
        parts, rows = down * across, out_height * across * up(-(-out_width // across), tile.rows[0])
    else:
        parts, rows = 1, _rows(out_height * out_width, tile)
    pointers = _POINTER_BYTES * taps * rows
    return Held(
        _weights(o, weights, arithmetic, tile, taps=taps, depth=depth, results=results, parts=parts),
        pointers,
        quantized_bytes=_quantized(o, x, arithmetic),
        unwritten_bytes=pointers - pointers // parts,  # each part has room for all taps, and some of them
    )


def _fully_connected(o: _Operator) -> Held:
    x, weights = o.input(0), o.input(1)
    arithmetic = o.arithmetic(x, weights)
    results, depth = weights.shape
    tile = o.product_tile(arithmetic, results)
    size = _weights(o, weights, arithmetic, tile, depth=depth, results=results)
    return Held(
        size if weights.is_constant or _is_folded(o, weights) else 0,
        scratch_bytes=_quantized_rows(arithmetic, tile, depth),
        reshaped_bytes=0 if o.op.options.get("keep_num_dims") else x.nbytes,
    )


def _is_folded(o: _Operator, tensor: Tensor) -> bool:
    subgraph = o.graph.subgraphs[o.op.subgraph]
    return subgraph.producer.get(tensor.id, -1) in subgraph.folded


def _batch_matmul(o: _Operator) -> Held:
    """A right operand that is not constant is packed at each run."""
    left, right = o.input(0), o.input(1)
    arithmetic = o.arithmetic(left, right)
    depth, results = right.shape[-2:] if not o.op.options.get("adj_y") else right.shape[:-3:-1]
    tile = o.tiles.products[arithmetic]
    size = _weights(o, right, arithmetic, tile, depth=depth, results=results, groups=prod(right.shape[:-2]))
    quantized = _quantized_rows(arithmetic, tile, depth)
    return Held(size, scratch_bytes=quantized) if right.is_constant else Held(scratch_bytes=size + quantized)


def _max_pool(o: _Operator) -> Held:
    height, width = o.number("filter_height"), o.number("filter_width")
    out_height, out_width = o.output.shape[1:3]
    pointers = out_height * (height * width + (out_width - 1) * min(o.number("stride_w"), width) * height)
    return Held(pointers_bytes=_POINTER_BYTES * (pointers + height * width - 1))


def _average_pool(o: _Operator) -> Held:
    """Pointers for the rows at the borders and one between, and with padding a factor for each pixel."""
    x = o.input(0)
    height, width = o.number("filter_height"), o.number("filter_width")
    out_height, out_width = o.output.shape[1:3]
    down = o.number("stride_h")
    padding = max((out_height - 1) * down + height - x.shape[1], 0) if o.is_same else 0
    above = padding // 2
    rows = min(out_height, 1 + -(-above // down) + -(-(padding - above) // down))
    row = height * width + (out_width - 1) * min(o.number("stride_w"), width) * height
    return Held(
        4 * out_height * out_width if o.is_same else 0, _POINTER_BYTES * (rows * row + height * width - 1)
    )  # fmt: skip


def _resize_bilinear(o: _Operator) -> Held:
    """Four pointers and two weights for each pixel of the result."""
    pixels, weight_bytes = prod(o.output.shape[1:3]), 4 if o.output.dtype is DType.FLOAT32 else 2
    return Held(2 * weight_bytes * pixels, 4 * _POINTER_BYTES * pixels)


def _reduce(o: _Operator) -> Held:
    """Sums of 4 bytes."""
    return Held(scratch_bytes=4 * o.output.elements + (_INT8_SUM_BYTES if o.output.dtype is not DType.FLOAT32 else 16))


def _softmax(o: _Operator) -> Held:
    return Held(1024 if o.output.dtype is not DType.FLOAT32 else 0)


def _table(o: _Operator) -> Held:
    return Held(256 if o.output.dtype in (DType.INT8, DType.UINT8) else 0)


_RULES = {
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _transpose_conv,
    "Convolution2DTransposeBias": _transpose_bias,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul,
    "MAX_POOL_2D": _max_pool,
    "AVERAGE_POOL_2D": _average_pool,
    "RESIZE_BILINEAR": _resize_bilinear,
    **dict.fromkeys(("MEAN", "SUM"), _reduce),
    "SOFTMAX": _softmax,
    **dict.fromkeys(("LOGISTIC", "TANH", "ELU"), _table),
}
