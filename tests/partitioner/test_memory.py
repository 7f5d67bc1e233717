# SPDX-License-Identifier: Apache-2.0
"""The memory lines: their sum, what is null and why, control flow, state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedeploy_partitioner.memory.arena import ExecutedNode, arena
from edgedeploy_partitioner.memory.lines import memory_lines
from edgedeploy_partitioner.memory.platform import Platform
from edgedeploy_partitioner.model.build import Model, per_tensor
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.plan import Memory, Segment, Warn
from edgedeploy_profiles import load_backend, load_board, load_core
from edgedeploy_profiles.schema import Quantity
from support.arenas import executed_nodes, real_bytes
from support.random_model import random_dag
from support.runtime import inspect_all

EXAMPLES = Path(__file__).parents[2] / "examples"
LINES = (
    "arena_bytes", "persistent_bytes", "packed_bytes", "delegate_internal_bytes", "npu_pool_bytes", "handover_bytes",
    "interpreter_bytes", "model_bytes",
)  # fmt: skip

SEGMENT = Segment(0, 0, "rknn", "NC1HWC2/16", (0, 1), (0,), (2,), 0)


def built_in(graph: Graph) -> dict[int, list[ExecutedNode]]:
    return {s.index: [ExecutedNode(o.index, (o.index,), o.inputs, o.outputs) for o in s.ops] for s in graph.subgraphs}


def delegated(graph: Graph, delegate: str, ops: Sequence[int]) -> dict[int, list[ExecutedNode]]:
    """One delegate node of ``ops`` first, then the rest with built-in kernels."""
    subgraph = graph.subgraphs[0]
    members = [subgraph.ops[i] for i in ops]
    written = tuple(t for op in members for t in op.outputs)
    read = tuple(dict.fromkeys(t for op in members for t in op.inputs if t not in written))
    rest = [node for node in built_in(graph)[0] if node.op not in ops]
    return {0: [ExecutedNode(None, tuple(ops), read, written, delegate), *rest]}


def codes(warnings: Sequence[Warn]) -> list[str]:
    return [w.code for w in warnings]


def relu_chain() -> Graph:
    model = Model()
    g = model.subgraph()
    x = g.input((1, 64))
    for _ in range(3):
        x = g.apply("RELU", [x], (1, 64))
    g.outputs(x)
    return read_bytes(model.build())


def check_sums(memory: Memory) -> None:
    assert memory.peak_bytes == sum(getattr(memory, line) or 0 for line in LINES)
    assert memory.peak_low_bytes <= memory.peak_bytes
    assert memory.peak_high_bytes is None or memory.peak_bytes <= memory.peak_high_bytes
    assert memory.lowest_arena_bytes is not None
    assert memory.lowest_arena_bytes == max((s.live_bytes for s in memory.timeline), default=0)
    assert memory.lowest_arena_bytes <= memory.arena_bytes


def test_everything_is_known_of_built_in_kernels() -> None:
    graph = relu_chain()
    memory, warnings = memory_lines(graph, built_in(graph), main=0)
    check_sums(memory)
    assert memory.arena_exact
    assert (memory.arena_bytes, memory.persistent_bytes) == (3 * 256, 0)  # input, output, and the two between in turn
    assert (memory.packed_bytes, memory.npu_pool_bytes, memory.handover_bytes) == (0, 0, 0)
    interpreter = memory.interpreter_bytes
    assert interpreter
    assert memory.peak_bytes == 3 * 256 + interpreter + graph.size
    low, high = memory.bounds["interpreter_bytes"]
    assert high is not None
    assert (memory.peak_low_bytes, memory.peak_high_bytes) == (3 * 256 + low + graph.size, 3 * 256 + high + graph.size)
    kinds = {"interpreter_bytes": "modelled"}
    assert memory.kinds == {line: kinds.get(line, "exact") for line in LINES}
    assert {line for line in LINES if memory.bounds[line] == (getattr(memory, line),) * 2} == {*LINES} - {*kinds}
    steps = [(s.op, s.partition, s.live_bytes) for s in memory.timeline]
    assert steps == [(0, None, 512), (1, None, 768), (2, None, 768)]
    assert memory.peak_op == (0, 1)
    assert memory.peak_tensors == (0, 1, 2)
    assert [w.message.split()[0] for w in warnings] == ["baseline_bytes"]


def test_a_line_that_is_not_modelled_is_null_and_warned_of_once() -> None:
    unknown = ["delegate_internal_bytes", "npu_pool_bytes", "handover_bytes"]
    graph = relu_chain()
    memory, warnings = memory_lines(graph, delegated(graph, "rknn", [0, 1]), main=0)
    check_sums(memory)
    assert memory.arena_exact
    assert memory.arena_bytes == 2 * 256 + 256  # the tensor inside the partition is not the arena's
    assert [line for line in LINES if getattr(memory, line) is None] == unknown
    assert memory.peak_high_bytes is None
    assert [w.message.split()[0] for w in warnings] == [*unknown, "baseline_bytes"]
    assert set(codes(warnings)) == {"line_not_modelled"}
    assert [(s.op, s.partition) for s in memory.timeline] == [(None, 0), (2, None)]
    assert memory.peak_op == (0, 2)


def test_a_platform_gives_the_lines_of_xnnpack_and_of_the_npu() -> None:
    graph = relu_chain()
    board = load_board("rk3588")
    platform = Platform("ai-edge-litert", "2.3.0", board.stacks["rknn"], load_backend("rknn"), {0: (SEGMENT,)},
                        load_core("cortex-a76"), Quantity(40e6, "x", 30e6, 50e6))  # fmt: skip
    memory, warnings = memory_lines(graph, delegated(graph, "rknn", [0, 1]), 0, 1, platform)
    check_sums(memory)
    assert not warnings
    assert memory.npu_pool_bytes
    assert memory.baseline_bytes == 40_000_000
    assert memory.bounds["baseline_bytes"] == (30_000_000, 50_000_000)
    assert memory.kinds["baseline_bytes"] == "assumed"
    at_home = replace(platform, stack=None, backend=None, core=None)
    memory, _ = memory_lines(graph, delegated(graph, "xnnpack", [0, 1]), 0, 1, at_home)
    check_sums(memory)
    assert memory.kinds["baseline_bytes"] == memory.kinds["packed_bytes"] == "modelled"
    assert memory.packed_bytes
    assert memory.npu_pool_bytes == 0
    low, high = memory.bounds["packed_bytes"]
    assert high is not None
    assert low < memory.packed_bytes < high


def test_the_arena_bounds_the_peak_where_it_is_not_exact() -> None:
    model = Model()
    g = model.subgraph()
    y = g.apply("RESHAPE", [g.input((1, 16)), g.input((2,), "int32")], (4, 4))
    g.outputs(g.apply("RELU", [y], (4, 4)))
    graph = read_bytes(model.build())
    memory, _ = memory_lines(graph, built_in(graph), main=0)
    assert memory.kinds["arena_bytes"] == "modelled"
    assert memory.bounds["arena_bytes"] == (memory.lowest_arena_bytes, None)


def test_scratch_that_is_not_modelled_makes_a_lower_bound() -> None:
    model = Model()
    g = model.subgraph()
    weights = g.sparse_constant(np.eye(4, 16, dtype=np.int8), quant=per_tensor(0.05))
    g.outputs(g.apply("FULLY_CONNECTED", [g.input((3, 16)), weights, -1], (3, 4), op_version=8))
    data = model.build()
    graph = read_bytes(data)
    memory, warnings = memory_lines(graph, built_in(graph), main=0)
    check_sums(memory)
    assert not memory.arena_exact
    assert warnings[0].code == "arena_lower_bound"
    assert "FULLY_CONNECTED" in warnings[0].message
    assert warnings[0].op == (0, 0)
    [answer] = inspect_all([data], xnnpack=False, run=True)
    assert answer.subgraphs is not None
    assert memory.arena_bytes < real_bytes(answer.subgraphs[0])[0]


def test_a_shape_known_only_at_run_time_is_said() -> None:
    model = Model()
    g = model.subgraph()
    x = g.input((1, 16))
    y = g.apply("RESHAPE", [x, g.input((2,), "int32")], (4, 4))
    g.outputs(g.apply("RELU", [y], (4, 4)))
    graph = read_bytes(model.build())
    memory, warnings = memory_lines(graph, built_in(graph), main=0)
    assert not memory.arena_exact
    assert memory.peak_high_bytes is None
    assert warnings[0].code == "arena_as_stored"
    assert "RESHAPE may get larger results" in warnings[0].message


@pytest.mark.parametrize("rows", [4, 9])
def test_a_size_in_the_file_that_does_not_follow_from_the_inputs_is_said(rows: int) -> None:
    """The runtime computes it anew: 6 rows, padded by 1 and 1 to 8."""
    model = Model()
    g = model.subgraph()
    pads = g.constant(np.array([[1, 1], [0, 0]], np.int32))
    padded = g.apply("PAD", [g.input((6, 16)), pads], (rows, 16))
    g.outputs(g.apply("ABS", [padded], (rows, 16)))
    data = model.build()
    graph = read_bytes(data)
    memory, warnings = memory_lines(graph, built_in(graph), main=0)
    assert not memory.arena_exact
    assert warnings[0].code == "arena_as_stored"
    assert "PAD, ABS are stored with other sizes" in warnings[0].message
    [answer] = inspect_all([data], xnnpack=False, run=True)
    assert answer.subgraphs is not None
    assert real_bytes(answer.subgraphs[0])[0] == 64 * (6 + 8 + 8) <= memory.arena_bytes


# --- state and unpacked weights --------------------------------------


def resource_model() -> bytes:
    """Adds its input to a resource variable of 40 bytes; an initialisation subgraph clears it."""
    model = Model()
    g, init = model.subgraph(), model.subgraph("init")
    x = g.input((1, 10))
    g.op("CALL_ONCE", [], [], init_subgraph_index=1)
    handle = g.apply("VAR_HANDLE", [], (), "resource", container="", shared_name="sum")
    total = g.apply("ADD", [x, g.apply("READ_VARIABLE", [handle], (1, 10))], (1, 10))
    g.op("ASSIGN_VARIABLE", [handle, total], [])
    g.outputs(total)
    handle = init.apply("VAR_HANDLE", [], (), "resource", container="", shared_name="sum")
    init.op("ASSIGN_VARIABLE", [handle, init.constant(np.zeros((1, 10), np.float32))], [])
    return model.build()


def unpacked_model() -> bytes:
    """Half-precision weights, unpacked by a built-in kernel: 80 bytes that stay."""
    model = Model()
    g = model.subgraph()
    weights = g.apply("DEQUANTIZE", [g.constant(np.ones((2, 10), np.float16))], (2, 10))
    g.outputs(g.apply("FULLY_CONNECTED", [g.input((1, 10)), weights, -1], (1, 2)))
    return model.build()


def stateful_model() -> bytes:
    """A variable tensor of 16 bytes."""
    model = Model()
    g = model.subgraph()
    state = g.tensor((1, 4), variable=True)
    constants = [g.constant(np.ones(shape, np.float32)) for shape in ((4, 5), (4, 4), (4,))]
    g.outputs(g.apply("RNN", [g.input((1, 5)), *constants, state], (1, 4)))
    return model.build()


@pytest.mark.parametrize(("make", "values"), [(resource_model, 40), (unpacked_model, 0), (stateful_model, 0)])
def test_what_stays_between_runs_is_persistent(make: Callable[[], bytes], values: int) -> None:
    """The runtime's persistent arenas, and the values of resource variables, which lie on the heap."""
    data = make()
    [answer] = inspect_all([data], xnnpack=False, run=True)
    assert answer.subgraphs is not None, answer.failure
    assert not answer.failure
    graph = read_bytes(data)
    memory, _ = memory_lines(graph, built_in(graph), main=0)
    real = [real_bytes(plan) for plan in answer.subgraphs]
    assert memory.arena_exact
    assert memory.arena_bytes == real[0][0]
    assert memory.persistent_bytes == sum(persistent for _, persistent in real) + values
    assert memory.persistent_bytes > 0


