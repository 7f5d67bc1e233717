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
from edgedeploy_partitioner.model.graph import DType, Graph, Op

_HYBRID = (DType.INT8, DType.UINT8, DType.INT4, DType.INT2)
UNITS, _DEPTH = 4, 32  # a block of the kernel for 4-bit weights


def _fully_connected(kernel: Kernel) -> Scratches:
    """The hybrid kernel's input in int8, scales, sums and offsets a row, and the sums of the weights."""
    x, weights = kernel.input(0), kernel.input(1)
    if not kernel.is_hybrid(1, _HYBRID):
        return ()
    if weights.is_sparse:
        return None  # a list of its blocks besides, whose length is not read from the file
    units, depth = weights.shape
    rows = x.elements // depth
    is_packed = kernel.is_fixed(1) and packs(kernel.graph, kernel.op)
    if is_packed:
        # Rows and units are filled up to blocks. The packed weights, with their sums, are on the heap.
        if rows > 2 and kernel.release >= LITERT_2_1:
            rows = up(rows, 4)
        units = up(units, UNITS)
    return (
        Scratch(rows * depth),
        Scratch(FLOAT_BYTES * rows),
        Scratch(INT32_BYTES * units * rows),
        Scratch(INT32_BYTES * rows),
        ON_HEAP if is_packed else Scratch(INT32_BYTES * units, persistent=True),
    )


def packs(graph: Graph, op: Op) -> bool:
    """Whether a ``FULLY_CONNECTED`` of floats keeps its constant weights of 4 bits in blocks, on the heap."""
    x, weights = graph.operand(op, 0), graph.operand(op, 1)
    units, depth = weights.shape
    is_hybrid = x.dtype is DType.FLOAT32 and weights.dtype is DType.INT4
    return is_hybrid and units >= UNITS and depth % _DEPTH == 0


def _batch_matmul(kernel: Kernel) -> Scratches:
    """Room for both operands transposed, for a constant right one only once; an operand that is stored as the product
    reads it is not. The hybrid kernel quantises the left one and sums up the right one's columns."""
    left, right, option = kernel.input(0), kernel.input(1), kernel.op.options.get
    transposed = (
        Scratch(left.nbytes, written=bool(option("adj_x"))),
        Scratch(right.nbytes, persistent=right.is_constant, written=not option("adj_y")),
    )
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
