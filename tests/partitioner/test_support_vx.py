# SPDX-License-Identifier: Apache-2.0
"""The vx delegate's table: every row takes an op, every requirement refuses one, and refusals read as they should."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from edgedeploy_partitioner.model.graph import DType
from edgedeploy_partitioner.support.verdicts import NO_RULE, check_table
from edgedeploy_profiles import load_backend
from edgedeploy_profiles.schema import Rule
from support.boundaries import Boundary, check
from support.examples import example
from support.row_cases import RowCase, alone, broken, judge, row_cases, row_ops, taken, with_input, with_options
from support.single_op import Made, T, add, ints, single_op, unary, weighted, weights

VX = load_backend("vx")
IMAGE = T((1, 8, 8, 4))


def cell(state: str, cells: str) -> Made:
    inputs: list[T | None] = [T((1, 5, 4)), *[None] * 17, T((1, 4), state), T((1, 4), cells)]
    return single_op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [T((1, 5, 4))])


def select(*condition: int) -> Made:
    return single_op("SELECT", [T(condition, "bool"), IMAGE, IMAGE], [IMAGE])


def grouped(batch: int, depth: int) -> Made:
    data = T((batch, 8, 8, 4))
    return single_op("CONV_2D", [data, weights(4, 1, 1, depth), None], [data])


def sliced(data: tuple[int, ...], output: tuple[int, ...]) -> Made:
    return single_op("SLICE", [T(data), ints(0), ints(1)], [T(output)])


def per_channel(*scales: float) -> Made:
    return single_op("QUANTIZE", [T((4,), "float32")], [T((4,), scales=scales)])


def gather(indices: str) -> Made:
    return single_op("GATHER", [IMAGE, ints(0, dtype=indices)], [IMAGE])


BOUNDARIES = [
    Boundary("no_inputs_of", ["int64"], gather("int32"), gather("int64"), "input 1 is int64"),
    Boundary("no_outputs_of", ["int16"], unary(IMAGE), unary(T((4,), "int16")), "output 0 is int16"),
    Boundary("max_inner_dimension", 64, unary(T((99, 64))), unary(T((1, 65))), "input 0 has shape 1x65"),
    Boundary("bytes_have_rank", 2, unary(T((4,), "float32")), unary(T((4,))), "input 0 is int8 of rank 1"),
    Boundary("bytes_have_rank", 2, unary(T((1, 4))), unary(T(())), "input 0 is int8 of rank 0"),
    Boundary("batch_one_if_grouped", True, grouped(1, 2), grouped(2, 2), "batch 2"),
    Boundary("batch_one_if_grouped", True, grouped(2, 4), grouped(2, 1), "batch 2"),
    Boundary(
        "repeats_lower_rank",
        True,
        add((1, 8, 8, 4), (4,), (1, 8, 8, 4)),
        add((1, 8, 8, 4), (3,), (1, 8, 8, 4)),
        "shapes [1, 8, 8, 4] and [3]",
    ),
    Boundary(
        "repeats_lower_rank",
        True,
        add((1, 1, 1, 4), (1, 8, 8, 4), (1, 8, 8, 4)),
        add((1, 8, 8, 4), (1, 1, 1, 4), (1, 8, 8, 4)),
        "shapes [1, 8, 8, 4] and [1, 1, 1, 4]",
    ),
    Boundary(
        "one_adjoint",
        True,
        unary(IMAGE, "BATCH_MATMUL", adj_x=True, adj_y=False),
        unary(IMAGE, "BATCH_MATMUL", adj_x=True, adj_y=True),
        "adj_x and adj_y are set",
    ),
    Boundary(
        "keeps_batch",
        True,
        sliced((2, 8, 4), (1, 8, 4)),
        sliced((2, 8, 8, 4), (1, 8, 8, 4)),
        "first dimension 2 becomes [1]",
    ),
    Boundary(
        "condition_like_data",
        "rank",
        select(1, 8, 8, 1),
        select(4),
        "condition of shape [4] for data of shape [1, 8, 8, 4]",
    ),
    Boundary(
        "condition_like_data",
        "shape",
        select(1, 8, 8, 4),
        select(1, 8, 8, 1),
        "condition of shape [1, 8, 8, 1] for data of shape [1, 8, 8, 4]",
    ),
    Boundary(
        "state_as_output", True, cell("int8", "int16"), cell("int16", "int16"), "output state is int16, output is int8"
    ),
    Boundary("cell_state_types", ["int16"], cell("int8", "int16"), cell("int8", "int8"), "cell state is int8"),
    Boundary("one_scale_each", True, per_channel(0.5), per_channel(0.5, 0.25), "output 0 has 2 scales"),
]


@pytest.mark.parametrize("row", BOUNDARIES, ids=lambda row: f"{row.name}-{row.found}")
def test_boundary(row: Boundary) -> None:
    check(row)


@pytest.mark.parametrize(("rule", "code"), row_ops(VX))
def test_every_row_takes_each_of_its_ops(rule: Rule, code: str) -> None:
    soc = (rule.socs or VX.socs)[0]
    judged = judge(alone(VX, rule), taken(VX, rule, code), soc)
    assert judged.status == rule.verdict
    assert rule.maps_to[code] in judged.reason


@pytest.mark.parametrize("case", row_cases(VX), ids=str)
def test_every_requirement_of_a_row_refuses_an_op(case: RowCase) -> None:
    judged = list(broken(case, VX))
    assert judged
    assert {(j.status, j.rule) for j in judged} == {("refused", case.name)}


class Refused(NamedTuple):
    made: Made
    reason: str
    rule: str
    status: str = "refused"


REFUSED = [
    Refused(
        unary(T((1, 4), signature=(-1, 4))),
        "input 0 dim 0 is -1; unknown whether VX takes that",
        "static_shapes",
        "unknown",
    ),
    Refused(unary(T((1, 0))), "input 0 has shape 1x0; VX needs data with at least one element", "no_empty_tensors"),
    Refused(unary(T((1,) * 7)), "input 0 has rank 7; VX needs tensors of rank 6 at most", "max_rank"),
    Refused(
        unary(T((1, 65536))),
        "input 0 has shape 1x65536; VX needs inputs without a dimension above 65535, the first one excepted",
        "max_inner_dimension",
    ),
    Refused(
        gather("int64"),
        "input 1 is int64; VX needs no input of type int64 or string, parameters included",
        "no_inputs_of",
    ),
    Refused(
        unary(T((4,), "int16")),
        "output 0 is int16; VX needs no output of type int16 or int64",
        "no_outputs_of",
    ),
    Refused(
        with_options(example("ADD", "int8"), fused_activation_function="SIGN_BIT"),
        "fused_activation_function is SIGN_BIT; "
        "VX needs options fused_activation_function NONE, RELU, RELU_N1_TO_1, RELU6 or TANH",
        "options",
    ),
    Refused(
        unary(T((4,), scales=())),
        "input 0 is int8 without a scale; unknown whether VX takes that",
        "quantised",
        "unknown",
    ),
    Refused(
        weighted(IMAGE, weights(4, 1, 1, 4)._replace(block_size=2)),
        "weight is quantised in blocks of 2; unknown whether VX takes that",
        "no_block_scales",
        "unknown",
    ),
    Refused(
        unary(T((4,), is_sparse=True)), "input 0 is stored sparse; unknown whether VX takes that", "dense", "unknown"
    ),
    Refused(
        weighted(T((1, 8, 8, 4), "float32"), weights(4, 1, 1, 4)),
        "weight is int8, data is float32; Conv2d or GroupedConv2d needs weights of the data's type: "
        "quantised in full, or float (no hybrid or 16x8)",
        "same_type_weights",
    ),
    Refused(
        grouped(2, 2),
        "batch 2; Conv2d or GroupedConv2d needs a batch of 1 if the channels are in groups",
        "batch_one_if_grouped",
    ),
    Refused(
        example("BATCH_MATMUL", "int8"),
        "input 0 is int8; Matmul needs data of another type than int8 or int32",
        "no_types",
    ),
    Refused(
        with_input(example("SLICE", "int8"), 0, shape=(2, 8, 8, 4)),
        "first dimension 2 becomes [1]; Slice needs the first dimension whole if there are 4 or more",
        "keeps_batch",
    ),
    Refused(
        # Squeeze-and-excitation: the image times one factor per channel.
        with_input(example("MUL", "int8"), 1, shape=(1, 1, 1, 4)),
        "may become Multiply on the NPU (the delegate repeats the wrong operand, nothing found says what TIM-VX makes "
        "of it)",
        "row",
        "unknown",
    ),
    Refused(
        single_op("CUSTOM", [IMAGE], [IMAGE], custom_code="TFLite_Detection_PostProcess"),
        'the delegate maps no custom op but its own cached graphs (TFLite_Detection_PostProcess is "op 32" in its '
        "log): it runs on the CPU",
        "refusal",
    ),
    Refused(unary(IMAGE, "TILE"), "the delegate has no mapper for it and leaves it to the CPU", "refusal"),
    Refused(unary(IMAGE, "GELU"), "the VX @469adc0 table has no row for GELU", NO_RULE),
    Refused(
        unary(IMAGE, "COS"),
        "may become Cos on the NPU (the delegate's list has it, its code does not)",
        "row",
        "unknown",
    ),
]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row.made[1].code}-{row.rule}")
def test_refusal(row: Refused) -> None:
    judged = judge(VX, row.made)
    assert (judged.status, judged.rule, judged.reason) == (row.status, row.rule, row.reason)


def test_every_general_requirement_has_an_op_that_it_decides() -> None:
    names = {name for row in VX.every_op for name in row.require}
    assert names <= {row.rule for row in REFUSED}


def test_half_pixels_depend_on_the_board() -> None:
    made = with_options(example("RESIZE_NEAREST_NEIGHBOR", "int8"), half_pixel_centers=True)
    assert [judge(VX, made, soc).status for soc in VX.socs] == ["unknown", "supported"]
    assert "board packages" in judge(VX, made, "imx8mp").reason


def test_a_quantised_lstm_needs_a_16_bit_cell() -> None:
    made = example("UNIDIRECTIONAL_SEQUENCE_LSTM", "int8")
    assert judge(VX, made).status == "supported"
    assert judge(VX, with_input(made, 19, dtype=DType.INT8)).rule == "cell_state_types"
    assert judge(VX, example("UNIDIRECTIONAL_SEQUENCE_LSTM", "float32")).rule == "input_types"


@pytest.mark.parametrize("op", sorted({op for refusal in VX.refusals for op in refusal.ops}))
def test_no_op_is_both_refused_and_in_a_row(op: str) -> None:
    assert not [rule for rule in VX.rules if op in rule.maps_to]
    assert judge(VX, unary(IMAGE, op)).rule == "refusal"


def test_the_table_is_sound() -> None:
    check_table(VX)
