# SPDX-License-Identifier: Apache-2.0
"""One model of every kernel that needs no scratch memory."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from edgedeploy_partitioner.model.build import Model, Subgraph
from support.kernel_cases import Case, Const, In, Operand, Out, S, case, ones

UNARY = """
    ABS CEIL COS ELU EXP FLOOR GELU HARD_SWISH L2_NORMALIZATION LOG LOGISTIC LOG_SOFTMAX NEG RELU RELU6 RELU_0_TO_1
    RELU_N1_TO_1 ROUND RSQRT SIGN SIN SQRT SQUARE TANH ZEROS_LIKE
"""
BINARY = "ADD ATAN2 DIV FLOOR_DIV FLOOR_MOD MAXIMUM MINIMUM MUL POW SQUARED_DIFFERENCE SUB"


def plain() -> Iterator[Case]:
    x, y, out = In(), In(), Out()
    for code in UNARY.split():
        yield case(code, [x], out)
    yield case("SOFTMAX", [x], out, beta=1.0)
    yield case("LEAKY_RELU", [x], out, alpha=0.2)
    yield case("LOCAL_RESPONSE_NORMALIZATION", [x], out, radius=1, bias=1.0, alpha=0.1, beta=0.5)
    yield case("MATRIX_DIAG", [x], Out((2, 6, 6, 4, 4)))
    yield case("MATRIX_SET_DIAG", [In((2, 4, 4)), In((2, 4))], Out((2, 4, 4)))
    yield case("SHAPE", [x], Out((4,), "int32"), out_type="INT32")
    yield case("RANK", [x], Out((), "int32"))
    yield case("CAST", [x], Out(S, "int32"))
    yield case("BITCAST", [x], Out(S, "int32"))
    yield case("BUCKETIZE", [x], Out(S, "int32"), boundaries=(0.0, 1.0))
    yield case("QUANTIZE", [x], Out(S, "int8"))
    yield case("DEQUANTIZE", [In(dtype="int8")], out)
    for code, dtype in (("COMPLEX_ABS", "float32"), ("REAL", "float32"), ("IMAG", "float32")):
        yield case(code, [In(dtype="complex64")], Out(S, dtype))
    for code in BINARY.split():
        yield case(code, [x, y], out)
        if code != "ATAN2":
            yield case(code, [x, In((1, 1, 1, 4))], out, note="broadcast")
    for code in ("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL"):
        yield case(code, [x, y], Out(S, "bool"))
    for code in ("LOGICAL_AND", "LOGICAL_OR"):
        yield case(code, [In(dtype="bool"), In(dtype="bool")], Out(S, "bool"))
    yield case("LOGICAL_NOT", [In(dtype="bool")], Out(S, "bool"))
    for code in ("BITWISE_XOR", "RIGHT_SHIFT"):
        yield case(code, [In(dtype="int32"), In(dtype="int32")], Out(S, "int32"))
    for code in ("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"):
        window: dict[str, Any] = {"stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2}
        yield case(code, [x], Out((2, 3, 3, 4)), padding="VALID", **window)
    yield case("PRELU", [x, ones(1, 1, 4)], out)
    yield case("CONCATENATION", [x, y], Out((2, 6, 6, 8)), axis=3)
    yield case("SELECT", [In(dtype="bool"), x, y], out)
    yield case("SELECT_V2", [In(dtype="bool"), x, In((1, 1, 1, 4))], out)
    yield case("REVERSE_SEQUENCE", [x, Const([3, 3])], out, seq_dim=1, batch_dim=0)
    yield case("CUMSUM", [x, Const(1)], out)
    yield case("FAKE_QUANT", [x], out, min=-1.0, max=1.0, num_bits=8)
    yield from shaping()
    yield from indexing()
    yield from stablehlo()
    yield from audio()


def shaping() -> Iterator[Case]:
    x, no_crops = In(), Const([[0, 0], [0, 0]])
    pads = Const([[0, 0], [1, 1], [1, 1], [0, 0]])
    yield case("PAD", [x, pads], Out((2, 8, 8, 4)))
    yield case("PADV2", [x, pads, Const(0, "float32")], Out((2, 8, 8, 4)))
    yield case("MIRROR_PAD", [x, pads], Out((2, 8, 8, 4)), mode="REFLECT")
    yield case("TRANSPOSE", [x, Const([0, 2, 1, 3])], Out())
    yield case("REVERSE_V2", [x, Const([1])], Out())
    yield case("RESHAPE", [x, Const([2, 144])], Out((2, 144)), new_shape=(2, 144))
    yield case("SQUEEZE", [In((1, 6, 6, 4))], Out((6, 6, 4)), squeeze_dims=(0,))
    yield case("EXPAND_DIMS", [x, Const(0)], Out((1, *S)))
    yield case("SLICE", [x, Const([0, 0, 0, 0]), Const([1, 2, 3, 4])], Out((1, 2, 3, 4)))
    yield case("STRIDED_SLICE", [x, Const([0, 0, 0, 0]), Const([1, 2, 3, 4]), Const([1, 1, 1, 1])], Out((1, 2, 3, 4)))
    yield case("TILE", [x, Const([1, 2, 1, 1])], Out((2, 12, 6, 4)))
    yield case("BROADCAST_TO", [In((1, 1, 1, 4)), Const(list(S))], Out(), version=2)
    yield case("BROADCAST_ARGS", [Const([4]), Const([1])], Out((1,), "int32"))
    yield case("FILL", [Const([2, 3]), In(())], Out((2, 3)))
    yield case("RANGE", [Const(0), Const(5), Const(1)], Out((5,), "int32"))
    yield case("SPLIT", [Const(3), x], Out((2, 6, 6, 2)), Out((2, 6, 6, 2)), num_splits=2)
    yield case("SPLIT_V", [x, Const([1, 3]), Const(3)], Out((2, 6, 6, 1)), Out((2, 6, 6, 3)), num_splits=2)
    yield case("PACK", [x, x], Out((2, *S)), values_count=2, axis=0)
    yield case("UNPACK", [x], Out(S[1:]), Out(S[1:]), num=2, axis=0)
    yield case("DEPTH_TO_SPACE", [x], Out((2, 12, 12, 1)), block_size=2)
    yield case("SPACE_TO_DEPTH", [x], Out((2, 3, 3, 16)), block_size=2)
    yield case("SPACE_TO_BATCH_ND", [x, Const([2, 2]), no_crops], Out((8, 3, 3, 4)))
    yield case("BATCH_TO_SPACE_ND", [In((8, 3, 3, 4)), Const([2, 2]), no_crops], Out())
    yield case("RESIZE_BILINEAR", [x, Const([12, 12])], Out((2, 12, 12, 4)))
    yield case("RESIZE_NEAREST_NEIGHBOR", [x, Const([12, 12])], Out((2, 12, 12, 4)))


def indexing() -> Iterator[Case]:
    x = In()
    for code in ("ARG_MAX", "ARG_MIN"):
        yield case(code, [x, Const(3)], Out((2, 6, 6), "int32"), output_type="INT32")
    yield case("TOPK_V2", [In((2, 9)), Const(3)], Out((2, 3)), Out((2, 3), "int32"))
    yield case("GATHER", [x, Const([0, 1])], Out((2, 2, 6, 4)), axis=1)
    yield case("GATHER_ND", [x, Const([[0, 1], [1, 1]])], Out((2, 6, 4)))
    yield case("SCATTER_ND", [Const([[0], [2]]), In((2, 4)), Const([5, 4])], Out((5, 4)))
    yield case("DYNAMIC_UPDATE_SLICE", [x, In((1, 1, 6, 4)), Const([0, 0, 0, 0])], Out())
    yield case("ONE_HOT", [In((3,), "int32"), Const(5), Const(1, "float32"), Const(0, "float32")], Out((3, 5)), axis=-1)
    yield case("SPARSE_TO_DENSE", [Const([[0], [2]]), Const([5]), In((2,)), Const(0, "float32")], Out((5,)))
    yield case("EMBEDDING_LOOKUP", [Const([0, 1, 4]), ones(5, 4)], Out((3, 4)))
    yield case("SEGMENT_SUM", [In((3, 4)), Const([0, 0, 1])], Out((2, 4)))
    yield case("UNSORTED_SEGMENT_SUM", [In((3, 4)), Const([0, 0, 1]), Const(2)], Out((2, 4)))
    yield case("WHERE", [In((4,), "bool")], Out((4, 1), "int64"))
    yield case("UNIQUE", [In((4,), "int32")], Out((4,), "int32"), Out((4,), "int32"), idx_out_type="INT32")
    boxes: list[Operand] = [In((9, 4)), In((9,)), Const(3), Const(0.5, "float32"), Const(0.1, "float32")]
    yield case("NON_MAX_SUPPRESSION_V4", boxes, Out((3,), "int32"), Out((), "int32"))
    yield case("NON_MAX_SUPPRESSION_V5", [*boxes, Const(0, "float32")], Out((3,), "int32"), Out((3,)), Out((), "int32"))
    yield case("RANDOM_UNIFORM", [Const([2, 3])], Out((2, 3)))
    yield case("MULTINOMIAL", [In((2, 3)), Const(4)], Out((2, 4), "int64"))
    yield case("RANDOM_STANDARD_NORMAL", [Const([2, 3])], Out((2, 3)))
    for kind in ("MAX", "MIN", "PROD"):
        yield case(f"UNSORTED_SEGMENT_{kind}", [In((3, 4)), Const([0, 0, 1]), Const(2)], Out((2, 4)))
    yield case("LSH_PROJECTION", [ones(3, 2), In((5,), "int32"), ones(5)], Out((6,), "int32"), type="DENSE")
    yield case("LSH_PROJECTION", [ones(3, 2), In((5,), "int32")], Out((3,), "int32"), type="SPARSE")
    table: list[Operand] = [Const([0, 1, 2]), Const([0, 1, 2, 3, 4]), ones(5, 4)]
    yield case("HASHTABLE_LOOKUP", table, Out((3, 4)), Out((3,), "uint8"))
    yield case("DILATE", [In((4, 6)), Const([2, 2]), Const(0, "float32")], Out((7, 11)))
    ones_of = Const([1, 1], "int64")
    for function in ("ADD", "MUL", "MINIMUM"):
        windows: list[Operand] = [In((4, 6)), Const(0, "float32"), Const([2, 2], "int64"), ones_of, ones_of]
        yield case("REDUCE_WINDOW", windows, Out((3, 5)), note=function, reduce_function=function)


def stablehlo() -> Iterator[Case]:
    for code in ("ADD", "MAXIMUM", "MINIMUM", "MULTIPLY"):
        yield case(f"STABLEHLO_{code}", [In(), In()], Out())
    yield case("STABLEHLO_AND", [In(dtype="bool"), In(dtype="bool")], Out(dtype="bool"))
    yield case("STABLEHLO_SHIFT_LEFT", [In(dtype="int32"), In(dtype="int32")], Out(dtype="int32"))
    yield case("STABLEHLO_PAD", [In((2, 3)), In(())], Out((4, 7)), edge_padding_low=(1, 1), edge_padding_high=(1, 1),
               interior_padding=(0, 1))  # fmt: skip
    yield case("STABLEHLO_GATHER", [In((3, 4, 2)), Const([[0, 1], [1, 0]], "int64")], Out((2, 2)), offset_dims=(1,),
               collapsed_slice_dims=(0, 1), start_index_map=(0, 1), index_vector_dim=1,
               slice_sizes=(1, 1, 2))  # fmt: skip
    yield case("STABLEHLO_RNG_BIT_GENERATOR", [In((2,), "uint64")], Out((2,), "uint64"), Out((3, 4), "uint32"),
               algorithm="THREEFRY")  # fmt: skip
    updated: list[Operand] = [In((5, 4)), Const([[0], [2]], "int64"), In((2, 4))]
    yield case("STABLEHLO_SCATTER", updated, Out((5, 4)), body=addition, update_window_dims=(1,),
               inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,), index_vector_dim=1,
               update_computation_subgraph_index=1)  # fmt: skip


def addition(g: Subgraph) -> None:
    """What ops with a body fold with."""
    g.outputs(g.apply("STABLEHLO_ADD", [g.input(()), g.input(())], ()))


def audio() -> Iterator[Case]:
    options = {"window_size": 128, "stride": 64, "magnitude_squared": True}
    yield case("AudioSpectrogram", [In((400, 1))], Out((1, 5, 65)), custom=bytes(flexbuffers.Dumps(options)))
    filters = {"upper_frequency_limit": 4000.0, "lower_frequency_limit": 20.0, "filterbank_channel_count": 40,
               "dct_coefficient_count": 13}  # fmt: skip
    yield case("Mfcc", [In((1, 4, 65)), Const([16000])], Out((1, 4, 13)), custom=bytes(flexbuffers.Dumps(filters)))
    size = bytes(flexbuffers.Dumps({"hadamard_size": 16}))
    yield case("aeq.hadamard_rotation", [In((2, 32))], Out((2, 32)), custom=size)


def programs() -> Iterator[Case]:
    """Models of several ops, for those that need one another or a text."""
    model = Model()
    g = model.subgraph()
    table = g.apply("HASHTABLE", [], (1,), "resource", table_id=1, key_dtype="STRING", value_dtype="INT64")
    g.op("HASHTABLE_IMPORT", [table, texts(g, "a", "bb"), g.constant(np.array([4, 5], np.int64))], [])
    missing = g.constant(np.array([-1], np.int64))
    g.outputs(g.apply("HASHTABLE_FIND", [table, texts(g, "a", "zz", "bb"), missing], (3,), "int64"))
    g.outputs(g.apply("HASHTABLE_SIZE", [table], (1,), "int64"))
    yield Case("HASHTABLE HASHTABLE_IMPORT HASHTABLE_FIND HASHTABLE_SIZE", model.build())

    model = Model()
    g = model.subgraph()
    g.outputs(g.apply("SKIP_GRAM", [texts(g, "the quick brown fox")], (1,), "string", ngram_size=2, max_skip_size=1))
    yield Case("SKIP_GRAM", model.build())

    model = Model()
    g = model.subgraph()
    x = [g.input((), "int32"), g.input((2, 3))]
    g.outputs(g.apply("STABLEHLO_CASE", x, (2, 3), branch_subgraph_indices=(1, 2)))
    for code in ("NEG", "ABS"):
        branch = model.subgraph()
        branch.outputs(branch.apply(code, [branch.input((2, 3))], (2, 3)))
    yield Case("STABLEHLO_CASE", model.build())


def texts(g: Subgraph, *values: str) -> int:
    """A constant of strings: their number, where each begins and the last ends, and the strings."""
    ends = np.cumsum([4 * (len(values) + 2), *(len(v) for v in values)])
    data = struct.pack(f"<{len(values) + 2}i", len(values), *ends.tolist()) + "".join(values).encode()
    return g.tensor((len(values),) if len(values) > 1 else (), "string", buffer=g.model.buffer(data))
