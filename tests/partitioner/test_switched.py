# SPDX-License-Identifier: Apache-2.0
"""Plans for XNNPACK that libedgedeploy.so applies, from its census: no runtime is asked here."""

from __future__ import annotations

import numpy as np
import pytest

from edgedeploy import partition
from edgedeploy_partitioner.edp import decode, encode
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.memory.release import LITERT_2_3, TFLITE_2_14, Release
from edgedeploy_partitioner.model.build import Model, per_channel, per_tensor
from edgedeploy_partitioner.model.graph import Quantization
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.plan import Plan
from edgedeploy_partitioner.runtime.census import kernel_of
from edgedeploy_profiles import load_runtime, load_switched, runtime_names, switched_names
from edgedeploy_profiles.schema import Kernels, Runtime
from support.runtimes import ROOT, SWITCHED

NONE = Kernels("edgedeploy.kernels/1")
SHAPE = (1, 4, 4, 6)
STEP = per_tensor(1 / 64)
# Ops that XNNPACK takes of each, as the runtime itself did (tests/kernels/test_xnnpack_switch.py).
TAKEN = {"dscnn_kws.int8": 10, "mnv1_025_128.int8": 30, "ssd_96.int8": 47, "unet_128.int8": 19, "dscnn_kws.int16x8": 0}


def example(name: str, xnnpack: str) -> Plan:
    graph = read_bytes((ROOT / "examples" / f"{name}.tflite").read_bytes())
    return partition(
        graph, "rpi5", runtime="==".join(SWITCHED[:2]), npu="none", xnnpack=xnnpack, name=name, kernels=NONE
    )


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return load_runtime(*SWITCHED[:2]).switched(load_switched(*SWITCHED[:2]))


@pytest.mark.parametrize("name", TAKEN)
def test_quantised_examples_are_xnnpacks_once_it_is_switched_on(name: str) -> None:
    found, default = example(name, "switch"), example(name, "default")
    taken = [op for op in found.ops if op.kernel == "xnnpack"]
    assert len(taken) == TAKEN[name]
    assert not [op for op in default.ops if op.kernel == "xnnpack"]
    assert [b.options for b in decode(encode(found)).backends if b.name == "cpu"] == [(("xnnpack", "switch"),)]
    assert not [w for w in found.warnings if w.code == "runtime_rejects"]
    assert found.memory.arena_exact
    assert (found.memory.packed_bytes or 0) > 0 or not taken


def test_its_census_is_part_of_the_inputs() -> None:
    found, default = example("dscnn_kws.int8", "switch"), example("dscnn_kws.int8", "default")
    assert found.inputs.runtime.sha256 != default.inputs.runtime.sha256
    assert found.inputs.runtime.xnnpack == "switch"


def test_only_a_runtime_that_leaves_them_off_has_8_bit_kernels_to_switch_on() -> None:
    assert switched_names() == ("tflite-runtime==2.14.0",)
    for name in set(runtime_names()) - set(switched_names()):
        title = name.replace("==", " ")
        with pytest.raises(InputError) as refused:
            partition(read_bytes(summed()), "rpi5", runtime=name, xnnpack="switch")
        assert str(refused.value) == (
            f"--xnnpack switch is for tflite-runtime 2.14.0, which leaves XNNPACK's 8-bit kernels off; {title} applies"
            " XNNPACK by itself, with them: say default or off"
        )


def summed(dtype: str = "int8", ratio: float = 1.0) -> bytes:
    model = Model()
    g = model.subgraph()
    x, y = g.input(SHAPE, dtype, STEP), g.input(SHAPE, dtype, per_tensor(ratio / 64))
    g.outputs(g.apply("ADD", [x, y], SHAPE, dtype, STEP))
    return model.build()


def verdict(model: bytes, runtime: Runtime) -> str:
    graph = read_bytes(model)
    return kernel_of(graph, graph.subgraphs[0].ops[0], runtime).verdict


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_limits_on_scales_are_where_xnnpack_documents_them(dtype: str, runtime: Runtime) -> None:
    found = [verdict(summed(dtype, 2.0**k), runtime) for k in (-11, -10, 7, 8)]
    assert found == ["leaves", "takes", "takes", "leaves"]
    assert verdict(summed("int16"), runtime) == "leaves"


def curved(out: Quantization) -> bytes:
    model = Model()
    g = model.subgraph()
    g.outputs(g.apply("TANH", [g.input(SHAPE, "int8", STEP)], SHAPE, "int8", out))
    return model.build()


def test_a_tanh_needs_the_result_that_tflite_specifies(runtime: Runtime) -> None:
    assert verdict(curved(per_tensor(1 / 128)), runtime) == "takes"
    assert verdict(curved(per_tensor(1 / 64)), runtime) == "fails"
    assert verdict(curved(per_tensor(1 / 128, 1)), runtime) == "fails"


def product(activation: str, scales: Quantization, stored: tuple[int, ...] = (1, 3)) -> bytes:
    model = Model()
    g = model.subgraph()
    weights = g.constant(np.ones((3, 6), np.int8), quant=scales)
    x, bias = g.input((1, 6), "int8", STEP), g.constant(np.zeros(3, np.int32), quant=per_tensor(2.0**-12))
    g.outputs(g.apply("FULLY_CONNECTED", [x, weights, bias], stored, "int8", STEP,
                      fused_activation_function=activation))  # fmt: skip
    return model.build()


@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6", "RELU_N1_TO_1"])
def test_a_product_needs_weights_of_one_scale_and_a_result_as_it_follows(activation: str, runtime: Runtime) -> None:
    assert verdict(product(activation, STEP), runtime) == "takes"
    assert verdict(product(activation, per_channel([1 / 64] * 3, 0)), runtime) == "leaves"
    assert verdict(product(activation, STEP, stored=(1, 1, 3)), runtime) == "leaves"


def test_it_claims_before_the_built_in_kernels_prepare_anything() -> None:
    """Which a result sized at run time would keep the runtime's own XNNPACK from."""
    assert TFLITE_2_14.prepares_first
    assert not Release.of(*SWITCHED[:2], is_switched=True).prepares_first
    assert not LITERT_2_3.prepares_first
    model = Model()
    g = model.subgraph()
    shaped = g.apply("RESHAPE", [g.input((4,)), g.input((2,), "int32")], (2, 2))
    g.outputs(shaped, g.apply("ABS", [g.input(SHAPE)], SHAPE))
    graph = read_bytes(model.build())
    for xnnpack, kernel in (("default", "builtin"), ("switch", "xnnpack")):
        found = partition(graph, "rpi5", runtime="==".join(SWITCHED[:2]), xnnpack=xnnpack, forbid=("ABS=neon",))
        assert found.ops[1].kernel == kernel