def test_threads_matter_to_convolutions_on_x86_64_only() -> None:
    graph = read_bytes((EXAMPLES / "dscnn_kws.fp32.tflite").read_bytes())
    x86, arm = (Platform("ai-edge-litert", "2.3.0", None, None, {}, core) for core in (None, load_core("cortex-a53")))
    filters_bytes = 75776  # of which there is then another copy
    for platform, threads, expected in ((x86, 1, 0), (x86, 4, filters_bytes), (arm, 1, 0), (arm, 4, 0)):
        memory, _ = memory_lines(graph, built_in(graph), 0, threads, platform)
        assert memory.persistent_bytes == expected


# --- control flow ----------------------------------------------------


@pytest.mark.parametrize("xnnpack", [True, False])
def test_what_a_loop_runs_is_added_and_freed_after_it(xnnpack: bool) -> None:
    data = (EXAMPLES / "lstm_kws.fp32.tflite").read_bytes()
    [answer] = inspect_all([data], xnnpack=xnnpack, run=True)
    assert answer.subgraphs is not None, answer.failure
    graph = read_bytes(data)
    nodes = {plan["subgraph"]: executed_nodes(plan) for plan in answer.subgraphs}
    assert [real_bytes(plan)[0] for plan in answer.subgraphs[1:]] == [0, 0]
    memory, warnings = memory_lines(graph, nodes, main=0)
    check_sums(memory)
    apart = [arena(graph, graph.subgraphs[i], nodes[i]).bytes for i in range(3)]
    assert apart[0] == real_bytes(answer.subgraphs[0])[0]
    assert memory.arena_bytes == sum(apart)
    assert not memory.arena_exact
    assert "arena_bound" in codes(warnings)


