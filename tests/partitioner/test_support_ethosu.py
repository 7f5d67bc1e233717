# SPDX-License-Identifier: Apache-2.0
"""The Ethos-U table: every requirement of every row has ops on both sides of it, and refusals read as they should.

What Arm's compiler does with the same ops is compared in ``tests/vendors/test_vela.py``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import msgspec
import pytest

from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.support.case import Case
from edgedeploy_partitioner.support.predicates import find
from edgedeploy_partitioner.support.verdicts import NO_RULE, REFUSAL, Judged, check_table, verdicts
from edgedeploy_profiles import load_backend
from edgedeploy_profiles.schema import Requirement, Rule
from support.one_op_file import one_op_file
from support.single_op import Made, ints
from support.vela_cases import (
    IMAGE,
    VelaCase,
    arg_max,
    binary,
    const,
    conv,
    data,
    depthwise,
    pool,
    reduced,
    resize,
    seeded,
    strided,
    transpose,
    transposed,
    unary,
)
from support.vela_limits import limits, spoiled

ETHOSU = load_backend("ethosu")
ROWS = [(rule, op) for rule in ETHOSU.rules for op in rule.maps_to]


def made(case: VelaCase) -> Made:
    file = one_op_file(case.code, case.inputs, case.outputs, case.intermediates, **case.options)
    graph = read_bytes(file)
    return graph, graph.subgraphs[0].ops[0]


def judge(case: VelaCase) -> Judged:
    [judged] = verdicts(*made(case), ETHOSU, "imx93")
    return judged


@cache
def cases() -> dict[str, list[VelaCase]]:
    """By op."""
    found: dict[str, list[VelaCase]] = {}
    for case in (*limits(), *spoiled(), *seeded()):
        found.setdefault(case.code, []).append(case)
    return found


@cache
def cases_of(op: str) -> tuple[Case, ...]:
    return tuple(Case(*made(case), ETHOSU, "imx93") for case in cases()[op])


# --- rows ----------


@pytest.mark.parametrize(("rule", "op"), ROWS, ids=lambda value: value if isinstance(value, str) else "")
def test_every_requirement_of_a_row_is_met_and_broken_by_some_op(rule: Rule, op: str) -> None:
    for name, parameter in rule.require.items():
        found = {find(name).violation(case, parameter) is None for case in cases_of(op)}
        assert found == {True, False}, name


@pytest.mark.parametrize("op", sorted({op for _, op in ROWS}))
def test_every_op_of_the_table_can_be_supported(op: str) -> None:
    """Or unknown at best, where the versions on the board do not list it."""
    judged = [verdicts(case.graph, case.op, ETHOSU, "imx93")[0] for case in cases_of(op)]
    best = "supported" if any(rule.verdict == "supported" for rule in ETHOSU.rules if op in rule.maps_to) else "unknown"
    assert "row" in {j.rule for j in judged if j.status == best}


@pytest.mark.parametrize("row", [row for row in ETHOSU.every_op if row.sdk_version], ids=lambda row: f"{row.require}")
def test_every_requirement_of_an_older_version_leaves_some_op_open(row: Requirement) -> None:
    """And concerns ops that the older version lists: the others are unknown by their rows."""
    older = msgspec.structs.replace(ETHOSU, every_op=(row,))
    for op in row.ops:
        assert any(rule.verdict == "supported" for rule in ETHOSU.rules if op in rule.maps_to), op
    for name in row.require:
        found = {verdicts(c.graph, c.op, older, "imx93")[0] for op in row.ops or cases() for c in cases_of(op)}
        assert ("unknown", row.sdk_version) in {(j.status, j.sdk_version) for j in found if j.rule == name}


DILATED = "a kernel, dilated, of at most height 64, area 4096"
OPEN = [
    (
        pool("", "AVERAGE_POOL_2D", (25, 5), (25, 5), (1, 25, 5, 64)),
        "stride 25x5; Ethos-U65 3.9.0 needs strides of 1-3, 5.2.0 does not",
        "3.9.0",
    ),
    (
        conv("", (1, 70, 70, 4), kernel=(65, 1)),
        f"dilated kernel 65x1; Ethos-U65 3.10.0 needs {DILATED}, 5.2.0 does not",
        "3.10.0",
    ),
    (
        unary("", "GELU"),
        "may become a look-up table on the NPU (Vela 3.10.0 does not list it, 5.2.0 does)",
        "5.2.0",
    ),
]


@pytest.mark.parametrize(("case", "reason", "version"), OPEN, ids=lambda value: getattr(value, "code", ""))
def test_what_only_the_newer_version_takes_is_unknown(case: VelaCase, reason: str, version: str) -> None:
    judged = judge(case)
    assert (judged.status, judged.reason, judged.sdk_version) == ("unknown", reason, version)


def test_the_table_is_sound() -> None:
    check_table(ETHOSU)
    assert ETHOSU.layouts == {}
    assert all(rule.source in ETHOSU.sources for rule in ETHOSU.rules)


# --- refusals ----------


class Refused(NamedTuple):
    case: VelaCase
    reason: str
    rule: str


BYTES = "data (not weights) of type int8, uint8 or int16"
REFUSED = [
    Refused(conv("", dtype="int32"), f"input 0 is int32; Conv2D needs {BYTES}", "feature_types"),
    Refused(
        conv("", dtype="float32"),
        "input 0 is float32; Ethos-U65 needs data (not weights) of type int8, uint8, int16, int32 or int64",
        "feature_types",
    ),
    Refused(
        conv("", weights=data(6, 3, 3, 4)),
        "input 1 is computed; Conv2D needs constants as input 1 or 2",
        "constant_inputs",
    ),
    Refused(
        conv("", weights=const(6, 3, 3, 4, dtype="int16")),
        "weight is int16; Conv2D needs weights of type int8 or uint8",
        "weight_types",
    ),
    Refused(
        conv("", (1, 9, 9, 4), kernel=(5, 5), stride=(4, 4)),
        "stride 4x4 with padding; Conv2D needs strides of at most 3, or neither padding nor dilation",
        "strides_unless_unrolled",
    ),
    Refused(depthwise("", stride=(4, 4)), "stride 4x4; DepthwiseConv2D needs strides of 1-3", "strides"),
    Refused(
        transposed("", IMAGE, (1, 24, 24, 6), (3, 3), (3, 3)),
        "stride 3x3; Conv2D on an enlarged input needs strides of 1x1 or 2x2, or of 1x2 or 2x1 where the side of "
        "stride 1 is 1 in input and kernel",
        "transposed_strides",
    ),
    Refused(
        pool("", "AVERAGE_POOL_2D", (9, 9), shape=(1, 16, 16, 4), padding="SAME"),
        "kernel 9x9 with padding; AvgPool needs a kernel of at most height 256, area 65536, 8x8 with padding",
        "pool_kernel",
    ),
    Refused(
        resize("", "RESIZE_BILINEAR", (4, 4), (12, 12)),
        "4x4 to 12x12; AvgPool needs to enlarge height and width alike by 2, 4, 8 (bilinear with half_pixel_centers: "
        "2); with align_corners of what lies between the corners",
        "resize_factors",
    ),
    Refused(
        unary("", "GELU", "int16"),
        "input 0 is int16; a look-up table needs data (not weights) of type int8 or uint8 (Vela 3.10.0 does not list "
        "it, 5.2.0 does)",
        "feature_types",
    ),
    Refused(
        binary("", "MAXIMUM", data(*IMAGE), data(*IMAGE, scales=(0.25,)), IMAGE),
        "input 1 and the output differ in scale or zero point; Maximum needs inputs quantised like the output",
        "same_quantisation",
    ),
    Refused(
        reduced("", "MEAN", (1, 8, 8, 4), 3),
        "reduces the depth of 1x8x8x4; DepthwiseConv2D and Mul needs a height, width or depth of 1 to reduce the depth",
        "flat_if_depth_reduced",
    ),
    Refused(
        arg_max("", (1, 8, 8, 128), 3),
        "128 channels; DepthwiseConv2D and MaxPool needs an input of at most 127 channels",
        "max_depth",
    ),
    Refused(
        transpose((300, 300, 300, 4), 1, 0, 2, 3),
        "permutation [1, 0, 2, 3] of 300x300x300x4; Transpose needs 8- and 16-bit data to be permuted within one "
        "image, or of few elements, by a bound of 65536",
        "permuted_sizes",
    ),
    Refused(
        transpose((1, 8, 6, 4), 0, 3, 1, 2, dtype="int32"),
        "permutation NCHW of 1x8x6x4; Transpose needs int32 data to be permuted to NHWC 65536, 65536, 65536 or 32768, "
        "NWHC 1, 65536, 65536 or 16384, NHCW 0, 65536, 65536 or 65536, those being the largest N, H, W and C",
        "permuted_int32",
    ),
    Refused(
        strided("", (0, 0, 0, 0), (1, 8, 8, 4), (1, 1, 1, 2), (1, 8, 8, 2)),
        "stride 2 along axis -1; copies needs strides of 1 or more, above 1 only along height and width",
        "image_strides",
    ),
    Refused(
        unary("", "REVERSE_V2", "int8", "", IMAGE, ints(1)),
        "Vela lists it without axes only, and a file where it reverses an axis stays on the CPU",
        REFUSAL,
    ),
    Refused(unary("", "DEQUANTIZE", out="float32"), "the Ethos-U65 5.2.0 table has no row for DEQUANTIZE", NO_RULE),
]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row.case.code}-{row.rule}")
def test_refusal(row: Refused) -> None:
    judged = judge(row.case)
    assert (judged.status, judged.rule, judged.reason) == ("refused", row.rule, row.reason)
    assert judged.sdk_version == "5.2.0"


def test_sparse_weights_are_left_open() -> None:
    graph, op = made(conv(""))
    [main] = graph.subgraphs
    tensors = tuple(replace(t, is_sparse=t.is_constant) for t in main.tensors)
    judged = verdicts(replace(graph, subgraphs=(replace(main, tensors=tensors),)), op, ETHOSU, "imx93")[0]
    assert (judged.status, judged.rule) == ("unknown", "dense")
