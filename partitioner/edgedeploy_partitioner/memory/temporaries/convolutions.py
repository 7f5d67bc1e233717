# SPDX-License-Identifier: Apache-2.0
"""Convolutions of two and three dimensions."""

from __future__ import annotations

from math import prod

from edgedeploy_partitioner.memory.release import LITERT_2_1
from edgedeploy_partitioner.memory.temporaries.kernel import (
    FLOAT_BYTES,
    INT32_BYTES,
    ON_HEAP,
    QUANTIZED,
    Kernel,
    Rule,
    Scratch,
    Scratches,
    from_heap,
)
from edgedeploy_partitioner.model.graph import DType

_HYBRID = (DType.INT8, DType.UINT8, DType.INT4)


def _conv_2d(kernel: Kernel) -> Scratches:
    """The input's patches as rows (im2col), or with several threads on x86-64 the float filter transposed, once."""
    x, filters = kernel.input(0), kernel.input(1)
    if x.dtype is not DType.FLOAT32 and x.dtype not in QUANTIZED:
        return None
    out_channels, height, width, in_channels = filters.shape
    pixels = prod(kernel.output.shape[:3])
    dilated, strided = _steps(kernel, "dilation_{}_factor", "hw"), _steps(kernel, "stride_{}", "hw")
    waits = filters.id in kernel.fixed or filters.id in kernel.persistent
    threaded = kernel.threads != 1 and not kernel.release.is_arm
    if x.dtype is filters.dtype is DType.FLOAT32 and threaded and not dilated and waits:
        return (Scratch(filters.nbytes, persistent=True),)
    # Before LiteRT it takes 4-bit weights for floats.
    is_hybrid = kernel.is_hybrid(1, _HYBRID if kernel.release >= LITERT_2_1 else _HYBRID[:2])
    element = (DType.INT8 if is_hybrid else x.dtype).bits // 8
    is_matrix = (height, width) == (1, 1) and not dilated and not strided
    rows = () if is_matrix else (Scratch(pixels * height * width * in_channels * element),)
    if not is_hybrid:
        return rows
    input_rows = x.elements // in_channels  # in groups, so that they are more than pixels
    quantized = (
        Scratch(x.elements), Scratch(FLOAT_BYTES * input_rows), Scratch(INT32_BYTES * out_channels * pixels)
    )  # fmt: skip
    if filters.quantization is None or len(set(filters.quantization.scales)) <= 1:
        return (*rows, *quantized)
    # Only scales that differ make it "per channel" for this kernel.
    offsets, row_sums = Scratch(INT32_BYTES * input_rows), Scratch(INT32_BYTES * out_channels, persistent=True)
    return (*rows, *quantized, offsets, row_sums)


def _depthwise(kernel: Kernel) -> Scratches:
    """The hybrid kernel's input in int8, with a scale and an offset a batch."""
    x = kernel.input(0)
    if kernel.is_hybrid(1, (DType.INT8,)):
        return Scratch(x.elements), Scratch(FLOAT_BYTES * x.shape[0]), Scratch(INT32_BYTES * x.shape[0])
    return () if x.dtype is DType.FLOAT32 or x.dtype in QUANTIZED else None


def _transpose_conv(kernel: Kernel) -> Scratches:
    """Columns, weights and the sums of a quantised kernel, from the heap; the hybrid one's input in int8, with a scale
    and an offset a pixel."""
    x = kernel.input(2)
    if x.dtype is not DType.FLOAT32:
        return (ON_HEAP,) * 3
    if not kernel.is_hybrid(1, (DType.INT8,), x=2):
        return (ON_HEAP,) * 2
    pixels = prod(x.shape[:3])
    return (ON_HEAP,) * 2 + (Scratch(x.elements), Scratch(FLOAT_BYTES * pixels), Scratch(INT32_BYTES * pixels))


def _conv_3d(kernel: Kernel) -> Scratches:
    """The input's patches as rows, as in two dimensions; before LiteRT also the filter transposed at each run."""
    filters = kernel.input(1)
    depth, height, width, in_channels, _ = filters.shape
    taps = depth * height * width
    steps = _steps(kernel, "dilation_{}_factor", "dhw") or _steps(kernel, "stride_{}", "dhw")
    is_matrix = taps == 1 and not steps
    rows = () if is_matrix else (Scratch(FLOAT_BYTES * prod(kernel.output.shape[:4]) * taps * in_channels),)
    return rows if kernel.release >= LITERT_2_1 else (*rows, Scratch(filters.nbytes))


def _steps(kernel: Kernel, option: str, axes: str) -> bool:
    """Whether the ``option`` is not 1 on some axis."""
    return any(kernel.op.options.get(option.format(axis), 1) != 1 for axis in axes)


RULES: dict[str, Rule] = {
    "CONV_2D": _conv_2d,
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _transpose_conv,
    "CONV_3D": _conv_3d,
    "CONV_3D_TRANSPOSE": from_heap(1),  # columns
}
