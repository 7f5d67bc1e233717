# SPDX-License-Identifier: Apache-2.0
"""XNNPACK for quantised ops in a runtime that has it and does not use it by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgedeploy_partitioner.edp import EdpBackend, decode, encode, pack
from edgedeploy_partitioner.model.read import read_bytes
from support.delegates import Job, executed, planned, run, steps
from support.runtimes import ROOT, other_or_skip

MODELS = {
    name: (ROOT / "examples" / f"{name}.tflite").read_bytes()
    for name in ("mnv1_025_128.int8", "dscnn_kws.fp32", "tfmr_64x128.int8")
}


@pytest.mark.runtimes
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("claimed", [True, False])
def test_it_takes_what_the_plan_says_after_the_claims(name: str, claimed: bool) -> None:
    runtime = other_or_skip("tflite-runtime", "2.14.0")
    model, graph = MODELS[name], read_bytes(MODELS[name])
    force = ("0-3=vx",) if claimed and "int8" in name else ()
    plan = planned(model, "imx8mp", runtime=runtime, xnnpack="switch", force=force, npu=None if force else "none")
    assert any(p.delegate == "xnnpack" for p in plan.partitions)
    ran, without = run([Job(model, plan, {"threads": "2"}), Job(model, xnnpack=False)], runtime)
    assert (ran.error, without.error) == ("", "")
    assert executed(ran, graph) == steps(plan, graph)
    assert not any("XNNPack" in node["name"] for node in without.plans[0])


def test_a_runtime_that_does_not_export_it_is_told() -> None:
    model = MODELS["mnv1_025_128.int8"]
    edp = decode(encode(planned(model, "rpi5", npu="none")))
    switched = replace(edp, backends=(*edp.backends, EdpBackend("cpu", None, (("xnnpack", "switch"),))))
    [ran] = run([Job(model, pack(switched))])
    assert ran.line == (
        "the plan switches XNNPACK on, and this runtime does not export TfLiteXNNPackDelegateCreate: plan for it with"
        " --xnnpack default"
    )
