# SPDX-License-Identifier: Apache-2.0
"""The checker on control flow: how often subgraphs count."""

from __future__ import annotations

from typing import Any

import pytest

from edgedeploy_partitioner.checker import check
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.plan import Plan
from support import handmade


def codes(plan: Plan, graph: Graph) -> set[str]:
    return {fault.code for fault in check(plan, graph)}


def control_flow() -> bytes:
    """IF of subgraphs 1 and 2, WHILE of 3 and 4, CALL_ONCE of 5; nobody calls 6. Subgraph 2 has two ops."""
    written = Model()
    g, then, otherwise, condition, body, once, lonely = (
        written.subgraph(n) for n in ("main", "then", "else", "condition", "body", "once", "lonely")
    )
    flag, x = g.input((), "bool"), g.input((1, 8))
    g.op("CALL_ONCE", [], [], init_subgraph_index=5)
    a = g.apply("IF", [flag, x], (1, 8), then_subgraph_index=1, else_subgraph_index=2)
    g.outputs(g.apply("WHILE", [a], (1, 8), cond_subgraph_index=3, body_subgraph_index=4))
    for branch in (then, body, lonely):
        branch.outputs(branch.apply("NEG", [branch.input((1, 8))], (1, 8)))
    otherwise.outputs(otherwise.apply("NEG", [otherwise.apply("NEG", [otherwise.input((1, 8))], (1, 8))], (1, 8)))
    condition.outputs(condition.apply("LESS", [condition.input((1, 8)), condition.constant([[1.0] * 8])], (), "bool"))
    once.op("VAR_HANDLE", [], [once.tensor((), "resource")], shared_name="a")
    return written.build()


USES: handmade.Uses = {
    0: ("main", 1), 1: ("branch", 0), 2: ("branch", 1), 3: ("condition", 1), 4: ("body", 1), 5: ("call_once", 0),
    6: ("unused", 0),
}  # fmt: skip


def test_subgraphs_count_as_often_as_they_run() -> None:
    graph = read_bytes(control_flow())
    assert check(handmade.all_builtin(graph, uses=USES), graph) == ()


@pytest.mark.parametrize(
    ("index", "use"),
    [
        (0, ("main", 2)),
        (0, ("body", 1)),
        (1, ("branch", 1)),  # the cheaper branch
        (2, ("branch", 0)),
        (3, ("condition", 2)),
        (3, ("body", 1)),
        (4, ("body", 0)),
        (5, ("call_once", 1)),
        (6, ("unused", 1)),
        (6, ("decomposition", 0)),
    ],
)
def test_a_subgraph_that_counts_otherwise_is_named(index: int, use: tuple[Any, int]) -> None:
    graph = read_bytes(control_flow())
    assert "times" in codes(handmade.all_builtin(graph, uses={**USES, index: use}), graph)


def test_a_loop_has_no_upper_bound() -> None:
    graph = read_bytes(control_flow())
    plan = handmade.edited(handmade.all_builtin(graph, uses=USES), lambda d: d["predicted"].update(high_us=1e6))
    assert codes(plan, graph) == {"bounds"}
