# SPDX-License-Identifier: Apache-2.0
"""Stock delegates, held to what the plan gives them; a stand-in plays the vendor's library, well and badly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgedeploy_partitioner.edp import Edp, decode, encode, pack
from edgedeploy_partitioner.model.read import read_bytes
from support.delegates import Job, Ran, planned, run, same
from support.runtimes import ROOT

MODEL = (ROOT / "examples" / "dscnn_kws.int8.tflite").read_bytes()
[INPUT] = read_bytes(MODEL).subgraphs[0].inputs
PLAN = planned(MODEL, "imx8mp", force=("0-3=vx", "4-5=cpu", "6-7=vx", "8-9=cpu", "10=vx"), xnnpack="off")


def with_options(plan: Edp, **options: str) -> Edp:
    """What the stand-in is told, through the plan as a vendor's options are."""
    backends = tuple(replace(b, options=tuple(sorted(options.items()))) if b.name == "vx" else b for b in plan.backends)
    return replace(plan, backends=backends)


def carry_out(*behaviours: str, strict: bool = False) -> list[Ran]:
    options = {"strict": "1"} if strict else {}
    plans = [pack(with_options(decode(encode(PLAN)), **({"behave": b} if b else {}))) for b in behaviours]
    return run([Job(MODEL, plan, options, xnnpack=False) for plan in plans])


def test_one_instance_is_asked_once_a_partition_and_sees_nothing_else(tmp_path: Path) -> None:
    log = tmp_path / "log"
    [ran] = run([Job(MODEL, pack(with_options(decode(encode(PLAN)), log=str(log))), xnnpack=False)])
    assert (ran.error, ran.signal) == ("", 0)
    assert log.read_text().splitlines() == ["0: 0 1 2 3", "0: 6 7", "0: 10"]
    assert ran.delegate_nodes == [[0, 1, 2, 3], [6, 7], [10]]


def test_the_outputs_stay_what_they_are_whatever_it_claims() -> None:
    [stock] = run([Job(MODEL, xnnpack=False)])
    for ran in carry_out("", "nothing", "first", "twice", "greedy"):
        assert ran.error == ""
        assert same(ran.outputs, stock.outputs)


def warnings(ran: Ran) -> list[str]:
    said = "edgedeploy: warning: "
    return [line.removeprefix(said) for line in ran.stderr.splitlines() if line.startswith(said)]


def planned_and_got(ran: Ran) -> list[list[list[int]]]:
    assert ran.report is not None
    return [entry["delegate_nodes"] for entry in ran.report["partitions"]]


def test_it_claims_nothing() -> None:
    [ran] = carry_out("nothing")
    assert planned_and_got(ran) == [[], [], []]
    assert warnings(ran) == [
        f"partition {id_} of subgraph 0: planned one delegate node of ops {ops}; got none"
        for id_, ops in zip((p.id for p in PLAN.partitions), ("0-3", "6-7", "10"), strict=True)
    ]


def test_it_claims_a_part() -> None:
    [ran] = carry_out("first")
    assert planned_and_got(ran) == [[[0]], [[6]], [[10]]]
    assert warnings(ran) == [
        "partition 0 of subgraph 0: planned one delegate node of ops 0-3; got 1: 0; left to others: 1-3",
        "partition 1 of subgraph 0: planned one delegate node of ops 6-7; got 1: 6; left to others: 7",
    ]


def test_it_claims_in_two_calls() -> None:
    [ran] = carry_out("twice")
    assert planned_and_got(ran) == [[[0, 1], [2, 3]], [[6], [7]], [[10]]]
    assert warnings(ran)[0] == "partition 0 of subgraph 0: planned one delegate node of ops 0-3; got 2: 0-1 and 2-3"


def test_what_it_claims_beyond_its_partition_is_not_given() -> None:
    [ran] = carry_out("greedy")
    assert planned_and_got(ran) == [[[0, 1, 2, 3]], [[6, 7]], [[10]]]
    assert warnings(ran) == []


def test_it_fails() -> None:
    [ran] = carry_out("fail")
    assert ran.line == "libvx_delegate.so failed to claim its ops (status 1)"


@pytest.mark.parametrize("behaviour", ["nothing", "first", "twice"])
def test_strict_makes_a_difference_an_error(behaviour: str) -> None:
    [mild] = carry_out(behaviour)
    [strict] = carry_out(behaviour, strict=True)
    assert "Restored original execution plan" in strict.error
    said = [line.removeprefix("edgedeploy: ") for line in strict.error.splitlines() if "partition" in line]
    assert said == warnings(mild)
    assert strict.report == mild.report


def test_it_makes_no_delegate() -> None:
    [ran] = run([Job(MODEL, pack(with_options(decode(encode(PLAN)), nonsense="1")))])
    assert "stand-in: unknown option" in ran.error
    assert "edgedeploy: libvx_delegate.so made no delegate" in ran.error


def test_a_graph_is_frozen_for_a_delegate_that_wants_fixed_shapes() -> None:
    """Without the flag for dynamic tensors the runtime applies the plan anew to other shapes, which it is not for."""
    edp = pack(with_options(decode(encode(PLAN)), flags="0"))
    ran, resized = run([Job(MODEL, edp, xnnpack=False), Job(MODEL, edp, xnnpack=False, resize={INPUT: (2, 49, 10, 1)})])
    assert (ran.error, ran.delegate_nodes) == ("", [[0, 1, 2, 3], [6, 7], [10]])
    assert "the plan is for another model: subgraph 0 differs" in resized.error
