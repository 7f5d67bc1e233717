# SPDX-License-Identifier: Apache-2.0
"""What differs between two plans, and the reason an op moved."""

from __future__ import annotations

import pytest

from edgedeploy_partitioner.diff import Change, Move, Place, PlanDiff, diff
from edgedeploy_partitioner.plan import Plan
from support.handmade import NPU, Json, edited, plan

BEFORE = plan()
HERE, THERE = Place("rknn", "npu", NPU), Place("cpu", "xnnpack", "NHWC")


def moved(d: Json) -> None:
    """Op 6 leaves the NPU."""
    d["ops"][6].update(backend="cpu", kernel="xnnpack", layout="NHWC")


def one_move(*changes: object) -> Move:
    """The only move after op 6 moved and ``changes`` were made."""

    def change(d: Json) -> None:
        moved(d)
        for step in changes:
            assert callable(step)
            step(d)

    (move,) = diff(BEFORE, edited(BEFORE, change)).moved
    assert (move.subgraph, move.index, move.op, move.before, move.after) == (0, 6, "CONV_2D", HERE, THERE)
    return move


def test_a_plan_does_not_differ_from_itself() -> None:
    assert diff(BEFORE, plan()) == PlanDiff(True, (), (), (), (), (), (), ())


def test_inputs_are_named_by_their_path() -> None:
    def change(d: Json) -> None:
        d["inputs"]["model"].update(sha256="9" * 64)
        d["inputs"]["tables"].update(vx={"sha256": "1", "sdk_version": "6.4"})
        d["inputs"]["options"].update(threads=1, force=["6=cpu"])
        del d["inputs"]["tables"]["rknn"]

    found = {c.key: (c.before, c.after) for c in diff(BEFORE, edited(BEFORE, change)).inputs}
    assert found == {
        "inputs.model.sha256": (BEFORE.inputs.model.sha256, "9" * 64),
        "inputs.tables.rknn": ({"sha256": "0" * 64, "sdk_version": "2.3.2"}, None),
        "inputs.tables.vx": (None, {"sha256": "1", "sdk_version": "6.4"}),
        "inputs.options.threads": (4, 1),
        "inputs.options.force": ([], ["6=cpu"]),
    }


def test_a_move_for_an_option() -> None:
    move = one_move(lambda d: d["inputs"]["options"].update(force=["6=cpu"]))
    assert (move.cause, move.detail) == ("option", "now --force 6=cpu")


def test_a_move_back_when_an_option_is_gone() -> None:
    def change(d: Json) -> None:
        moved(d)
        d["inputs"]["options"].update(forbid=["CONV_2D=rknn"])

    (move,) = diff(edited(BEFORE, change), BEFORE).moved
    assert (move.before, move.after) == (THERE, HERE)
    assert move.detail == "no longer --forbid CONV_2D=rknn"


def test_an_option_about_another_op_is_no_reason() -> None:
    assert one_move(lambda d: d["inputs"]["options"].update(force=["0-5=cpu", "junk"])).cause == "elsewhere"


def test_a_move_for_a_verdict() -> None:
    refused = {"verdict": "refused", "reason": "kernel 9x9 is larger than 7"}
    move = one_move(lambda d: d["ops"][6]["candidates"][0].update(refused))
    assert move.cause == "verdict"
    assert move.detail == f"rknn/npu {NPU}: supported, now refused: kernel 9x9 is larger than 7"


def test_a_move_off_a_candidate_that_is_gone() -> None:
    move = one_move(lambda d: d["ops"][6]["candidates"].pop(0))
    assert (move.cause, move.detail) == ("verdict", f"rknn/npu {NPU}: supported, now not offered")


def test_a_move_for_its_cost() -> None:
    def dearer(d: Json) -> None:
        d["ops"][6]["candidates"][0].update(predicted_us=12.5)
        d["ops"][6]["candidates"][2].update(predicted_us=6.0)

    move = one_move(dearer)
    assert (move.cause, move.detail) == ("cost", f"cpu/xnnpack NHWC -0.007 us, rknn/npu {NPU} +2.499 us")


def test_a_move_for_its_neighbours() -> None:
    assert one_move().cause == "elsewhere"


def test_numbers_that_changed() -> None:
    def change(d: Json) -> None:
        d["predicted"].update(latency_us=70.5, high_us=None)
        d["memory"].update(packed_bytes=7, peak_bytes=9)
        d["partitions"].pop(1)

    found = diff(BEFORE, edited(BEFORE, change))
    assert found.latency == (
        Change("predicted.latency_us", BEFORE.predicted.latency_ns / 1000, 70.5),
        Change("predicted.high_us", BEFORE.predicted.latency_ns / 500, None),
    )
    assert found.memory == (
        Change("memory.packed_bytes", None, 7),
        Change("memory.peak_bytes", BEFORE.memory.peak_bytes, 9),
    )
    assert found.partitions == (Change("partitions.xnnpack", 1, None),)


@pytest.mark.parametrize("before_has_more", [True, False])
def test_ops_of_another_model_are_not_matched(*, before_has_more: bool) -> None:
    def change(d: Json) -> None:
        d["ops"].pop(4)
        d["ops"][4].update(op="SUB")

    other = edited(BEFORE, change)
    pair: tuple[Plan, Plan] = (BEFORE, other) if before_has_more else (other, BEFORE)
    found = diff(*pair)
    longer, shorter = ((0, 4, "CUMSUM"), (0, 5, "ADD")), ((0, 5, "SUB"),)
    assert (found.only_before, found.only_after) == ((longer, shorter) if before_has_more else (shorter, longer))
    assert not found.same
