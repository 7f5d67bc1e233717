# SPDX-License-Identifier: Apache-2.0
"""XNNPACK for quantised ops in a runtime that has it and does not use it by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgedeploy_partitioner.edp import EdpBackend, decode, encode, pack
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.plan import Plan
from support.delegates import Job, Ran, claims, planned, run
from support.runtimes import ROOT, other_or_skip

MODELS = {name: (ROOT / "examples" / f"{name}.tflite").read_bytes() for name in ("mnv1_025_128.int8", "dscnn_kws.int8")}


def switched(plan: Plan) -> bytes:
    """The plan, for the runtime with the switch on. The planner makes none: it has no census of what is taken then."""
    edp = decode(encode(plan))
    return pack(replace(edp, backends=(*edp.backends, EdpBackend("cpu", None, (("xnnpack", "switch"),)))))


def by_xnnpack(ran: Ran) -> list[set[int]]:
    return [set(n["members"]) for n in ran.plans[0] if "XNNPack" in n["name"]]


@pytest.mark.runtimes
@pytest.mark.parametrize("name", MODELS)
def test_it_takes_quantised_ops_that_nobody_claimed(name: str) -> None:
    runtime = other_or_skip("tflite-runtime", "2.14.0")
    model = MODELS[name]
    none = planned(model, "imx8mp", runtime=runtime, npu="none")
    some = planned(model, "imx8mp", runtime=runtime, force=("0=vx", "1=cpu", "2=vx", "3-10=cpu"))
    jobs = [Job(model), Job(model, switched(none)), Job(model, switched(some), {"threads": "2"})]
    stock, alone, beside = run(jobs, runtime)
    assert (stock.error, alone.error, beside.error) == ("", "", "")
    assert not by_xnnpack(stock)
    assert sum(map(len, by_xnnpack(alone))) > len(read_bytes(model).subgraphs[0].ops) // 2
    claimed = [set(e["planned"]) for e in (beside.report or {})["partitions"]]
    assert claimed == claims(some)
    assert [set(node) for node in beside.delegate_nodes] == claimed
    taken = by_xnnpack(beside)
    assert taken
    assert not any(ops & node for ops in claimed for node in taken)
    for ran in (alone, beside):  # XNNPACK rounds some results of quantised ops otherwise
        a, b = (r.outputs[0][0].astype(int) for r in (stock, ran))
        assert abs(a - b).max() <= 8


def test_a_runtime_that_does_not_export_it_is_told() -> None:
    model = MODELS["mnv1_025_128.int8"]
    [ran] = run([Job(model, switched(planned(model, "rpi5", npu="none")))])
    assert ran.line == (
        "the plan switches XNNPACK on, and this runtime does not export TfLiteXNNPackDelegateCreate: plan for it with"
        " --xnnpack default"
    )
