# SPDX-License-Identifier: Apache-2.0
"""Scratch memory that TFLite's built-in kernels ask of the arena, beyond their outputs.

Read off ai-edge-litert 2.3.0 with single-op models and whole models, and compared with it in the tests. For an op
that was not seen there :func:`temporaries` says that it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from edgedeploy_partitioner.memory.release import LITERT_2_3, Release
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Subgraph, Tensor


class Scratch(NamedTuple):
    """One temporary tensor. A persistent one keeps its value between runs; one of 0 bytes is not in an arena."""

    bytes: int
    persistent: bool = False


Scratches = tuple[Scratch, ...] | None


def temporaries(graph: Graph, op: Op, threads: int, fixed: Collection[int], release: Release = LITERT_2_3) -> Scratches:
    """What the built-in kernel of ``op`` asks for, in the kernel's order; None if that is not known.

    ``fixed`` are tensors of the subgraph whose value is known before the first run.
    """
    if op.name in _NO_SCRATCH:
        return ()
    rule = _RULES.get(op.name)
    if rule is None:
        return None
    try:
        return rule(_Kernel(graph, op, threads, fixed, release))
    except (LookupError, ValueError, ZeroDivisionError):  # fewer inputs or dimensions than such an op has
        return None


def numbered(subgraph: Subgraph, asked: Iterable[tuple[Op, Scratches]]) -> Iterator[Mapping[int, Scratch]]:
    """The same with the tensor ids that the runtime gives. ``asked`` has the executed built-in ops, in order."""
    next_id = len(subgraph.tensors)
    on_loading: dict[int, int] = {}
    for op in subgraph.ops:
        if op.name in _ADDED_ON_LOADING:
            on_loading[op.index] = next_id
            next_id += _ADDED_ON_LOADING[op.name]
    for op, scratches in asked:
        yield dict(enumerate(scratches or (), on_loading.get(op.index, next_id)))
        if op.index not in on_loading:
            next_id += _ADDED_ON_PREPARING.get(op.name, len(scratches or ()))


_NO_SCRATCH_OPS = """
    ABS ADD ARG_MAX ARG_MIN ASSIGN_VARIABLE ATAN2 AVERAGE_POOL_2D BATCH_TO_SPACE_ND BITCAST BITWISE_XOR BROADCAST_ARGS
    BROADCAST_TO BUCKETIZE CALL_ONCE CAST CEIL COMPLEX_ABS CONCATENATION COS CUMSUM DENSIFY DEPTH_TO_SPACE DEQUANTIZE
    DIV DYNAMIC_UPDATE_SLICE ELU EMBEDDING_LOOKUP EMBEDDING_LOOKUP_SPARSE EQUAL EXP EXPAND_DIMS FILL FLOOR FLOOR_DIV
    FLOOR_MOD GATHER GATHER_ND GELU GREATER GREATER_EQUAL HARD_SWISH IF IMAG L2_NORMALIZATION L2_POOL_2D LEAKY_RELU LESS
    LESS_EQUAL LOCAL_RESPONSE_NORMALIZATION LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC LOG_SOFTMAX MATRIX_DIAG
    MATRIX_SET_DIAG MAXIMUM MAX_POOL_2D MINIMUM MIRROR_PAD MUL MULTINOMIAL NEG NON_MAX_SUPPRESSION_V4
    NON_MAX_SUPPRESSION_V5 NOT_EQUAL ONE_HOT PACK PAD PADV2 POW PRELU QUANTIZE RANDOM_UNIFORM RANGE RANK READ_VARIABLE
    REAL RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR REVERSE_SEQUENCE REVERSE_V2
    RIGHT_SHIFT ROUND RSQRT SCATTER_ND SEGMENT_SUM SELECT SELECT_V2 SHAPE SIGN SIN SLICE SOFTMAX SPACE_TO_BATCH_ND
    SPACE_TO_DEPTH SPARSE_TO_DENSE SPLIT SPLIT_V SQRT SQUARE SQUARED_DIFFERENCE SQUEEZE STABLEHLO_COMPOSITE
    STRIDED_SLICE SUB TANH TILE TOPK_V2 TRANSPOSE UNIQUE UNPACK UNSORTED_SEGMENT_SUM VAR_HANDLE WHERE
    WHILE ZEROS_LIKE
