# SPDX-License-Identifier: Apache-2.0
"""What NPU drivers and delegates hold: against what boards and compilers report, worked out by hand, and in general."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from benchmarks.cost.networks.net import Net
from benchmarks.memory import npu as published
from edgedeploy_partitioner.memory.line import Line
from edgedeploy_partitioner.memory.npu import NpuLines, npu_lines, pool_warnings
from edgedeploy_partitioner.memory.npu_stacks import npu_memory, placed_bytes
from edgedeploy_partitioner.memory.platform import Platform
from edgedeploy_partitioner.model.graph import DType, Graph
from edgedeploy_partitioner.plan import Segment
from edgedeploy_profiles import board_names, load_backend, load_board
from edgedeploy_profiles.schema import Quantity

STACKS = [(name, stack) for name in board_names() for stack in load_board(name).stacks]
MEASURED = list(published.rows())


def part(graph: Graph, ops: Sequence[int], backend: str, number: int = 0) -> Segment:
    """A segment of those ops of the main subgraph."""
    main, inside = graph.subgraphs[0], set(ops)
    made = [t for i in ops for t in main.ops[i].outputs]
    read = [t for i in ops for t in main.ops[i].inputs if t >= 0 and t not in made]
    leaving = [t for t in made if t in main.outputs or not inside.issuperset(main.consumers.get(t, ()))]
    return Segment(
        id=number, partition=0, backend=backend, layout="", ops=tuple(ops), inputs=tuple(dict.fromkeys(read)),
        outputs=tuple(leaving), handover_ns=0,
    )  # fmt: skip


def platform(board: str, stack: str, *segments: Segment, memory: dict[str, Quantity] | None = None) -> Platform:
    its = load_board(board).stacks[stack]
    its = its if memory is None else structs.replace(its, memory=memory)
    return Platform("ai-edge-litert", "2.3.0", its, load_backend(its.backend), {0: segments} if segments else {})


def whole(graph: Graph, board: str, stack: str) -> NpuLines:
    backend = load_board(board).stacks[stack].backend
    its = part(graph, [op.index for op in graph.subgraphs[0].ops], backend)
    return npu_lines(graph, platform(board, stack, its), {0: 0})


def stripes(channels: int = 20, depth: int = 3, dtype: str = "int8", size: int = 16) -> Graph:
    net = Net("stripes", dtype)
    x = net.input(size, size, 3)
    for _ in range(depth):
        x = net.conv(x, channels, 3)
    return net.build(x)


# --- against boards and compilers ----------


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: f"{row.stack}-{row.kind}-{row.model}-{row.board}-{row.part}")
def test_what_boards_and_compilers_report_is_within_the_bounds(row: published.Row) -> None:
    result = published.predict(row)
    assert result.is_inside, f"{result.line} against {row.bytes}"
    assert result.line.kind == "modelled"


@pytest.mark.parametrize("board", ["rk3588", "rk3568"])
def test_what_rockchips_compiler_plans_is_met_to_the_byte(board: str) -> None:
    """Of networks without sizes that it rounds further, resizing by odd factors, and several images that leave."""
    others = {"deeplab_v3_mobilenet_v2_0.5", "inception_v3", "ssd_mobilenet_v1", "yolov5n", "yolov5s", "yolov5s_relu"}
    planned = [row for row in MEASURED if (row.kind, row.board, row.part) == ("compiler", board, "internal")]
    results = [published.predict(row) for row in planned if row.model not in others]
    assert len(results) >= 3
    assert {r.row.model: r.line.bytes for r in results} == {r.row.model: r.row.bytes for r in results}


def test_typical_errors_are_small() -> None:
    errors = {
        key: statistics.median(abs(published.predict(r).error) for r in MEASURED if (r.stack, r.part) == key)
        for key in {(row.stack, row.part) for row in MEASURED}
    }
    assert errors[("rknn", "weight")] <= 0.03
    assert errors[("rknn", "internal")] <= 0.02
    assert errors[("rknn", "total")] <= 0.1
    assert errors[("ethosu", "dram")] <= 0.1


# --- by hand ----------

ONLY_BUFFERS = {
    "weight_factor": 1, "live_factor": 0, "tensor_factor": 1, "border_factor": 0, "op_bytes": 0, "fixed_bytes": 0,
}  # fmt: skip


def pinned(**factors: float) -> dict[str, Quantity]:
    return {name: Quantity(value, "test") for name, value in factors.items()}


def pages(count: int) -> int:
    return -(-count // 4096) * 4096


def test_rocket_has_a_buffer_for_every_tensor_and_for_what_each_convolution_reads() -> None:
    """A sum: its first operand is computed where the result lies."""
    net = Net("sum", "uint8")
    left = net.conv(net.input(32, 32, 16), 24, 3, act="NONE")
    graph = net.build(net.add(net.conv(left, 24, 1, act="NONE"), left))
    its = part(graph, [0, 1, 2], "teflon-rocket")
    pool = npu_lines(graph, platform("rk3588", "teflon-rocket", its, memory=pinned(**ONLY_BUFFERS)), {0: 0}).npu_pool
    tensors = 2 * (32 * 32 * 16) + 2 * (32 * 32 * 32) * 2  # the image; `left` and the sum, of two groups of 16 each
    weights = pages(3 * 3 * 24 * 32 * 2) + pages(24 * 32 * 2)
    biases = 2 * pages(24 * 4)
    total = tensors + weights + biases
    assert pool == Line(total, total, total, "modelled")


def test_rknn_fills_channels_up_and_transposes_images_that_leave() -> None:
    """An image of 3 channels is not filled up, what a depthwise convolution makes is filled up to 64."""
    net = Net("wide", "int8")
    x = net.conv(net.input(24, 24, 3), 40, 3)
    graph = net.build(net.depthwise(x, 3))
    its = part(graph, [0, 1], "rknn")
    only_live = pinned(**{**ONLY_BUFFERS, "weight_factor": 0, "tensor_factor": 0, "live_factor": 1})
    pool = npu_lines(graph, platform("rk3588", "rknn", its, memory=only_live), {0: 0}).npu_pool
    image, wide, deep = 24 * 24 * 3, 24 * 24 * 64, 24 * 24 * 64  # 40 channels: 64 either way
    result = 32 * 24 * 64
    # In the gap that the image leaves nothing else fits; scratch memory of twice the result is for transposing it.
    assert pool.bytes == image + wide + deep + 2 * result + result
    weights = pinned(**{**ONLY_BUFFERS, "tensor_factor": 0})
    assert npu_lines(graph, platform("rk3588", "rknn", its, memory=weights), {0: 0}).npu_pool.bytes == (
        3 * 3 * 16 * 40 + 8 * 64 + 3 * 3 * 48 + 8 * 64
    )


def test_rknn_gates_inside_the_convolution() -> None:
    def gated(act: str) -> int:
        net = Net("gate")
        graph = net.build(net.conv(net.conv(net.input(24, 24, 3), 64, 3, act=act), 8, 1, act=act))
        its = part(graph, [op.index for op in graph.subgraphs[0].ops], "rknn")
        live = pinned(**{**ONLY_BUFFERS, "weight_factor": 0, "tensor_factor": 0, "live_factor": 1})
        return npu_lines(graph, platform("rk3588", "rknn", its, memory=live), {0: 0}).npu_pool.bytes

    assert gated("SILU") == gated("NONE")


def test_what_is_unpacked_as_the_model_is_loaded_is_a_weight_and_no_activation() -> None:
    graph = stripes(dtype="float32")
    plain = whole(graph, "rk3588", "rknn").npu_pool
    main = graph.subgraphs[0]
    weights = main.ops[0].inputs[1]
    packed = replace(main.tensors[weights], id=len(main.tensors), dtype=DType.FLOAT16)
    unpacked = replace(main.tensors[weights], data=None)
    unpack = replace(main.ops[0], index=len(main.ops), code="DEQUANTIZE", inputs=(packed.id,), outputs=(weights,))
    tensors = (*main.tensors[:weights], unpacked, *main.tensors[weights + 1 :], packed)
    folded = replace(graph, subgraphs=(replace(main, tensors=tensors, ops=(*main.ops, unpack)),))
    assert main.ops[0].index not in folded.subgraphs[0].folded
    its = part(folded, [op.index for op in main.ops], "rknn")
    assert npu_lines(folded, platform("rk3588", "rknn", its), {0: 0}).npu_pool == plain


def test_a_result_takes_the_place_of_an_operand_of_its_size_that_nobody_reads_again() -> None:
    net = Net("places")
    x = net.conv(net.input(8, 8, 32), 32, 1)
    y = net.conv(x, 32, 1)
    graph = net.build(net.conv(net.add(x, y), 32, 1))
    main = graph.subgraphs[0]
    held = {t.id: 100 * 64 for t in main.tensors if not t.is_constant}
    assert placed_bytes(main, part(graph, range(4), ""), held) == 2 * 6400  # never three at once
    read_again = Net("again")
    x = read_again.conv(read_again.input(8, 8, 32), 32, 1)
    y = read_again.conv(x, 32, 1)
    graph = read_again.build(read_again.add(read_again.add(x, y), y))
    main = graph.subgraphs[0]
    held = {t.id: 100 * 64 for t in main.tensors if not t.is_constant}
    assert placed_bytes(main, part(graph, range(4), ""), held) == 2 * 6400


def test_only_tensors_that_librknnrt_must_convert_are_surely_held_twice() -> None:
    of_ints, of_floats = (whole(stripes(dtype=dtype), "rk3588", "rknn").handover for dtype in ("int8", "float32"))
    crossing = 16 * 16 * (3 + 20)
    assert (of_ints.bytes, of_ints.low_bytes, of_ints.high_bytes) == (0, 0, crossing)
    assert (of_floats.bytes, of_floats.high_bytes) == (4 * crossing, 4 * crossing)
    assert of_ints.kind == of_floats.kind == "assumed"


def test_c_kernels_between_npu_ops_hold_their_tensors() -> None:
    graph = stripes(depth=4)
    first, middle, last = part(graph, [0], "rknn", 0), part(graph, [1, 2], "neon", 1), part(graph, [3], "rknn", 2)
    lines = npu_lines(graph, platform("rk3588", "rknn", first, middle, last), {0: 0})
    each = 16 * 16 * 20
    assert lines.delegate_internal == Line(3 * each, each, 3 * each, "assumed")  # read, between, made
    assert lines.handover.high_bytes == 16 * 16 * (3 + 20)  # only what enters and leaves the partition
    outside = npu_lines(graph, platform("rk3588", "rknn", middle), {0: 0})
    assert outside.delegate_internal == Line.exact(each)
    assert outside.npu_pool == outside.handover == Line.none()


def test_a_limit_of_the_board_is_told() -> None:
    graph = stripes()
    its = part(graph, [0, 1, 2], "rknn")
    lines = npu_lines(graph, platform("rk3588", "rknn", its), {0: 0})
    own = load_board("rk3588").stacks["rknn"].memory
    at_limit, below = (
        platform("rk3588", "rknn", its, memory={**own, "pool_limit_bytes": Quantity(lines.npu_pool.bytes - less, "t")})
        for less in (0, 1)
    )
    assert not list(pool_warnings(at_limit, lines))
    (warned,) = pool_warnings(below, lines)
    assert warned.code == "npu_pool_over_limit"
    assert f"{lines.npu_pool.bytes} bytes" in warned.message
    assert f"{lines.npu_pool.bytes - 1} on this board" in warned.message
    assert not list(pool_warnings(platform("qcs6490", "qnn", its), lines))  # no limit is known


# --- in general ----------


def test_without_an_npu_partition_there_is_nothing() -> None:
    graph = stripes()
    xnnpack = part(graph, [0, 1, 2], "cpu")
    nothing = NpuLines(Line.none(), Line.none(), Line.none())
    assert npu_lines(graph, platform("rk3588", "rknn"), {}) == nothing
    assert npu_lines(graph, platform("rk3588", "rknn", xnnpack), {0: 0}) == nothing
    assert npu_lines(graph, replace(platform("rk3588", "rknn", xnnpack), stack=None, backend=None), {0: 0}) == nothing


@pytest.mark.parametrize(("board", "stack"), STACKS)
@settings(max_examples=15)
@given(channels=st.integers(1, 70), depth=st.integers(1, 4), size=st.integers(1, 20))
def test_bounds_hold_the_value(board: str, stack: str, channels: int, depth: int, size: int) -> None:
    lines = whole(stripes(channels, depth, "int8", size), board, stack)
    for line in (lines.npu_pool, lines.handover):
        assert line.high_bytes is not None
        assert 0 <= line.low_bytes <= line.bytes <= line.high_bytes
    assert lines.npu_pool.bytes > 0
    assert lines.delegate_internal == Line.none()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 9)), min_size=1, max_size=12))
def test_the_planner_needs_what_is_alive_and_no_more_than_all(drawn: list[tuple[int, int, int]]) -> None:
    """Random graphs of convolutions and concatenations, whose results take nobody's place."""
    net = Net("random")
    made = [net.input(4, 4, 8)]
    for a, b, channels in drawn:
        x, y = made[a % len(made)], made[b % len(made)]
        made.append(net.conv(x, channels, 1) if x == y else net.concat(x, y))
    graph = net.build(*dict.fromkeys((made[-1], made[len(made) // 2])))
    main = graph.subgraphs[0]
    its = part(graph, [op.index for op in main.ops], "")
    held = {t: 64 * (1 + main.tensors[t].nbytes % 7) for t in made}
    last = {t: max((*main.consumers.get(t, ()), main.producer.get(t, 0))) for t in made}
    last |= dict.fromkeys(its.outputs, len(main.ops))
    alive = [sum(held[t] for t in made if main.producer.get(t, 0) <= op.index <= last[t]) for op in main.ops]
    assert max(alive) <= placed_bytes(main, its, held) <= sum(held.values())


@pytest.mark.parametrize(("board", "stack"), STACKS)
def test_an_assumed_number_makes_an_assumed_line(board: str, stack: str) -> None:
    its = load_board(board).stacks[stack]
    graph = stripes()
    npu = npu_memory(load_backend(its.backend), its, graph)
    pool = whole(graph, board, stack).npu_pool
    counted = ("weight_factor", "live_factor", "tensor_factor", "border_factor", "op_bytes", "fixed_bytes")
    used = [npu.quantity(name) for name in counted if npu.quantity(name).highest]
    assert pool.kind == ("assumed" if any(q.source.startswith("assumed:") for q in used) else "modelled")


def test_every_number_of_a_stack_is_one_that_the_model_knows() -> None:
    known = {"weight_factor", "live_factor", "tensor_factor", "border_factor", "op_bytes", "fixed_bytes"}
    for board, stack in STACKS:
        names = load_board(board).stacks[stack].memory.keys()
        assert names <= known | {"handover_factor", "pool_limit_bytes"}, (board, stack)


def test_two_partitions_hold_what_each_holds() -> None:
    graph = stripes(depth=4)
    first, last = part(graph, [0, 1], "rknn", 0), part(graph, [3], "rknn", 1)
    alone = [npu_lines(graph, platform("rk3588", "rknn", one), {0: 0}).npu_pool for one in (first, last)]
    both = replace(platform("rk3588", "rknn"), segments={0: (first,), 3: (last,)})
    assert npu_lines(graph, both, {0: 0, 3: 0}).npu_pool == alone[0] + alone[1]
