# SPDX-License-Identifier: Apache-2.0
"""Ops with a window or a matrix: convolutions, pooling, FULLY_CONNECTED, BATCH_MATMUL."""

from __future__ import annotations

import struct

from edgedeploy_partitioner.model.shapes.elementwise import broadcast
from edgedeploy_partitioner.model.shapes.site import Shape, Site, Unknown, elements, rule


@rule("CONV_2D")
def conv_2d(site: Site) -> list[Shape]:
    n, h, w, depth = site.shape(0, rank=4)
    filters, kernel_h, kernel_w, taken = site.shape(1, rank=4)
    site.require(taken > 0 and depth % taken == 0, f"{depth} input channels do not fit weights that take {taken}")
    return [(n, window(site, "h", h, kernel_h), window(site, "w", w, kernel_w), filters)]


@rule("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(site: Site) -> list[Shape]:
    n, h, w, depth = site.shape(0, rank=4)
    _, kernel_h, kernel_w, filters = site.shape(1, rank=4)
    site.require(depth > 0 and filters % depth == 0, f"{depth} input channels do not fit {filters} filters")
    return [(n, window(site, "h", h, kernel_h), window(site, "w", w, kernel_w), filters)]


@rule("CONV_3D")
def conv_3d(site: Site) -> list[Shape]:
    n, d, h, w, depth = site.shape(0, rank=5)
    kernel_d, kernel_h, kernel_w, taken, filters = site.shape(1, rank=5)
    site.require(taken == depth, f"{depth} input channels do not fit weights that take {taken}")
    return [(n, *_windows(site, (d, h, w), (kernel_d, kernel_h, kernel_w)), filters)]


@rule("TRANSPOSE_CONV")
def transpose_conv(site: Site) -> list[Shape]:
    """The output shape is an input of the op; it must be one that the convolution would turn into the data's shape."""
    n, h, w, depth = site.shape(2, rank=4)
    filters, kernel_h, kernel_w, taken = site.shape(1, rank=4)
    target = site.ints(0)
    site.require(taken == depth, f"{depth} input channels do not fit weights that take {taken}")
    site.require(len(target) == 4, "the output shape must have 4 dimensions")
    back = (target[0], window(site, "h", target[1], kernel_h), window(site, "w", target[2], kernel_w), target[3])
    site.require(back == (n, h, w, filters), f"the output shape {list(target)} does not fit the data")
    return [target]


@rule("CONV_3D_TRANSPOSE")
def conv_3d_transpose(site: Site) -> list[Shape]:
    n, d, h, w, depth = site.shape(2, rank=5)
    kernel_d, kernel_h, kernel_w, filters, taken = site.shape(1, rank=5)
    target = site.ints(0)
    site.require(taken == depth, f"{depth} input channels do not fit weights that take {taken}")
    site.require(len(target) == 5, "the output shape must have 5 dimensions")
    back = _windows(site, target[1:4], (kernel_d, kernel_h, kernel_w))
    fits = (target[0], *back, target[4]) == (n, d, h, w, filters)
    site.require(fits, f"the output shape {list(target)} does not fit the data")
    return [target]


@rule("CUSTOM:Convolution2DTransposeBias")
def convolution_2d_transpose_bias(site: Site) -> list[Shape]:
    """MediaPipe's custom op; its options are three int32: padding (1 SAME, 2 VALID), stride width, stride height."""
    n, h, w, depth = site.shape(0, rank=4)
    filters, kernel_h, kernel_w, taken = site.shape(1, rank=4)
    site.require(taken == depth, f"{depth} input channels do not fit weights that take {taken}")
    if site.op.custom_options is None or site.op.custom_options.size < 12:
        raise Unknown
    padding, stride_w, stride_h = struct.unpack_from("<iii", site.graph.bytes_of(site.op.custom_options))
    if padding == 1:
        return [(n, h * stride_h, w * stride_w, filters)]
    return [(n, (h - 1) * stride_h + kernel_h, (w - 1) * stride_w + kernel_w, filters)]


@rule("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
def pool_2d(site: Site) -> list[Shape]:
    n, h, w, depth = site.shape(0, rank=4)
    kernel_h, kernel_w = site.option("filter_height"), site.option("filter_width")
    return [(n, window(site, "h", h, kernel_h), window(site, "w", w, kernel_w), depth)]


def _windows(site: Site, sizes: Shape, kernels: Shape) -> Shape:
    return tuple(window(site, a, size, kernel) for a, size, kernel in zip("dhw", sizes, kernels, strict=True))


def window(site: Site, axis: str, size: int, kernel: int) -> int:
    """Places where a window of ``kernel`` fits along one axis, by the op's padding, stride and dilation."""
    stride, dilation = site.option(f"stride_{axis}", 1), site.option(f"dilation_{axis}_factor", 1)
    site.require(min(stride, dilation, kernel) > 0, f"stride, dilation and kernel along {axis} must be above 0")
    reach = 1 if site.word("padding") == "SAME" else (kernel - 1) * dilation + 1
    site.require(size >= reach, f"a window of {reach} does not fit into {size} along {axis}")
    return (size - reach) // stride + 1


@rule("FULLY_CONNECTED")
def fully_connected(site: Site) -> list[Shape]:
    data, (units, depth) = site.shape(0), site.shape(1, rank=2)
    if site.option("keep_num_dims"):
        site.require(bool(data) and data[-1] == depth, f"the last dimension must be {depth}")
        return [(*data[:-1], units)]
    total = elements(data)
    site.require(depth > 0 and total % depth == 0, f"{total} elements cannot be rows of {depth}")
    return [(total // depth, units)]


@rule("BATCH_MATMUL")
def batch_matmul(site: Site) -> list[Shape]:
    a, b = site.shape(0), site.shape(1)
    site.require(len(a) >= 2 and len(b) >= 2, "both inputs must have at least 2 dimensions")
    rows, depth = a[-2:][::-1] if site.option("adj_x") else a[-2:]
    taken, columns = b[-2:][::-1] if site.option("adj_y") else b[-2:]
    site.require(depth == taken, f"{depth} columns cannot be multiplied with {taken} rows")
    return [(*broadcast(site, a[:-2], b[:-2]), rows, columns)]