"""
_NO_SCRATCH = frozenset(_NO_SCRATCH_OPS.split())

# Tensors that a kernel adds to the subgraph, needed or not, as the model is loaded or else as the op is prepared, where
# that is not what it asks for.
_ADDED_ON_LOADING = {"SVDF": 6, "UNIDIRECTIONAL_SEQUENCE_LSTM": 12}
_ADDED_ON_PREPARING = {"FULLY_CONNECTED": 6, "BATCH_MATMUL": 7}

_INT32_BYTES = _FLOAT_BYTES = 4
_QUANTIZED = (DType.INT8, DType.UINT8, DType.INT16)


@dataclass(frozen=True, slots=True)
class _Kernel:
    """An op as its kernel sees it."""

    graph: Graph
    op: Op
    threads: int
    fixed: Collection[int]
    release: Release

    def input(self, position: int) -> Tensor:
        """The tensor there. Raises LookupError if the op has none."""
        if not self.has_input(position):
            raise LookupError(position)
        return self.graph.tensor(self.op.subgraph, self.op.inputs[position])

    def has_input(self, position: int) -> bool:
        return position < len(self.op.inputs) and self.op.inputs[position] >= 0

    @property
    def output(self) -> Tensor:
        return self.graph.tensor(self.op.subgraph, self.op.outputs[0])

    @property
    def is_hybrid(self) -> bool:
        """Activations in float, weights in int8: the kernel quantises the activations itself."""
        return self.input(0).dtype is DType.FLOAT32 and self.input(1).dtype is DType.INT8


def _conv_2d(kernel: _Kernel) -> Scratches:
    """The input's patches as rows (im2col), or with several threads on x86-64 the float filter transposed, once."""
    x, filters, option = kernel.input(0), kernel.input(1), kernel.op.options.get
    if x.dtype is not DType.FLOAT32 and x.dtype not in _QUANTIZED:
        return None
    out_channels, height, width, in_channels = filters.shape
    pixels = prod(kernel.output.shape[:3])
    dilated = option("dilation_w_factor", 1) != 1 or option("dilation_h_factor", 1) != 1
    strided = option("stride_w", 1) != 1 or option("stride_h", 1) != 1
    threaded = kernel.threads != 1 and not kernel.release.is_arm
    if x.dtype is filters.dtype is DType.FLOAT32 and threaded and not dilated and filters.id in kernel.fixed:
        return (Scratch(filters.nbytes, persistent=True),)
    element = (DType.INT8 if kernel.is_hybrid else x.dtype).bits // 8
    is_matrix = (height, width) == (1, 1) and not dilated and not strided
    rows = () if is_matrix else (Scratch(pixels * height * width * in_channels * element),)
    if not kernel.is_hybrid:
        return rows
    input_rows = x.elements // x.shape[-1]
    quantized = (
        Scratch(x.elements), Scratch(_FLOAT_BYTES * input_rows), Scratch(_INT32_BYTES * out_channels * pixels)
    )  # fmt: skip
    if filters.quantization is None or len(set(filters.quantization.scales)) <= 1:
        return (*rows, *quantized)
    # Only scales that differ make it "per channel" for this kernel.
    offsets, row_sums = Scratch(_INT32_BYTES * input_rows), Scratch(_INT32_BYTES * out_channels, persistent=True)
    return (*rows, *quantized, offsets, row_sums)


def _depthwise(kernel: _Kernel) -> Scratches:
    """The hybrid kernel's input in int8, with a scale and an offset a batch."""
    x = kernel.input(0)
    if kernel.is_hybrid:
        return Scratch(x.elements), Scratch(_FLOAT_BYTES * x.shape[0]), Scratch(_INT32_BYTES * x.shape[0])
    return () if x.dtype is DType.FLOAT32 or x.dtype in _QUANTIZED else None


