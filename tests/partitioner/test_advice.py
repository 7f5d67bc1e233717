# SPDX-License-Identifier: Apache-2.0
"""Advice says what the plan would be after a change: as much as the plan of a model with that change made."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedeploy_partitioner.checker import check
from edgedeploy_partitioner.model.build import Model, Subgraph
from edgedeploy_partitioner.model.graph import DType, Graph, Quantization, Tensor
from edgedeploy_partitioner.model.read import read_bytes, read_model
from edgedeploy_partitioner.plan import Advice, Plan
from edgedeploy_partitioner.planning import Request, advice, partition
from edgedeploy_partitioner.planning.changed import requantised, without
from edgedeploy_profiles import load_board, load_runtime

RUNTIME = load_runtime("ai-edge-litert", "2.3.0")
SCALE = Quantization((5.99 / 255,), (-128,), 0)
WEIGHTS = Quantization((0.02,), (0,), 0)
SHAPE = (1, 32, 32, 128)
DEPTH = 4
EXAMPLES = Path(__file__).parents[2] / "examples"


def convs(g: Subgraph, x: int, seed: int, dtype: str = "int8", quant: Quantization | None = SCALE) -> int:
    """Some SAME 3x3 convolutions of 128 to 128 channels: worth an NPU's while."""
    rng = np.random.default_rng(seed)
    for _ in range(DEPTH):
        if dtype == "float32":
            weights: Any = rng.standard_normal((128, 3, 3, 128), np.float32)
            operands = [x, g.constant(weights), g.constant(np.zeros(128, np.float32))]
        else:
            low, kind = (-127, np.int8) if dtype == "int8" else (0, np.uint8)
            weights = rng.integers(low, low + 255, (128, 3, 3, 128)).astype(kind)
            operands = [x, g.constant(weights, dtype, WEIGHTS), g.constant(np.zeros(128, np.int32), "int32", WEIGHTS)]
        x = g.apply("CONV_2D", operands, SHAPE, dtype, quant, padding="SAME", stride_h=1, stride_w=1)
    return x


def model(make: Any, dtype: str = "int8", quant: Quantization | None = SCALE) -> Graph:
    written = Model()
    g = written.subgraph()
    g.outputs(make(g, g.input(SHAPE, dtype, quant)))
    return read_bytes(written.build())


def plan(graph: Graph, board: str = "rk3588", **options: Any) -> Plan:
    found = partition(graph, load_board(board), Request(RUNTIME, **options))
    assert check(found, graph) == ()
    return found


def told(found: Plan, code: str) -> list[Advice]:
    return [a for a in found.advice if a.code == code]


def between(code: str) -> Graph:
    """An op between convolutions; what it reads is also a result, so nothing is fused."""

    def make(g: Subgraph, x: int) -> int:
        before = convs(g, x, 0)
        g.outputs(before)
        return convs(g, g.apply(code, [before], SHAPE, "int8", SCALE), 1)

    return model(make)


def test_the_support_of_an_op_is_worth_what_a_supported_one_in_its_place_is() -> None:
    found = plan(between("GELU"))
    [change] = told(found, "support")
    assert change.ops == ((0, DEPTH),)
    then = plan(between("TANH"), forbid=(f"{DEPTH}=cpu",)).predicted.latency_ns
    assert change.latency_ns == then < found.predicted.latency_ns
    assert f"the NPU took op {DEPTH} GELU" in change.message


def test_ops_refused_alike_are_told_together() -> None:
    def make(g: Subgraph, x: int) -> int:
        for i in range(3):
            x = g.apply("GELU", [convs(g, x, i)], SHAPE, "int8", SCALE)
        return convs(g, x, 9)

    found = plan(model(make))
    gelus = tuple((0, o.index) for o in found.ops if o.op == "GELU")
    assert len(gelus) == 3
    assert found.advice[0].ops == gelus, "all together, and the best first"


def transposed(*perms: tuple[int, ...]) -> Graph:
    def make(g: Subgraph, x: int) -> int:
        y, shape = convs(g, x, 0), SHAPE
        for perm in perms:
            shape = tuple(shape[axis] for axis in perm)  # type: ignore[assignment]
            y = g.apply("TRANSPOSE", [y, g.constant(np.array(perm, np.int32))], shape, "int8", SCALE)
        return convs(g, y, 1)

    return model(make)


def test_transposes_that_undo_each_other_are_worth_their_absence() -> None:
    found = plan(transposed((0, 3, 1, 2), (0, 2, 3, 1)))
    [change] = told(found, "transpose_pair")
    assert change.ops == ((0, DEPTH), (0, DEPTH + 1))
    assert change.latency_ns == plan(transposed()).predicted.latency_ns


