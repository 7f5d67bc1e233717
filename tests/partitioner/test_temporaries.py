# SPDX-License-Identifier: Apache-2.0
"""What built-in kernels ask for, against the installed runtime: single-op models, run once with built-in kernels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from edgedeploy_partitioner.memory.temporaries import _NO_SCRATCH, temporaries
from edgedeploy_partitioner.model.build import Model, per_channel, per_tensor
from edgedeploy_partitioner.model.graph import Quantization
from edgedeploy_partitioner.model.read import read_bytes
from support.arenas import compared
from support.runtime import inspect_all

S = (2, 6, 6, 4)
Q = per_tensor(0.05)


class In(NamedTuple):
    """An input to feed, or with ``variable`` the op's own state."""

    shape: tuple[int, ...] = S
    dtype: str = "float32"
    variable: bool = False


class Const(NamedTuple):
    """A constant; 8-bit ones get a scale."""

    value: Any
    dtype: str = "int32"
    quant: Quantization | None = None


class Out(NamedTuple):
    shape: tuple[int, ...] = S
    dtype: str = "float32"


class Case(NamedTuple):
    name: str
    model: bytes


Operand = In | Const | None


def case(code: str, inputs: Sequence[Operand], *outputs: Out, version: int = 1, note: str = "", **options: Any) -> Case:
    model = Model()
    g = model.subgraph()

    def operand(spec: Operand) -> int:
        if spec is None:
            return -1
        if isinstance(spec, Const):
            quant = Q if spec.quant is None and spec.dtype in ("int8", "uint8") else spec.quant
            return g.constant(np.asarray(spec.value).astype(spec.dtype), quant=quant)
        if spec.variable:
            return g.tensor(spec.shape, spec.dtype, variable=True)
        return g.input(spec.shape, spec.dtype, scale(spec.dtype))

    ids = [operand(spec) for spec in inputs]
    results = [g.tensor(out.shape, out.dtype, scale(out.dtype)) for out in outputs]
    g.op(code, ids, results, op_version=version, **options)
    g.outputs(*results)
    return Case(f"{code} {note}".strip(), model.build())


def scale(dtype: str) -> Quantization | None:
    return Q if dtype in ("int8", "uint8", "int16") else None


# --- kernels with scratch --------------------------------------------


def ones(*shape: int, dtype: str = "float32", quant: Quantization | None = None) -> Const:
    return Const(np.ones(shape), dtype, quant)


def convolutions() -> Iterator[Case]:
    kinds = {
        "float": ("float32", "float32", None, "float32", 1),
        "int8": ("int8", "int8", per_channel([0.01] * 8, 0), "int32", 3),
        "uint8": ("uint8", "uint8", per_tensor(0.01), "int32", 1),
        "int16x8": ("int16", "int8", per_channel([0.01] * 8, 0), "int64", 4),
        "hybrid": ("float32", "int8", per_channel([0.01] * 7 + [0.02], 0), "float32", 5),
        "hybrid, equal scales": ("float32", "int8", per_channel([0.01] * 8, 0), "float32", 5),
    }
    for note, (x, w, quant, b, version) in kinds.items():
        for size, stride, dilation in ((1, 1, 1), (3, 1, 1), (1, 2, 1), (3, 2, 1), (3, 1, 2)):
            out = 6 // stride
            yield case(
                "CONV_2D",
                [In(dtype=x), ones(8, size, size, 4, dtype=w, quant=quant), bias(8, b)],
                Out((2, out, out, 8), x),
                note=f"{note} {size}x{size} stride {stride} dilation {dilation}",
                version=version,
                padding="SAME",
                stride_w=stride,
                stride_h=stride,
                dilation_w_factor=dilation,
                dilation_h_factor=dilation,
            )


def bias(n: int, dtype: str) -> Const:
    return Const(np.ones(n), dtype, None if dtype == "float32" else per_tensor(0.0005))


def depthwise() -> Iterator[Case]:
    ones_of = ("stride_w", "stride_h", "dilation_w_factor", "dilation_h_factor", "depth_multiplier")
    strides: dict[str, Any] = dict.fromkeys(ones_of, 1)
    kinds = (("float32", "float32", "float32", 1), ("int8", "int8", "int32", 3), ("float32", "int8", "float32", 6))
    for x, w, b, version in kinds:
        weights = ones(1, 3, 3, 4, dtype=w, quant=per_channel([0.01] * 4, 3) if w == "int8" else None)
        inputs: list[Operand] = [In(dtype=x), weights, bias(4, b)]
        yield case("DEPTHWISE_CONV_2D", inputs, Out(S, x), version=version, note=f"{x} {w}", padding="SAME", **strides)


