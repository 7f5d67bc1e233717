# SPDX-License-Identifier: Apache-2.0
"""Operator order: the least over all orders where they can all be tried, a bound elsewhere, and the runtime's arena."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from edgedeploy_partitioner.errors import InputError, PlanningError
from edgedeploy_partitioner.memory.arena import Arena, ExecutedNode, arena
from edgedeploy_partitioner.memory.downsets import Item, Jobs, least_peak
from edgedeploy_partitioner.memory.order import jobs_of, lowest, lowest_of_model
from edgedeploy_partitioner.memory.reordering import reordering, stock_nodes
from edgedeploy_partitioner.model.build import Model, Subgraph
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes, read_model
from edgedeploy_partitioner.model.reorder import CONTROL_DEPENDENCIES, with_order, with_order_written
from edgedeploy_profiles import load_runtime
from support.arenas import compared, real_bytes
from support.mutate import mutant, structure
from support.random_model import random_dag
from support.runtime import inspect_all

EXAMPLES = Path(__file__).parents[2] / "examples"
RUNTIME = load_runtime("ai-edge-litert", "2.3.0")
FEW_STATES = 2000


# --- jobs ----------


def random_jobs(seed: int, count: int) -> Jobs:
    rng = random.Random(seed)
    density = rng.choice((0.1, 0.2, 0.4))
    before = [sum(1 << j for j in range(i) if rng.random() < density) for i in range(count)]
    scratch = [rng.choice((0, 0, rng.randint(1, 9))) for _ in range(count)]
    items = []
    for i in range(count):
        readers = sum(1 << j for j in range(i + 1, count) if before[j] >> i & 1 and rng.random() < 0.9)
        items.append(Item(rng.randint(1, 20), i, readers))
    items += [Item(rng.randint(1, 20), None, rng.choice((0, 1 << rng.randrange(count)))) for _ in range(2)]
    return Jobs(tuple(before), tuple(scratch), tuple(items))


def orders(before: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every possible order."""

    def longer(order: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(order) == len(before):
            yield order
        for i in set(range(len(before))) - set(order):
            if all(j in order for j in range(len(before)) if before[i] >> j & 1):
                yield from longer((*order, i))

    return longer(())


def peak(jobs: Jobs, order: Sequence[int]) -> int:
    """By intervals, as the runtime's planner has it."""
    place = {job: i for i, job in enumerate(order)}

    def span(item: Item) -> tuple[int, int]:
        last = max((place[j] for j in place if item.readers >> j & 1), default=len(order))
        return -1 if item.writer is None else place[item.writer], last

    spans = [(*span(item), item.bytes) for item in jobs.items]
    return max(
        jobs.scratch_bytes[job] + sum(size for first, last, size in spans if first <= at <= last)
        for at, job in enumerate(order)
    )


def test_the_least_peak_is_the_least_of_all_orders() -> None:
    gains = 0
    for seed in range(300):
        jobs = random_jobs(seed, 1 + seed % 6)
        found = least_peak(jobs, 10**6)
        least = min(peak(jobs, order) for order in orders(jobs.before))
        assert found.peak_bytes == found.bound_bytes == least == peak(jobs, found.order), seed
        assert max(jobs.live_bytes(found.order)) == least
        gains += least < peak(jobs, range(len(jobs.before)))
    assert gains > 80


def test_with_few_states_the_bound_holds_and_the_order_is_real() -> None:
    gaps = 0
    for seed in range(100):
        jobs = random_jobs(seed, 6)
        found = least_peak(jobs, 2)
        least = least_peak(jobs, 10**6).peak_bytes
        assert found.bound_bytes <= least <= found.peak_bytes == peak(jobs, found.order)
        assert found.order in set(orders(jobs.before))
        gaps += found.bound_bytes < found.peak_bytes
    assert gaps


def test_what_cannot_be_better_keeps_its_order() -> None:
    chain = Jobs((0, 1, 2, 4), (0, 0, 0, 0), tuple(Item(8, i, 2 << i if i < 3 else 0) for i in range(4)))
    assert least_peak(chain, 10**6).order == (0, 1, 2, 3)
    equal = Jobs((0, 0, 0), (5, 5, 5), ())
    assert least_peak(equal, 10**6).order == (0, 1, 2)
    assert least_peak(Jobs((), (), ()), 10).order == ()


def test_a_long_graph_of_small_parts_is_quickly_proved() -> None:
    """300 diamonds after each other: 1,200 jobs, of which each part has a few."""
    before, items = [], []
    for top in range(0, 1200, 4):
        before += [1 << top - 1 if top else 0, 1 << top, 1 << top, 3 << top + 1]
        items += [Item(100, top, 6 << top), Item(90, top + 1, 8 << top), Item(10, top + 2, 8 << top)]
        items.append(Item(50, top + 3, 16 << top if top < 1196 else 0))
    found = least_peak(Jobs(tuple(before), (0,) * 1200, tuple(items)), 100)
    assert found.peak_bytes == found.bound_bytes == 200


# --- graphs ----------


def all_built_in(graph: Graph) -> tuple[ExecutedNode, ...]:
    return stock_nodes(graph, 0, RUNTIME, xnnpack=False)


def arena_in(graph: Graph, nodes: Sequence[ExecutedNode], order: Sequence[int]) -> Arena:
    return arena(graph, graph.subgraphs[0], [nodes[i] for i in order])


@pytest.mark.parametrize("xnnpack", [True, False])
def test_what_is_alive_in_an_order_is_what_the_replayed_planner_has_alive(xnnpack: bool) -> None:
    for seed in range(30):
        graph = read_bytes(random_dag(seed, 25))
        nodes = stock_nodes(graph, 0, RUNTIME, xnnpack=xnnpack)
        jobs = jobs_of(graph, graph.subgraphs[0], nodes, 1)
        assert jobs is not None
        assert jobs.live_bytes(range(len(nodes))) == arena_in(graph, nodes, range(len(nodes))).live_bytes
        found = lowest(graph, graph.subgraphs[0], nodes, states=FEW_STATES)
        replayed = arena_in(graph, nodes, found.order)
        assert jobs.live_bytes(found.order) == replayed.live_bytes
        assert max(replayed.live_bytes) == found.live_bytes >= found.bound_bytes
        assert replayed.bytes >= found.live_bytes


def test_no_order_of_a_small_graph_is_better() -> None:
    smallest = gains = 0
    for seed in range(40):
        graph = read_bytes(random_dag(seed, 6))
        nodes = all_built_in(graph)
        jobs = jobs_of(graph, graph.subgraphs[0], nodes, 1)
        assert jobs is not None
        if len(nodes) > 8:
            continue
        arenas = [arena_in(graph, nodes, order) for order in orders(jobs.before)]
        found = lowest(graph, graph.subgraphs[0], nodes)
        assert found.live_bytes == found.bound_bytes == min(max(a.live_bytes) for a in arenas)
        [arranged] = reordering(graph, RUNTIME, xnnpack=False, replays=40).subgraphs
        least = min(a.bytes for a in arenas)
        assert arranged.bound_bytes <= least <= arranged.new_arena_bytes <= arranged.arena_bytes
        smallest += arranged.new_arena_bytes == least
        gains += arranged.new_arena_bytes < arranged.arena_bytes
    assert gains > 5
    assert smallest > 25


def random_wired(seed: int, ops: int) -> bytes:
    """A cell of a randomly wired network: nodes of different widths that add up what earlier nodes made, file order as
    a converter leaves it, one level after the other."""
    rng = random.Random(seed)
    model = Model()
    g = model.subgraph()
    nodes = [(_projected(g, g.input((1, 16, 16, 8)), 8, 16), 16)]
    while len(g.value.operators) < ops:
        width = rng.choice((4, 8, 16, 32))
        sources = rng.sample(nodes[-8:], min(len(nodes), rng.choice((1, 2, 2))))
        parts = [_projected(g, source, channels, width) for source, channels in sources]
        total = parts[0] if len(parts) == 1 else g.apply("ADD", parts, (1, 16, 16, width))
        nodes.append((total, width))
    read = {t for op in g.value.operators for t in op.inputs}
    ends = [(t, width) for t, width in nodes if t not in read]
    g.outputs(*(_projected(g, t, width, 1) for t, width in ends))
    return model.build()


def _projected(g: Subgraph, x: int, channels: int, width: int) -> int:
    weights = g.constant(np.full((width, 1, 1, channels), 1 / channels, np.float32))
    bias = g.constant(np.zeros(width, np.float32))
    return g.apply("CONV_2D", [x, weights, bias], (1, 16, 16, width), padding="SAME", stride_w=1, stride_h=1)


def branches(count: int, code: str = "TILE") -> Model:
    """``count`` wide results that are each narrowed again, all widened first: XNNPACK leaves both kinds of op."""
    model = Model()
    g = model.subgraph()
    x = g.input((1, 4, 4, 8))
    copies = g.constant(np.array([1, 4, 4, 1], np.int32))
    axes = g.constant(np.array([1, 2], np.int32))
    wide = [g.apply(code, [x, copies], (1, 16, 16, 8)) for _ in range(count)]
    narrow = [g.apply("REDUCE_PROD", [t, axes], (1, 1, 1, 8), keep_dims=True) for t in wide]
    g.outputs(g.apply("CONCATENATION", narrow, (1, 1, 1, 8 * count), axis=3))
    return model


def reordered(data: bytes, *, xnnpack: bool) -> tuple[bytes, int, int]:
    """The file in its new order, and the arenas before and after as predicted."""
    graph = read_bytes(data)
    found = reordering(graph, RUNTIME, xnnpack=xnnpack, states=FEW_STATES, replays=60)
    [arranged] = found.subgraphs
    assert arranged.is_exact
    return with_order_written(data, graph, found.orders), arranged.arena_bytes, arranged.new_arena_bytes


def check_in_runtime(models: Sequence[bytes], *, xnnpack: bool) -> list[float]:
    """That the arenas before and after are those of the runtime; how much less each is."""
    found = [reordered(model, xnnpack=xnnpack) for model in models]
    real = []
    for files in (models, [new for new, _, _ in found]):
        answers = inspect_all(files, xnnpack=xnnpack, run=True)
        for model, answer in zip(files, answers, strict=True):
            [(plan, _)] = compared(read_bytes(model), answer)
            real.append(real_bytes(plan)[0])
    assert real == [before for _, before, _ in found] + [after for _, _, after in found]
    return [1 - after / before for _, before, after in found]


def test_randomly_wired_cells_gain_and_the_runtime_agrees() -> None:
    saved = check_in_runtime([random_wired(seed, 24 + 4 * (seed % 5)) for seed in range(6)], xnnpack=False)
    assert min(saved) >= 0
    assert sum(share > 0.1 for share in saved) >= 4


def test_with_xnnpack_only_its_gaps_change_and_the_runtime_agrees() -> None:
    model = branches(5).build()
    assert check_in_runtime([model], xnnpack=True)[0] > 0.5
    graph = read_bytes(model)
    new = with_order(graph, reordering(graph, RUNTIME, xnnpack=True).orders)
    old_nodes, new_nodes = (stock_nodes(g, 0, RUNTIME, xnnpack=True) for g in (graph, new))
    assert [n.outputs for n in old_nodes if n.op is None] == [n.outputs for n in new_nodes if n.op is None]
    assert len(old_nodes) > 10


def test_random_graphs_with_xnnpack_agree_with_the_runtime() -> None:
    saved = check_in_runtime([random_dag(seed, 60, "int8") for seed in (0, 1, 2, 17, 18)], xnnpack=True)
    assert min(saved) >= 0
    assert sum(share > 0 for share in saved) >= 2


# --- what keeps its order ----------


def test_effects_keep_their_order() -> None:
    model = Model()
    g = model.subgraph()
    x = g.input((1, 64))
    small = g.apply("SUM", [x, g.constant(np.array([1], np.int32))], (1, 1), keep_dims=True)
    made: list[int] = []
    for i in range(4):
        wide = g.apply("TILE", [small, g.constant(np.array([1, 256 >> i], np.int32))], (1, 256 >> i))
        made.append(g.tensor((1, 1)))
        g.op("CUSTOM", [wide], [made[-1]], custom_code="Log")
    state = g.tensor((1, 64), variable=True)
    for width in (8, 2, 4):
        weights = [g.constant(np.ones(shape, np.float32)) for shape in ((1, 64), (1, 64))]
        y = g.apply("TILE", [small, g.constant(np.array([1, 64], np.int32))], (1, 64))
        made.append(g.apply("SVDF", [y, *weights, -1, state], (1, 1), rank=1))
        made.append(g.apply("TILE", [made[-1], g.constant(np.array([1, width], np.int32))], (1, width)))
    g.outputs(*made)
    graph = read_bytes(model.build())
    nodes = all_built_in(graph)
    jobs = jobs_of(graph, graph.subgraphs[0], nodes, 1)
    assert jobs is not None
    for code in ("CUSTOM", "SVDF"):
        places = [i for i, op in enumerate(graph.subgraphs[0].ops) if op.code == code]
        assert all(jobs.before[later] >> earlier & 1 for earlier, later in pairwise(places))


def test_a_file_that_reads_before_it_writes_is_left_alone() -> None:
    graph = read_bytes(branches(3).build())
    wrong = with_order(graph, {0: tuple(reversed(range(len(graph.subgraphs[0].ops))))})
    assert not reordering(wrong, RUNTIME, xnnpack=False).orders
    nodes = all_built_in(wrong)
    found = lowest(wrong, wrong.subgraphs[0], nodes)
    assert found.order == tuple(range(len(nodes)))
    assert found.live_bytes == max(arena_in(wrong, nodes, found.order).live_bytes)


def test_a_model_without_ops_is_left_alone() -> None:
    model = Model()
    g = model.subgraph()
    g.outputs(g.input((1, 8)))
    found = reordering(read_bytes(model.build()), RUNTIME, xnnpack=True)
    assert not found.orders


def test_what_control_flow_runs_counts_while_it_runs() -> None:
    for name in ("lstm_kws.fp32", "unet_128.int8"):
        graph = read_model(EXAMPLES / f"{name}.tflite")
        executed = {s.index: stock_nodes(graph, s.index, RUNTIME, xnnpack=True) for s in graph.subgraphs}
        found = lowest_of_model(graph, executed, 0)
        own = lowest(graph, graph.subgraphs[0], executed[0])
        assert found.is_proved
        if len(executed) == 1:
            assert found == own
        else:
            inner = max(lowest(graph, graph.subgraphs[i], executed[i]).live_bytes for i in (1, 2))
            assert own.live_bytes < found.live_bytes <= own.live_bytes + inner


# --- files ----------


def test_only_the_list_of_operators_is_written() -> None:
    model = branches(4)
    model.metadata("note", b"kept")
    model.signature("serve", {"x": 0}, {"y": model.value.subgraphs[0].outputs[0]})
    data = model.build()
    graph = read_bytes(data)
    orders_ = reordering(graph, RUNTIME, xnnpack=True).orders
    new = with_order_written(data, graph, orders_)
    back = read_bytes(new)
    assert len(new) == len(data)
    changed = np.flatnonzero(np.frombuffer(data, np.uint8) != np.frombuffer(new, np.uint8))
    assert changed.max() - changed.min() < 4 * len(graph.subgraphs[0].ops)
    assert [op.outputs for op in back.subgraphs[0].ops] == [graph.subgraphs[0].ops[i].outputs for i in orders_[0]]
    assert (back.signatures, back.metadata) == (graph.signatures, graph.metadata)
    undone = {0: tuple(orders_[0].index(i) for i in range(len(orders_[0])))}
    assert with_order_written(new, back, undone) == data


def test_what_cannot_be_written_says_why() -> None:
    model = branches(2)
    data = model.build()
    graph = read_bytes(data)
    order = {0: (1, 0, 2, 3, 4)}
    with pytest.raises(InputError, match="not the file"):
        with_order_written(data[:-1] + b"x", graph, order)
    model.metadata(CONTROL_DEPENDENCIES, b"\x01\x00")
    with pytest.raises(InputError, match=CONTROL_DEPENDENCIES):
        with_order_written(model.build(), read_bytes(model.build()), order)


def test_mutants_never_crash() -> None:
    seeds = [random_dag(1, 20), branches(3).build(), (EXAMPLES / "lstm_kws.fp32.tflite").read_bytes()]
    rng, tried = random.Random(7), 0
    places = [structure(data) for data in seeds]
    for _ in range(200):
        which = rng.randrange(len(seeds))
        try:
            graph = read_bytes(data := mutant(seeds[which], places[which], seeds, rng))
        except PlanningError:
            continue
        tried += 1
        for xnnpack in (True, False):
            found = reordering(graph, RUNTIME, xnnpack=xnnpack, states=50, replays=3)
            try:
                with_order_written(data, graph, found.orders)
                shuffled = {s.index: rng.sample(range(len(s.ops)), len(s.ops)) for s in graph.subgraphs}
                with_order_written(data, graph, shuffled)
            except InputError:
                continue
    assert tried > 40