def test_transposes_that_do_not_are_left_alone() -> None:
    assert not told(plan(transposed((0, 2, 1, 3), (0, 1, 2, 3))), "transpose_pair")


def test_conversions_at_the_border_are_worth_their_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice, "WORTH", 0.0)

    def make(g: Subgraph, x: int) -> int:
        return convs(g, g.apply("QUANTIZE", [x], SHAPE, "int8", SCALE), 0)

    found = plan(model(make, "float32", None))
    [change] = told(found, "quantised_border")
    assert change.ops == ((0, 0),)
    assert change.latency_ns == plan(model(lambda g, x: convs(g, x, 0))).predicted.latency_ns


def test_quantising_is_worth_what_the_quantised_model_is() -> None:
    """The open driver of RK3588 takes uint8 with one scale a tensor, and nothing else for certain."""
    zero = Quantization(SCALE.scales, (0,), 0)

    def deep(dtype: str, quant: Quantization | None) -> Graph:
        def make(g: Subgraph, x: int) -> int:
            return convs(g, x, 0, dtype, quant)

        return model(make, dtype, quant)

    found = plan(deep("float32", None), npu="teflon-rocket")
    assert {o.backend for o in found.ops} == {"cpu"}
    [change] = [a for a in told(found, "quantise") if "uint8 with one scale a tensor" in a.message]
    assert change.latency_ns == plan(deep("uint8", zero), npu="teflon-rocket").predicted.latency_ns


@pytest.mark.parametrize(("name", "board"), [("unet_128", "rk3588"), ("unet_128", "imx8mp"), ("dscnn_kws", "imx93")])
def test_a_float_model_is_told_what_its_int8_file_would_take(name: str, board: str) -> None:
    """Within what the converter changes besides: it fuses and inserts ops."""
    if name == "unet_128":
        int8 = read_model(EXAMPLES / "unet_128.int8.tflite")
        float32 = as_float(int8)
    else:
        int8, float32 = (read_model(EXAMPLES / f"{name}.{kind}.tflite") for kind in ("int8", "fp32"))
    changes = [a for a in told(plan(float32, board), "quantise") if "in full to int8" in a.message]
    assert changes[0].latency_ns == pytest.approx(plan(int8, board).predicted.latency_ns, rel=0.15)


def as_float(graph: Graph) -> Graph:
    """An int8 graph with all numbers as float32, of which nothing is to be run."""

    def changed(tensor: Tensor) -> Tensor:
        is_number = tensor.quantization is not None or tensor.dtype is DType.INT8
        return dataclasses.replace(tensor, dtype=DType.FLOAT32, quantization=None) if is_number else tensor

    subgraphs = tuple(dataclasses.replace(s, tensors=tuple(map(changed, s.tensors))) for s in graph.subgraphs)
    return dataclasses.replace(graph, subgraphs=subgraphs)


def test_nothing_is_told_under_a_memory_limit() -> None:
    graph = between("GELU")
    assert plan(graph).advice
    assert not plan(graph, memory_limit_bytes=1 << 40).advice


def test_two_conversions_of_one_input_go_together() -> None:
    def make(g: Subgraph, x: int) -> int:
        a, b = (convs(g, g.apply("QUANTIZE", [x], SHAPE, "int8", SCALE), i) for i in range(2))
        return g.apply("ADD", [a, b], SHAPE, "int8", SCALE)

    graph = model(make, "float32", None)
    conversions = [op.index for op in graph.subgraphs[0].ops if op.code == "QUANTIZE"]
    left = without(graph, 0, conversions).subgraphs[0]
    fed = set(left.inputs) | {t.id for t in left.tensors if t.is_constant} | {t for op in left.ops for t in op.outputs}
    assert len(left.inputs) == 1
    assert left.tensors[left.inputs[0]].dtype is DType.INT8
    assert {t for op in left.ops for t in op.inputs} <= fed


@pytest.mark.parametrize("name", ["dscnn_kws.fp16", "dscnn_kws.dyn", "lstm_kws.fp32", "tfmr_64x128.int8"])
def test_a_requantised_model_still_plans(name: str) -> None:
    graph = requantised(read_model(EXAMPLES / f"{name}.tflite"), "int8")
    assert not any(sub.folded for sub in graph.subgraphs)
    assert plan(graph).predicted.latency_ns > 0


def test_nothing_is_told_without_an_npu() -> None:
    assert plan(between("GELU"), npu="none").advice == ()
    assert plan(between("GELU"), "rpi5").advice == ()


def test_the_search_is_bounded_by_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice, "MAX_OPS", 2)
    monkeypatch.setattr(advice._Advisor.__init__, "__defaults__", (2,))
    assert plan(between("GELU")).advice == ()
