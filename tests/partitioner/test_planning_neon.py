# SPDX-License-Identifier: Apache-2.0
"""A kernel in the manifest is planned with no other edit: judged, priced by its formula, mixed with NPU segments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import edgedeploy_kernels
from edgedeploy_partitioner.checker import check
from edgedeploy_partitioner.edp import decode, encode
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.graph import Graph, Quantization
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.plan import OpEntry, Plan, from_json, to_json
from edgedeploy_partitioner.planning import Request, partition
from edgedeploy_profiles import load_board, load_core, load_kernels, load_runtime
from edgedeploy_profiles.errors import ProfileError
from edgedeploy_profiles.schema import Fusion, Kernel, Kernels, Quantity, Variant

RUNTIME = load_runtime("ai-edge-litert", "2.3.0")
SCALE = Quantization((0.02,), (0,), 0)
SIDE, CHANNELS = 64, 32


def variant(instructions: float, *isa: str) -> Variant:
    def exact(value: float) -> Quantity:
        return Quantity(value, "assumed: for this test")

    return Variant("f", isa or ("asimd",), exact(instructions), exact(0.5), exact(2.0))


NUMBER = "{ value = 1.0, source = 'assumed: for this test' }"
EXAMPLE = f"""schema = "edgedeploy.kernels/1"
[[kernels]]
name = "a"
ops = ["RELU"]
dtypes = ["int8"]
numerics = "ref"
runtime = "r==1"
source = "assumed: for this test"
[kernels.variants.neon]
symbol = "f"
instr_per_elem = {NUMBER}
bytes_per_elem = {NUMBER}
overhead_us = {NUMBER}
"""


def manifest(**changed: Any) -> Kernels:
    """One kernel for unfused RELU, which the stock runtime leaves slow."""
    kernel = Kernel(
        name="lookup_int8",
        ops=("RELU",),
        dtypes=("int8",),
        numerics="builtin",
        runtime="ai-edge-litert==2.3.0",
        source="assumed: for this test",
        variants={"neon": variant(0.75)},
    )
    return Kernels("edgedeploy.kernels/1", kernels=(structs.replace(kernel, **changed),))


def chain(*codes: str, dtype: str = "int8") -> Graph:
    """Ops of one input and one output, one after the other, on a 64x64x32 image."""
    model = Model()
    g = model.subgraph()
    shape = (1, SIDE, SIDE, CHANNELS)
    quant = SCALE if dtype == "int8" else None
    t = g.input(shape, dtype, quant)
    for code in codes:
        t = g.apply(code, [t], shape, dtype, quant)
    g.outputs(t)
    return read_bytes(model.build())


def plan(graph: Graph, board: str = "rpi5", kernels: Kernels | None = None, **options: Any) -> Plan:
    found = partition(graph, load_board(board), Request(RUNTIME, kernels=kernels, **options))
    assert check(found, graph) == ()
    assert from_json(to_json(found)) == found
    return found


def op(found: Plan, index: int = 0) -> OpEntry:
    return found.ops[index]


def test_the_shipped_manifest_loads() -> None:
    assert load_kernels(edgedeploy_kernels.manifest()).schema == "edgedeploy.kernels/1"


def test_a_fast_kernel_is_planned_and_the_library_claims_it() -> None:
    found = plan(chain("RELU"), kernels=manifest())
    assert (op(found).backend, op(found).kernel, op(found).variant) == ("neon", "lookup_int8", "neon")
    assert [p.delegate for p in found.partitions] == ["edgedeploy"]
    assert found.baselines.all_cpu.latency_ns > found.predicted.latency_ns
    assert [b.library for b in found.backends] == ["libedgedeploy.so"]
    assert [(o.backend, o.kernel, o.variant) for o in decode(encode(found)).ops] == [("neon", "lookup_int8", "neon")]
    assert [(t.kind, t.predicted_ns) for t in found.transitions] == [("enter", 0), ("leave", 0)], "read in place"


def test_without_kernels_neon_is_not_known() -> None:
    none = Kernels("edgedeploy.kernels/1")
    assert plan(chain("RELU"), kernels=none).ops[0].backend == "cpu"
    with pytest.raises(InputError, match="unknown back end 'neon'; here: cpu"):
        plan(chain("RELU"), kernels=none, force=("0=neon",))


def test_the_price_is_the_formula() -> None:
    """overhead + max(elements x instructions / (IPC x clock), elements x bytes / bandwidth), one thread."""
    board, core = load_board("rpi5"), load_core("cortex-a76")
    elements, cluster = SIDE * SIDE * CHANNELS, board.clusters[0]
    compute = elements * 0.75 / (core.ipc.value * cluster.clock_ghz.value * 1e3)
    memory = elements * 2.0 / (cluster.bandwidth_gb_s.value * 1e3)
    expected_us = 0.5 + max(compute, memory)
    assert op(plan(chain("RELU"), kernels=manifest())).predicted_ns == pytest.approx(expected_us * 1e3, abs=1)


def test_without_a_number_of_bytes_every_operand_is_moved_once() -> None:
    told = manifest(ops=("TANH",), dtypes=("float32",), variants={"neon": variant(0.1)})
    kernel = told.kernels[0]
    open_ended = structs.replace(kernel.variants["neon"], bytes_per_elem=None)
    free = manifest(ops=("TANH",), dtypes=("float32",), variants={"neon": open_ended})
    force = ("0=neon",)
    byte_each, all_bytes = (op(plan(chain("TANH", dtype="float32"), kernels=k, force=force)) for k in (told, free))
    assert all_bytes.predicted_ns - 500 == pytest.approx(4 * (byte_each.predicted_ns - 500), rel=0.01)


def test_threads_help_only_a_threaded_kernel() -> None:
    # Enough instructions for the arithmetic to be the limit, few enough for the kernel to be chosen.
    heavy = {"neon": variant(8.0)}
    alone = op(plan(chain("RELU"), kernels=manifest(variants=heavy), force=("0=neon",))).predicted_ns
    split = op(plan(chain("RELU"), kernels=manifest(variants=heavy, threaded=True))).predicted_ns
    assert split < 0.7 * alone
    one = op(plan(chain("RELU"), kernels=manifest(variants=heavy, threaded=True), threads=1)).predicted_ns
    assert one == alone


def test_the_best_variant_that_the_core_has_is_planned() -> None:
    both = manifest(variants={"neon": variant(4.0), "dotprod": variant(0.5, "asimd", "dotprod")})
    assert op(plan(chain("RELU"), "rpi5", both)).variant == "dotprod"
    assert op(plan(chain("RELU"), "rpi4", both)).variant == "neon"
    only = manifest(variants={"dotprod": variant(0.5, "asimd", "dotprod")})
    assert op(plan(chain("RELU"), "rpi4", only)).backend == "cpu"


def test_a_kernel_refuses_with_its_reason() -> None:
    found = plan(chain("RELU", dtype="float32"), kernels=manifest())
    [judged] = [c for c in op(found).candidates if c.backend == "neon"]
    assert (judged.verdict, judged.rule) == ("refused", "element_types")
    assert judged.reason == "input 0 is float32; lookup_int8 needs data of type int8"
    limited = manifest(require={"max_dimension": 32})
    assert op(plan(chain("RELU"), kernels=limited)).backend == "cpu"


def test_a_kernel_that_rounds_like_xnnpack_is_for_what_xnnpack_takes() -> None:
    rounding = manifest(ops=("RELU", "TANH"), numerics="xnnpack")
    found = plan(chain("RELU", "TANH"), kernels=rounding)
    judged = [next(c for c in entry.candidates if c.backend == "neon") for entry in found.ops]
    assert [(c.verdict, c.rule) for c in judged] == [("refused", "numerics"), ("supported", "row")]
    assert judged[0].reason == "it rounds as XNNPACK does, which leaves the op to the built-in kernel here"
    assert judged[0].predicted_ns is None
    off = plan(chain("TANH"), kernels=rounding, xnnpack="off")
    assert [c.rule for c in op(off).candidates if c.backend == "neon"] == ["numerics"]


def test_a_host_whose_kernel_rounds_like_xnnpack_is_one_only_where_xnnpack_takes_it() -> None:
    host = manifest(name="host", numerics="xnnpack").kernels[0]
    inside = manifest(ops=("EXP",), fusion=Fusion(("RELU", "TANH"), required=True, inputs=(0,))).kernels[0]
    kernels = Kernels("edgedeploy.kernels/1", kernels=(structs.replace(host, ops=("RELU", "TANH")), inside))
    rules = {
        code: [c.rule for c in op(plan(chain(code, "EXP"), kernels=kernels), 1).candidates if c.backend == "neon"]
        for code in ("RELU", "TANH")
    }
    assert rules == {"RELU": ["fusion"], "TANH": ["row"]}


def test_a_slow_kernel_is_left_alone() -> None:
    assert op(plan(chain("RELU"), kernels=manifest(variants={"neon": variant(500.0)}))).backend == "cpu"


def test_between_npu_segments_it_works_in_their_layout() -> None:
    """RKNN, our kernel, RKNN in one partition: no conversion to NHWC and back."""
    graph = chain("TANH", "RELU", "TANH")
    there = manifest(layouts=("NHWC", "NC1HWC2/16"))
    forced = plan(graph, "rk3588", there, force=("0=rknn", "1=neon", "2=rknn"))
    assert len(forced.partitions) == 1
    assert [s.backend for s in forced.segments] == ["rknn", "neon", "rknn"]
    assert op(forced, 1).layout == "NC1HWC2/16"
    assert [t.kind for t in forced.transitions if t.predicted_ns] == ["enter", "leave"]
    plain = plan(graph, "rk3588", manifest(), force=("0=rknn", "1=neon", "2=rknn"))
    assert op(plain, 1).layout == "NHWC"
    assert plain.predicted.latency_ns > forced.predicted.latency_ns


def test_another_layout_needs_an_npu_that_has_it() -> None:
    only = manifest(layouts=("NC1HWC2/16",))
    assert not [c for c in op(plan(chain("RELU"), "rpi5", only)).candidates if c.backend == "neon"]


def test_the_kernels_are_an_input_of_the_plan() -> None:
    slow = manifest(variants={"neon": variant(500.0)})
    hashes = {plan(chain("RELU"), kernels=k).inputs.kernels_sha256 for k in (None, manifest(), slow)}
    assert len(hashes) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('schema = "edgedeploy.kernels/2"', "schema"),
        ('schema = "edgedeploy.kernels/1"\n[[kernels]]\nname = "a"', "kernels[0].ops: missing"),
        ('schema = "edgedeploy.kernels/1"\nkernel = []', "kernel: unknown key"),
        (f"{EXAMPLE}isa = ['asimdd']\n", "variants.neon.isa: expected some of asimd, fp16"),
        (
            EXAMPLE.replace("[kernels.v", "fusion = { into = ['ABS'], inputs = [0] }\n[kernels.v") + "isa = []\n",
            "fusion: expected required = true and inputs = [0]",
        ),
    ],
)
def test_a_wrong_manifest_is_told_by_key(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "kernels.toml"
    file.write_text(text)
    with pytest.raises(ProfileError) as error:
        load_kernels(file)
    assert said in error.value.message


def test_an_op_that_does_not_exist_is_told() -> None:
    with pytest.raises(InputError) as error:
        plan(chain("RELU"), kernels=manifest(ops=("RELUU",)))
    assert error.value.message == "kernels.toml: kernel lookup_int8: TFLite has no op 'RELUU'; did you mean RELU?"


def test_a_wrong_requirement_is_told_by_kernel_file() -> None:
    with pytest.raises(InputError, match=r"^kernels\.toml: rules\[0\]\.require: no predicate 'quantized'"):
        plan(chain("RELU"), kernels=manifest(require={"quantized": True}))
