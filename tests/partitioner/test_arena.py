# SPDX-License-Identifier: Apache-2.0
"""The arena as replayed: byte for byte that of the installed runtime, and sound on its own."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedeploy_partitioner.memory.arena import ALIGNMENT_BYTES, Arena, arena, place
from edgedeploy_partitioner.memory.libstdcxx import set_order, sort
from edgedeploy_partitioner.memory.liveness import FOREVER, Block, ExecutedNode
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.build import Subgraph as Building
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.runtime.replay import file_plan, replay
from support.arenas import compared, real_bytes, real_offsets
from support.random_model import random_dag
from support.runtime import inspect_all

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.tflite"))
REFUSED = "custom_erf.int8.tflite"  # has an op that the runtime does not know


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("xnnpack", [True, False])
def test_equals_the_runtime_on_the_examples(xnnpack: bool, threads: int) -> None:
    models = {path.name: path.read_bytes() for path in EXAMPLES if path.name != REFUSED}
    assert len(models) >= 9
    answers = inspect_all(models.values(), xnnpack=xnnpack, run=True, threads=threads)
    for (name, model), answer in zip(models.items(), answers, strict=True):
        for plan, predicted in compared(read_bytes(model), answer, threads):
            assert predicted.exact, name
            assert (predicted.bytes, predicted.persistent_bytes) == real_bytes(plan), (name, plan["subgraph"])


def caller(code: str, *subgraphs: str, **options: Any) -> bytes:
    """``code`` on a scalar and two tensors; the subgraphs that it runs use one of these."""
    model = Model()
    g = model.subgraph()
    kind = "bool" if code == "IF" else "int32"
    fed = [g.input((), kind), *(g.input((3, n)) for n in (8, 5))]
    body = subgraphs[-1] == "body"
    results = [g.tensor((), kind), g.tensor((3, 8)), g.tensor((3, 5))] if body else [g.tensor((3, 5))]
    g.op(code, fed, results, **options)
    g.outputs(*results)
    for name in subgraphs:
        s = model.subgraph(name)
        inputs = [*([s.input((), kind)] if body else []), s.input((3, 8)), s.input((3, 5))]
        if name == "cond":
            s.outputs(s.apply("LESS", [inputs[0], s.constant(np.array(3, np.int32))], (), "bool"))
            continue
        last = s.apply("NEG" if name == "else" else "ABS", inputs[-1:], (3, 5))
        one = [s.apply("ADD", [inputs[0], s.constant(np.array(1, np.int32))], (), kind), inputs[1]] if body else []
        s.outputs(*one, last)
    return model.build()


CALLERS = {
    "IF": caller("IF", "then", "else", then_subgraph_index=1, else_subgraph_index=2),
    "STABLEHLO_CASE": caller("STABLEHLO_CASE", "then", "else", branch_subgraph_indices=(1, 2)),
    "WHILE": caller("WHILE", "cond", "body", cond_subgraph_index=1, body_subgraph_index=2),
    "lstm_kws.fp32": next(path for path in EXAMPLES if path.name == "lstm_kws.fp32.tflite").read_bytes(),
}


@pytest.mark.parametrize("name", CALLERS)
def test_what_control_flow_runs_reads_the_tensors_of_its_caller(name: str) -> None:
    """Before the first run, for the runtime frees these arenas after each."""
    graph = read_bytes(CALLERS[name])
    [answer] = inspect_all([CALLERS[name]], xnnpack=False)
    seen = 0
    for plan, predicted in compared(graph, answer):
        seen += plan["subgraph"] > 0
        assert predicted.exact
        assert (predicted.bytes, predicted.persistent_bytes) == real_bytes(plan), plan["subgraph"]
        assert predicted.offsets.items() <= real_offsets(plan).items(), plan["subgraph"]
    assert seen == 2


@pytest.mark.parametrize("xnnpack", [True, False])
@pytest.mark.parametrize("ops", [8, 30, 90])
def test_equals_the_runtime_on_random_graphs(ops: int, xnnpack: bool) -> None:
    """Every tensor lies where the runtime puts it, even where the order of equals decides."""
    models = [random_dag(1000 * ops + seed, ops) for seed in range(25)]
    exact = 0
    for model, answer in zip(models, inspect_all(models, xnnpack=xnnpack, run=True), strict=True):
        for plan, predicted in compared(read_bytes(model), answer):
            if predicted.exact:
                exact += 1
                assert (predicted.bytes, predicted.persistent_bytes) == real_bytes(plan)
                real = real_offsets(plan)
                assert {t: at for t, at in predicted.offsets.items() if t in real}.items() <= real.items()
    assert exact >= len(models) // 2


def test_equals_the_runtime_on_random_claims() -> None:
    """The borders of delegate nodes come from the replayed plan here, not from the runtime."""
    models, calls = [], []
    for seed in range(40):
        models.append(random_dag(seed, 20))
        ops = len(read_bytes(models[-1]).subgraphs[0].ops)
        rng = random.Random(seed)
        calls.append([sorted(rng.sample(range(ops), ops // 3)) for _ in range(2)])
    exact = 0
    for model, claims, answer in zip(models, calls, inspect_all(models, claims=calls, xnnpack=False), strict=True):
        graph = read_bytes(model)
        subgraph = graph.subgraphs[0]
        steps = replay(file_plan(subgraph), claims)
        nodes = [
            ExecutedNode(s.op, s.members, s.inputs, s.outputs)
            if s.call is None
            else ExecutedNode(None, s.members, s.inputs, s.outputs, "npu")
            for s in steps
        ]
        predicted = arena(graph, subgraph, nodes)
        if predicted.exact:
            exact += 1
            assert answer.subgraphs is not None
            assert not answer.failure
            assert (predicted.bytes, predicted.persistent_bytes) == real_bytes(answer.subgraphs[0])
    assert exact >= 20


SHAPE_ARITHMETIC: dict[str, tuple[list[Any], tuple[int, ...], dict[str, Any]]] = {
    "BROADCAST_ARGS": ([[1, 1, 1, 1]], (4,), {}),
    "CONCATENATION": ([[3]], (5,), {"axis": 0}),
    "GATHER": ([[0, 1]], (2,), {"axis": 0}),
    "MUL": ([2], (4,), {}),
    "RANK": ([], (), {}),
    "REDUCE_PROD": ([[0]], (), {}),
    "RESHAPE": ([[2, 2]], (2, 2), {}),
    "STRIDED_SLICE": ([[0], [2], [1]], (2,), {}),
    "TILE": ([[2]], (8,), {}),
    "ADD": ([2], (4,), {}),
    "PACK": ([[1, 2, 3, 4]], (2, 4), {"values_count": 2}),
    "SLICE": ([[0], [2]], (2,), {}),
    "SUM": ([[0]], (), {}),
}


def shape_model(code: str) -> bytes:
    """``code`` on the shape of an input, and then something that runs."""
    constants, shape, options = SHAPE_ARITHMETIC[code]
    model = Model()
    g = model.subgraph()
    size = g.apply("SHAPE", [g.input((2, 6, 6, 4))], (4,), "int32", out_type="INT32")
    more = [g.constant(np.asarray(c, np.int32)) for c in constants]
    g.outputs(g.apply("ADD", [g.apply(code, [size, *more], shape, "int32", **options)] * 2, shape, "int32"))
    return model.build()


def test_shapes_that_are_computed_beforehand_are_not_in_the_arena() -> None:
    models = [shape_model(code) for code in SHAPE_ARITHMETIC]
    answers = inspect_all(models, xnnpack=False, run=True)
    for code, model, answer in zip(SHAPE_ARITHMETIC, models, answers, strict=True):
        for plan, predicted in compared(read_bytes(model), answer):
            assert predicted.exact, code
            assert (predicted.bytes, predicted.persistent_bytes) == real_bytes(plan), code
            assert predicted.offsets == real_offsets(plan), code


# --- by hand ---------------------------------------------------------


def built_in(model: Model) -> tuple[Graph, Arena]:
    graph = read_bytes(model.build())
    subgraph = graph.subgraphs[0]
    return graph, arena(graph, subgraph, [ExecutedNode(o.index, (o.index,), o.inputs, o.outputs) for o in subgraph.ops])


def relu(g: Building, x: int, floats: int) -> int:
    return g.apply("RELU", [x], (1, floats))


def test_a_gap_is_used_again() -> None:
    model = Model()
    g = model.subgraph()
    x = g.input((1, 20))  # 80 bytes, never freed: at 0
    a = g.apply("RELU", [x], (1, 100))  # the largest: at 128
    b = relu(g, a, 50)  # alive with a: at 576, after a's 400 bytes
    c = relu(g, b, 20)  # a is gone: in its gap, the smallest that fits
    d = relu(g, c, 20)  # alive with c, returned: after c, still in a's gap
    g.outputs(d)
    _, found = built_in(model)
    assert found.offsets == {x: 0, a: 128, b: 576, c: 128, d: 256}
    assert found.bytes == 576 + 200
    assert found.live_bytes == (80 + 400, 80 + 400 + 200, 80 + 200 + 80, 80 + 80 + 80)
    assert found.alive(1) == (a, b, x)


def test_arithmetic_is_done_in_place_only_when_nobody_else_reads() -> None:
    def arena_of(second_reader: bool) -> Arena:
        model = Model()
        g = model.subgraph()
        a = relu(g, g.input((1, 16)), 16)
        total = g.apply("ADD", [a, a] if second_reader else [a, g.input((1, 16))], (1, 16))
        g.outputs(relu(g, total, 16))
        return built_in(model)[1]

    assert arena_of(second_reader=True).bytes == 64 * 3
    assert arena_of(second_reader=False).bytes == 64 * 4  # x, y, the sum over a, the result


@pytest.mark.parametrize("floats", [1, 2])
def test_a_scalar_is_not_written_over(floats: int) -> None:
    model = Model()
    g = model.subgraph()
    a = relu(g, g.input((1, floats)), floats)
    b = g.apply("ADD", [a, g.input((1, floats))], (1, floats))
    g.outputs(relu(g, b, floats))
    _, found = built_in(model)
    assert (b in found.offsets) == (floats == 1)
    [answer] = inspect_all([model.build()], xnnpack=False, run=True)
    assert answer.subgraphs is not None
    assert real_bytes(answer.subgraphs[0]) == (found.bytes, 0)


def test_a_reshape_shares_memory_for_as_long_as_either_is_read() -> None:
    model = Model()
    g = model.subgraph()
    a = relu(g, g.input((1, 16)), 16)
    flat = g.apply("RESHAPE", [a, g.constant(np.array([16], np.int32))], (16,), new_shape=(16,))
    b = relu(g, a, 16)
    g.outputs(g.apply("RELU", [flat], (16,)), b)
    _, found = built_in(model)
    assert flat not in found.offsets
    assert found.live_bytes == (128, 128, 192, 256)


def test_an_unread_result_is_kept_and_an_inner_tensor_is_not() -> None:
    model = Model()
    g = model.subgraph()
    x = g.input((1, 16))
    a, b = g.tensor((1, 16)), g.tensor((1, 16))
    g.op("SPLIT", [g.constant(np.array(1, np.int32)), x], [a, b], num_splits=2)
    g.outputs(relu(g, relu(g, a, 16), 16))
    graph, found = built_in(model)
    assert b in found.offsets
    subgraph = graph.subgraphs[0]
    whole = ExecutedNode(None, (0, 1, 2), (x,), tuple(t for op in subgraph.ops for t in op.outputs), "npu")
    assert set(arena(graph, subgraph, [whole]).offsets) == {x, *subgraph.outputs}


def test_numbering_does_not_matter_without_equals() -> None:
    sizes = random.Random(5).sample(range(1, 400), 30)

    def by_size(seed: int) -> dict[int, int]:
        rng = random.Random(9)
        model = Model()
        g = model.subgraph()
        x = g.input((1, 401))
        ids = {}
        for i in random.Random(seed).sample(range(30), 30):
            ids[i] = g.tensor((1, sizes[i]))
        for i in range(30):
            earlier = [x, *(ids[k] for k in range(i))]
            g.op("CONCATENATION", rng.choices(earlier, k=2), [ids[i]], axis=1)
        g.outputs(ids[29])
        _, found = built_in(model)
        return {sizes[i]: found.offsets[t] for i, t in ids.items()} | {0: found.bytes}

    assert by_size(1) == by_size(2) == by_size(3)


# --- any blocks ------------------------------------------------------


@st.composite
def some_blocks(draw: st.DrawFn) -> list[Block]:
    spans = st.tuples(st.integers(1, 300), st.integers(0, 12), st.integers(0, 12) | st.just(FOREVER))
    return [
        Block(i, size, first, last if last == FOREVER else first + last)
        for i, (size, first, last) in enumerate(draw(st.lists(spans, max_size=40)))
    ]


@given(some_blocks())
def test_placed_blocks_never_overlap(blocks: list[Block]) -> None:
    offsets, size = place(blocks)
    assert set(offsets) == {b.tensor for b in blocks}
    assert all(at % ALIGNMENT_BYTES == 0 for at in offsets.values())
    assert size == max((offsets[b.tensor] + b.bytes for b in blocks), default=0)
    for i, a in enumerate(blocks):
        for b in blocks[:i]:
            if a.first <= b.last and b.first <= a.last:
                at, bt = offsets[a.tensor], offsets[b.tensor]
                assert at + a.bytes <= bt or bt + b.bytes <= at
    alive = [sum(b.bytes for b in blocks if b.first <= step <= b.last) for step in range(30)]
    assert max(alive) <= size


# --- the C++ library -------------------------------------------------


def test_a_set_is_walked_as_the_library_walks_it() -> None:
    # Printed by a program compiled with g++ 12.
    assert set_order([5, 3, 9]) == [9, 3, 5]
    assert set_order([5, 18, 3, 31, 5]) == [3, 31, 18, 5]
    assert set_order(range(14)) == [13, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]


def test_equals_come_in_the_order_of_the_library() -> None:
    keys = [3, 1, 2, 1, 0, 2, 3, 0, 1, 1, 2, 0, 3, 3, 2, 0, 1, 0, 2, 1]
    # Printed by a program compiled with g++ 12: positions by ascending key.
    assert sort(range(20), keys.__getitem__) == [17, 4, 15, 11, 7, 1, 19, 16, 9, 8, 3, 10, 14, 5, 2, 18, 6, 12, 13, 0]
    assert sort(range(16), keys.__getitem__) == sorted(range(16), key=keys.__getitem__)


@given(st.lists(st.integers(0, 9), max_size=200))
def test_sorting_sorts(keys: list[int]) -> None:
    found = sort(range(len(keys)), keys.__getitem__)
    assert sorted(found) == list(range(len(keys)))
    assert [keys[i] for i in found] == sorted(keys)


# --- shapes that are computed ----------------------------------------


def reshaped(seed: int) -> bytes:
    """Ops of many sizes, some of them after a RESHAPE to numbers that other ops compute."""
    rng = np.random.default_rng(seed)
    model = Model()
    g = model.subgraph()
    rows = 1
    x = g.input((rows, 64))
    kept = []
    for _ in range(6):
        width = 64 * int(rng.integers(1, 9))
        x = g.apply("CONCATENATION", [x] * (width // 64), (rows, width), axis=1) if width > 64 else x
        x = g.apply("ABS", [x], (rows, width))
        if rng.random() < 0.5:
            one = g.constant(np.array([1], np.int32))
            sizes = g.apply("SHAPE", [x], (2,), "int32", out_type="INT32")
            first = g.apply(
                "STRIDED_SLICE", [sizes, g.constant(np.array([0], np.int32)), one, one], (), "int32", shrink_axis_mask=1
            )
            second = g.constant(np.array(width, np.int32))
            to = g.apply("PACK", [first, second], (2,), "int32", values_count=2, axis=0)
            x = g.apply("RESHAPE", [x, to], (rows, width))
        if rng.random() < 0.5:
            kept.append((x, width))
        begin, end = (g.constant(np.array(at, np.int32)) for at in ([0, 0], [rows, 64]))
        x = g.apply("STRIDED_SLICE", [x, begin, end, g.constant(np.array([1, 1], np.int32))], (rows, 64))
    g.outputs(g.apply("CONCATENATION", [x, *(t for t, _ in kept)], (rows, 64 + sum(w for _, w in kept)), axis=1))
    return model.build()


def test_an_arena_that_is_planned_in_stages_is_too() -> None:
    models = [reshaped(seed) for seed in range(20)]
    staged = 0
    for model, answer in zip(models, inspect_all(models, xnnpack=False, run=True), strict=True):
        graph = read_bytes(model)
        [(plan, predicted)] = compared(graph, answer)
        assert (predicted.bytes, predicted.persistent_bytes) == real_bytes(plan)
        at_once = place(sorted(predicted.blocks, key=lambda b: (b.last != FOREVER or b.first > 0, -b.bytes, b.first)))
        staged += bool(predicted.dynamic) and at_once[1] != predicted.bytes
    assert staged


@pytest.mark.parametrize("code", ["EXPAND_DIMS", "BITCAST"])
def test_what_shares_with_a_known_tensor_is_freed(code: str) -> None:
    """The result of SHAPE has no memory in the arena, so nothing can lie over it."""
    model = Model()
    g = model.subgraph()
    sizes = g.apply("SHAPE", [g.input((2, 102))], (2,), "int32", out_type="INT32")
    inputs = [sizes, g.constant(np.array(0, np.int32))] if code == "EXPAND_DIMS" else [sizes]
    shape = (1, 2) if code == "EXPAND_DIMS" else (2,)
    as_float = g.apply("CAST", [g.apply(code, inputs, shape, "int32")], shape)
    g.outputs(g.apply("SIN", [g.apply("SIN", [g.input((77,))], (77,))], (77,)), as_float)
    data = model.build()
    [answer] = inspect_all([data], xnnpack=False, run=True)
    [(plan, predicted)] = compared(read_bytes(data), answer)
    assert predicted.exact
    assert (predicted.bytes, predicted.persistent_bytes) == real_bytes(plan)
