# SPDX-License-Identifier: Apache-2.0
"""QNN's table: what its list has may run, what its HTP cannot is refused."""

from __future__ import annotations

import pytest

from edgedeploy_partitioner.support.verdicts import NO_RULE, check_table
from edgedeploy_profiles import load_backend
from edgedeploy_profiles.schema import Rule
from support.boundaries import Boundary, check
from support.examples import example
from support.row_cases import RowCase, alone, broken, judge, row_cases, row_ops, taken
from support.single_op import Made, T, conv, single_op, unary, weighted, weights

QNN = load_backend("qnn")
IMAGE = T((1, 8, 8, 4))
NO_FLOATS = "float32 or float16 (HTP v68 has no float16; QNN itself decides op by op)"
ASIDE = "HTP v68 has no float16 and no 16-bit weights; QNN itself decides op by op"

BOUNDARIES = [
    Boundary("weight_types", ["int8"], conv(), weighted(IMAGE, weights(4, 1, 1, 4, dtype="int16")), "weight is int16"),
]


@pytest.mark.parametrize("row", BOUNDARIES, ids=lambda row: f"{row.name}-{row.found}")
def test_boundary(row: Boundary) -> None:
    check(row)


@pytest.mark.parametrize(("rule", "code"), row_ops(QNN))
def test_every_row_leaves_each_of_its_ops_open(rule: Rule, code: str) -> None:
    judged = judge(alone(QNN, rule), taken(QNN, rule, code))
    assert judged.status == rule.verdict == "unknown"
    assert rule.note in judged.reason


@pytest.mark.parametrize("case", row_cases(QNN), ids=str)
def test_every_requirement_of_a_row_refuses_an_op(case: RowCase) -> None:
    judged = list(broken(case, QNN))
    assert judged
    assert {(j.status, j.rule) for j in judged} == {("refused", case.name)}


@pytest.mark.parametrize(
    ("made", "status", "rule", "reason"),
    [
        (conv(), "unknown", "row", f"may become QNN_OP_CONV_2D on the NPU ({ASIDE})"),
        (
            conv(dtype="float32"),
            "refused",
            "no_types",
            f"input 0 is float32; QNN_OP_CONV_2D needs data of another type than float32 or float16 ({ASIDE})",
        ),
        (
            weighted(T((1, 8, 8, 4), "int16"), weights(4, 1, 1, 4, dtype="int16")),
            "refused",
            "weight_types",
            f"weight is int16; QNN_OP_CONV_2D needs weights of type int8, uint8 or int4 ({ASIDE})",
        ),
        (
            unary(T((4,), "float32")),
            "refused",
            "no_types",
            f"input 0 is float32; ElementWiseNeuron (RELU) needs data of another type than {NO_FLOATS}",
        ),
        (
            weighted(IMAGE, weights(4, 1, 1, 4)._replace(block_size=2)),
            "refused",
            "no_block_scales",
            "weight is quantised in blocks of 2; QNN needs scales per tensor or per channel, not per block",
        ),
        (
            unary(T((1, 4), signature=(-1, 4))),
            "refused",
            "static_shapes",
            "input 0 dim 0 is -1; QNN needs a static shape (--input-shape fixes it)",
        ),
        (
            unary(T((1, 0))),
            "refused",
            "no_empty_tensors",
            "input 0 has shape 1x0; QNN needs data with at least one element",
        ),
        (unary(T((4,), "int16")), "unknown", "no_types", "input 0 is int16; unknown whether QNN takes that"),
        (
            unary(T((4,), is_sparse=True)),
            "unknown",
            "dense",
            "input 0 is stored sparse; unknown whether QNN takes that",
        ),
        (
            unary(T((4,), is_variable=True)),
            "unknown",
            "stateless",
            "input 0 is a variable tensor; unknown whether QNN takes that",
        ),
        (unary(IMAGE, "TFLITE"), "refused", NO_RULE, "the QNN LiteRT @08c8bf6 table has no row for TFLITE"),
        (
            single_op("CUSTOM", [IMAGE], [IMAGE], custom_code="X"),
            "refused",
            "refusal",
            "no custom op is in QNN's list: it runs on the CPU",
        ),
    ],
    ids=str,
)
def test_verdict_in_words(made: Made, status: str, rule: str, reason: str) -> None:
    judged = judge(QNN, made)
    assert (judged.status, judged.rule, judged.reason) == (status, rule, reason)


def test_quantising_at_the_borders_stays_open() -> None:
    assert judge(QNN, example("QUANTIZE", "")).status == judge(QNN, example("DEQUANTIZE", "")).status == "unknown"


@pytest.mark.parametrize("op", sorted({op for refusal in QNN.refusals for op in refusal.ops}))
def test_no_op_is_both_refused_and_in_a_row(op: str) -> None:
    assert not [rule for rule in QNN.rules if op in rule.maps_to]
    assert judge(QNN, unary(IMAGE, op)).rule == "refusal"


def test_the_table_is_sound() -> None:
    check_table(QNN)