def _fully_connected(kernel: _Kernel) -> Scratches:
    """The hybrid kernel's input in int8, scales, sums and offsets a row, and the sums of the weights."""
    x, weights = kernel.input(0), kernel.input(1)
    is_plain = kernel.op.options.get("weights_format", "DEFAULT") == "DEFAULT" and not weights.is_sparse
    if not is_plain or weights.dtype.bits < 8:
        return None
    if not kernel.is_hybrid:
        return ()
    if weights.id not in kernel.fixed:
        return None
    units, depth = weights.shape
    batch = x.elements // depth
    return (
        Scratch(x.elements),
        Scratch(_FLOAT_BYTES * batch),
        Scratch(_INT32_BYTES * units * batch),
        Scratch(_INT32_BYTES * batch),
        Scratch(_INT32_BYTES * units, persistent=True),
    )


def _batch_matmul(kernel: _Kernel) -> Scratches:
    """Both operands transposed; a constant right one only once."""
    left, right = kernel.input(0), kernel.input(1)
    return None if kernel.is_hybrid else (Scratch(left.nbytes), Scratch(right.nbytes, persistent=right.is_constant))


def _reduce(kernel: _Kernel) -> Scratches:
    """An index, the axes, and for sums and products an accumulator."""
    x, axes, code = kernel.input(0), kernel.input(1), kernel.op.code
    if axes.id not in kernel.fixed:
        return None
    index = Scratch(_INT32_BYTES * len(x.shape))
    if x.id in kernel.fixed:
        return (index, *(Scratch(0),) * 3) if code == "REDUCE_PROD" else None
    element = 8 if x.dtype in (DType.INT32, DType.INT64) else 4
    accumulators = kernel.output.elements if code in ("MEAN", "SUM", "REDUCE_PROD") else 0
    on_heap = Scratch(0)
    return index, Scratch(_INT32_BYTES * axes.elements), Scratch(element * accumulators), on_heap


def _transpose_conv(kernel: _Kernel) -> Scratches:
    """Two or three, all from the heap at each run."""
    return (Scratch(0),) * (2 if kernel.input(2).dtype is DType.FLOAT32 else 3)


def _svdf(kernel: _Kernel) -> Scratches:
    x, weights = kernel.input(0), kernel.input(1)
    filters = Scratch(_INT32_BYTES * x.shape[0] * weights.shape[0])
    if x.dtype is DType.INT8:
        return filters, Scratch(_INT32_BYTES * kernel.output.elements)
    return (filters,) if weights.dtype is DType.FLOAT32 else None


def _lstm(kernel: _Kernel) -> Scratches:
    """The gates before their activations. The hybrid kernel, and one with a projection, are not known."""
    x, weights = kernel.input(0), kernel.input(4)
    batch, cells = x.shape[1 if kernel.op.options.get("time_major") else 0], weights.shape[0]
    if kernel.has_input(16):
        return None
    if x.dtype is DType.INT8:
        gates = (Scratch(2 * batch * cells),) * 4
        return (*gates, Scratch(batch * cells), Scratch(_INT32_BYTES * batch * cells))
    gate_count = 5 if kernel.has_input(1) else 4  # one more for sums; without an input gate one less
    return (Scratch(_FLOAT_BYTES * batch * (cells * gate_count + 16)),) if weights.dtype is DType.FLOAT32 else None


def _rnn(kernel: _Kernel) -> Scratches:
    return () if kernel.input(1).dtype is DType.FLOAT32 else None


def _detection_post_process(kernel: _Kernel) -> Scratches:
    """Boxes and scores as floats. Files often leave the outputs without a shape; then nothing is known."""
    boxes, scores = kernel.input(0), kernel.input(1)
    outputs = (kernel.graph.tensor(kernel.op.subgraph, t) for t in kernel.op.outputs)
    if boxes.dtype not in _QUANTIZED or any(not t.shape for t in outputs):
        return None
    return Scratch(_FLOAT_BYTES * 4 * boxes.shape[1]), Scratch(_FLOAT_BYTES * prod(scores.shape[1:]))


_RULES: dict[str, Callable[[_Kernel], Scratches]] = {
    "CONV_2D": _conv_2d,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul,
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL"), _reduce),
    "TRANSPOSE_CONV": _transpose_conv,
    "SVDF": _svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
    "RNN": _rnn,
    "UNIDIRECTIONAL_SEQUENCE_RNN": _rnn,
    "TFLite_Detection_PostProcess": _detection_post_process,
}
