# SPDX-License-Identifier: Apache-2.0
"""The independent checker: true plans pass, and each invariant, broken by one change, is named."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedeploy_partitioner import checker
from edgedeploy_partitioner.checker import check
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.plan import Plan, from_json, to_json
from support import handmade, plan_edits, runtime
from support.handmade import NPU, Json


@pytest.fixture(scope="module")
def graph() -> Graph:
    return handmade.graph()


@pytest.fixture(scope="module")
def plan() -> Plan:
    return handmade.plan()


def codes(plan: Plan, graph: Graph) -> set[str]:
    return {fault.code for fault in check(plan, graph)}


def test_a_true_plan_has_no_fault(plan: Plan, graph: Graph) -> None:
    assert check(plan, graph) == ()


def test_the_hand_written_plan_is_what_the_runtime_does(plan: Plan) -> None:
    """Its order, its nodes and its arena are not opinions."""
    [answer] = runtime.inspect_all([handmade.model()], claims=[[[0, 1, 2, 3], [6]]])
    assert answer.subgraphs is not None
    nodes = answer.subgraphs[0]["nodes"]
    assert [n["members"] or [n["op"]] for n in nodes] == [[0, 1, 2, 3], [4], [5], [6]]
    assert handmade.measured_arena(answer.subgraphs[0]) == plan.memory.arena_bytes


# --- one change each -------------------------------------------------

Change = Callable[[Json], object]


CPU = {"backend": "cpu", "kernel": "builtin", "layout": "NHWC"}


def forced(*texts: str) -> Change:
    return lambda d: d["inputs"]["options"].update(force=list(texts))


def merged(d: Json) -> None:
    """Partitions 0 and 2 as one: a loop through op 5, which is outside."""
    d["partitions"][0]["segments"].append(4)
    del d["partitions"][2]
    d["segments"][4].update(partition=0)
    d["ops"][6].update(partition=0)
    del d["transitions"][5:]
    del d["memory"]["timeline"][3]


def renumbered(d: Json) -> None:
    """The first partition to run has the last id."""
    names = {0: 2, 1: 1, 2: 0}
    for value in (*d["partitions"], *d["segments"], *d["transitions"], *d["ops"], *d["memory"]["timeline"]):
        key = "id" if "segments" in value else "partition"
        value[key] = names.get(value[key])


def advised(**changed: Any) -> Json:
    return {"code": "support", "message": "", "ops": [[0, 1]], "latency_us": 0.001, **changed}


MUTATIONS: list[tuple[str, Change, str]] = [
    ("fused into an op of another segment", lambda d: d["ops"][3].update(fused_into=1), "fusion"),
    ("fused into an op that comes later", lambda d: d["ops"][1].update(fused_into=3), "fusion"),
    ("advice on no op", lambda d: d.update(advice=[advised(ops=[[0, 99]])]), "advice"),
    ("advice that is no faster", lambda d: d.update(advice=[advised(latency_us=1e6)]), "advice"),
    ("more partitions than the back end allows", lambda d: d["backends"][0].update(max_partitions=1), "max-partitions"),
    ("another model", lambda d: d["inputs"]["model"].update(sha256="1" * 64), "model"),
    ("another size", lambda d: d["inputs"]["model"].update(bytes=7), "model"),
    ("wrong fingerprint", lambda d: d["inputs"]["model"].update(fingerprints=["1" * 64]), "fingerprint"),
    ("no fingerprint", lambda d: d["inputs"]["model"].update(fingerprints=[]), "fingerprint"),
    ("op missing", lambda d: d["ops"].pop(4), "op"),
    ("op twice", lambda d: d["ops"].append(d["ops"][4]), "op"),
    ("op of no model", lambda d: d["ops"][4].update(index=99), "op"),
    ("op renamed", lambda d: d["ops"][4].update(op="SUM"), "op-identity"),
    ("op with a custom code", lambda d: d["ops"][4].update(custom_code="x"), "op-identity"),
    ("op with other inputs", lambda d: d["ops"][5]["inputs"].reverse(), "op-identity"),
    ("op with other outputs", lambda d: d["ops"][5].update(outputs=[1]), "op-identity"),
    ("subgraph missing", lambda d: d["subgraphs"].clear(), "subgraph"),
    ("subgraph renamed", lambda d: d["subgraphs"][0].update(name="x"), "subgraph"),
    ("order of no op", lambda d: d["subgraphs"][0].update(order=[1, 2, 3, 4, 5, 99]), "order"),
    ("order without an op", lambda d: d["subgraphs"][0]["order"].pop(), "order"),
    ("op twice in the order", lambda d: d["subgraphs"][0]["order"].append(6), "order"),
    ("folded op in the order", lambda d: d["subgraphs"][0]["order"].insert(0, 0), "order"),
    ("order against the data", lambda d: d["subgraphs"][0].update(order=[2, 1, 3, 4, 5, 6]), "order"),
    ("order of another epoch", lambda d: d["subgraphs"][0].update(order=[1, 2, 3, 4, 6, 5]), "order"),
    ("partition in no subgraph", lambda d: d["partitions"][0].update(subgraph=3), "partition"),
    ("partition without segments", lambda d: d["partitions"][0].update(segments=[]), "partition"),
    ("partition id twice", lambda d: d["partitions"][2].update(id=0), "partition"),
    ("segment of no partition", lambda d: d["segments"][3].update(partition=7), "segment"),
    ("segment id twice", lambda d: d["segments"][1].update(id=0), "segment"),
    ("segment without ops", lambda d: d["segments"][1].update(ops=[]), "segment"),
    ("op in two segments", lambda d: d["segments"][0]["ops"].append(2), "segment"),
    ("op in another segment", lambda d: d["ops"][2].update(segment=2), "segment"),
    ("op without its partition", lambda d: d["ops"][2].update(partition=None), "segment"),
    ("op with only a partition", lambda d: d["ops"][4].update(partition=0), "segment"),
    ("transition of no tensor", lambda d: d["transitions"][0].update(tensor=99), "transition"),
    ("transition of no partition", lambda d: d["transitions"][0].update(partition=9), "transition"),
    ("transition in no subgraph", lambda d: d["transitions"][0].update(subgraph=1), "transition"),
    ("back end twice", lambda d: d["backends"].append(d["backends"][0]), "backend"),
    ("back end not listed", lambda d: d["backends"].pop(0), "backend"),
    ("warning about no op", lambda d: d["warnings"][0].update(op=[0, 77]), "warning"),
    ("probing no op", lambda d: d["predicted"].update(ops_to_probe=[[0, 77]]), "ops-to-probe"),
    ("probing a known op", lambda d: d["predicted"].update(ops_to_probe=[[0, 1]]), "ops-to-probe"),
    ("folded flag lost", lambda d: d["ops"][0].update(folded=False), "segment"),
    ("folded flag on work", lambda d: d["ops"][4].update(folded=True), "folded"),
    ("folded op that costs", lambda d: d["ops"][0].update(predicted_us=1, high_us=1), "folded-cost"),
    ("folded op elsewhere", lambda d: d["ops"][0].update(partition=2), "folded-partition"),
    ("folded op alone", lambda d: d["ops"][0].update(CPU, partition=None), "folded-partition"),
    ("folded op on what its readers do not use", lambda d: d["ops"][0].update(CPU), "folded-partition"),
    ("op on no candidate", lambda d: d["ops"][4].update(kernel="fast"), "candidate"),
    ("op with no candidate", lambda d: d["ops"][4].update(candidates=[]), "candidate"),
    ("op on a refused candidate", lambda d: d["ops"][1]["candidates"][0].update(verdict="refused"), "verdict"),
    ("op on an unknown candidate", lambda d: d["ops"][1]["candidates"][0].update(verdict="unknown"), "verdict"),
    ("op with another cost", lambda d: d["ops"][1]["candidates"][0].update(predicted_us=10.002), "candidate-cost"),
    ("unreadable option", forced("7"), "option"),
    ("force not met by index", forced("4=rknn"), "force"),
    ("force not met by range", forced("0:1-4=rknn"), "force"),
    ("force not met by name", forced("CONV_2D=neon"), "force"),
    ("force not met by tensor", forced("tensor:t10=rknn"), "force"),
    ("forbid not met", lambda d: d["inputs"]["options"].update(forbid=["GELU=neon"]), "forbid"),
    ("built-in op with XNNPACK's kernel", lambda d: d["ops"][4].update(kernel="xnnpack"), "kernel"),
    ("NPU op that nobody claims", lambda d: d["ops"][4].update(backend="rknn"), "kernel"),
    ("XNNPACK with an NPU", lambda d: d["segments"][3].update(backend="rknn"), "delegate"),
    ("a stock delegate with two back ends", lambda d: d["partitions"][0].update(delegate="vx"), "delegate"),
    ("a back end with two delegates", lambda d: d["partitions"][2].update(delegate="vx"), "delegate"),
    ("an own delegate on the cpu", lambda d: d["partitions"][1].update(delegate="edgedeploy"), "delegate"),
    ("segment in another layout", lambda d: d["segments"][0].update(layout="NHWC"), "segment-lane"),
    ("segments with nothing between", lambda d: d["segments"][1].update(backend="rknn", layout=NPU), "segment-cut"),
    ("segments out of order", lambda d: d["partitions"][0].update(segments=[0, 2, 1]), "segment-order"),
    ("segment without an input", lambda d: d["segments"][0].update(inputs=[]), "segment-borders"),
    ("segment with a constant input", lambda d: d["segments"][0]["inputs"].append(1), "segment-borders"),
    ("segment without an output", lambda d: d["segments"][0].update(outputs=[]), "segment-borders"),
    ("too many partitions", lambda d: d["inputs"]["options"].update(max_partitions=1), "max-partitions"),
    ("partitions in one", merged, "convexity"),
    ("partitions in one node", merged, "claim"),
    ("partitions numbered backwards", renumbered, "partition-order"),
    ("transition missing", lambda d: d["transitions"].pop(3), "transition-missing"),
    ("transition twice", lambda d: d["transitions"].append(d["transitions"][0]), "transition-extra"),
    ("transition for XNNPACK", lambda d: d["transitions"][5].update(partition=1), "transition-extra"),
    ("transition of a constant", lambda d: d["transitions"][0].update(tensor=1), "transition-extra"),
    ("transition to another layout", lambda d: d["transitions"][0].update(layout_to="NHWC"), "transition-missing"),
    ("transition of other bytes", lambda d: d["transitions"][0].update(bytes=1), "transition-bytes"),
    ("main that runs twice", lambda d: d["subgraphs"][0].update(times=2), "times"),
    ("no main", lambda d: d["subgraphs"][0].update(role="unused"), "times"),
    ("op time off by a nanosecond", lambda d: d["ops"][4].update(predicted_us=8.012), "objective"),
    ("overhead off", lambda d: d.update(overhead_us=20.012), "objective"),
    ("transition time off", lambda d: d["transitions"][0].update(predicted_us=1.014), "objective"),
    ("partition time off", lambda d: d["partitions"][0].update(handover_us=2.018), "objective"),
    ("segment time off", lambda d: d["segments"][0].update(handover_us=0.308), "objective"),
    ("objective off", lambda d: d["solver"].update(objective_us=1), "objective"),
    ("latency off", lambda d: d["predicted"].update(latency_us=60.001), "latency"),
    ("low above", lambda d: d["predicted"].update(low_us=1e6), "bounds"),
    ("high below", lambda d: d["predicted"].update(high_us=1), "bounds"),
    ("high of an op below", lambda d: d["ops"][4].update(high_us=1), "bounds"),
    ("high of a candidate below", lambda d: d["ops"][4]["candidates"][0].update(high_us=1), "bounds"),
    ("low of a transition above", lambda d: d["transitions"][0].update(low_us=9), "bounds"),
    ("low under its parts", lambda d: d["predicted"].update(low_us=1), "bounds"),
    ("low over its parts", lambda d: d["predicted"].update(low_us=79), "bounds"),
    ("high under its parts", lambda d: d["predicted"].update(high_us=90), "bounds"),
    ("no high without a loop", lambda d: d["predicted"].update(high_us=None), "bounds"),
    ("cold faster than warm", lambda d: d["predicted"].update(cold_start_us=1), "bounds"),
    ("optimistic and slower", lambda d: d["predicted"].update(optimistic_us=1e6), "bounds"),
    ("negative time", lambda d: d["ops"][4].update(low_us=-1), "bounds"),
    ("negative work", lambda d: d["ops"][4].update(macs=-1), "negative"),
    ("negative hand-over", lambda d: d["segments"][0].update(handover_us=-1), "negative"),
    ("bound above the objective", lambda d: d["solver"].update(lower_bound_us=1e6), "solver"),
    ("optimal with a gap", lambda d: d["solver"].update(lower_bound_us=1), "solver"),
    ("bounded without a gap", lambda d: d["solver"].update(status="bounded"), "solver"),
    ("order never tried", lambda d: d["solver"].update(order="random"), "solver"),
    ("worse than the cpu", lambda d: d["baselines"]["all_cpu"].update(latency_us=1), "baseline"),
    ("worse than stock", lambda d: d["baselines"]["stock_delegate"].update(latency_us=1), "baseline"),
    (
        "a limit that makes it faster",
        lambda d: (
            d["inputs"]["options"].update(memory_limit_bytes=10**9),
            d["baselines"].update(without_limit={"latency_us": 10**6, "peak_bytes": None, "partitions": 0}),
        ),
        "baseline",
    ),
    ("limit and no plan without it", lambda d: d["inputs"]["options"].update(memory_limit_bytes=10**9), "baseline"),
    (
        "no limit and a plan without it",
        lambda d: d["baselines"].update(without_limit=d["baselines"]["all_cpu"]),
        "baseline",
    ),
    ("another arena", lambda d: d["memory"].update(arena_bytes=16448, peak_bytes=16548), "arena"),
    ("lowest arena of nothing", lambda d: d["memory"].update(lowest_arena_bytes=0), "arena"),
    ("lowest arena above", lambda d: d["memory"].update(lowest_arena_bytes=10**9), "arena"),
    ("peak without a line", lambda d: d["memory"].update(npu_pool_bytes=1), "peak"),
    ("peak below its low bound", lambda d: d["memory"].update(peak_low_bytes=10**9), "peak"),
    ("peak above its high bound", lambda d: d["memory"].update(peak_high_bytes=1), "peak"),
    ("a model of no bytes", lambda d: d["memory"].update(model_bytes=0), "line"),
    ("negative line", lambda d: d["memory"].update(persistent_bytes=-1), "line"),
    ("null line without a warning", lambda d: d["warnings"].pop(0), "line"),
    ("warning about a line that is there", lambda d: d["memory"].update(packed_bytes=0), "line"),
    ("over the memory limit", lambda d: d["inputs"]["options"].update(memory_limit_bytes=5), "memory-limit"),
    ("timeline in another order", lambda d: d["memory"]["timeline"].reverse(), "timeline"),
    ("no timeline", lambda d: d["memory"].update(timeline=[], peak_op=None), "timeline"),
    ("timeline over the arena", lambda d: d["memory"]["timeline"][0].update(live_bytes=10**6), "timeline"),
    ("timeline step of nothing", lambda d: d["memory"]["timeline"][0].update(partition=None), "timeline"),
    ("timeline step of no partition", lambda d: d["memory"]["timeline"][0].update(partition=9), "timeline"),
    ("peak where less is live", lambda d: d["memory"].update(peak_op=[0, 1]), "timeline"),
    ("peak nowhere", lambda d: d["memory"].update(peak_op=None), "timeline"),
    ("peak at no op", lambda d: d["memory"].update(peak_op=[0, 50]), "timeline"),
    ("peak of no tensor", lambda d: d["memory"].update(peak_tensors=[50]), "timeline"),
]


@pytest.mark.parametrize(("change", "code"), [m[1:] for m in MUTATIONS], ids=[m[0] for m in MUTATIONS])
def test_each_broken_invariant_is_named(plan: Plan, graph: Graph, change: Change, code: str) -> None:
    assert code in codes(handmade.edited(plan, change), graph)


def test_a_subgraph_that_does_not_run_costs_nothing(plan: Plan, graph: Graph) -> None:
    def change(d: Json) -> None:
        d["subgraphs"][0].update(times=0)
        d["solver"].update(objective_us=d["overhead_us"], lower_bound_us=d["overhead_us"])
        d["predicted"].update(latency_us=d["overhead_us"], low_us=0)

    assert codes(handmade.edited(plan, change), graph) == {"times"}


def test_no_other_value_can_change_unnoticed(plan: Plan, graph: Graph) -> None:
    changed = list(plan_edits.every_change(plan))
    assert len(changed) > 350
    for what, other in changed:
        assert check(other, graph), what


# --- other graphs ----------------------------------------------------


def branches() -> bytes:
    """Two chains side by side: 0 1 and 2 3."""
    written = Model()
    g = written.subgraph()
    x = g.input((1, 8))
    for _ in range(2):
        g.outputs(g.apply("GELU", [g.apply("GELU", [x], (1, 8))], (1, 8)))
    return written.build()


def test_branches_run_in_the_runtime_s_order() -> None:
    graph = read_bytes(branches())
    assert check(handmade.all_builtin(graph), graph) == ()
    assert codes(handmade.all_builtin(graph, {0: (0, 2, 1, 3)}), graph) == {"replay"}


def test_side_effects_keep_their_order() -> None:
    graph = read_bytes(handmade.variables())
    assert check(handmade.all_builtin(graph), graph) == ()
    assert "side-effect" in codes(handmade.all_builtin(graph, {0: (0, 1, 3, 2, 4, 5)}), graph)


def test_a_fault_is_one_line_whatever_the_names() -> None:
    written = Model()
    g = written.subgraph()
    g.op("CUSTOM", [g.input((1,))], [g.tensor((1,))], custom_code="evil\n\x1b[31m\u202ename")
    graph = read_bytes(written.build())
    plan = handmade.edited(handmade.all_builtin(graph), lambda d: d["ops"][0].update(kernel="a\nb"))
    faults = check(plan, graph)
    assert any("evil" in fault.message for fault in faults)
    assert all(str(fault).isprintable() for fault in faults)


# --- allowances ------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["inputs"]["options"].update(assume_unknown="supported"),
        forced("1=rknn"),
        forced("0:1=rknn"),
        forced("0-1=rknn"),
        forced("CONV_2D=rknn"),
    ],
)
def test_an_unknown_verdict_may_be_assumed_or_forced(plan: Plan, graph: Graph, change: Change) -> None:
    unknown = handmade.edited(plan, lambda d: d["ops"][1]["candidates"][0].update(verdict="unknown"))
    assert codes(unknown, graph) == {"verdict"}
    assert check(handmade.edited(unknown, change), graph) == ()
    refused = handmade.edited(plan, lambda d: d["ops"][1]["candidates"][0].update(verdict="refused"))
    assert codes(handmade.edited(refused, change), graph) == {"verdict"}


@pytest.mark.parametrize(
    "change",
    [
        forced("1=rknn"),
        lambda d: d["inputs"]["options"].update(forbid=["1=cpu"]),
        lambda d: (
            d["inputs"]["options"].update(max_partitions=2),
            d["baselines"]["stock_delegate"].update(partitions=3),
        ),
        lambda d: (
            d["inputs"]["options"].update(memory_limit_bytes=10**6),
            d["baselines"]["stock_delegate"].update(peak_bytes=10**7),
            d["baselines"].update(without_limit={"latency_us": 0, "peak_bytes": 10**7, "partitions": 3}),
        ),
    ],
)
def test_a_baseline_that_the_options_rule_out_may_be_faster(plan: Plan, graph: Graph, change: Change) -> None:
    faster = handmade.edited(plan, lambda d: d["baselines"]["stock_delegate"].update(latency_us=1))
    assert codes(faster, graph) == {"baseline"}
    assert check(handmade.edited(faster, change), graph) == ()


# --- whatever the plan -----------------------------------------------

_ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, -1, 0, 1, 2, 5, 99, 2**31, 2**70, 0.001, "", "cpu", "rknn", "NHWC", True, [], [0], {}]
)


@settings(max_examples=300)
@given(st.data())
def test_no_plan_crashes_the_checker(data: st.DataObject) -> None:
    """Values replaced, copied from elsewhere, dropped and repeated: a plan that decodes gets a list of faults."""
    raw = json.loads(to_json(handmade.plan()))
    for _ in range(data.draw(st.integers(1, 4))):
        known = plan_edits.places(raw)
        container, key = known[data.draw(st.integers(0, len(known) - 1))]
        other, other_key = known[data.draw(st.integers(0, len(known) - 1))]
        kind = data.draw(st.sampled_from(["odd", "copy", "drop", "repeat", "add"]))
        if kind == "odd":
            container[key] = data.draw(_ODD)
        elif kind == "copy":
            container[key] = copy.deepcopy(other[other_key])
        elif kind == "drop" and isinstance(container, list):
            del container[key]
        elif kind == "repeat" and isinstance(container, list):
            container.append(copy.deepcopy(container[key]))
        elif isinstance(container[key], int):
            container[key] += data.draw(st.sampled_from([-1, 1]))
    try:
        plan = from_json(json.dumps(raw))
    except InputError:
        return
    for fault in check(plan, handmade.graph()):
        assert fault.code in DOCUMENTED
        assert "\n" not in str(fault)


# --- the list of codes -----------------------------------------------

DOCUMENTED = {code for line in re.findall(r"^([a-z-]+(?:, [a-z-]+)*)  +[a-z]", checker.__doc__ or "", re.MULTILINE)
              for code in line.split(", ")} - {"code"}  # fmt: skip


def test_every_code_is_documented_and_provoked() -> None:
    source = "".join(path.read_text() for path in Path(checker.__file__).parent.glob("*.py"))
    emitted = set(re.findall(r"Fault\(\s*\"([a-z-]+)\"", source)) | {"op", "subgraph"}
    provoked = {code for _, _, code in MUTATIONS} | {"replay", "side-effect", "times"}
    assert emitted == DOCUMENTED
    assert provoked == DOCUMENTED
