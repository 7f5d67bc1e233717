# SPDX-License-Identifier: Apache-2.0
"""``bench`` and ``verify`` of a bundle whose plan claims ops: libedgedeploy.so carries it out, and that is told."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import edgedeploy_kernels
from edgedeploy import api
from edgedeploy.__main__ import main
from edgedeploy.bundle import write_bundle
from edgedeploy.measure.claims import Claims, claims, read_report, runtime_json
from edgedeploy_partitioner import edp
from edgedeploy_partitioner.plan import Plan
from support.delegates import library_with_test_kernels, scattered
from support.random_model import random_dag
from support.runtimes import ROOT

MODEL = random_dag(12, 20, "float32")


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # the lock of this machine's agents is there
    monkeypatch.setattr(edgedeploy_kernels, "library", library_with_test_kernels)
    plan = scattered(MODEL, "local", 12)
    folder = tmp_path / "bundle"
    assert write_bundle(plan, MODEL, folder, overwrite=False).manifest.runnable
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([*map(str, arguments)])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_a_bundle_with_claims_is_measured_as_planned(capsys: pytest.CaptureFixture[str], bundle: Path) -> None:
    partitions = len(edp.decode((bundle / "plan.edp").read_bytes()).partitions)
    assert partitions
    code, out, err = run(capsys, "bench", bundle, "--on", "local", "--runs", 6, "--json")
    assert (code, err) == (0, "")
    expected = {"library": "libedgedeploy.so", "partitions": partitions, "as_planned": True, "differences": []}
    assert json.loads(out)["runtime"]["delegates"] == [expected]
    code, out, _ = run(capsys, "bench", bundle, "--on", "local", "--runs", 6)
    assert code == 0
    assert "run as planned" in out


def test_a_bundle_with_claims_computes_what_the_kernels_do(capsys: pytest.CaptureFixture[str], bundle: Path) -> None:
    code, out, err = run(capsys, "verify", bundle, "--on", "local", "--json")
    found = json.loads(out)
    assert (code, err, found["ok"]) == (0, "", True)
    assert found["runtime"]["delegates"][0]["as_planned"]
    assert "delegates" not in found["references"][0]["runtime"], "the reference runs without the plan"
    assert "run as planned" in run(capsys, "verify", bundle, "--on", "local")[1]


def test_what_the_library_refuses_is_a_model_that_failed(capsys: pytest.CaptureFixture[str], bundle: Path) -> None:
    whole = bytearray((bundle / "plan.edp").read_bytes())
    whole[-1] ^= 1
    (bundle / "plan.edp").write_bytes(whole)
    code, out, err = run(capsys, "bench", bundle, "--on", "local")
    assert (code, out) == (6, "")
    assert "wrong checksum, the file is damaged; copy it again" in err
    assert len(err.splitlines()) == 1
    assert not [path for path in bundle.parent.iterdir() if path.name.startswith("edgedeploy-")]


def test_a_library_for_another_machine_is_told(capsys: pytest.CaptureFixture[str], bundle: Path) -> None:
    here = {62: "x86_64", 183: "aarch64"}
    library = bundle / "libedgedeploy.so"
    data = bytearray(library.read_bytes())
    other = next(number for number in here if number != data[18])
    data[18] = other
    library.write_bytes(data)
    for command in ("bench", "verify"):
        code, out, err = run(capsys, command, bundle, "--on", "local")
        assert (code, out) == (6, "")
        assert f"libedgedeploy.so is for {here[other]}, and this machine is {os.uname().machine}" in err
        assert "No such file" not in err


def test_differences_from_the_plan_are_told() -> None:
    some = scattered(MODEL, "rpi5", 12)
    assert claims({}, some) is None
    assert claims({"report": read_report(report(some))}, None) is None
    entries = json.loads(report(some))["partitions"]
    assert claims({"report": read_report(report(some))}, some) == Claims(len(entries), ())
    entries[0]["delegate_nodes"] = []
    first, last = sorted(entries[1]["planned"])[0], sorted(entries[1]["planned"])[-1]
    entries[1]["delegate_nodes"] = [[first], [last]]
    changed = read_report(json.dumps({"schema": "edgedeploy.report/1", "partitions": entries}))
    told = claims({"report": changed}, some)
    assert told is not None
    assert [line.partition(":")[0] for line in told.differences] == [f"partition {e['id']}" for e in entries[:2]]
    assert told.differences[0].endswith("in one node, the runtime has nothing")
    assert told.differences[1].endswith(f"the runtime has {first} and {last}")
    encoded = runtime_json({"name": "r", "report": changed}, some)
    assert (encoded["name"], encoded["delegates"][0]["as_planned"]) == ("r", False)
    assert "report" not in encoded


def test_what_xnnpack_takes_otherwise_once_it_is_switched_on_is_told() -> None:
    plan = api.partition(
        ROOT / "examples" / "dscnn_kws.fp16.tflite", "rpi5", runtime="tflite-runtime==2.14.0", xnnpack="switch"
    )
    nodes = [[op.index for op in plan.ops if op.partition == p.id] for p in plan.partitions if p.delegate == "xnnpack"]
    folded = [op.index for op in plan.ops if op.folded]
    assert nodes
    assert folded
    taken = {"schema": "edgedeploy.report/1", "partitions": json.loads(report(plan))["partitions"]}

    def told(found: list[list[int]]) -> tuple[str, ...]:
        made = {**taken, "xnnpack": [{"subgraph": 0, "delegate_nodes": found}]}
        result = claims({"report": read_report(json.dumps(made))}, plan)
        assert result is not None
        return result.differences

    assert told(nodes) == ()
    assert told([[op for op in node if op not in folded] for node in nodes] + [folded[:1]]) == ()
    [line] = told([nodes[0][:-1], *nodes[1:]])
    assert line.startswith("XNNPACK: planned nodes of ops ")
    [line] = told([])
    assert line.endswith("the runtime has nothing")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": "edgedeploy.report/2", "partitions": []}',
                                  '{"schema": "edgedeploy.report/1", "partitions": [{"id": 1}]}'])  # fmt: skip
def test_a_report_of_anything_else_is_not_understood(text: str) -> None:
    with pytest.raises(ValueError):
        read_report(text)


def report(plan: Plan) -> str:
    """As of a runtime that did what it should."""
    found = edp.select(plan)
    return json.dumps({
        "schema": "edgedeploy.report/1",
        "partitions": [
            {"id": p.id, "planned": ops, "delegate_nodes": [ops]}
            for p in found.partitions
            for ops in [[op.index for op in found.ops if op.partition == p.id]]
        ]
    })  # fmt: skip
