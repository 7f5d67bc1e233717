# SPDX-License-Identifier: Apache-2.0
"""Reductions, sums of many, Fourier transforms and detection."""

from __future__ import annotations

from math import isqrt, prod

from edgedeploy_partitioner.memory.release import LITERT_2_3
from edgedeploy_partitioner.memory.temporaries.kernel import (
    FLOAT_BYTES,
    INT32_BYTES,
    ON_HEAP,
    Kernel,
    Rule,
    Scratch,
    Scratches,
    from_heap,
)
from edgedeploy_partitioner.model.graph import DType

REDUCTIONS = ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL")
_DOUBLE_BYTES = 8


def _reduce(kernel: Kernel) -> Scratches:
    """An index, the axes, for sums and products an accumulator, and the input's dimensions without those of 1."""
    x, axes, code = kernel.input(0), kernel.input(1), kernel.op.code
    index = Scratch(INT32_BYTES * len(x.shape))
    if not kernel.is_fixed(1) or kernel.output.id in kernel.fixed:
        return index, ON_HEAP, ON_HEAP, ON_HEAP
    element = 8 if x.dtype in (DType.INT32, DType.INT64) else 4
    accumulators = kernel.output.elements if code in ("MEAN", "SUM", "REDUCE_PROD") else 0
    dimensions = index if kernel.is_fixed(0) else ON_HEAP
    return index, Scratch(INT32_BYTES * axes.elements), Scratch(element * accumulators), dimensions


def _add_n(kernel: Kernel) -> Scratches:
    """A partial sum for each thread that has two or more to add."""
    threads = min(max(1, len(kernel.op.inputs) // 2), kernel.threads)
    return (Scratch(threads * kernel.output.nbytes),)


def _rfft_2d(kernel: Kernel) -> Scratches:
    """Tables of T. Ooura's FFT package, which says how long they are; since LiteRT 2.3 rows and pointers, too."""
    height, columns = kernel.output.shape[-2:]
    width = max(1, 2 * (columns - 1))  # a power of 2
    asked = (
        Scratch(INT32_BYTES * (2 + isqrt(max(height, width // 2)))),
        Scratch(_DOUBLE_BYTES * (max(height // 2, width // 4) + width // 4)),
        Scratch(_DOUBLE_BYTES * height),
        Scratch(_DOUBLE_BYTES * height * (width + 2)),
    )[: 4 if kernel.release >= LITERT_2_3 else 2]
    return asked if kernel.is_fixed(1) else (ON_HEAP,) * len(asked)


def _detection_post_process(kernel: Kernel) -> Scratches:
    """Boxes and scores as floats."""
    boxes, scores = kernel.input(0), kernel.input(1)
    return Scratch(FLOAT_BYTES * 4 * boxes.shape[1]), Scratch(FLOAT_BYTES * boxes.shape[1] * scores.shape[2])


def _reduce_window(kernel: Kernel) -> Scratches:
    """The input with holes between its elements, and that padded or cut."""
    x, option = kernel.input(0), kernel.op.options
    dilations, padding = option["base_dilations"], option["padding"]
    if not isinstance(dilations, tuple) or not isinstance(padding, tuple):
        return None
    spread = [int(d * (n - 1) + 1) for n, d in zip(x.shape, dilations, strict=True)]
    padded = [int(n + low + high) for n, low, high in zip(spread, padding[::2], padding[1::2], strict=True)]
    return tuple(Scratch(prod(shape) * x.dtype.bits // 8) for shape in (spread, padded))


RULES: dict[str, Rule] = {
    **dict.fromkeys(REDUCTIONS, _reduce),
    "ADD_N": _add_n,
    "RFFT2D": _rfft_2d,
    "TFLite_Detection_PostProcess": _detection_post_process,
    "STABLEHLO_REDUCE_WINDOW": _reduce_window,
    "NumericVerify": from_heap(1),  # the quantised input as floats
}
