# SPDX-License-Identifier: Apache-2.0
"""The inspector against what is known of a model: from the builder, by hand, and from the file."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedeploy_agent import inspector, tflite_abi
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.read import read_bytes, read_model
from edgedeploy_partitioner.model.schema import SCHEMA
from support.random_model import random_dag
from support.runtime import executed_plan, inspect_all

EXAMPLES = Path(__file__).parents[2] / "examples"
SHAPE = (1, 6)


def chain(*codes: str) -> bytes:
    """One op after the other."""
    model = Model()
    g = model.subgraph()
    x = g.input(SHAPE)
    for code in codes:
        x = g.apply(code, [x], SHAPE)
    g.outputs(x)
    return model.build()


def branches() -> bytes:
    model = Model()
    g = model.subgraph()
    condition, x = g.input((), "bool"), g.input(SHAPE)
    g.outputs(g.apply("IF", [condition, x], SHAPE, then_subgraph_index=1, else_subgraph_index=2))
    for code in ("ABS", "NEG"):
        branch = model.subgraph(code)
        branch.outputs(branch.apply(code, [branch.input(SHAPE)], SHAPE))
    return model.build()


def endless() -> bytes:
    model = Model()
    g = model.subgraph()
    x = g.input(SHAPE)
    g.outputs(g.apply("WHILE", [x], SHAPE, cond_subgraph_index=1, body_subgraph_index=2))
    condition = model.subgraph("condition")
    condition.input(SHAPE)
    condition.outputs(condition.constant(np.array(True)))
    body = model.subgraph("body")
    body.outputs(body.apply("ABS", [body.input(SHAPE)], SHAPE))
    return model.build()


def ask(requests: list[dict[str, Any]], *arguments: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", inspector.__name__, *arguments],
        input="\n".join(map(json.dumps, requests)),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def request(model: bytes, **more: Any) -> dict[str, Any]:
    return {"base64": base64.b64encode(model).decode(), **more}


def test_without_xnnpack_the_plan_is_the_file() -> None:
    for seed in range(5):
        model = random_dag(seed, 12)
        [answer] = inspect_all([model], xnnpack=False)
        assert answer.subgraphs is not None
        subgraph = read_bytes(model).subgraphs[0]
        nodes = answer.subgraphs[0]["nodes"]
        assert [n["op"] for n in nodes] == [op.index for op in subgraph.ops]
        assert [n["code"] for n in nodes] == [getattr(SCHEMA.BuiltinOperator, op.code) for op in subgraph.ops]
        assert [tuple(n["inputs"]) for n in nodes] == [op.inputs for op in subgraph.ops]
        assert [tuple(n["outputs"]) for n in nodes] == [op.outputs for op in subgraph.ops]
        tensors = answer.subgraphs[0]["tensors"]
        for tensor, seen in zip(subgraph.tensors, tensors, strict=False):
            assert tuple(seen["shape"]) == tensor.shape
            assert seen["bytes"] == tensor.nbytes
            assert (seen["allocation"] == "mmap_ro") == tensor.is_constant


def test_tensors_that_live_together_lie_apart() -> None:
    [answer] = inspect_all([chain("ABS", "NEG", "SIGN")], xnnpack=False)
    assert answer.subgraphs is not None
    tensors = answer.subgraphs[0]["tensors"]
    for node in answer.subgraphs[0]["nodes"]:
        source, target = tensors[node["inputs"][0]], tensors[node["outputs"][0]]
        assert source["allocation"] == target["allocation"] == "arena_rw"
        first, second = sorted((source, target), key=lambda t: int(t["address"]))
        assert 0 < first["address"] <= second["address"] - first["bytes"] or first["address"] == second["address"]


def test_kernels_that_need_temporaries_have_them() -> None:
    [answer] = inspect_all([read_model(EXAMPLES / "dscnn_kws.dyn.tflite").source.tobytes()], xnnpack=False)
    assert answer.subgraphs is not None
    assert any(node["temporaries"] for node in answer.subgraphs[0]["nodes"])


def test_a_delegate_node_names_its_delegate_and_its_members() -> None:
    [answer] = inspect_all([chain("ABS", "NEG", "REVERSE_V2", "EXP")])
    assert answer.subgraphs is not None
    nodes = answer.subgraphs[0]["nodes"]
    assert [(n["name"], n["members"]) for n in nodes] == [
        ("TfLiteXNNPackDelegate", [0, 1]), ("", None), ("TfLiteXNNPackDelegate", [3]),
    ]  # fmt: skip
    assert "REVERSE_V2" in answer.failure  # it lacks an operand: claims come before that shows


def test_claims_are_made_call_by_call() -> None:
    """Worked out by hand: a call makes one node of each run of ready claimed ops; new nodes are numbered on."""
    model = chain("ABS", "NEG", "SIGN", "EXP", "SIN")
    assert executed_plan(model, [[1, 2]], xnnpack=False) == [(0, None), (5, (1, 2)), (3, None), (4, None)]
    assert executed_plan(model, [[0, 1], [3]], xnnpack=False) == [(5, (0, 1)), (2, None), (6, (3,)), (4, None)]
    assert executed_plan(model, [[0, 2]], xnnpack=False) == [(5, (0,)), (1, None), (6, (2,)), (3, None), (4, None)]
    assert executed_plan(model, [[], [0, 1, 2, 3, 4]]) == [(5, (0, 1, 2, 3, 4))]


def test_xnnpack_takes_what_claims_leave() -> None:
    assert executed_plan(chain("ABS", "NEG", "EXP"), [[1]]) == [(4, (0,)), (3, (1,)), (5, (2,))]


def test_claims_go_to_the_subgraph_that_they_name() -> None:
    [answer] = ask([request(branches(), xnnpack=False, claims={"2": [[0]]})])
    assert [[n["members"] for n in s["nodes"]] for s in answer["subgraphs"]] == [[None], [None], [[0]]]


def test_a_claim_that_the_runtime_refuses_is_an_answer() -> None:
    [answer] = ask([request(chain("ABS"), claims={"0": [[7]]})])
    assert "subgraphs" not in answer
    assert answer["refusal"] or answer["signal"]


def test_a_model_that_does_not_load_or_hangs_is_an_answer_and_the_next_is_asked() -> None:
    hangs = request(endless(), run=True, deadline_s=1)
    for batch in ("1", "10"):
        answers = ask([request(chain("ABS")), request(b"no model"), hangs, request(chain("NEG"))], "--batch", batch)
        assert ["subgraphs" in a for a in answers] == [True, False, False, True]
        assert answers[1]["refusal"]
        assert answers[2] == {"signal": "SIGALRM"}


def test_what_fails_is_compared_with_the_runtime_without_xnnpack() -> None:
    asked = [request(endless(), run=True, deadline_s=1, compare=True), request(chain("ABS"), compare=True)]
    hangs, works = ask(asked)
    assert hangs["without_xnnpack"] == {"signal": "SIGALRM"}
    assert "without_xnnpack" not in works


def test_a_foreign_abi_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tflite_abi._BYTES, tflite_abi.Node, 72)
    with pytest.raises(RuntimeError, match="Node"):
        inspector.executed_plans(object())