def matrices() -> Iterator[Case]:
    x, out = In((3, 24)), Out((3, 5))
    yield case("FULLY_CONNECTED", [x, ones(5, 24), ones(5)], out)
    yield case("FULLY_CONNECTED", [x, ones(5, 24, dtype="int8"), ones(5)], out, version=3, note="hybrid")
    yield case("FULLY_CONNECTED", [In((1, 2, 3, 24)), ones(5, 24, dtype="int8"), None], Out((1, 2, 3, 5)), version=5,
               note="hybrid, 4 dimensions", keep_num_dims=True)  # fmt: skip
    for dtype in ("float32", "int8"):
        left, right, product = In((2, 6, 4), dtype), In((2, 4, 5), dtype), Out((2, 6, 5), dtype)
        yield case("BATCH_MATMUL", [left, right], product, note=dtype)
        yield case("BATCH_MATMUL", [left, ones(2, 4, 5, dtype=dtype)], product, note=f"{dtype}, constant right")
        yield case("BATCH_MATMUL", [ones(2, 6, 4, dtype=dtype), right], product, note=f"{dtype}, constant left")
        yield case("BATCH_MATMUL", [left, In((2, 5, 4), dtype)], product, note=f"{dtype}, transposed", adj_y=True)


def reductions() -> Iterator[Case]:
    codes = ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN")
    for code, dtype in itertools.product(codes, ("float32", "int8", "int32")):
        yield case(code, [In(dtype=dtype), Const([1, 2])], Out((2, 4), dtype), note=dtype)
        yield case(code, [In(dtype=dtype), Const(3)], Out((2, 6, 6, 1), dtype), note=f"{dtype}, kept", keep_dims=True)
    for code in ("REDUCE_ANY", "REDUCE_ALL"):
        yield case(code, [In(dtype="bool"), Const([1])], Out((2, 6, 4), "bool"))


