# SPDX-License-Identifier: Apache-2.0
"""Scratch memory that TFLite's built-in kernels ask of the arena, beyond their outputs.

Read off ai-edge-litert 2.3.0 and 2.1.0 and tflite-runtime 2.14.0 with models of one op, and compared with them in the
tests. A kernel is in ``WITHOUT_SCRATCH`` or has a rule in one of the modules beside; for an op that was not seen
:func:`temporaries` says that it does not know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from edgedeploy_partitioner.memory.release import LITERT_2_1, LITERT_2_3, Release
from edgedeploy_partitioner.memory.temporaries import convolutions, matrices, others, recurrent
from edgedeploy_partitioner.memory.temporaries.kernel import Kernel, Rule, Scratch, Scratches
from edgedeploy_partitioner.model.graph import Graph, Op, Subgraph

__all__ = ["RULES", "WITHOUT_SCRATCH", "Scratch", "Scratches", "added", "numbered", "temporaries"]


def temporaries(
    graph: Graph,
    op: Op,
    threads: int,
    fixed: Collection[int],
    release: Release = LITERT_2_3,
    persistent: Collection[int] = (),
) -> Scratches:
    """What the built-in kernel of ``op`` asks for, in the kernel's order; None if that is not known.

    ``fixed`` are tensors of the subgraph whose value is known before the first run, ``persistent`` those that keep
    theirs in the persistent arena.
    """
    if op.name in WITHOUT_SCRATCH:
        return ()
    rule = RULES.get(op.name)
    if rule is None:
        return None
    try:
        return rule(Kernel(graph, op, threads, fixed, persistent, release))
    except (LookupError, ValueError, ZeroDivisionError):  # fewer inputs or dimensions than such an op has
        return None


def numbered(
    subgraph: Subgraph, asked: Iterable[tuple[Op, Scratches]], release: Release = LITERT_2_3
) -> Iterator[Mapping[int, Scratch]]:
    """The same with the tensor ids that the runtime gives. ``asked`` has the executed built-in ops, in order."""
    next_id = len(subgraph.tensors)
    on_loading: dict[int, int] = {}
    for op in subgraph.ops:
        if count := _added_on_loading(op, release):
            on_loading[op.index] = next_id
            next_id += count
    for op, scratches in asked:
        yield dict(enumerate(scratches or (), on_loading.get(op.index, next_id)))
        if op.index not in on_loading:
            next_id += added(op, scratches or (), release)


def added(op: Op, scratches: tuple[Scratch, ...], release: Release = LITERT_2_3) -> int:
    """How many tensors the kernel of ``op`` adds to the subgraph, needed or not."""
    return _added_on_loading(op, release) or _ADDED_ON_PREPARING.get(op.name, len(scratches))


_NO_SCRATCH_OPS = """
    ABS ADD ARG_MAX ARG_MIN ASSIGN_VARIABLE ATAN2 AVERAGE_POOL_2D BATCH_TO_SPACE_ND BITCAST BITWISE_XOR
    BROADCAST_ARGS BROADCAST_TO BUCKETIZE CALL_ONCE CAST CEIL COMPLEX_ABS CONCATENATION COS CUMSUM DENSIFY
    DEPTH_TO_SPACE DEQUANTIZE DILATE DIV DYNAMIC_UPDATE_SLICE ELU EMBEDDING_LOOKUP EMBEDDING_LOOKUP_SPARSE EQUAL EXP
    EXPAND_DIMS FAKE_QUANT FILL FLOOR FLOOR_DIV FLOOR_MOD GATHER GATHER_ND GELU GREATER GREATER_EQUAL HARD_SWISH
    HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_LOOKUP HASHTABLE_SIZE IF IMAG L2_NORMALIZATION L2_POOL_2D
    LEAKY_RELU LESS LESS_EQUAL LOCAL_RESPONSE_NORMALIZATION LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC
    LOG_SOFTMAX LSH_PROJECTION MATRIX_DIAG MATRIX_SET_DIAG MAXIMUM MAX_POOL_2D MINIMUM MIRROR_PAD MUL MULTINOMIAL
    NEG NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 NOT_EQUAL ONE_HOT PACK PAD PADV2 POW PRELU QUANTIZE
    RANDOM_STANDARD_NORMAL RANDOM_UNIFORM RANGE RANK READ_VARIABLE REAL REDUCE_WINDOW RELU RELU6 RELU_0_TO_1
    RELU_N1_TO_1 RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR REVERSE_SEQUENCE REVERSE_V2 RIGHT_SHIFT ROUND RSQRT
    SCATTER_ND SEGMENT_SUM SELECT SELECT_V2 SHAPE SIGN SIN SKIP_GRAM SLICE SOFTMAX SPACE_TO_BATCH_ND SPACE_TO_DEPTH
    SPARSE_TO_DENSE SPLIT SPLIT_V SQRT SQUARE SQUARED_DIFFERENCE SQUEEZE STABLEHLO_ADD STABLEHLO_AND STABLEHLO_CASE
    STABLEHLO_COMPOSITE STABLEHLO_GATHER STABLEHLO_MAXIMUM STABLEHLO_MINIMUM STABLEHLO_MULTIPLY STABLEHLO_PAD
    STABLEHLO_RNG_BIT_GENERATOR STABLEHLO_SCATTER STABLEHLO_SHIFT_LEFT STRIDED_SLICE SUB TANH TILE TOPK_V2 TRANSPOSE
    UNIQUE UNPACK UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM VAR_HANDLE
    WHERE WHILE ZEROS_LIKE AudioSpectrogram Mfcc aeq.hadamard_rotation
"""
WITHOUT_SCRATCH = frozenset(_NO_SCRATCH_OPS.split())
RULES: Mapping[str, Rule] = convolutions.RULES | matrices.RULES | recurrent.RULES | others.RULES

# Tensors that a kernel adds as the model is loaded or else as the op is prepared, where that is not what it asks for.
# Before LiteRT all of these were added on loading.
_ADDED_ON_LOADING = {
    "SVDF": 6,
    "LSTM": 21,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": 12,
    "BIDIRECTIONAL_SEQUENCE_LSTM": 19,
    "RNN": 6,
    "UNIDIRECTIONAL_SEQUENCE_RNN": 6,
    "BIDIRECTIONAL_SEQUENCE_RNN": 9,
    "ADD_N": 1,
    "TFLite_Detection_PostProcess": 2,
}
_ADDED_ON_PREPARING = {"FULLY_CONNECTED": 6, "BATCH_MATMUL": 7, **dict.fromkeys(others.REDUCTIONS, 4)}


def _added_on_loading(op: Op, release: Release) -> int:
    if op.options.get("kernel_type") == "BASIC":
        return 0
    early = _ADDED_ON_PREPARING.get(op.name, 0) if release < LITERT_2_1 else 0
    return _ADDED_ON_LOADING.get(op.name, early)