def test_a_callee_runs_on_top_of_its_caller() -> None:
    model = Model()
    g = model.subgraph()
    branches = [model.subgraph("then"), model.subgraph("else")]
    x = g.input((1, 64))
    flag = g.input((1,), "bool")
    y = g.apply("RELU", [x], (1, 64))
    z = g.tensor((1, 64))
    g.op("IF", [flag, y], [z], then_subgraph_index=1, else_subgraph_index=2)
    g.outputs(z)
    for branch, code in zip(branches, ("ABS", "NEG"), strict=True):
        branch.outputs(branch.apply(code, [branch.input((1, 64))], (1, 64)))
    graph = read_bytes(model.build())
    memory, _ = memory_lines(graph, built_in(graph), main=0)
    caller = 256 + 1 + 256 + 256
    assert [(s.subgraph, s.op, s.live_bytes) for s in memory.timeline] == [
        (0, 0, 256 + 1 + 256),
        (1, 0, caller + 256),  # its input is the caller's
        (2, 0, caller + 256),
        (0, 1, caller),
    ]
    assert memory.peak_op == (1, 0)
    assert memory.arena_bytes == (256 + 64 + 256 + 256) + 256  # the flag takes a whole cache line; one branch runs


def test_what_only_a_branch_reads_may_stay_on_disk() -> None:
    model = Model()
    g = model.subgraph()
    branches = [model.subgraph("then"), model.subgraph("else")]
    shared = np.full((1, 64), 7, np.float32)
    x = g.apply("ADD", [g.input((1, 64)), g.constant(shared)], (1, 64))
    z = g.tensor((1, 64))
    g.op("IF", [g.input((1,), "bool"), x], [z], then_subgraph_index=1, else_subgraph_index=2)
    g.outputs(z)
    for value, branch in enumerate(branches):
        own = branch.constant(np.full((1, 64), value, np.float32))
        branch.outputs(branch.apply("MUL", [branch.input((1, 64)), own], (1, 64)))
    graph = read_bytes(model.build())
    memory, _ = memory_lines(graph, built_in(graph), main=0)
    assert memory.model_bytes == graph.size
    assert memory.bounds["model_bytes"] == (graph.size - 2 * 256, graph.size)
    low, high = memory.bounds["arena_bytes"]
    assert low < memory.arena_bytes
    assert high is None


