# SPDX-License-Identifier: Apache-2.0
"""How ops are called where a model has several subgraphs and the planned one is not the first."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from edgedeploy import gates
from edgedeploy.planview import claimed_partitions, op_label, ops_label
from edgedeploy.report.advice import dearest_fallback, probe_unknowns
from edgedeploy.report.diff import diff_report
from edgedeploy.report.explain import select
from edgedeploy.report.page import Style
from edgedeploy_partitioner.diff import diff
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.plan import Plan
from support.plans import sample


def _second_is_main(*backends: str) -> Plan:
    """The same ops in subgraph 0, a branch, and in subgraph 1, the signature's."""
    plan, _ = sample(backends or ("builtin", "builtin"))
    use = plan.subgraphs[0]
    ops = (*plan.ops, *(replace(op, subgraph=1) for op in plan.ops))
    return replace(plan, subgraphs=(replace(use, role="branch"), replace(use, index=1)), ops=ops)


def test_an_index_alone_is_of_the_main_subgraph() -> None:
    plan = _second_is_main()
    assert plan.main == 1
    assert [(op.subgraph, op.index) for op in select(plan, "1")] == [(1, 1)]
    assert [(op.subgraph, op.index) for op in select(plan, "0:1")] == [(0, 1)]
    assert [(op.subgraph, op.index) for op in select(plan, "1:1")] == [(1, 1)]
    assert [(op.subgraph, op.index) for op in select(plan, "0-1")] == [(1, 0), (1, 1)]
    assert [(op.subgraph, op.index) for op in select(plan, "CONV_2D")] == [(0, 0), (1, 0)]
    for wrong in ("CONV", "3-9", "2", "2:0", ":1", "1:", "0:0:1", "-1", "x", ""):
        with pytest.raises(InputError, match="no such op"):
            select(plan, wrong)


def test_a_label_is_what_selects_the_op() -> None:
    plan = _second_is_main()
    for op in plan.ops:
        assert select(plan, op_label(plan, (op.subgraph, op.index))) == (op,)


def test_labels_of_several_ops() -> None:
    plan = _second_is_main()
    ops = [(0, 0), (0, 1), (0, 3), (1, 5), (1, 6)]
    assert ops_label(plan, ops) == "0:0-1, 0:3, 5-6"
    assert ops_label(plan, [(0, i) for i in range(0, 90, 2)], 12) == "0:0 (+44 more)"
    assert ops_label(plan, [(1, i) for i in (1, 3, 4, 5, 9, 11, 13)], 16) == "1, 3-5 (+3 more)"


def test_every_report_calls_an_op_the_same() -> None:
    plan = _second_is_main()
    assert gates.failures(plan, [gates.parse("fallback")]) == ["4 ops on the CPU (op 0:0-1, 0-1)"]
    predicted = replace(plan.predicted, optimistic_ns=1, ops_to_probe=((0, 1), (1, 1)))
    assert "takes 2 ops (0:1, 1);" in (probe_unknowns(replace(plan, predicted=predicted)) or "")
    dear = replace(plan.ops[1], predicted_ns=10**9)
    npu = replace(plan.ops[3], backend="rknn")
    assert "op 0:1 DEPTHWISE_CONV_2D" in (dearest_fallback(replace(plan, ops=(plan.ops[0], dear, npu))) or "")
    moved = replace(plan, ops=(*plan.ops[:1], replace(plan.ops[1], kernel="xnnpack"), *plan.ops[2:]))
    assert "\n  0:1  DEPTHWISE_CONV_2D: " in diff_report(diff(plan, moved), plan, moved, Style())
    fewer = replace(plan, ops=plan.ops[1:])
    assert "Only in the first\n  0:0  CONV_2D" in diff_report(diff(plan, fewer), plan, fewer, Style())


def test_what_xnnpack_takes_is_not_counted() -> None:
    plan, _ = sample(["rknn", "xnnpack", "rknn", "builtin"])
    assert [p.id for p in claimed_partitions(plan)] == [0, 2]
    assert gates.failures(plan, [gates.parse("partitions:2"), gates.parse("partitions:1")]) == [
        "2 partitions, more than 1"
    ]
