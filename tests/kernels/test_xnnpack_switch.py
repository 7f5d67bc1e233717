# SPDX-License-Identifier: Apache-2.0
"""XNNPACK for quantised ops in a runtime that has it and does not use it by itself."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from edgedeploy.measure.claims import claims as claims_made
from edgedeploy.measure.claims import read_report
from edgedeploy_partitioner.edp import EdpBackend, decode, encode, pack
from edgedeploy_partitioner.plan import Plan
from support.delegates import Job, Ran, planned, run
from support.runtimes import SWITCHED, Runtime, other_or_skip
from support.scenes import EXAMPLES, Scene, check_claims, random_scenes

QUANTISED = ("mnv1_025_128.int8.tflite", "dscnn_kws.int8.tflite")


@pytest.fixture
def runtime() -> Runtime:
    return other_or_skip(*SWITCHED[:2])


def check(scenes: list[Scene], runtime: Runtime, threads: int = 1) -> list[Ran]:
    """The runtime executes what each plan says, and the library's report has what XNNPACK took of it."""
    found = run([Job(s.model, s.plan, {"threads": str(threads)}, threads=threads) for s in scenes], runtime)
    for scene, ran in zip(scenes, found, strict=True):
        check_claims(scene, ran)
        told = claims_made({"report": read_report(json.dumps(ran.report))}, scene.plan)
        assert told is not None
        assert told.differences == (), scene.name
    return found


@pytest.mark.runtimes
@pytest.mark.parametrize("threads", [1, 4])
def test_examples_run_as_planned(threads: int, runtime: Runtime) -> None:
    plans = {name: planned(m, "rpi5", runtime=runtime, xnnpack="switch", npu="none") for name, m in EXAMPLES.items()}
    check([Scene(name, EXAMPLES[name], plan) for name, plan in plans.items()], runtime, threads)
    for name in QUANTISED:
        taken = [op.kernel for op in plans[name].ops].count("xnnpack")
        assert taken > len(plans[name].ops) // 2
        assert "xnnpack" not in {op.kernel for op in planned(EXAMPLES[name], runtime=runtime).ops}


@pytest.mark.runtimes
def test_random_graphs_run_as_planned_beside_other_claims(runtime: Runtime) -> None:
    check(random_scenes(range(4000, 4040), runtime, xnnpack="switch"), runtime)


@pytest.mark.runtimes
@pytest.mark.parametrize("name", QUANTISED)
def test_results_are_near_those_of_the_builtin_kernels(name: str, runtime: Runtime) -> None:
    model = EXAMPLES[name]
    force = ("0=vx", "1=cpu", "2=vx", "3-10=cpu")
    some = planned(model, "imx8mp", runtime=runtime, force=force, xnnpack="switch")
    none = planned(model, "imx8mp", runtime=runtime, npu="none", xnnpack="switch")
    stock, alone, beside = run([Job(model), Job(model, none), Job(model, some, {"threads": "2"})], runtime)
    assert (stock.error, alone.error, beside.error) == ("", "", "")
    for ran in (alone, beside):  # XNNPACK rounds some results of quantised ops otherwise
        a, b = (r.outputs[0][0].astype(int) for r in (stock, ran))
        assert abs(a - b).max() <= 8


def test_a_runtime_that_does_not_export_it_is_told() -> None:
    model = EXAMPLES[QUANTISED[0]]
    [ran] = run([Job(model, switched(planned(model, "rpi5", npu="none")))])
    assert ran.line == (
        "the plan switches XNNPACK on, and this runtime does not export TfLiteXNNPackDelegateCreate: plan for it with"
        " --xnnpack default"
    )


def switched(plan: Plan) -> bytes:
    """The plan with the switch on, which the planner makes for no runtime of this environment."""
    edp = decode(encode(plan))
    return pack(replace(edp, backends=(*edp.backends, EdpBackend("cpu", None, (("xnnpack", "switch"),)))))
