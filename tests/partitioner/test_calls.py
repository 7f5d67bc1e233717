# SPDX-License-Identifier: Apache-2.0
"""Roles, counts and bounds over control flow, on graphs made of values."""

from __future__ import annotations

import pytest

from edgedeploy_partitioner.errors import InputError, NotDeployable
from edgedeploy_partitioner.model.graph import Graph, Op, Signature, Subgraph
from edgedeploy_partitioner.planning.calls import bounds, main_subgraph, reached, uses


def graph(*calls: list[tuple[str, dict[str, int]]], signatures: tuple[Signature, ...] = ()) -> Graph:
    """One subgraph per argument, with the given control-flow ops."""
    ops = [tuple(Op(s, i, code, (), (), options=dict(o)) for i, (code, o) in enumerate(c)) for s, c in enumerate(calls)]
    subgraphs = tuple(Subgraph(s, f"s{s}", (), own, (), ()) for s, own in enumerate(ops))
    return Graph("", 0, 3, "", subgraphs, signatures)


def branch(then: int, otherwise: int) -> tuple[str, dict[str, int]]:
    return "IF", {"then_subgraph_index": then, "else_subgraph_index": otherwise}


def loop(condition: int, body: int) -> tuple[str, dict[str, int]]:
    return "WHILE", {"cond_subgraph_index": condition, "body_subgraph_index": body}


def nothing_whole(_: Op) -> bool:
    return False


def test_the_dearer_branch_counts_and_the_cheaper_is_the_low_bound() -> None:
    model = graph([branch(1, 2)], [], [])
    found = uses(model, 0, {0: 5, 1: 100, 2: 40}, nothing_whole)
    assert {i: (u.role, u.times) for i, u in found.items()} == {0: ("main", 1), 1: ("branch", 1), 2: ("branch", 0)}
    assert bounds(model, 0, {0: (4, 6), 1: (90, 120), 2: (30, 200)}, nothing_whole) == (34, 206)


def test_the_dearer_branch_is_the_one_that_calls_more() -> None:
    model = graph([branch(1, 2)], [loop(3, 4)], [], [], [])
    found = uses(model, 0, {0: 0, 1: 1, 2: 50, 3: 10, 4: 100}, nothing_whole)
    assert [found[i].times for i in range(5)] == [1, 1, 0, 1, 1]


def test_a_loop_is_one_trip_without_upper_bound() -> None:
    model = graph([loop(1, 2)], [], [])
    found = uses(model, 0, {0: 1, 1: 10, 2: 100}, nothing_whole)
    assert [(u.role, u.times) for u in found.values()] == [("main", 1), ("condition", 1), ("body", 1)]
    low, high = bounds(model, 0, {0: (1, 1), 1: (8, 12), 2: (90, 110)}, nothing_whole)
    assert (low, high) == (9, None), "the loop may stop at its first condition"


def test_once_and_unused_do_not_count() -> None:
    model = graph([("CALL_ONCE", {"init_subgraph_index": 1})], [], [])
    found = uses(model, 0, {0: 1, 1: 10, 2: 100}, nothing_whole)
    assert [(u.role, u.times) for u in found.values()] == [("main", 1), ("call_once", 0), ("unused", 0)]
    assert bounds(model, 0, {0: (1, 2), 1: (9, 11), 2: (0, 0)}, nothing_whole) == (1, 2)


def test_a_whole_composite_does_not_run_its_decomposition() -> None:
    model = graph([("STABLEHLO_COMPOSITE", {"decomposition_subgraph_index": 1})], [])
    assert uses(model, 0, {0: 1, 1: 9}, lambda _: True)[1].times == 0
    assert uses(model, 0, {0: 1, 1: 9}, nothing_whole)[1].times == 1
    assert reached(model, 0, lambda _: True) == {0}
    assert reached(model, 0, nothing_whole) == {0, 1}


def test_a_subgraph_called_twice_counts_twice() -> None:
    model = graph([loop(1, 2), loop(1, 2)], [], [])
    assert [u.times for u in uses(model, 0, {0: 0, 1: 1, 2: 1}, nothing_whole).values()] == [1, 2, 2]


def test_doubling_calls_end_in_one_line_and_not_in_hours() -> None:
    levels = 60
    calls = [[loop(i + 1, i + 1)] for i in range(levels)]
    model = graph(*calls, [])
    with pytest.raises(NotDeployable, match="more than 1000000 times"):
        uses(model, 0, dict.fromkeys(range(levels + 1), 1), nothing_whole)


def test_a_thousand_levels_deep() -> None:
    model = graph(*[[branch(i + 1, i + 1)] for i in range(1000)], [])
    assert uses(model, 0, dict.fromkeys(range(1001), 1), nothing_whole)[1000].times == 1


def test_signatures_choose_the_main_subgraph() -> None:
    two = (Signature("encode", 0, (), ()), Signature("decode", 1, (), ()))
    model = graph([], [], signatures=two)
    assert main_subgraph(model, "decode") == 1
    with pytest.raises(InputError, match="encode, decode"):
        main_subgraph(model, None)
    with pytest.raises(InputError, match="has encode, decode"):
        main_subgraph(model, "other")
    assert main_subgraph(graph([]), None) == 0