def test_live_bytes_add_up_along_a_chain_of_calls() -> None:
    model = Model()
    graphs = [model.subgraph(name) for name in ("main", "outer", "inner")]
    for depth, g in enumerate(graphs):
        x = g.input((1, 16))
        calls: dict[str, Any] = {"decomposition_subgraph_index": depth + 1, "name": "call"}
        g.outputs(g.apply("ABS", [x], (1, 16)) if depth == 2 else g.apply("STABLEHLO_COMPOSITE", [x], (1, 16), **calls))
    graph = read_bytes(model.build())
    memory, _ = memory_lines(graph, built_in(graph), main=0)
    assert [(s.subgraph, s.live_bytes) for s in memory.timeline] == [(2, 256), (1, 192), (0, 128)]
    assert memory.arena_bytes == 128 + 64 + 64  # the inner ones have only results


def test_partitions_are_numbered_across_subgraphs() -> None:
    model = Model()
    g, body = model.subgraph(), model.subgraph("decomposition")
    x = g.input((1, 16))
    composite: dict[str, Any] = {"decomposition_subgraph_index": 1, "name": "mine"}
    y = g.apply("STABLEHLO_COMPOSITE", [g.apply("RELU", [x], (1, 16))], (1, 16), **composite)
    g.outputs(y)
    body.outputs(body.apply("ABS", [body.input((1, 16))], (1, 16)))
    graph = read_bytes(model.build())
    first = ExecutedNode(None, (0,), (x,), graph.subgraphs[0].ops[0].outputs, "xnnpack")
    call = built_in(graph)[0][1]
    inner = ExecutedNode(None, (0,), graph.subgraphs[1].inputs, graph.subgraphs[1].outputs, "xnnpack")
    memory, _ = memory_lines(graph, {0: [first, call], 1: [inner]}, main=0)
    assert [(s.subgraph, s.op, s.partition) for s in memory.timeline] == [(0, None, 0), (1, None, 1), (0, 1, None)]
    taken_whole = ExecutedNode(None, (0, 1), (x,), (y,), "xnnpack")
    memory, _ = memory_lines(graph, {0: [taken_whole], 1: built_in(graph)[1]}, main=0)
    assert [(s.subgraph, s.partition) for s in memory.timeline] == [(0, 0)]
    assert memory.arena_exact


# --- any model -------------------------------------------------------


@pytest.mark.parametrize("xnnpack", [True, False])
def test_sums_hold_for_what_the_runtime_executes(xnnpack: bool) -> None:
    models = [random_dag(seed, 25) for seed in range(20)]
    for data, answer in zip(models, inspect_all(models, xnnpack=xnnpack), strict=True):
        assert answer.subgraphs is not None, answer.failure
        memory, _ = memory_lines(read_bytes(data), {0: executed_nodes(answer.subgraphs[0])}, main=0)
        check_sums(memory)
        assert len(memory.timeline) == len(answer.subgraphs[0]["nodes"])
        assert bool(memory.packed_bytes) == any(n["members"] for n in answer.subgraphs[0]["nodes"])


def test_a_graph_without_ops_has_an_arena_for_its_inputs() -> None:
    model = Model()
    g = model.subgraph()
    g.outputs(g.input((1, 16)))
    graph = read_bytes(model.build())
    memory, _ = memory_lines(graph, built_in(graph), main=0)
    assert (memory.arena_bytes, memory.timeline, memory.peak_op, memory.peak_tensors) == (64, (), None, ())
