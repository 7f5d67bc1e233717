# SPDX-License-Identifier: Apache-2.0
"""What our own delegate node does: constants that it unpacks, memory, several subgraphs, threads, runs again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgedeploy_partitioner.edp import decode, encode, pack
from edgedeploy_partitioner.model.build import Model, per_channel, per_tensor
from support.delegates import Job, claims, planned, run, same, scattered
from support.random_model import random_dag
from support.runtimes import ROOT

SHAPE = (1, 5, 7, 3)


def folded_model(dtype: str, *, is_output: bool = False, twice: bool = False) -> bytes:
    """y = (x + unpacked constant) * unpacked constant; ``is_output``: the constant is a result, too."""
    random = np.random.default_rng(1)
    model = Model()
    g = model.subgraph()
    x = g.input(SHAPE, "float32")
    if dtype == "float16":
        values = np.concatenate([
            np.array([0, 1, 0x3FF, 0x400, 0x7BFF, 0x8001, 0xFBFF, 0x8000], np.uint16).view(np.float16),
            random.standard_normal(97).astype(np.float16),
        ]).reshape(SHAPE)  # fmt: skip
        packed = g.constant(values)
    else:
        quant = per_channel([0.25, 0.1, 3.0], 3) if dtype == "int8 per channel" else per_tensor(0.02, 0)
        packed = g.constant(random.integers(-128, 128, SHAPE).astype(np.int8), "int8", quant)
    weights = g.apply("DEQUANTIZE", [packed], SHAPE)
    y = g.apply("ADD", [x, weights], SHAPE)
    y = g.apply("MUL", [y, weights], SHAPE) if twice else y
    g.outputs(*([y, weights] if is_output else [y]))
    return model.build()


@pytest.mark.parametrize("dtype", ["float16", "int8", "int8 per channel"])
@pytest.mark.parametrize("twice", [True, False])
def test_a_packed_constant_is_claimed_with_its_readers_and_unpacked(dtype: str, twice: bool) -> None:
    model = folded_model(dtype, twice=twice)
    plan = planned(model, force=("1-2=neon",) if twice else ("1=neon",), xnnpack="off")
    assert claims(plan) == [{0, 1, 2} if twice else {0, 1}]
    ran, stock = run([Job(model, plan, xnnpack=False, runs=2), Job(model, xnnpack=False, runs=2)])
    assert (ran.error, ran.stderr.count("edgedeploy")) == ("", 0)
    assert same(ran.outputs, stock.outputs)
    inside = 448 if twice else 0  # 5*7*3 floats take 420 bytes; one tensor is between the two ops
    assert ran.report is not None
    assert ran.report["partitions"][0]["internal_bytes"] == (420 if inside else 0)
    assert plan.memory.delegate_internal_bytes == 420 + (420 if inside else 0)


def test_an_unpacked_constant_that_is_a_result_is_written() -> None:
    model = folded_model("float16", is_output=True)
    plan = planned(model, force=("1=neon",), xnnpack="off")
    edp = decode(encode(plan))
    both = replace(edp, ops=(replace(edp.ops[-1], index=0, segment=None, backend=None, kernel=None, variant=None,
                                     layout=None), edp.ops[-1]))  # fmt: skip
    ran, stock = run([Job(model, pack(both), xnnpack=False, runs=2), Job(model, xnnpack=False, runs=2)])
    assert ran.delegate_nodes == [[0, 1]]
    assert same(ran.outputs, stock.outputs)


def test_what_cannot_be_unpacked_is_told() -> None:
    model = Model()
    g = model.subgraph()
    x = g.input(SHAPE, "float32")
    cut = g.apply("DEQUANTIZE", [g.input(SHAPE, "float16")], SHAPE)
    g.outputs(g.apply("ADD", [x, cut], SHAPE))
    plan = decode(encode(planned(model.build(), force=("1=neon",), xnnpack="off")))
    folded = replace(plan.ops[0], index=0, segment=None, backend=None, kernel=None, variant=None, layout=None)
    [ran] = run([Job(model.build(), pack(replace(plan, ops=(folded, *plan.ops))), xnnpack=False)])
    assert ran.line == "partition 0: op 0:0: this library unpacks only what DEQUANTIZE makes of a constant"


def test_subgraphs_of_a_loop_are_claimed_and_others_left_alone() -> None:
    model = (ROOT / "examples" / "lstm_kws.fp32.tflite").read_bytes()
    plan = scattered(model, "rpi5", 1, xnnpack="off")
    claimed = {i: claims(plan, i) for i in range(3)}
    assert claimed[2]
    assert not claimed[0] or not claimed[1]
    ran, stock = run([Job(model, plan, xnnpack=False, runs=2), Job(model, xnnpack=False, runs=2)])
    assert (ran.error, "edgedeploy" in ran.stderr) == ("", False)
    assert ran.report is not None
    assert {e["subgraph"] for e in ran.report["partitions"]} == {i for i, found in claimed.items() if found}
    assert all([sorted(n) for n in e["delegate_nodes"]] == [sorted(e["planned"])] for e in ran.report["partitions"])
    assert same(ran.outputs, stock.outputs)


def branches() -> bytes:
    """y = relu(x) or -x, by a condition; then -y + y by a loop of three turns. Each branch and body reads its input."""
    model = Model()
    main, yes, no, again, turn = (model.subgraph(name) for name in ("main", "yes", "no", "again", "turn"))
    flag, x, count = main.input((), "bool"), main.input(SHAPE), main.constant(np.array(0, np.int32))
    y = main.apply("IF", [flag, x], SHAPE, then_subgraph_index=1, else_subgraph_index=2)
    results = [main.tensor((), "int32"), main.tensor(SHAPE)]
    main.op("WHILE", [count, y], results, cond_subgraph_index=3, body_subgraph_index=4)
    main.outputs(results[1])
    yes.outputs(yes.apply("RELU", [yes.input(SHAPE)], SHAPE))
    no.outputs(no.apply("NEG", [no.input(SHAPE)], SHAPE))
    i = again.input((), "int32")
    again.input(SHAPE)
    again.outputs(again.apply("LESS", [i, again.constant(np.array(3, np.int32))], (), "bool"))
    i, z = turn.input((), "int32"), turn.input(SHAPE)
    next_i = turn.apply("ADD", [i, turn.constant(np.array(1, np.int32))], (), "int32")
    turn.outputs(next_i, turn.apply("ADD", [turn.apply("NEG", [z], SHAPE), z], SHAPE))
    return model.build()


@pytest.mark.parametrize("force", [("1:0=neon", "2:0=neon"), ("4:1-2=neon",), ("4:2=neon",)])
def test_what_the_caller_lends_a_branch_or_a_body_is_read(force: tuple[str, ...]) -> None:
    model = branches()
    plan = planned(model, force=force, xnnpack="off")
    jobs = [Job(model, p, xnnpack=False, runs=2, seed=seed) for seed in range(4) for p in (plan, None)]
    ran = run(jobs)
    assert [(r.error, "edgedeploy" in r.stderr) for r in ran] == [("", False)] * len(ran)
    assert all(same(ours.outputs, stock.outputs) for ours, stock in zip(ran[::2], ran[1::2], strict=True))


def test_any_number_of_threads_gives_the_same_bits() -> None:
    model = random_dag(77, 30, "float32")
    plan = scattered(model, "rpi5", 77, xnnpack="off")
    counts = ("1", "2", "3", "4", "7", "16")
    ran = run([Job(model, plan, {"threads": n}, xnnpack=False, runs=3) for n in counts])
    assert all(r.error == "" for r in ran)
    assert all(same(r.outputs, ran[0].outputs) for r in ran)


def test_a_graph_with_dynamic_tensors_runs() -> None:
    """Dynamic tensors elsewhere in the graph do not keep the plan from being carried out."""
    model = Model()
    g = model.subgraph()
    x = g.input((4, 4), "float32")
    y = g.apply("ABS", [x], (4, 4))
    times = g.apply("MAXIMUM", [g.input((2,), "int32"), g.constant(np.ones(2, np.int32))], (2,), "int32")
    tiled = g.apply("TILE", [y, times], (4, 4))
    g.outputs(g.apply("NEG", [y], (4, 4)), tiled)
    plan = planned(model.build(), force=("0=neon", "3=neon"), xnnpack="off")
    ran, stock = run([Job(model.build(), plan, xnnpack=False, runs=3), Job(model.build(), xnnpack=False, runs=3)])
    assert (ran.error, sorted(map(sorted, ran.delegate_nodes))) == ("", sorted(map(sorted, claims(plan))))
    assert same(ran.outputs, stock.outputs)
