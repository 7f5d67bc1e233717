# SPDX-License-Identifier: Apache-2.0
"""Verdicts on anything: small tables written here, and ops that no reader would let through."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Quantization, Span, Subgraph, Tensor
from edgedeploy_partitioner.support.case import Case
from edgedeploy_partitioner.support.predicates import find
from edgedeploy_partitioner.support.verdicts import check_table, verdicts
from edgedeploy_profiles import load_backend
from edgedeploy_profiles.schema import Backend, Evidence, Fusion, Refusal, Requirement, Rule, TransposeBound
from support.single_op import T, single_op, transpose, unary

RKNN = load_backend("rknn")
TABLES = [RKNN, load_backend("teflon-rocket"), load_backend("teflon-etnaviv")]
IMAGE = T((1, 8, 8, 4))


def table(*rules: Rule, every_op: tuple[Requirement, ...] = ()) -> Backend:
    own: dict[str, Any] = {"refusals": (), "transposes": (), "layouts_by_soc": {}, "socs": ("rk3588", "rk3566")}
    own["sources"] = {"doc": "The Document"}
    return msgspec.structs.replace(RKNN, rules=rules, every_op=every_op, **own)


def rule(*ops: str, **fields: Any) -> Rule:
    return Rule(**{"maps_to": dict.fromkeys(ops, "Thing"), "source": "doc", **fields})


def statuses(backend: Backend, code: str = "RELU", spec: T = IMAGE) -> list[tuple[str, str]]:
    return [(j.kernel, j.status) for j in verdicts(*unary(spec, code), backend, "rk3588")]


def test_rows_are_alternatives_and_the_best_verdict_of_a_kernel_counts() -> None:
    refused, unknown = rule("RELU", require={"max_rank": 3}), rule("RELU", verdict="unknown")
    assert statuses(table(refused, unknown)) == [("npu", "unknown")]
    assert statuses(table(unknown, refused)) == [("npu", "unknown")]
    assert statuses(table(refused, rule("RELU"))) == [("npu", "supported")]
    assert statuses(table(refused, rule("RELU", kernel="cpu_lane"))) == [("npu", "refused"), ("cpu_lane", "supported")]
    assert statuses(table(rule("RELU"), rule("RELU", kernel="cpu_lane"))) == [("npu", "supported")]


def test_the_first_reason_of_several_refusals_is_told() -> None:
    backend = table(rule("RELU", require={"max_rank": 3}), rule("RELU", require={"max_rank": 2}))
    [judged] = verdicts(*unary(IMAGE), backend, "rk3588")
    assert judged.reason == "input 0 has rank 4; Thing needs tensors of rank 3 at most"
    assert (judged.rule, judged.source, judged.sdk_version) == ("max_rank", "The Document", "2.3.2")


def test_a_refusal_outweighs_a_doubt() -> None:
    doubt = Requirement(require={"no_types": ["int8"]}, source="doc", otherwise="unknown")
    limit = Requirement(require={"max_rank": 3}, source="doc")
    assert statuses(table(rule("RELU"), every_op=(doubt, limit))) == [("npu", "refused")]
    assert statuses(table(rule("RELU"), every_op=(doubt,))) == [("npu", "unknown")]


def test_requirements_may_be_for_some_kernels_only() -> None:
    limit = Requirement(require={"max_rank": 3}, source="doc", kernels=("cpu_lane",))
    assert statuses(table(rule("RELU"), every_op=(limit,))) == [("npu", "supported")]
    assert statuses(table(rule("RELU", kernel="cpu_lane"), every_op=(limit,))) == [("cpu_lane", "refused")]


def test_requirements_may_be_for_some_ops_only() -> None:
    limit = Requirement(require={"max_rank": 3}, source="doc", ops=("TANH",))
    others = Requirement(require={"max_rank": 3}, source="doc", except_ops=("RELU",))
    for row, refused in ((limit, "TANH"), (others, "TANH")):
        backend = table(rule("RELU"), rule("TANH"), every_op=(row,))
        found = {code: verdicts(*unary(IMAGE, code), backend, "rk3588")[0].status for code in ("RELU", "TANH")}
        assert found == {"RELU": "supported", "TANH": "supported", refused: "refused"}


def test_a_requirement_of_another_version_names_both() -> None:
    older = Requirement(require={"max_rank": 3}, source="doc", otherwise="unknown", sdk_version="1.9")
    [judged] = verdicts(*unary(IMAGE), table(rule("RELU"), every_op=(older,)), "rk3588")
    assert (judged.status, judged.sdk_version) == ("unknown", "1.9")
    assert judged.reason == "input 0 has rank 4; RKNN 1.9 needs tensors of rank 3 at most, 2.3.2 does not"


def test_rows_of_other_chips_do_not_count() -> None:
    assert verdicts(*unary(IMAGE), table(rule("RELU", socs=("rk3566",))), "rk3588")[0].rule == "no_rule"


def test_requirements_may_be_for_some_chips_only() -> None:
    limit = Requirement(require={"max_rank": 3}, source="doc", socs=("rk3566",))
    backend = table(rule("RELU"), every_op=(limit,))
    found = {soc: verdicts(*unary(IMAGE), backend, soc)[0].status for soc in backend.socs}
    assert found == {"rk3588": "supported", "rk3566": "refused"}


def test_bounds_of_a_permutation_may_be_for_some_chips_only() -> None:
    bounds = (TransposeBound((1, 0, 2, 3), "N", less_than=3, socs=("rk3566",)), TransposeBound((1, 0, 2, 3)))
    backend = msgspec.structs.replace(table(rule("TRANSPOSE", require={"transposes": True})), transposes=bounds)
    made = transpose((4, 1, 1, 4), 3, 1, 2, 0)
    found = {soc: verdicts(*made, backend, soc)[0].status for soc in backend.socs}
    assert found == {"rk3588": "supported", "rk3566": "refused"}


def test_layouts_may_be_those_of_some_chips_only() -> None:
    backend = msgspec.structs.replace(table(rule("RELU")), layouts_by_soc={"rk3566": {"int8": "NC1HWC2/8"}})
    found = {soc: verdicts(*unary(IMAGE), backend, soc)[0].layout for soc in backend.socs}
    assert found == {"rk3588": "NC1HWC2/16", "rk3566": "NC1HWC2/8"}


@pytest.mark.parametrize("fields", [{"rules": (Rule({}, "doc", socs=("rk1",)),)}, {"layouts_by_soc": {"rk1": {}}}])
def test_a_table_with_rows_of_a_chip_that_it_does_not_have_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="rows for rk1, which is not in socs"):
        msgspec.structs.replace(table(), **fields).__post_init__()


def test_a_row_says_into_what_it_can_be_fused() -> None:
    fusion = Fusion(("CONV_2D",), required=True)
    assert verdicts(*unary(IMAGE), table(rule("RELU", fusion=fusion)), "rk3588")[0].fusion == fusion
    doubt = Requirement(require={"max_rank": 3}, source="doc", otherwise="unknown")
    assert verdicts(*unary(IMAGE), table(rule("RELU", fusion=fusion), every_op=(doubt,)), "rk3588")[0].fusion == fusion


# --- evidence ----------

SEEN = {"evidence": "compile", "sdk_version": "9.9"}
CLAIM, COMPILE = "the RKNN 2.3.2 table: ", "a compile with RKNN 9.9: "


def told(backend: Backend) -> dict[str, tuple[str, str, str]]:
    judged = verdicts(*unary(IMAGE), backend, "rk3588")
    return {j.kernel: (j.status, j.rule, j.reason) for j in judged}


def test_a_compile_that_agrees_with_the_table_is_just_the_better_source() -> None:
    [judged] = verdicts(*unary(IMAGE), table(rule("RELU"), rule("RELU", **SEEN)), "rk3588")
    assert (judged.evidence, judged.sdk_version) == ("compile", "9.9")
    assert judged.reason == "becomes Thing on the NPU"


@pytest.mark.parametrize("order", [1, -1])
def test_a_compile_that_puts_an_op_on_another_kernel_wins_and_both_are_told(order: int) -> None:
    rows = [rule("RELU"), rule("RELU", kernel="cpu_lane", **SEEN)][::order]
    reason = f"{COMPILE}becomes Thing on RKNN's cpu lane; {CLAIM}becomes Thing on the NPU"
    assert told(table(*rows)) == {"npu": ("refused", "evidence", reason), "cpu_lane": ("supported", "row", reason)}


def test_a_compile_outweighs_a_refusal_of_the_table() -> None:
    refused = rule("RELU", require={"max_rank": 3})
    reason = f"{COMPILE}becomes Thing on the NPU; {CLAIM}input 0 has rank 4; Thing needs tensors of rank 3 at most"
    assert told(table(refused, rule("RELU", **SEEN))) == {"npu": ("supported", "row", reason)}
    by_name = msgspec.structs.replace(table(rule("RELU", **SEEN)), refusals=(Refusal(("RELU",), "never", "doc"),))
    assert told(by_name) == {"npu": ("supported", "row", f"{COMPILE}becomes Thing on the NPU; {CLAIM}never")}


def test_a_refusal_that_was_seen_outweighs_the_table_and_an_equal_one_needs_no_words() -> None:
    refusal = Refusal(("RELU",), "rejected", "doc", "9.9", evidence="compile")
    refused = msgspec.structs.replace(table(rule("RELU"), rule("RELU", kernel="cpu_lane")), refusals=(refusal,))
    assert told(refused) == {"npu": ("refused", "refusal", f"{COMPILE}rejected; {CLAIM}becomes Thing on the NPU")}
    plain = Refusal(("RELU",), "rejected", "doc")
    backend = msgspec.structs.replace(table(rule("RELU")), refusals=(plain,))
    assert told(backend) == {"npu": ("refused", "refusal", "rejected")}


def test_a_measurement_outweighs_a_compile() -> None:
    measured = rule("RELU", evidence="measurement")
    found = told(table(rule("RELU", kernel="cpu_lane", **SEEN), measured))
    assert {kernel: (status, rule) for kernel, (status, rule, _) in found.items()} == {
        "npu": ("supported", "row"), "cpu_lane": ("refused", "evidence"),
    }  # fmt: skip
    assert found["npu"][2].startswith("a measurement with RKNN 2.3.2: ")


def test_a_compile_of_other_circumstances_says_nothing() -> None:
    other = rule("RELU", kernel="cpu_lane", require={"max_rank": 3}, **SEEN)
    assert told(table(other, rule("RELU"))) == {"npu": ("supported", "row", "becomes Thing on the NPU")}
    assert [status for status, _, _ in told(table(other)).values()] == ["refused"]


EVIDENCES: tuple[Evidence, ...] = get_args(Evidence)
ROWS = st.builds(
    lambda kernel, word, verdict, fits: rule(
        "RELU", kernel=kernel, evidence=word, verdict=verdict, require={} if fits else {"max_rank": 3}
    ),
    st.sampled_from(RKNN.kernels), st.sampled_from(EVIDENCES), st.sampled_from(["supported", "unknown"]), st.booleans(),
)  # fmt: skip


@given(st.lists(ROWS, min_size=1, max_size=6))
def test_the_op_runs_where_the_strongest_evidence_that_settles_it_says(rows: list[Rule]) -> None:
    judged = {j.kernel: j.status for j in verdicts(*unary(IMAGE), table(*rows), "rk3588")}
    settling = [r for r in rows if r.verdict == "supported" and not r.require]
    assert judged.keys() <= {r.kernel for r in rows}
    if not settling:
        assert "supported" not in judged.values()
        doubted = {r.kernel for r in rows if not r.require}
        assert {kernel for kernel, status in judged.items() if status == "unknown"} == doubted
        return
    strongest = max(settling, key=lambda r: EVIDENCES.index(r.evidence))  # the first of equals
    assert judged[strongest.kernel] == "supported"
    assert list(judged.values()).count("supported") == 1


def test_a_row_seen_on_another_version_says_so() -> None:
    assert verdicts(*unary(IMAGE), table(rule("RELU", sdk_version="9.9")), "rk3588")[0].sdk_version == "9.9"


def test_an_unknown_chip_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match="no table for 'rk1', only for rk3588, rk3576"):
        verdicts(*unary(IMAGE), RKNN, "rk1")


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        (
            table(rule("RELU", require={"max_ranks": 3})),
            r"rules\[0\].require: no predicate 'max_ranks'; did you mean max_rank",
        ),
        (
            table(rule("RELU"), rule("ABS", require={"kernel": 3})),
            r"rules\[1\].require: predicate kernel does not take 3",
        ),
        (
            table(every_op=(Requirement(require={"dense": "yes"}, source="doc"),)),
            r"every_op\[0\].require: predicate dense",
        ),
    ],
)
def test_a_table_with_a_wrong_predicate_is_refused(backend: Backend, message: str) -> None:
    with pytest.raises(InputError, match=f"backends/rknn.toml: {message}"):
        check_table(backend)


def test_a_folded_op_is_supported() -> None:
    made = single_op("DEQUANTIZE", [T((4,), "float16", constant=True)], [T((4,), "float32")])
    [judged] = verdicts(*made, RKNN, "rk3588")
    assert (judged.status, judged.rule) == ("supported", "folded")


# --- anything at all ----------

CODES = sorted(
    {op for t in TABLES for r in t.rules for op in r.maps_to}
    | {op for t in TABLES for r in t.refusals for op in r.ops}
    | {"SVDF", "LSTM", ""}
)
OPTIONS = (
    "padding", "stride_h", "stride_w", "dilation_h_factor", "depth_multiplier", "filter_height", "filter_width", "beta",
    "adj_x", "time_major", "align_corners", "half_pixel_centers", "fused_activation_function", "ellipsis_mask", "mode",
)  # fmt: skip
SIZES = st.sampled_from([-1, 0, 1, 2, 3, 4, 8, 16, 8192, 2**31])
VALUES = st.one_of(
    st.booleans(), st.integers(-2, 9), st.floats(), st.sampled_from(["", "SAME", "RELU"]), st.just((1, 2))
)
ASKED = [
    (table, *item)
    for table in TABLES
    for require in (*(row.require for row in table.every_op), *(row.require for row in table.rules))
    for item in require.items()
]


@st.composite
def tensors(draw: st.DrawFn, number: int, file_bytes: int) -> Tensor:
    shape = tuple(draw(st.lists(SIZES, max_size=6)))
    scales = tuple(draw(st.lists(st.floats(), max_size=3)))
    quantization = Quantization(scales, (0,), draw(st.integers(-1, 4)), draw(st.integers(0, 2)))
    return Tensor(
        number,
        draw(st.text(max_size=3)),
        shape,
        draw(st.sampled_from(DType)),
        signature=draw(st.none() | st.just(shape) | st.just((-1,) * len(shape))),
        quantization=draw(st.none() | st.just(quantization)),
        is_variable=draw(st.booleans()),
        data=draw(st.none() | st.builds(Span, st.integers(0, file_bytes + 9), st.integers(0, file_bytes + 9))),
        is_external=draw(st.booleans()),
        is_sparse=draw(st.booleans()),
        has_rank=draw(st.booleans()),
    )


@st.composite
def hostile(draw: st.DrawFn) -> tuple[Graph, Op]:
    source = draw(st.binary(max_size=40))
    count = draw(st.integers(0, 5))
    made = tuple(draw(tensors(i, len(source))) for i in range(count))
    ids = st.lists(st.integers(-1, count + 1), max_size=5).map(tuple)
    options = draw(st.dictionaries(st.sampled_from(OPTIONS), VALUES, max_size=6))
    op = Op(
        0, 0, draw(st.sampled_from(CODES)), draw(ids), draw(ids), custom_code=draw(st.text(max_size=3)), options=options
    )
    sub = Subgraph(0, "", made, (op,), (), ())
    return Graph("", len(source), 3, "", (sub,), source=memoryview(source)), op


@settings(max_examples=300, deadline=None, derandomize=True)
@given(hostile())
def test_every_op_gets_a_verdict_whatever_it_is_made_of(made: tuple[Graph, Op]) -> None:
    for backend in TABLES:
        judged = verdicts(*made, backend, backend.socs[-1])
        assert judged
        assert len({j.kernel for j in judged}) == len(judged)
        for j in judged:
            assert j.status in ("supported", "refused", "unknown")
            assert j.reason.isprintable()
            assert j.reason
            assert j.rule


@settings(max_examples=300, deadline=None, derandomize=True)
@given(hostile())
def test_no_predicate_fails_on_anything(made: tuple[Graph, Op]) -> None:
    for backend, name, parameter in ASKED:
        found = find(name).violation(Case(*made, backend), parameter)
        assert found is None or found.isprintable()
