# SPDX-License-Identifier: Apache-2.0
"""The RKNN table: every row has an op that it decides, and the refusals users meet read as they should."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from edgedeploy_partitioner.support.verdicts import NO_RULE, Judged, check_table, verdicts
from support.deciding import judged_on, undecided
from support.rknn_ops import (
    CASES,
    FLOAT,
    GATE,
    IMAGE,
    RKNN,
    compare,
    deconv,
    depthwise,
    lstm,
    pool,
    power,
    split,
    with_parameters,
)
from support.single_op import Made, T, add, conv, ints, mean, single_op, transpose, unary, weighted, weights

SMALL = ("rk3568", "rk3566")


def judge(made: Made, kernel: str = "npu", soc: str = "rk3588") -> Judged:
    return judged_on(made, RKNN, soc, kernel)


def test_every_row_and_every_requirement_decides_an_op() -> None:
    assert not list(undecided(RKNN, CASES))


@pytest.mark.parametrize("soc", RKNN.socs)
def test_every_verdict_names_its_source_and_version(soc: str) -> None:
    for made in CASES:
        for judged in verdicts(*made, RKNN, soc):
            if judged.rule == NO_RULE:
                continue
            assert judged.sdk_version in ("2.1.0", "2.3.0", "2.3.2", "2.5.0")
            assert judged.source
            assert judged.source not in RKNN.sources


class Refused(NamedTuple):
    made: Made
    reason: str
    rule: str
    status: str = "refused"
    kernel: str = "npu"
    soc: str = "rk3588"


HYBRID = "Conv needs weights of the data's type: quantised in full, or float (no hybrid or 16x8)"
TYPES = "RKNN needs input of type int8, uint8, float32 or float16"
TABLE, COMPILE = "the RKNN 2.3.2 table: ", "a compile with RKNN 2.5.0: "
REFUSED = [
    Refused(conv(64, (33, 33)), "kernel 33x33; Conv needs a kernel of 1-31 per side", "kernel"),
    Refused(conv(stride_h=8), "stride 8x8; Conv needs strides of 1-7", "strides"),
    Refused(depthwise(9, 2), "", "row", "unknown"),
    Refused(weighted(FLOAT, weights(4, 1, 1, 4)), f"weight is int8, data is float32; {HYBRID}", "same_type_weights"),
    Refused(conv(dtype="int16"), f"input 0 is int16; {TYPES}", "input_types"),
    Refused(unary(T((4,), "int32")), f"input 0 is int32; {TYPES}", "input_types"),
    Refused(conv(dtype="uint8"), "input 0 is uint8; unknown whether RKNN takes that", "no_types", "unknown"),
    Refused(
        unary(T((1, 4), signature=(-1, 4))),
        "input 0 dim 0 is -1; RKNN needs a static shape (--input-shape fixes it)",
        "static_shapes",
    ),
    Refused(
        unary(T((4,), scales=())),
        "input 0 is int8 without a scale; RKNN needs a scale for every 8-bit tensor",
        "quantised",
    ),
    Refused(unary(T((1,) * 5)), "input 0 has rank 5; unknown whether RKNN takes that", "max_rank", "unknown"),
    Refused(
        lstm(state=True, forget=GATE),
        "input 18 is a variable tensor; unknown whether RKNN takes that",
        "stateless",
        "unknown",
    ),
    Refused(
        conv(fused_activation_function="SIGN_BIT"),
        "fused_activation_function is SIGN_BIT; RKNN needs options fused_activation_function NONE, RELU, RELU6 or TANH",
        "options",
    ),
    Refused(
        pool("AVERAGE_POOL_2D", 3, "SAME"),
        "padding 1+1 by 1+1; AveragePool needs padding of 0 on each side (TFLite leaves padding out of the average and "
        "RKNN counts it, so only unpadded pools agree)",
        "padding",
    ),
    Refused(
        mean((1, 8, 7, 4), 1, 2),
        "may become GlobalAveragePool in parts on the NPU (the list has height and width of at most 7; whether the "
        "compiler splits larger ones or leaves them to the CPU was not found)",
        "row",
        "unknown",
    ),
    Refused(mean((1, 7, 7, 8193), 1, 2), "", "max_input_sizes"),
    # The list has 4096, the compiler's own message 8192.
    Refused(
        transpose((64, 64), 1, 0),
        "permutation [0, 1, 3, 2] with H*W = 4096; unknown whether RKNN takes that",
        "permuted_area",
        "unknown",
    ),
    Refused(transpose((64, 128), 1, 0), "", "transposes"),
    Refused(transpose((256, 2560), 1, 0), "", "permuted_area", "unknown", soc="rk3576"),
    Refused(transpose((256, 2560), 1, 0), "", "transposes", soc="rk3562"),
    Refused(single_op("CUMSUM", [IMAGE, ints(1)], [IMAGE]), "", "row", "unknown"),
    Refused(
        single_op("FULLY_CONNECTED", [T((1, 2, 4)), weights(3, 4)], [T((1, 2, 3))]),
        "input has rank 3; 1x1 Conv needs an input of rank 1-2 (rknn-toolkit2 2.5.0 rejects inputs of rank 3)",
        "input_rank",
    ),
    Refused(deconv(3), "stride 3x3; ConvTranspose needs strides of 1, 2, 4 or 8", "strides_among"),
    Refused(deconv(9), "stride 9x9; ConvTranspose needs strides of 1-8", "strides", soc="rk3576"),
    Refused(
        # The published complaint: a 256x2560 Transpose falls off the NPU. H*W is 655360.
        transpose((256, 2560), 1, 0),
        "permutation [0, 1, 3, 2] of [1, 1, 256, 2560] (NCHW): H*W = 655360 is not less than 8192; "
        "Transpose needs sizes within the bounds of that permutation",
        "transposes",
    ),
    Refused(
        conv(8200),
        "input width 8200, with this kernel 4778 fit; unknown whether RKNN takes that",
        "first_layer",
        "unknown",
    ),
    Refused(
        single_op("CUSTOM", [FLOAT], [FLOAT], custom_code="TFLite_Detection_PostProcess"),
        "a custom op is in neither of RKNN's lists, and one such op makes the toolkit reject the whole graph: "
        "the model is cut before it",
        "refusal",
    ),
    Refused(unary(FLOAT, "RSQRT"), "the RKNN 2.3.2 table has no row for RSQRT", NO_RULE),
    # Where a compile says otherwise than the list, both are told.
    Refused(
        split(IMAGE),
        f"{COMPILE}becomes Split on RKNN's cpu lane; {TABLE}becomes Split on the NPU",
        "evidence",
    ),
    Refused(
        split(IMAGE),
        f"{COMPILE}becomes Split on RKNN's cpu lane; {TABLE}becomes Split on the NPU",
        "row",
        "supported",
        "cpu_lane",
    ),
    Refused(
        unary(IMAGE, "DEPTH_TO_SPACE"),
        f"{COMPILE}becomes DepthToSpace on the NPU; {TABLE}becomes DepthToSpace on RKNN's cpu lane",
        "row",
        "supported",
    ),
    Refused(
        unary(FLOAT, "GELU"),
        f"{COMPILE}rejected by rknn-toolkit2 2.5.0, with the whole graph: the model is cut around it; "
        f"{TABLE}becomes exGelu on the NPU, computed in float16",
        "refusal",
    ),
    Refused(
        transpose((1, 8, 8, 4), 0, 1, 2, 3),
        f"{COMPILE}becomes Transpose on RKNN's cpu lane; {TABLE}becomes Transpose on the NPU",
        "evidence",
        soc="rk3566",
    ),
]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row.made[1].code}-{row.rule}-{row.kernel}")
def test_refusal(row: Refused) -> None:
    judged = judge(row.made, row.kernel, row.soc)
    assert (judged.status, judged.rule) == (row.status, row.rule)
    assert judged.reason == row.reason or not row.reason


@pytest.mark.parametrize("op", ["IF", "WHILE", "CALL_ONCE"])
def test_control_flow_is_refused(op: str) -> None:
    judged = judge(single_op(op, [FLOAT], [FLOAT]))
    assert (judged.status, judged.rule) == ("refused", "refusal")
    assert "dynamic" in judged.reason


@pytest.mark.parametrize("op", sorted({op for row in RKNN.refusals for op in row.ops}))
def test_every_op_that_is_refused_by_name(op: str) -> None:
    for soc in RKNN.socs:
        [judged] = verdicts(*unary(FLOAT, op), RKNN, soc)
        assert (judged.status, judged.rule) == ("refused", "refusal")


# --- Transpose ----------


@pytest.mark.parametrize(
    ("shape", "perm", "dtype", "status"),
    [
        # [0, 2, 3, 1] of NHWC gives [N, W, C, H], whose NCHW is [N, H, W, C]: [0, 2, 3, 1] there too.
        ((1, 8, 16, 8191), (0, 2, 3, 1), "int8", "supported"),  # C*W = 131056 < 16 * 8192
        ((1, 8, 16, 8192), (0, 2, 3, 1), "int8", "refused"),  # C is not below 8192
        ((1, 8, 16, 8191), (0, 2, 3, 1), "float32", "refused"),  # 131056 is not below 8 * 8192
        ((1, 5, 16, 64), (0, 2, 3, 1), "int8", "supported"),  # H*W = 80, a multiple of 8
        ((1, 5, 15, 64), (0, 2, 3, 1), "int8", "refused"),  # H*W = 75
        # [0, 3, 1, 2] likewise: H*W < 8192, W < 8192, H*C < 8192.
        ((1, 8, 16, 1023), (0, 3, 1, 2), "int8", "supported"),
        ((1, 8, 16, 1024), (0, 3, 1, 2), "int8", "refused"),
        ((1, 64, 127, 4), (0, 3, 1, 2), "float32", "supported"),
        ((1, 64, 128, 4), (0, 3, 1, 2), "float32", "refused"),
        # NHWC [0, 2, 1, 3] swaps H and W: [0, 1, 3, 2] of NCHW: H % 16 | 8, H*W < 4096, or < 8192 by the compiler.
        ((1, 16, 255, 4), (0, 2, 1, 3), "int8", "supported"),
        ((1, 16, 256, 4), (0, 2, 1, 3), "int8", "unknown"),
        ((1, 16, 511, 4), (0, 2, 1, 3), "int8", "unknown"),
        ((1, 16, 512, 4), (0, 2, 1, 3), "int8", "refused"),
        ((1, 8, 255, 4), (0, 2, 1, 3), "int8", "refused"),
        ((1, 8, 255, 4), (0, 2, 1, 3), "float32", "supported"),
        # Rank 3 is no image: [1, 0, 2] is [0, 2, 1, 3] of [1, a, b, c]: H % 16, C*W < 8192.
        ((127, 16, 64), (1, 0, 2), "int8", "supported"),
        ((128, 16, 64), (1, 0, 2), "int8", "refused"),
        ((3, 3, 3, 3), (0, 1, 2, 3), "int8", "supported"),
    ],
)
def test_transposes_worked_by_hand(shape: tuple[int, ...], perm: tuple[int, ...], dtype: str, status: str) -> None:
    judged = judge(transpose(shape, *perm, dtype=dtype))
    assert judged.status == status, judged.reason


@pytest.mark.parametrize("soc", ["rk3576", "rk3562"])
@pytest.mark.parametrize(
    ("shape", "perm", "status"),
    [
        ((16, 8191), (1, 0), "supported"),  # H*W = 131056 < 2 * 65536; 4096 is the bound of rk3588
        ((15, 16), (1, 0), "refused"),  # H is no multiple of 16 there either
        ((1, 64, 128, 4), (0, 3, 1, 2), "supported"),  # H*W and H*C are bounded by 268435456 only
        ((1, 1, 8192, 4), (0, 3, 1, 2), "refused"),  # W < 8192 is written as a number
        ((1, 64, 256, 300), (3, 2, 0, 1), "supported"),  # [1, 2, 3, 0] has no bound that is reached
    ],
)
def test_transposes_of_rk3576_and_rk3562(soc: str, shape: tuple[int, ...], perm: tuple[int, ...], status: str) -> None:
    judged = judge(transpose(shape, *perm), soc=soc)
    assert judged.status == status, judged.reason


@pytest.mark.parametrize(("soc", "status"), [("rk3576", "unknown"), ("rk3562", "refused")])
def test_a_bound_that_a_report_contradicts_is_open_on_its_chip(soc: str, status: str) -> None:
    assert judge(transpose((16, 8192), 1, 0), soc=soc).status == status


def test_every_permutation_of_four_axes_has_its_bounds() -> None:
    found = {soc: len({row.perm for row in RKNN.transposes if soc in (row.socs or RKNN.socs)}) for soc in RKNN.socs}
    assert found == {"rk3588": 24, "rk3576": 24, "rk3562": 24, "rk3568": 5, "rk3566": 5}


@pytest.mark.parametrize("loose", ["rk3576", "rk3562"])
def test_what_rk3588_can_transpose_the_newer_ones_can(loose: str) -> None:
    for row in RKNN.transposes:
        shape = [1, 1, 1, 1]
        shape["NHWC".index(row.product[:1] or "N")] = (row.less_than or 17) - 1
        made = transpose(tuple(shape), 0, 3, 1, 2)
        if judge(made).status == "supported":
            assert judge(made, soc=loose).status == "supported"


# --- what differs from SoC to SoC ----------


@pytest.mark.parametrize(
    ("made", "npu", "lane"),
    [
        (unary(IMAGE, "SOFTMAX"), {"rk3588", "rk3576", "rk3562"}, set(SMALL)),
        (transpose((1, 16, 16, 4), 0, 3, 1, 2), {"rk3588", "rk3576", "rk3562"}, set(SMALL)),
        (deconv(4), set(RKNN.socs), set()),
        (deconv(3), {"rk3576", "rk3562"}, set()),
        (with_parameters("MINIMUM", FLOAT, FLOAT), {"rk3588", "rk3576", *SMALL}, {"rk3562"}),
        (with_parameters("MINIMUM", IMAGE, IMAGE), {"rk3576", *SMALL}, {"rk3588", "rk3562"}),
        (power(2.0), {"rk3576", "rk3562", *SMALL}, {"rk3588"}),
    ],
)
def test_where_each_soc_runs_it(made: Made, npu: set[str], lane: set[str]) -> None:
    found: dict[str, set[str]] = {"npu": set(), "cpu_lane": set()}
    for soc in RKNN.socs:
        for judged in verdicts(*made, RKNN, soc):
            if judged.status == "supported":
                found[judged.kernel].add(soc)
    assert found == {"npu": npu, "cpu_lane": lane}


def test_rk356x_has_no_softmax_on_the_npu_at_all() -> None:
    [judged] = verdicts(*unary(IMAGE, "SOFTMAX"), RKNN, "rk3566")
    assert (judged.kernel, judged.evidence) == ("cpu_lane", "compile")
    assert judged.reason == "becomes Softmax on RKNN's cpu lane"


def test_greater_is_a_doubt_on_rk3576_and_on_the_cpu_elsewhere() -> None:
    assert judge(compare("GREATER"), soc="rk3576").status == "unknown"
    assert [j.kernel for j in verdicts(*compare("GREATER"), RKNN, "rk3588")] == ["cpu_lane"]


@pytest.mark.parametrize(
    ("soc", "dtype", "most"),
    # banks: 12 - 3 and 8 - 1 of which at most 7 count; a 3x3 kernel holds three rows at once
    [("rk3588", "int8", 2048 * 7 // 3), ("rk3588", "float32", 1024 * 7 // 3), ("rk3566", "int8", 1024 * 7 // 3),
     ("rk3566", "float32", 4096), ("rk3562", "int8", 4096)],
)  # fmt: skip
def test_width_of_a_first_layer(soc: str, dtype: str, most: int) -> None:
    for width, status in ((most, "supported"), (most + 1, "unknown")):
        image = T((1, 8, width, 3), dtype)
        made = single_op("CONV_2D", [image, weights(3, 3, 3, 3, dtype=dtype)], [image], padding="SAME")
        assert judge(made, soc=soc).status == status


@pytest.mark.parametrize("soc", RKNN.socs)
@pytest.mark.parametrize(("dtype", "bytes_each"), [("int8", 1), ("float32", 2), ("int32", 0)])
def test_layout_goes_with_the_computed_type_and_the_soc(soc: str, dtype: str, bytes_each: int) -> None:
    block = 8 if soc in SMALL else 16
    wanted = f"NC1HWC2/{block // bytes_each}" if bytes_each else "NHWC"
    assert judge(unary(T((4,), dtype)), soc=soc).layout == wanted


# --- fusions ----------


def test_what_is_fused_into_convolutions() -> None:
    def into(code: str) -> tuple[str, ...]:
        fusion = judge(with_parameters(code, IMAGE, weights(1, 1, 4))).fusion
        return fusion.into if fusion else ()

    convolutions = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
    for code in ("ADD", "RELU", "RELU6", "LEAKY_RELU", "PRELU", "LOGISTIC", "TANH", "HARD_SWISH", "ELU"):
        assert into(code)[:3] == convolutions
    assert into("RELU")[3:] == ("ADD", "MUL")
    assert into("MUL") == ("LOGISTIC",)
    assert not any(map(into, ("SUB", "MAXIMUM", "CONCATENATION", "SOFTMAX")))


# --- the rest ----------


def test_a_supported_op_stops_the_search_and_a_refused_one_shows_both_kernels() -> None:
    assert [j.kernel for j in verdicts(*mean((1, 7, 7, 4), 1, 2), RKNN, "rk3588")] == ["npu"]
    assert [j.kernel for j in verdicts(*mean((1, 9, 9, 4), 1, 2), RKNN, "rk3588")] == ["npu", "cpu_lane"]


def test_float_models_are_said_to_run_in_float16() -> None:
    assert judge(unary(FLOAT)).reason == "becomes Relu on the NPU, computed in float16"


def test_weights_behind_a_constant_dequantize_are_constants() -> None:
    graph, op = single_op("DEQUANTIZE", [weights(6, 3, 3, 4, dtype="float16")], [T((6, 3, 3, 4), "float32")])
    assert judge((graph, op)).rule == "folded"


def test_per_channel_weights_are_supported() -> None:
    assert judge(weighted(IMAGE, weights(4, 1, 1, 4, scales=(0.1, 0.2, 0.3, 0.4)))).status == "supported"


def test_an_add_of_a_channel_vector_is_a_broadcast_per_channel() -> None:
    assert judge(add((1, 8, 8, 4), (4,), (1, 8, 8, 4))).status == "supported"


def test_the_table_is_sound() -> None:
    check_table(RKNN)
    assert len(RKNN.rules) == len({(*r.maps_to, r.kernel, r.source, str(r.require), r.socs) for r in RKNN.rules})
