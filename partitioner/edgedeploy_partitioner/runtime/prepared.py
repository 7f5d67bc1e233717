# SPDX-License-Identifier: Apache-2.0
"""What TFLite's built-in kernels know as they are prepared: results computed then, and results without a size yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from edgedeploy_partitioner.model.graph import Op, Subgraph

# Kernels that compute their result as they are prepared: always, or when all inputs are known by then.
SHAPES = frozenset({"SHAPE", "RANK"})
_FOLDING_OPS = "BROADCAST_ARGS CONCATENATION GATHER MUL RANGE REDUCE_PROD RESHAPE STRIDED_SLICE TILE"
FOLDING = frozenset(_FOLDING_OPS.split())
_FOLDED_PRODUCTS = 8  # of REDUCE_PROD, when there are no more

# Inputs that decide the shape of the result: if one is not known beforehand, the result gets memory at run time.
_SHAPE_INPUTS: dict[tuple[int, ...], str] = {
    (0,): "CONV_3D_TRANSPOSE FILL RANDOM_STANDARD_NORMAL RANDOM_UNIFORM SPLIT TRANSPOSE_CONV",
    (1,): "ARG_MAX ARG_MIN BROADCAST_TO DILATE EXPAND_DIMS MEAN MIRROR_PAD ONE_HOT PAD PADV2 REDUCE_ALL REDUCE_ANY"
    " REDUCE_MAX REDUCE_MIN REDUCE_PROD RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR RFFT2D SPARSE_TO_DENSE SUM TILE"
    " TOPK_V2 TRANSPOSE",
    (2,): "NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND",
    (1, 2): "BATCH_TO_SPACE_ND SLICE SPACE_TO_BATCH_ND SPLIT_V UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN"
    " UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM",
    (1, 2, 3): "STRIDED_SLICE",
    (0, 1, 2): "RANGE",
}
_SHAPED_BY = {code: positions for positions, codes in _SHAPE_INPUTS.items() for code in codes.split()}
_ALWAYS_DYNAMIC = frozenset({"EMBEDDING_LOOKUP_SPARSE", "MULTINOMIAL", "SEGMENT_SUM", "SKIP_GRAM", "UNIQUE", "WHERE"})


@dataclass(frozen=True, slots=True)
class Prepared:
    """``fixed`` tensors are known before the first run and not in an arena; ``persistent`` ones have their own.
    ``unsized`` are the results of ``dynamic`` ops."""

    fixed: frozenset[int]
    persistent: frozenset[int]
    unsized: frozenset[int]
    dynamic: tuple[int, ...]


def prepared(subgraph: Subgraph, ops: Iterable[tuple[Op, bool]]) -> Prepared:
    """After ``ops`` were prepared in that order, each with whether a built-in kernel runs it, or a delegate."""
    constant = {t.id for t in subgraph.tensors if t.is_constant}
    fixed = set(constant)
    persistent = {t.id for t in subgraph.tensors if t.is_variable}
    unsized: set[int] = set()
    dynamic = []
    for op, built_in in ops:
        inputs = [t for t in op.inputs if t >= 0]
        if built_in and op.options.get("kernel_type") == "BASIC":  # an LSTM whose state comes in and goes out
            persistent.update((*inputs[1:2], *inputs[4:5]))
        unpacks = op.code in ("DEQUANTIZE", "DENSIFY") and constant.issuperset(inputs)
        folds = op.code in SHAPES or (_folds(subgraph, op) and fixed.issuperset(inputs))
        if op.code == "VAR_HANDLE" or (built_in and unpacks):
            persistent.update(op.outputs)
        elif built_in and is_dynamic(subgraph, op, fixed):
            unsized.update(op.outputs)
            dynamic.append(op.index)
        elif built_in and folds:
            fixed.update(op.outputs)
    return Prepared(frozenset(fixed), frozenset(persistent), frozenset(unsized), tuple(dynamic))


def _folds(subgraph: Subgraph, op: Op) -> bool:
    if op.code == "REDUCE_PROD":
        return all(subgraph.tensors[t].elements <= _FOLDED_PRODUCTS for t in op.outputs)
    return op.code in FOLDING


def is_dynamic(subgraph: Subgraph, op: Op, fixed: Collection[int]) -> bool:
    """Whether the built-in kernel of ``op`` sizes its result only as it runs. ``fixed`` are tensors known before."""
    if op.code == "SLICE" and not any(subgraph.tensors[t].is_dynamic for t in op.outputs):
        return False  # it believes in the shape in the file
    positions = _SHAPED_BY.get(op.code, ())
    return op.code in _ALWAYS_DYNAMIC or any(p < len(op.inputs) and op.inputs[p] not in fixed for p in positions)