def recurrent() -> Iterator[Case]:
    x, state, out = In((2, 3, 5)), In((2, 4), variable=True), Out((2, 3, 4))
    gates = [[ones(4, 5)] * n + [ones(4, 4)] * n + [ones(4)] * n for n in (4, 3)]
    rest: list[Operand] = [None, None, state, state]
    full = [x, *gates[0][:8], None, None, None, *gates[0][8:], *rest]
    coupled = [x, None, *gates[1][:3], None, *gates[1][3:6], None, None, None, None, *gates[1][6:], *rest]
    for inputs, note in ((full, ""), (coupled, "coupled gates")):
        yield case("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, out, note=note, fused_activation_function="TANH")
    yield case("UNIDIRECTIONAL_SEQUENCE_RNN", [x, ones(4, 5), ones(4, 4), ones(4), state], out)
    yield case("RNN", [In((2, 5)), ones(4, 5), ones(4, 4), ones(4), state], Out((2, 4)))
    memory = In((2, 28), variable=True)
    yield case("SVDF", [In((2, 5)), ones(4, 5), ones(4, 7), ones(4), memory], Out((2, 4)), rank=1)
    yield case("TRANSPOSE_CONV", [Const([2, 12, 12, 3]), ones(3, 2, 2, 4), In()], Out((2, 12, 12, 3)), padding="SAME",
               stride_w=2, stride_h=2)  # fmt: skip


WITH_SCRATCH = [*convolutions(), *depthwise(), *matrices(), *reductions(), *recurrent()]


# --- kernels without -------------------------------------------------


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
    yield from shaping()
    yield from indexing()


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
    yield case("EMBEDDING_LOOKUP", [In((3,), "int32"), ones(5, 4)], Out((3, 4)))
    yield case("SEGMENT_SUM", [In((3, 4)), Const([0, 0, 1])], Out((2, 4)))
    yield case("UNSORTED_SEGMENT_SUM", [In((3, 4)), Const([0, 0, 1]), Const(2)], Out((2, 4)))
    yield case("WHERE", [In((4,), "bool")], Out((4, 1), "int64"))
    yield case("UNIQUE", [In((4,), "int32")], Out((4,), "int32"), Out((4,), "int32"), idx_out_type="INT32")
    boxes: list[Operand] = [In((9, 4)), In((9,)), Const(3), Const(0.5, "float32"), Const(0.1, "float32")]
    yield case("NON_MAX_SUPPRESSION_V4", boxes, Out((3,), "int32"), Out((), "int32"))
    yield case("NON_MAX_SUPPRESSION_V5", [*boxes, Const(0, "float32")], Out((3,), "int32"), Out((3,)), Out((), "int32"))
    yield case("RANDOM_UNIFORM", [Const([2, 3])], Out((2, 3)))
    yield case("MULTINOMIAL", [In((2, 3)), Const(4)], Out((2, 4), "int64"))


WITHOUT_SCRATCH = list(plain())


def asked(answer: Any) -> list[tuple[int, bool]]:
    """(bytes, persistent) of the temporaries of the only node that lie in an arena."""
    tensors = answer.subgraphs[0]["tensors"]
    [node] = answer.subgraphs[0]["nodes"]
    found = [tensors[t] for t in node["temporaries"]]
    arenas = {"arena_rw": False, "arena_rw_persistent": True}
    return [(t["bytes"], arenas[t["allocation"]]) for t in found if t["allocation"] in arenas]


@pytest.mark.parametrize("threads", [1, 2])
def test_scratch_is_what_the_runtime_allocates(threads: int) -> None:
    answers = inspect_all((c.model for c in WITH_SCRATCH), xnnpack=False, run=True, threads=threads)
    for made, answer in zip(WITH_SCRATCH, answers, strict=True):
        assert answer.subgraphs is not None, (made.name, answer.failure)
        assert not answer.failure, (made.name, answer.failure)
        graph = read_bytes(made.model)
        constants = {t.id for t in graph.subgraphs[0].tensors if t.is_constant}
        predicted = temporaries(graph, graph.subgraphs[0].ops[0], threads, constants)
        assert predicted is not None, made.name
        assert [tuple(s) for s in predicted if s.bytes] == asked(answer), made.name
        for plan, its in compared(graph, answer, threads):
            assert its.exact, (made.name, plan["subgraph"])


def test_temporaries_get_the_ids_of_the_runtime() -> None:
    """Kernels add more tensors than they use; a SUM after each tells how many."""
    model = Model()
    g = model.subgraph()
    last = g.constant(np.array([1], np.int32))
    x = g.input((2, 5))
    constants = {shape: g.constant(np.ones(shape, np.float32)) for shape in ((4, 5), (4, 4), (4,), (4, 7))}
    gates, recurrent_gates, biases = [constants[4, 5]] * 4, [constants[4, 4]] * 4, [constants[4,]] * 4
    states = [g.tensor((2, 4), variable=True) for _ in range(2)]
    full = [*gates, *recurrent_gates, -1, -1, -1, *biases, -1, -1, *states]
    memory = g.tensor((2, 28), variable=True)

    def total(x: int, shape: tuple[int, ...]) -> None:
        g.outputs(g.apply("SUM", [x, last], shape))

    total(g.apply("FULLY_CONNECTED", [x, constants[4, 5], -1], (2, 4)), (2,))
    total(g.apply("BATCH_MATMUL", [x, constants[4, 5]], (2, 4), adj_y=True), (2,))
    total(g.apply("SVDF", [x, constants[4, 5], constants[4, 7], constants[4,], memory], (2, 4), rank=1), (2,))
    lstm: dict[str, Any] = {"fused_activation_function": "TANH"}
    total(g.apply("UNIDIRECTIONAL_SEQUENCE_LSTM", [g.input((2, 3, 5)), *full], (2, 3, 4), **lstm), (2, 4))
    data = model.build()
    [answer] = inspect_all([data], xnnpack=False, run=True)
    for plan, its in compared(read_bytes(data), answer):
        tensors = plan["tensors"]
        real = {t for n in plan["nodes"] for t in n["temporaries"] if tensors[t]["allocation"] == "arena_rw"}
        assert {b.tensor for b in its.blocks if b.tensor >= len(read_bytes(data).subgraphs[0].tensors)} == real


def test_kernels_that_are_said_to_need_no_scratch_ask_for_none() -> None:
    answers = inspect_all((c.model for c in WITHOUT_SCRATCH), xnnpack=False, run=True)
    for made, answer in zip(WITHOUT_SCRATCH, answers, strict=True):
        assert answer.subgraphs is not None, (made.name, answer.failure)
        assert answer.subgraphs[0]["nodes"][0]["temporaries"] == [], made.name
        graph = read_bytes(made.model)
        assert temporaries(graph, graph.subgraphs[0].ops[0], 1, ()) == (), made.name


def test_nothing_is_said_to_need_no_scratch_without_a_case() -> None:
    elsewhere = {
        "ASSIGN_VARIABLE", "READ_VARIABLE", "VAR_HANDLE", "CALL_ONCE", "IF", "WHILE", "STABLEHLO_COMPOSITE", "DENSIFY",
        "EMBEDDING_LOOKUP_SPARSE",
    }  # fmt: skip
    assert _NO_SCRATCH - elsewhere <= {c.name.split()[0] for c in WITHOUT_SCRATCH}


@pytest.mark.parametrize("code", ["CUSTOM", "BIDIRECTIONAL_SEQUENCE_LSTM", "RFFT2D"])
def test_an_unseen_kernel_is_not_guessed(code: str) -> None:
    made = case(code, [In((2, 8, 8)), Const([8, 8])], Out((2, 8, 5)))
    graph = read_bytes(made.model)
    assert temporaries(graph, graph.subgraphs[0].ops[0], 1, ()) is None


@pytest.mark.parametrize("code", ["CONV_2D", "FULLY_CONNECTED", "MEAN", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM"])
@pytest.mark.parametrize("inputs", [[], [None, None], [In(())], [In((0,)), In((0, 0), "int8")]])
def test_a_malformed_op_is_not_known(code: str, inputs: list[Operand]) -> None:
    graph = read_bytes(case(code, inputs, Out(())).model)
    assert temporaries(graph, graph.subgraphs[0].ops[0], 1, ()) is None
