# SPDX-License-Identifier: Apache-2.0
"""The builder's models, read back by the reader and run by the stock runtime."""

from __future__ import annotations

import numpy as np
import pytest

from edgedeploy_partitioner.model.build import Model, options_table, per_channel, per_tensor
from edgedeploy_partitioner.model.graph import DType, Quantization
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.model.schema import names
from support.random_model import random_dag
from support.runtime import executed_plan, inspect_all


def test_everything_a_tensor_can_have_is_read_back() -> None:
    model = Model("made here")
    g = model.subgraph("work")
    x = g.input((1, 2), "int8", per_tensor(0.5, -3), signature=(-1, 2), name="x")
    w = g.constant(np.array([[1, -2], [3, 4]], np.int8), quant=per_channel([0.25, 0.5], 0))
    state = g.tensor((2,), variable=True)
    g.outputs(g.apply("FULLY_CONNECTED", [x, w, -1], (1, 2), "int8", per_tensor(1.0), keep_num_dims=True))
    model.signature("run", {"in": x}, {"out": 3})
    model.metadata("note", b"hello")
    graph = read_bytes(model.build())
    tensors = graph.subgraphs[0].tensors
    assert graph.description == "made here"
    assert tensors[x].name == "x"
    assert tensors[x].signature == (-1, 2)
    assert tensors[x].quantization == Quantization((0.5,), (-3,), 0)
    assert tensors[w].quantization == Quantization((0.25, 0.5), (0, 0), 0)
    weights = tensors[w].data
    assert weights is not None
    assert bytes(graph.bytes_of(weights)) == bytes([1, 254, 3, 4])
    assert tensors[state].is_variable
    assert graph.signatures[0].inputs == (("in", x),)
    [(name, span)] = graph.metadata
    assert span is not None
    assert (name, bytes(graph.bytes_of(span))) == ("note", b"hello")
    [op] = graph.subgraphs[0].ops
    assert (op.code, op.inputs, op.options["keep_num_dims"]) == ("FULLY_CONNECTED", (x, w, -1), True)


@pytest.mark.parametrize(("dtype", "packed"), [("int4", bytes([0xE1, 0x03])), ("int2", bytes([0b00111001]))])
def test_small_integers_are_packed_low_bits_first(dtype: str, packed: bytes) -> None:
    model = Model()
    g = model.subgraph()
    values = [1, -2, 3] if dtype == "int4" else [1, -2, -1]
    tensor = g.constant(np.array(values, np.int8), dtype)
    graph = read_bytes(model.build())
    read = graph.subgraphs[0].tensors[tensor]
    assert read.dtype is DType(dtype)
    assert read.data is not None
    assert bytes(graph.bytes_of(read.data)) == packed


def test_enums_go_by_name_and_unknown_options_are_refused() -> None:
    model = Model()
    g = model.subgraph()
    x = g.input((1, 4, 4, 1))
    g.outputs(g.apply("MAX_POOL_2D", [x], (1, 2, 2, 1), padding="VALID", fused_activation_function="RELU6"))
    op = read_bytes(model.build()).subgraphs[0].ops[0]
    assert (op.options["padding"], op.options["fused_activation_function"]) == ("VALID", "RELU6")
    with pytest.raises(ValueError, match="no option 'filter'"):
        g.apply("MAX_POOL_2D", [x], (1,), filter=3)
    with pytest.raises(ValueError, match="no options"):
        g.apply("RELU", [x], (1,), alpha=3)


def test_almost_every_op_has_the_options_table_of_its_name() -> None:
    without = {code for code in names("BuiltinOperator").values() if options_table(code) is None}
    assert {"RELU", "LOGISTIC", "TANH", "ELU", "ROUND", "CEIL", "FLOOR", "DELEGATE", "CUSTOM"} <= without
    assert not without & {"CONV_2D", "MEAN", "ADD", "STABLEHLO_COMPOSITE", "WHILE", "CONV_3D_TRANSPOSE"}


def test_constants_are_aligned_as_the_schema_says() -> None:
    model = Model()
    g = model.subgraph()
    for size in (1, 3, 17, 5):
        g.constant(np.ones(size, np.int8))
    graph = read_bytes(model.build())
    starts = [t.data.start for t in graph.subgraphs[0].tensors if t.data is not None]
    assert len(starts) == 4
    assert [start % 16 for start in starts] == [0] * 4


def test_a_sparse_constant_is_what_the_runtime_makes_dense() -> None:
    """The runtime itself unpacks it: PRELU with a slope of zeros where nothing is stored."""
    model = Model()
    g = model.subgraph()
    dense = np.zeros((3, 4), np.float32)
    dense[0, 1], dense[2, 3] = 2.0, -1.0
    sparse = g.sparse_constant(dense)
    slope = g.apply("DENSIFY", [sparse], (3, 4))
    g.outputs(g.apply("PRELU", [g.input((3, 4)), slope], (3, 4)))
    tensor = read_bytes(model.build()).subgraphs[0].tensors[sparse]
    assert tensor.is_sparse
    assert tensor.data is not None
    assert tensor.data.size == 2 * 4
    [answer] = inspect_all([model.build()])
    assert answer.claimed() == {0, 1}
    assert answer.failure == ""


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_random_models_run_with_and_without_xnnpack(dtype: str) -> None:
    models = [random_dag(seed, 15, dtype) for seed in range(20)]
    for xnnpack in (True, False):
        assert [a.failure for a in inspect_all(models, xnnpack=xnnpack, run=True)] == [""] * 20


def test_random_models_are_the_same_every_time_and_differ_by_seed() -> None:
    assert random_dag(7, 12) == random_dag(7, 12)
    assert len({random_dag(seed, 12) for seed in range(10)}) == 10


def test_random_models_have_branches_and_a_mix_of_kernels() -> None:
    plans = [executed_plan(random_dag(seed, 20)) for seed in range(5)]
    assert all(any(members is None for _, members in plan) for plan in plans)
    assert all(any(members for _, members in plan) for plan in plans)
