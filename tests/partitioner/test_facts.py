# SPDX-License-Identifier: Apache-2.0
"""The kind of a model, its oddities, and what the stock runtime would refuse, compared with that runtime."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedeploy_partitioner.errors import PlanningError
from edgedeploy_partitioner.model.build import Model, Subgraph, per_channel, per_tensor
from edgedeploy_partitioner.model.facts import Finding, compiled_for, dtype_class, oddities, runtime_refusals
from edgedeploy_partitioner.model.graph import Quantization
from edgedeploy_partitioner.model.read import read_bytes, read_model
from edgedeploy_partitioner.model.schema import names
from edgedeploy_partitioner.model.shapes import propagate
from edgedeploy_partitioner.model.work import work
from edgedeploy_profiles.schema import CensusRow, Runtime
from support.mutate import mutant, structure
from support.trials import run_all

EXAMPLES = Path(__file__).parents[2] / "examples"


def runtime(census: tuple[CensusRow, ...] = (), lacks: str = "") -> Runtime:
    """A runtime with every builtin kernel but ``lacks``."""
    return Runtime(
        schema="edgedeploy.runtime/1",
        name="ai-edge-litert",
        version="2.3.0",
        sources={},
        xnnpack_default=bool(census),
        taken_on="a test",
        census=census,
        builtin_kernels=tuple(n for n in names("BuiltinOperator").values() if n != lacks),
        custom_kernels=("TFLite_Detection_PostProcess",),
        kernel_versions={"RELU": 3},
    )


def model(make: Callable[[Subgraph], int]) -> Model:
    """A model of one subgraph whose output ``make`` returns."""
    m = Model()
    g = m.subgraph()
    g.outputs(make(g))
    return m


# --- kind ----------


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("dscnn_kws.fp32", "float32"),
        ("dscnn_kws.fp16", "float16-weights"),
        ("dscnn_kws.dyn", "dynamic-range"),
        ("dscnn_kws.int8", "int8"),
        ("dscnn_kws.int16x8", "int16x8"),
        ("lstm_kws.fp32", "float32"),
        ("tfmr_64x128.int8", "int8"),
        ("unet_128.int8", "int8"),
    ],
)
def test_kinds_of_the_examples(name: str, kind: str) -> None:
    assert dtype_class(read_model(EXAMPLES / f"{name}.tflite")) == kind


def dense(g: Subgraph, data: str, weights: str, unpack: bool = False) -> int:
    """FULLY_CONNECTED of ``data`` with ``weights``, unpacked by a constant DEQUANTIZE if asked."""
    x = g.input((1, 4), data, per_tensor(0.5) if "int" in data else None)
    stored = np.zeros((3, 4), np.float32 if weights == "float32" else np.float16 if weights == "float16" else np.int8)
    w = g.constant(stored, weights, per_tensor(0.5) if "int" in weights else None)
    w = g.apply("DEQUANTIZE", [w], (3, 4)) if unpack else w
    return g.apply("FULLY_CONNECTED", [x, w, -1], (1, 3), data, per_tensor(0.5) if "int" in data else None)


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ([("float32", "float32")], "float32"),
        ([("float32", "float16", True)], "float16-weights"),
        ([("float32", "int8")], "dynamic-range"),
        ([("float32", "int8", True)], "dynamic-range"),
        ([("int8", "int8")], "int8"),
        ([("uint8", "uint8")], "uint8"),
        ([("int16", "int8")], "int16x8"),
        ([("int8", "int4")], "int4"),
        ([("float32", "int4")], "int4"),
        # a converter leaves small weights in float32
        ([("float32", "float32"), ("float32", "int8")], "dynamic-range"),
        ([("float32", "float32"), ("float32", "float16", True)], "float16-weights"),
        ([("float32", "float32"), ("int8", "int8")], "mixed"),
        ([("float32", "int8"), ("int8", "int8")], "mixed"),
        ([], "none"),
    ],
)
def test_kinds(parts: list[Any], kind: str) -> None:
    m = Model()
    g = m.subgraph()
    g.outputs(*(dense(g, *part) for part in parts))
    assert dtype_class(read_bytes(m.build())) == kind


def test_without_weights_it_is_what_the_ops_compute() -> None:
    quant = per_tensor(0.5)
    as_int8 = model(lambda g: g.apply("RELU", [g.input((1, 4), "int8", quant)], (1, 4), "int8", quant))
    assert dtype_class(read_bytes(as_int8.build())) == "int8"
    indices = model(lambda g: g.apply("ABS", [g.input((1, 4), "int32")], (1, 4), "int32"))
    assert dtype_class(read_bytes(indices.build())) == "none"


COMPILED = {"ethos-u": "ethos-u", "edgetpu-custom-op": "edgetpu", "NeutronGraph": "neutron", "vsi-npu": "vx"}


@pytest.mark.parametrize(("code", "target"), [*COMPILED.items(), ("Mine", None)])
def test_compiled_models_are_known_by_their_custom_op(code: str, target: str | None) -> None:
    m = model(lambda g: g.apply("CUSTOM", [g.input((1, 4))], (1, 4), custom_code=code))
    assert compiled_for(read_bytes(m.build())) == target


def test_a_model_that_litert_compiled_says_for_which_soc() -> None:
    m = model(lambda g: g.apply("CUSTOM", [g.input((1, 4))], (1, 4), custom_code="DISPATCH_OP"))
    assert compiled_for(read_bytes(m.build())) == "an NPU by LiteRT"
    m.metadata("LiteRtStamp", b"MediaTek".ljust(125, b"\0") + b"mt6989".ljust(125, b"\0"))
    assert compiled_for(read_bytes(m.build())) == "MediaTek mt6989"


# --- oddities ----------


def found(m: Model) -> dict[str, Finding]:
    findings = oddities(read_bytes(m.build()))
    return {f.code: f for f in findings}


def test_a_plain_model_has_none() -> None:
    m = model(lambda g: g.apply("RELU", [g.input((1, 4), name="x")], (1, 4)))
    m.value.subgraphs[0].tensors[1].name = "y"
    assert found(m) == {}


def odd_conv(g: Subgraph, weights: Quantization, bias: Quantization, kind: str = "int8") -> int:
    x = g.input((1, 4, 4, 3), kind, per_tensor(0.5))
    w = g.constant(np.zeros((2, 1, 1, 3), kind), kind, weights)
    b = g.constant(np.zeros(2, np.int32), "int32", bias)
    return g.apply("CONV_2D", [x, w, b], (1, 4, 4, 2), kind, per_tensor(0.5), padding="SAME", stride_w=1, stride_h=1)


def test_quantization_facts() -> None:
    per = per_channel([0.25, 0.5], 0)
    fine = found(model(lambda g: odd_conv(g, per, per_channel([0.125, 0.25], 0))))
    assert "per channel (axis 0)" in fine["weight_quantization"].message
    assert not {"bias_scale", "asymmetric_weights", "bad_scale", "bad_axis"} & fine.keys()
    assert "bias_scale" in found(model(lambda g: odd_conv(g, per, per_channel([0.125, 0.3], 0))))
    assert "asymmetric_weights" in found(model(lambda g: odd_conv(g, per_tensor(0.25, 3), per_tensor(0.125))))
    bad = found(model(lambda g: odd_conv(g, per_channel([0.25, float("nan")], 0), per)))
    assert "nan" in bad["bad_scale"].message
    assert bad["bad_scale"].where.startswith("tensor 1")
    axis = found(model(lambda g: odd_conv(g, per, Quantization((0.1, 0.2), (0, 0), 3))))["bad_axis"]
    assert "tensor 2: quantised along axis 3 but has 1 dimension" in axis.message


def test_what_is_said_of_names_and_idle_parts() -> None:
    m = Model()
    g = m.subgraph()
    x, y = g.input((1, 4), name="x"), g.input((1, 4), name="x")
    g.apply("TANH", [x], (1, 4))
    g.tensor((5,), name="")
    g.outputs(g.apply("ABS", [x], (1, 4)))
    idle = m.subgraph("idle")
    idle.input((1,))
    facts = found(m)
    assert "'x'" in facts["duplicate_names"].message
    assert f"{y} 'x'" in facts["unused_inputs"].message
    assert facts["dead_op"].op == (0, 0)
    assert facts["unused_tensors"].message.startswith("1 tensor used by nothing")
    assert facts["unreachable_subgraph"].where == "subgraph 1 'idle'"


def test_what_is_said_of_shapes() -> None:
    m = Model()
    g = m.subgraph()
    x, size = g.input((1, 4), name="x", signature=(-1, 4)), g.input((2,), "int32", name="size")
    reshaped = g.apply("RESHAPE", [g.apply("RELU", [x], (1, 4)), size], (2, 2))
    g.outputs(reshaped, g.apply("FILL", [size, g.constant(np.array(1, np.float32))], (2, 2)))
    facts = found(m)
    assert "--input-shape x=1,4" in facts["open_dimension"].message
    assert facts["dynamic_shape"].op == (0, 2)  # the RESHAPE only follows from the open input


def test_what_is_said_of_order_state_and_customs() -> None:
    m = Model()
    g = m.subgraph()
    x, a, b = g.input((1, 4)), g.tensor((1, 4)), g.tensor((1, 4))
    g.tensor((2, 4), variable=True)
    g.op("ABS", [a], [b])
    g.op("TANH", [x], [a])
    flex = g.apply("CUSTOM", [b], (1, 4), custom_code="FlexMul")
    g.outputs(g.apply("CUSTOM", [flex, -1], (1, 4), custom_code="Mine"))
    facts = found(m)
    assert facts["file_order"].op == (0, 0)
    assert "op 1" in facts["file_order"].message
    assert facts["flex_ops"].message == "needs Select TF ops: FlexMul"
    assert facts["custom_ops"].message.endswith(": Mine")
    assert facts["optional_inputs"].message.endswith("Mine")
    assert "1 state tensor (32 bytes)" in facts["variable_tensors"].message


def test_float_borders_of_an_integer_model_and_folded_weights() -> None:
    m = Model()
    g = m.subgraph()
    x = g.apply("QUANTIZE", [g.input((1, 4), name="x")], (1, 4), "int8", per_tensor(0.5))
    g.outputs(g.apply("DEQUANTIZE", [x], (1, 4)), dense(g, "float32", "float16", unpack=True))
    facts = found(m)
    assert facts["float_input"].op == (0, 0)
    assert facts["float_output"].op == (0, 1)
    assert facts["folded_weights"].message == "1 weight unpacked when the model is loaded, 48 bytes then"


def test_every_finding_is_one_line() -> None:
    for path in EXAMPLES.glob("*.tflite"):
        for finding in oddities(read_model(path)):
            assert str(finding).splitlines() == [str(finding)]


# --- what the runtime refuses ----------


RELU: dict[str, Any] = {"fused_activation_function": "RELU"}


def svdf(g: Subgraph, state_type: str) -> int:
    x = g.input((1, 64), "int8", per_tensor(0.5))
    weights = [g.constant(np.ones((512, 64), np.int8), "int8", per_tensor(0.5))]
    weights.append(g.constant(np.ones((512, 64), state_type), state_type, per_tensor(0.5)))
    bias = g.constant(np.zeros(512, np.int32), "int32", per_tensor(0.25))
    state = g.tensor((1, 512 * 64), state_type, per_tensor(0.5), variable=True)
    return g.apply("SVDF", [x, *weights, bias, state], (1, 512), "int8", per_tensor(0.5), rank=1, **RELU)


def without(tensor: int, quantized: Model) -> Model:
    quantized.value.subgraphs[0].tensors[tensor].quantization = None
    return quantized


def schema_2() -> Model:
    m = model(lambda g: g.apply("RELU", [g.input((1, 4))], (1, 4)))
    m.value.version = 2
    return m


PER, BIAS = per_channel([0.25, 0.5], 0), per_channel([0.125, 0.25], 0)
GOOD = {
    "int8": model(lambda g: odd_conv(g, PER, BIAS)),
    "int8 per tensor": model(lambda g: odd_conv(g, per_tensor(0.25), per_tensor(0.125))),
    "uint8": model(lambda g: odd_conv(g, per_tensor(0.25, 3), per_tensor(0.125), "uint8")),
    "svdf": model(lambda g: svdf(g, "int16")),
    "output without scale": without(3, model(lambda g: odd_conv(g, PER, BIAS))),
}
BAD = {
    "schema_version": [schema_2()],
    "quantized_dimension": [
        model(lambda g: odd_conv(g, PER, Quantization((0.1, 0.2), (0, 0), 3))),
        model(lambda g: odd_conv(g, Quantization((0.1,), (0,), 5), BIAS)),
        model(lambda g: odd_conv(g, PER, Quantization((0.1, 0.2), (0, 0), -1))),
        model(lambda g: odd_conv(g, per_channel([0.1, 0.2, 0.3], 0), BIAS)),
    ],
    "no_kernel": [
        model(lambda g: g.apply("CUSTOM", [g.input((1, 4))], (1, 4), custom_code="Mine")),
        model(lambda g: g.apply("STABLEHLO_CBRT", [g.input((1, 4))], (1, 4))),
    ],
    "op_version": [model(lambda g: g.apply("RELU", [g.input((1, 4))], (1, 4), op_version=77))],
    "flex_op": [model(lambda g: g.apply("CUSTOM", [g.input((1, 4))], (1, 4), custom_code="FlexMul"))],
    "shapes": [model(lambda g: g.apply("ADD", [g.input((1, 4)), g.input((1, 3))], (1, 4)))],
    "no_source": [model(lambda g: g.apply("ADD", [g.input((1, 4)), g.tensor((1, 4))], (1, 4)))],
    "convolution_quantization": [
        model(lambda g: odd_conv(g, per_channel([0.25, 0.5], 0, [1, 1]), BIAS)),
        model(lambda g: odd_conv(g, per_tensor(0.25, 3), per_tensor(0.125))),
        model(lambda g: odd_conv(g, per_channel([0.1, 0.2, 0.3], 3), BIAS)),
        model(lambda g: odd_conv(g, PER, BIAS, "uint8")),
        without(0, model(lambda g: odd_conv(g, PER, BIAS))),
        without(1, model(lambda g: odd_conv(g, PER, BIAS))),
    ],
    "svdf_state": [model(lambda g: svdf(g, "int8"))],
}


def test_what_is_said_to_be_refused_is_refused_and_the_rest_runs(tmp_path: Path) -> None:
    cases = [("", m.build()) for m in GOOD.values()] + [(code, m.build()) for code, ms in BAD.items() for m in ms]
    answers = run_all(tmp_path, [data for _, data in cases], xnnpack=False)
    for (code, data), answer in zip(cases, answers, strict=True):
        said = {f.code for f in runtime_refusals(read_bytes(data), runtime(lacks="STABLEHLO_CBRT"))}
        assert said == ({code} if code else set()), answer
        assert (answer["stage"] == "done") == (not code), (code, answer)


def test_the_census_says_which_custom_ops_run_and_which_ops_fail() -> None:
    def codes(name: str, *rows: CensusRow) -> set[str]:
        m = model(lambda g: g.apply("CUSTOM", [g.input((1, 4))], (1, 4), custom_code=name))
        return {f.code for f in runtime_refusals(read_bytes(m.build()), runtime(rows))}

    assert codes("TFLite_Detection_PostProcess") == set()
    assert codes("Mine") == {"no_kernel"}
    assert codes("Mine", CensusRow("CUSTOM:Mine", "takes")) == set()
    relu = read_bytes(model(lambda g: g.apply("RELU", [g.input((1, 4))], (1, 4))).build())
    assert runtime_refusals(relu, runtime((CensusRow("RELU", "takes"),))) == ()
    [finding] = runtime_refusals(relu, runtime((CensusRow("RELU", "fails"),)))
    assert (finding.code, finding.op) == ("xnnpack_fails", (0, 0))


def test_nothing_in_a_damaged_model_is_an_error_or_more_than_one_line() -> None:
    rng = random.Random(5)
    sound = [(EXAMPLES / f"{n}.tflite").read_bytes() for n in ("lstm_kws.fp32", "dscnn_kws.int8", "custom_erf.int8")]
    places = [structure(data) for data in sound]
    read = 0
    for i in range(300):
        with contextlib.suppress(PlanningError):
            graph = read_bytes(mutant(sound[i % 3], places[i % 3], sound, rng))
            read += 1
            for finding in (*oddities(graph), *runtime_refusals(graph, runtime())):
                assert str(finding).isprintable()
            assert dtype_class(graph)
            assert min(work(graph, op).macs for sub in graph.subgraphs for op in sub.ops) >= 0
            propagate(graph)
    assert read > 50


def test_refusals_say_where() -> None:
    [finding] = runtime_refusals(read_model(EXAMPLES / "custom_erf.int8.tflite"), runtime())
    assert str(finding) == "op 1 Erf: ai-edge-litert 2.3.0 does not register this custom op"
    assert finding.op == (0, 1)
