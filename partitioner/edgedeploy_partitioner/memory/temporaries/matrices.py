# SPDX-License-Identifier: Apache-2.0
"""Products of matrices."""

from __future__ import annotations

from edgedeploy_partitioner.memory.release import LITERT_2_1
from edgedeploy_partitioner.memory.rounding import up
from edgedeploy_partitioner.memory.temporaries.kernel import (
    FLOAT_BYTES,
    INT32_BYTES,
    ON_HEAP,
    Kernel,
    Rule,
    Scratch,
    Scratches,
)
from edgedeploy_partitioner.model.graph import DType

_HYBRID = (DType.INT8, DType.UINT8, DType.INT4, DType.INT2)
_UNITS, _DEPTH = 4, 32  # a block of the kernel for 4-bit weights


def _fully_connected(kernel: Kernel) -> Scratches:
    """The hybrid kernel's input in int8, scales, sums and offsets a row, and the sums of the weights."""
    x, weights = kernel.input(0), kernel.input(1)
    if not kernel.is_hybrid(1, _HYBRID):
        return ()
    if weights.is_sparse:
        return None  # a list of its blocks besides, whose length is not read from the file
    units, depth = weights.shape
    rows = x.elements // depth
    packs = weights.dtype is DType.INT4 and kernel.is_fixed(1) and units >= _UNITS and depth % _DEPTH == 0
    if packs:
        # Rows and units are filled up to blocks. The packed weights, with their sums, are on the heap.
        if rows > 2 and kernel.release >= LITERT_2_1:
            rows = up(rows, 4)
        units = up(units, _UNITS)
    return (
        Scratch(rows * depth),
        Scratch(FLOAT_BYTES * rows),
        Scratch(INT32_BYTES * units * rows),
        Scratch(INT32_BYTES * rows),
        ON_HEAP if packs else Scratch(INT32_BYTES * units, persistent=True),
    )


def _batch_matmul(kernel: Kernel) -> Scratches:
    """Both operands transposed, a constant right one only once; the hybrid kernel quantises the left one and sums up
    the right one's columns."""
    left, right, option = kernel.input(0), kernel.input(1), kernel.op.options.get
    transposed = Scratch(left.nbytes), Scratch(right.nbytes, persistent=right.is_constant)
    if not kernel.is_hybrid(1, (DType.INT8,)):
        return transposed
    rows = left.elements // left.shape[-2 if option("adj_x") else -1]
    columns = right.elements // right.shape[-1 if option("adj_y") else -2]
    one_product = left.shape[-1 if option("adj_x") else -2] * right.shape[-2 if option("adj_y") else -1]
    return (
        *transposed,
        Scratch(left.elements),
        Scratch(FLOAT_BYTES * rows),
        Scratch(INT32_BYTES * one_product),
        Scratch(INT32_BYTES * rows),
        Scratch(INT32_BYTES * columns, persistent=True),
    )


RULES: dict[str, Rule] = {"FULLY_CONNECTED": _fully_connected, "BATCH_MATMUL": _batch_matmul}
