# SPDX-License-Identifier: Apache-2.0
"""``--signature`` and ``--input-shape`` of ``bench`` and ``verify``: what runs, is predicted, and is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedeploy import api
from edgedeploy.__main__ import main
from edgedeploy.bundle import write_bundle
from edgedeploy_partitioner.model.build import Model
from support.entries import DEPTH, two_signatures

EXAMPLES = Path(__file__).parents[2] / "examples"
KWS = EXAMPLES / "dscnn_kws.int8.tflite"
ON = ("--on", "local")
FEW = ("--runs", "3", "--threads", "1")


@pytest.fixture(autouse=True)
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return written(tmp_path / "two.tflite", two_signatures())


def written(path: Path, model: Model) -> Path:
    path.write_bytes(model.build())
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any, str]:
    """Exit code, the JSON or what was printed, and what was said."""
    code = main([*map(str, arguments)])
    shown = capsys.readouterr()
    return code, json.loads(shown.out) if "--json" in arguments and shown.out else shown.out, shown.err


def test_a_signature_is_measured_and_predicted(capsys: pytest.CaptureFixture[str], two: Path) -> None:
    for key, rows in (("double", 1), ("triple", 2)):
        code, found, err = run(capsys, "bench", two, *ON, *FEW, "--signature", key, "--json")
        assert (code, err) == (0, "")
        assert found["signature"] == key
        assert found["inputs"] == [{"name": f"{key}_x", "dtype": "float32", "shape": [rows, DEPTH], "open": True}]
        plan = api.partition(two, "local", npu="none", threads=1, signature=key)
        assert found["predicted"]["peak_bytes"] == plan.memory.peak_bytes
        code, verified, err = run(capsys, "verify", two, *ON, "--signature", key, "--json")
        assert (code, err) == (0, "")
        [output] = verified["references"][0]["outputs"]
        assert (output["name"], output["shape"]) == (f"{key}_y", [rows, DEPTH])


def test_a_shape_is_measured_and_predicted(capsys: pytest.CaptureFixture[str], two: Path) -> None:
    peaks = []
    for name, rows in (("x", 100), ("triple_x", 3000), ("0", 7)):
        asked = ("--signature", "triple", "--input-shape", f"{name}={rows},{DEPTH}", "--json")
        code, found, err = run(capsys, "bench", two, *ON, *FEW, *asked)
        assert (code, err) == (0, "")
        assert found["inputs"] == [{"name": "triple_x", "dtype": "float32", "shape": [rows, DEPTH], "open": False}]
        shapes = {name: (rows, DEPTH)}
        plan = api.partition(two, "local", npu="none", threads=1, signature="triple", input_shapes=shapes)
        assert found["predicted"]["peak_bytes"] == plan.memory.peak_bytes
        peaks.append(plan.memory.peak_bytes)
        code, verified, err = run(capsys, "verify", two, *ON, *asked)
        assert (code, err) == (0, "")
        assert verified["references"][0]["outputs"][0]["shape"] == [rows, DEPTH]
    assert len(set(peaks)) == 3


def test_the_arena_measured_is_that_of_the_shape(capsys: pytest.CaptureFixture[str]) -> None:
    name = api.read_model(KWS).subgraphs[0].tensors[api.read_model(KWS).subgraphs[0].inputs[0]].name
    asked = ("--input-shape", f"{name}=3,49,10,1")
    code, found, _ = run(capsys, "bench", KWS, *ON, *FEW, *asked, "--memory", "--json")
    plan = api.partition(KWS, "local", npu="none", threads=1, input_shapes={name: (3, 49, 10, 1)})
    assert (code, found["memory"]["arena_bytes"]) == (0, plan.memory.arena_bytes)
    assert plan.memory.arena_bytes > api.partition(KWS, "local", npu="none", threads=1).memory.arena_bytes


def test_given_inputs_bring_their_shapes(capsys: pytest.CaptureFixture[str], two: Path, tmp_path: Path) -> None:
    values: dict[str, Any] = {"double_x": np.ones((9, DEPTH), np.float32)}
    np.savez(tmp_path / "in.npz", **values)
    given = ("--signature", "double", "--inputs", tmp_path / "in.npz")
    code, found, _ = run(capsys, "bench", two, *ON, *FEW, *given, "--json")
    plan = api.partition(two, "local", npu="none", threads=1, signature="double", input_shapes={"double_x": (9, DEPTH)})
    assert (code, found["inputs"][0]["shape"]) == (0, [9, DEPTH])
    assert found["predicted"]["peak_bytes"] == plan.memory.peak_bytes
    code, verified, _ = run(capsys, "verify", two, *ON, *given, "--json")
    assert (code, verified["references"][0]["outputs"][0]["shape"]) == (0, [9, DEPTH])
    for command in ("bench", "verify"):
        code, out, err = run(capsys, command, two, *ON, *given, "--input-shape", f"x=8,{DEPTH}")
        assert (code, out) == (2, "")
        assert "--inputs: 'double_x' has the shape [9, 4], --input-shape says [8, 4]" in err


def test_reports_say_the_entry_point_and_the_shapes(capsys: pytest.CaptureFixture[str], two: Path) -> None:
    for command, more in (("bench", FEW), ("verify", ())):
        code, out, _ = run(capsys, command, two, *ON, *more, "--signature", "triple")
        assert code == 0
        assert "signature triple\ninput triple_x in the shape 2x4: the file leaves ?x4 open" in out
        code, out, _ = run(capsys, command, two, *ON, *more, "--signature", "triple", "--input-shape", "0=3,4")
        assert "input triple_x in the shape 3x4, as asked" in out
        assert "signature" not in run(capsys, command, KWS, *ON, *more)[1]


@pytest.mark.parametrize("command", ["bench", "verify"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "the model has several signatures: choose one with --signature: 'double', 'triple'"),
        (("--signature", "half"), "--signature 'half': the model has 'double', 'triple'"),
        (("--signature", "double", "--input-shape", "z=1,4"), "'z' is no input of this model"),
        (("--signature", "double", "--input-shape", "x=1,5"), "5 elements cannot be rows of 4"),
        (("--signature", "double", "--input-shape", "x=0,4"), "every size must be 1 to"),
        (("--signature", "double", "--input-shape", "x"), "is not NAME=1,224,224,3"),
    ],
)
def test_what_cannot_be_exits_2(
    command: str, arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str], two: Path
) -> None:
    code, out, err = run(capsys, command, two, *ON, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_a_bundle_runs_as_planned(capsys: pytest.CaptureFixture[str], two: Path, tmp_path: Path) -> None:
    graph = api.read_model(two)
    plan = api.partition(graph, "local", npu="none", signature="triple", input_shapes={"x": (6, DEPTH)})
    write_bundle(plan, api.shipped_model(plan, graph), tmp_path / "bundle", overwrite=False)
    code, found, _ = run(capsys, "bench", tmp_path / "bundle", *ON, *FEW, "--json")
    assert (code, found["signature"], found["inputs"][0]["shape"]) == (0, "triple", [6, DEPTH])
    assert found["predicted"]["peak_bytes"] == plan.memory.peak_bytes
    np.savez(tmp_path / "in.npz", triple_x=np.ones((5, DEPTH), np.float32))
    for arguments, words in (
        (("--signature", "double"), "--signature: "),
        (("--input-shape", "x=1,4"), "runs as it was planned: plan it again"),
        (("--inputs", tmp_path / "in.npz"), "the bundle was planned for [6, 4]"),
    ):
        code, out, err = run(capsys, "verify", tmp_path / "bundle", *ON, *arguments)
        assert (code, out, words in err, err.count("\n")) == (2, "", True, 1)


def test_a_refusal_of_an_open_shape_says_what_to_do(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = Model()
    g = model.subgraph()
    x = g.input((1, 6), name="x", signature=(-1, 6))
    g.outputs(g.apply("RESHAPE", [x, g.constant(np.array([4, 3], np.int32))], (4, 3)))
    path = written(tmp_path / "m.tflite", model)
    code, out, err = run(capsys, "bench", path, *ON)
    assert (code, out, err.count("\n")) == (6, "", 1)
    assert "was refused" in err
    assert "its file leaves the shape of 'x' open: --input-shape sets it" in err
    assert run(capsys, "verify", path, *ON, "--input-shape", "x=2,6")[0] == 0
