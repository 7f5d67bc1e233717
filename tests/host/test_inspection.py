# SPDX-License-Identifier: Apache-2.0
"""Facts of models that were built for it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from edgedeploy.__main__ import main
from edgedeploy.api import find_runtime
from edgedeploy.inspection import inspect
from edgedeploy_partitioner.model.build import Model, per_tensor
from edgedeploy_partitioner.model.facts.finding import counted
from edgedeploy_partitioner.model.read import read_bytes


def test_a_decomposition_is_counted_by_its_composites() -> None:
    model = Model()
    g = model.subgraph()
    x = g.input((2, 3))
    for _ in range(2):
        x = g.apply("STABLEHLO_COMPOSITE", [x], (2, 3), name="c", decomposition_subgraph_index=1)
    g.outputs(x)
    outer = model.subgraph("outer")
    a = outer.input((2, 3))
    outer.outputs(outer.apply("STABLEHLO_COMPOSITE", [a], (2, 3), name="d", decomposition_subgraph_index=2))
    inner = model.subgraph("inner")
    b = inner.input((2, 3))
    w = inner.constant(np.zeros((3, 3), np.float32))
    inner.outputs(inner.apply("FULLY_CONNECTED", [b, w, -1], (2, 3)))
    facts = inspect(read_bytes(model.build()), "m", find_runtime(None))
    assert [[op.macs for op in sub.ops] for sub in facts.subgraphs] == [[18, 18], [18], [18]]
    assert facts.macs == 2 * 18


@pytest.mark.parametrize("scale", [math.nan, math.inf, -math.inf])
def test_a_scale_that_is_no_number_is_null(tmp_path: Path, capsys: pytest.CaptureFixture[str], scale: float) -> None:
    model = Model()
    g = model.subgraph()
    x = g.input((1, 4), "int8", per_tensor(scale))
    g.outputs(g.apply("RELU", [x], (1, 4), "int8", per_tensor(0.5)))
    (tmp_path / "m.tflite").write_bytes(model.build())
    assert main(["inspect", str(tmp_path / "m.tflite"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    op = facts["subgraphs"][0]["ops"][0]
    assert [t["quantization"]["scale"] for t in (*op["inputs"], *op["outputs"])] == [None, 0.5]
    assert "bad_scale" in [finding["code"] for finding in facts["oddities"]]
    assert main(["inspect", str(tmp_path / "m.tflite")]) == 0
    assert "above 0 and finite" in capsys.readouterr().out


def test_repeats_are_counted_in_ascii() -> None:
    assert counted(["Mul", "Add", "Mul"]) == "Mul x2, Add"
