# SPDX-License-Identifier: Apache-2.0
"""Times of what the runtime executes: each unit is there once, with its ops and calls; no test is timed."""

from __future__ import annotations

from typing import Any

import pytest

from edgedeploy_partitioner.model.read import read_bytes
from support.delegates import Job, planned, run, same, scattered
from support.random_model import random_dag
from support.runtimes import HERE, ROOT, Runtime, other_or_skip

KERNEL, PARTITION, OPERATOR = 0, 1, 2
RUNS = 3


def example(name: str) -> bytes:
    return (ROOT / "examples" / f"{name}.tflite").read_bytes()


def timed(
    model: bytes, plan: Any, *, xnnpack: bool = True, runtime: Runtime = HERE
) -> tuple[Any, list[dict[str, Any]]]:
    job = Job(model, plan, {"times": "1"}, xnnpack=xnnpack, runs=RUNS, times=2)
    ran, plain = run([job, Job(model, plan, xnnpack=xnnpack, runs=RUNS)], runtime)
    assert (ran.error, plain.error) == ("", "")
    assert same(ran.outputs, plain.outputs), "timing changes no output"
    begun, times, after, gone = ran.times
    assert (begun, after) == (0, 0), "the first call begins, and what was given is not given again"
    assert gone, "what ran before the interpreter ended is still given"
    assert {t["node"] for t in gone} == {t["node"] for t in times}
    return ran, times


def check_units(ran: Any, times: list[dict[str, Any]]) -> None:
    """One unit for each node of the execution plan of the main subgraph, with its members."""
    nodes = {n["op"]: n for n in ran.plans[0] if n["outputs"]}
    units = {t["node"]: t for t in times if t["subgraph"] == 0 and t["unit"] != OPERATOR}
    assert units.keys() == nodes.keys()
    for number, unit in units.items():
        members = nodes[number]["members"]
        assert unit["ops"] == (list(members) if members is not None else [number])
        assert unit["unit"] == (KERNEL if members is None else PARTITION)
        assert unit["calls"] == RUNS
        assert unit["shortest_ns"] > 0


@pytest.mark.parametrize("seed", range(6))
def test_every_node_is_timed(seed: int) -> None:
    model = random_dag(seed, 24, "int8" if seed % 2 else "float32")
    plan = scattered(model, "imx8mp" if seed % 2 else "rpi5", seed)
    check_units(*timed(model, plan))


def check_operators(model: bytes, times: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Operators of an XNNPACK node cover its ops, in order, and nothing else; returns them."""
    folded = read_bytes(model).subgraphs[0].folded
    found = [t for t in times if t["unit"] == OPERATOR and t["subgraph"] == 0]
    for partition in (t for t in times if t["unit"] == PARTITION and t["name"] == b"TfLiteXNNPackDelegate"):
        mine = [t for t in found if t["node"] == partition["node"]]
        assert [t["position"] for t in mine] == list(range(len(mine)))
        covered = [op for t in mine for op in t["ops"]]
        order = [op for op in partition["ops"] if op not in folded]
        if partition["subgraph"] == 0 and mine:
            assert set(covered) == set(order)
            places = [order.index(op) for t in mine for op in t["ops"][:1]]
            assert places == sorted(places)
    return found


SAME = {
    "CONV_2D": ("Convolution", "Fully Connected"), "DEPTHWISE_CONV_2D": ("Convolution",), "MEAN": ("Mean",),
    "FULLY_CONNECTED": ("Fully Connected", "Static Reshape"), "SOFTMAX": ("Softmax",), "ADD": ("Add",),
    "MUL": ("Multiply",), "TRANSPOSE": ("Transpose",), "MAX_POOL_2D": ("Max Pooling",), "RESHAPE": ("Static Reshape",),
}  # fmt: skip


@pytest.mark.parametrize("name", ["dscnn_kws.fp32", "dscnn_kws.fp16", "mnv1_025_128.int8", "tfmr_64x128.int8"])
def test_operators_of_xnnpack_are_the_ops_that_their_names_say(name: str) -> None:
    model = example(name)
    graph = read_bytes(model)
    ran, times = timed(model, planned(model, "rpi5", npu="none"))
    check_units(ran, times)
    checked = 0
    for t in check_operators(model, times):
        codes = [graph.subgraphs[0].ops[op].code for op in t["ops"]]
        if len(codes) == 1 and codes[0] in SAME:
            assert t["name"].decode().startswith(SAME[codes[0]]), (t["name"], codes)
            checked += 1
    assert checked >= 10


def test_a_loop_is_timed_without_what_it_calls() -> None:
    model = example("lstm_kws.fp32")
    ran, times = timed(model, planned(model, "rpi5"), xnnpack=False)
    main = read_bytes(model).subgraphs[0]
    [loop] = [op.index for op in main.ops if op.code == "WHILE"]
    [unit] = [t for t in times if (t["subgraph"], t["node"]) == (0, loop)]
    body = [t for t in times if t["subgraph"] == 2]
    assert all(t["calls"] == body[0]["calls"] > 10 * RUNS for t in body)
    whole = sum(t["total_ns"] for t in times if t["subgraph"])
    assert sum(t["total_ns"] for t in times) <= ran.wall_ns, "nothing is counted twice"
    assert RUNS * unit["shortest_ns"] <= unit["total_ns"] + whole, "only the shortest run has the body in it"


def test_without_the_option_there_are_none() -> None:
    model = example("dscnn_kws.int8")
    [ran] = run([Job(model, planned(model, "rpi5"), times=1)])
    assert ran.times == [-1, -1, -1]


@pytest.mark.runtimes
@pytest.mark.parametrize(("name", "version"), [("ai-edge-litert", "2.1.0"), ("tflite-runtime", "2.14.0")])
def test_other_runtimes_give_times(name: str, version: str) -> None:
    runtime = other_or_skip(name, version)
    for model_name in ("dscnn_kws.fp32", "tfmr_64x128.int8", "lstm_kws.fp32"):
        model = example(model_name)
        ran, times = timed(model, planned(model, "rpi5", npu="none", runtime=runtime), runtime=runtime)
        check_units(ran, times)
        assert bool(check_operators(model, times)) == any(t["name"] == b"TfLiteXNNPackDelegate" for t in times)
