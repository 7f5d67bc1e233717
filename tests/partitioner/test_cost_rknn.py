# SPDX-License-Identifier: Apache-2.0
"""RKNN's cost model: worked out by hand, and against the published latencies that its constants were not chosen by."""

from __future__ import annotations

import csv
import dataclasses
import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.cost import fit_rknn, rknn
from benchmarks.cost.networks.net import Net
from benchmarks.cost.npu import Result
from edgedeploy_partitioner.cost import npu_cost
from edgedeploy_partitioner.cost.rknn import RknnCost, channel_block, padded_bytes
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Tensor
from edgedeploy_partitioner.planning.request import cpu_cost
from edgedeploy_profiles import load_board
from edgedeploy_profiles.schema import Quantity, Stack

LAYOUT = "NC1HWC2/16"
BOARDS = ("rk3566", "rk3568", "rk3576", "rk3588")
FITTED = ("rk3568", "rk3576", "rk3588")
PLAIN = {
    "npu_clock_ghz": 1, "int8_macs_per_cycle": 1024, "float16_macs_per_cycle": 512, "compute_efficiency": 1,
    "input_channel_block": 32, "image_channel_block": 32, "depthwise_fraction": 1, "op_overhead_us": 0,
    "npu_bandwidth_gb_s": 1e9, "move_bandwidth_gb_s": 1e9, "unhidden_share": 0, "lookup_ns_per_element": 0,
    "softmax_ns_per_element": 0,
}  # fmt: skip
"""Nothing but computing, at 1024 products a nanosecond."""


def model(board: str = "rk3588", /, **changed: float) -> RknnCost:
    """RK3588's or another board's model, some constants pinned to exact values."""
    profile = load_board(board)
    costs = {**profile.stacks["rknn"].costs, **{name: Quantity(value, "test") for name, value in changed.items()}}
    stack = Stack(backend="rknn", soc=board, device_nodes=(), costs=costs)
    found = npu_cost("rknn", stack, cpu_cost(profile, None, 1)[0])
    assert isinstance(found, RknnCost)
    return found


def last(net: Net, *outputs: int) -> tuple[Graph, Op]:
    graph = net.build(*outputs)
    return graph, graph.subgraphs[0].ops[-1]


def conv(size: int, cin: int, cout: int, k: int = 1, act: str = "NONE", dtype: str = "int8") -> tuple[Graph, Op]:
    net = Net("conv", dtype)
    return last(net, net.conv(net.input(size, size, cin), cout, k, act=act))


# --- ops ----------


def test_overhead_computing_moving_and_weights_add_up() -> None:
    """64x64x64 -> 64, 3x3: 150,994,944 products at 1024 = 147.456 us; 524,288 bytes at 10 GB/s = 52.4288 us, of which a
    quarter is not hidden; 36,864 weights and 256 bytes of bias 3.712 us; overhead 10 us."""
    exact = model(**{**PLAIN, "op_overhead_us": 10, "npu_bandwidth_gb_s": 10, "unhidden_share": 0.25})
    cost = exact.op(*conv(64, 64, 64, 3), "npu", LAYOUT)
    assert (cost.ns, cost.bound) == (round(10_000 + 147_456 + 52_428.8 / 4 + 3_712), "compute")


@pytest.mark.parametrize(("cin", "cout", "as_many"), [(33, 32, (64, 32)), (32, 33, (32, 64)), (5, 5, (32, 32))])
def test_channels_are_filled_up_to_the_array(cin: int, cout: int, as_many: tuple[int, int]) -> None:
    exact = model(**PLAIN)
    assert exact.op(*conv(64, cin, cout, 3), "npu", LAYOUT).ns == exact.op(*conv(64, *as_many, 3), "npu", LAYOUT).ns
    assert exact.op(*conv(64, cin, cout, 3), "npu", LAYOUT).ns == 64 * 64 * 9 * math.prod(as_many) // 1024


def test_a_narrower_array_makes_fewer_outputs_at_once() -> None:
    exact = model(**{**PLAIN, "int8_macs_per_cycle": 512})
    assert exact.op(*conv(64, 32, 48, 3), "npu", LAYOUT).ns == 64 * 64 * 9 * 32 * 48 // 512


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_an_image_counts_as_a_block_of_its_own_and_is_read_without_padding(channels: int) -> None:
    exact = model(**{**PLAIN, "image_channel_block": 16})
    graph, op = conv(64, channels, 32, 3)
    assert exact.op(graph, op, "npu", LAYOUT).ns == 64 * 64 * 9 * 16 * 32 // 1024
    assert exact.demand(graph, op, LAYOUT).bytes == 64 * 64 * (channels + 32)
    assert exact.demand(*conv(64, 5, 32, 3), LAYOUT).bytes == 64 * 64 * (16 + 32)


def test_a_depthwise_convolution_keeps_a_part_of_the_array_busy() -> None:
    net = Net("depthwise")
    graph, op = last(net, net.depthwise(net.input(64, 64, 64)))
    assert (
        model(**{**PLAIN, "depthwise_fraction": 0.125}).op(graph, op, "npu", LAYOUT).ns == 64 * 64 * 64 * 9 * 8 // 1024
    )


def test_float16_has_an_array_of_its_own() -> None:
    exact = model(**PLAIN)
    wanted = 2 * exact.op(*conv(64, 64, 64, 3), "npu", LAYOUT).ns
    assert exact.op(*conv(64, 64, 64, 3, dtype="float32"), "npu", "NC1HWC2/8").ns == wanted
    assert exact.op(*conv(64, 64, 64, 3, dtype="float16"), "npu", "NC1HWC2/8").ns == wanted


@pytest.mark.parametrize("channels", [16, 24])
def test_moving_data_has_a_bandwidth_of_its_own(channels: int) -> None:
    """Two tensors of 32x32 read, one of twice the channels written, each filled up to blocks of 16."""
    net = Net("concat")
    graph, op = last(net, net.concat(net.input(32, 32, channels), net.input(32, 32, channels)))
    exact = model(**{**PLAIN, "move_bandwidth_gb_s": 1})
    filled = {16: 16, 24: 32}[channels]
    assert exact.op(graph, op, "npu", LAYOUT).ns == 32 * 32 * (2 * filled + 2 * channels)
    assert exact.op(graph, op, "npu", LAYOUT).bound == "memory"


def test_an_op_with_little_work_is_bound_by_its_overhead_and_one_with_many_weights_by_memory() -> None:
    assert model().op(*conv(2, 8, 8), "npu", LAYOUT).bound == "overhead"
    net = Net("dense")
    assert model().op(*last(net, net.fully_connected(net.input(4096), 4096)), "npu", LAYOUT).bound == "memory"


def test_a_transposed_convolution_is_priced_by_its_data() -> None:
    """Its first input is the shape of the output; 4 such numbers are no channels."""
    net = Net("transposed")
    graph, op = last(net, net.transpose_conv(net.input(32, 32, 64), 32))
    assert model(**PLAIN).op(graph, op, "npu", LAYOUT).ns == 32 * 32 * 64 * 2 * 2 * 32 // 1024


def test_softmax_and_the_cpu_lane_go_by_elements() -> None:
    net = Net("softmax")
    graph, op = last(net, net.softmax(net.input(100, 64)))
    assert model(**{**PLAIN, "softmax_ns_per_element": 2}).op(graph, op, "npu", LAYOUT).ns == 12_800
    lane = model(cpu_lane_ns_per_element=3, cpu_lane_overhead_us=7)
    assert lane.op(graph, op, "cpu_lane", LAYOUT).ns == 7_000 + 3 * 6_400


@pytest.mark.parametrize(
    ("act", "looked_up"), [("LOGISTIC", True), ("TANH", True), ("HARD_SWISH", True), ("LEAKY_RELU", False)]
)
def test_a_fused_activation_is_free_or_looked_up(act: str, looked_up: bool) -> None:
    exact = model(lookup_ns_per_element=0.5)
    graph, op = conv(32, 16, 24, act=act)
    assert op.code == act
    assert exact.fused(graph, op, "npu", LAYOUT).ns == (32 * 32 * 24 // 2 if looked_up else 0)


def test_a_fused_sum_reads_its_other_operand_and_a_gate_nothing() -> None:
    net = Net("sum")
    x = net.input(32, 32, 24)
    graph, op = last(net, net.add(net.conv(x, 24, act="NONE"), x))
    exact = model(npu_bandwidth_gb_s=1)
    assert exact.fused(graph, op, "npu", LAYOUT).ns == 32 * 32 * 32
    assert exact.fused(*conv(32, 16, 24, act="SILU"), "npu", LAYOUT).ns == 0


@given(
    size=st.integers(1, 40),
    channels=st.integers(1, 70),
    code=st.sampled_from(["CONV_2D", "MAX_POOL_2D", "ADD"]),
    board=st.sampled_from(BOARDS),
)
def test_bounds_enclose_and_being_fused_is_never_dearer(size: int, channels: int, code: str, board: str) -> None:
    net = Net("any")
    x = net.input(size, size, channels)
    y = {
        "CONV_2D": lambda: net.conv(x, channels, act="NONE"),
        "MAX_POOL_2D": lambda: net.max_pool(x, 3, 1),
        "ADD": lambda: net.add(x, x),
    }[code]()
    graph, op = last(net, y)
    alone, fused = (price(graph, op, "npu", LAYOUT) for price in (model(board).op, model(board).fused))
    for cost in (alone, fused):
        assert cost.high_ns is not None
        assert 0 <= cost.low_ns <= cost.ns <= cost.high_ns
    assert fused.ns <= alone.ns


# --- borders ----------


@pytest.mark.parametrize(("layout", "block"), [("NC1HWC2/16", 16), ("NC1HWC2/8", 8), ("NHWC", 1), ("NC1HWC2/x", 1)])
def test_channel_blocks(layout: str, block: int) -> None:
    assert channel_block(layout) == block


def test_padded_bytes() -> None:
    rgb = Tensor(0, "", (1, 224, 224, 3), DType.INT8)
    assert padded_bytes(rgb, "NC1HWC2/16") == 224 * 224 * 16
    assert padded_bytes(dataclasses.replace(rgb, dtype=DType.FLOAT32), "NC1HWC2/8") == 224 * 224 * 8 * 2
    assert padded_bytes(rgb, "NHWC") == 224 * 224 * 3
    assert padded_bytes(dataclasses.replace(rgb, shape=()), "NC1HWC2/16") == 16


def test_an_int8_tensor_is_converted_by_ourselves() -> None:
    """80x80x60, filled up to 64 channels, read and written twice at the core's 22 GB/s, after 14 us."""
    tensor = Tensor(0, "", (1, 80, 80, 60), DType.INT8)
    exact = model(native_passes=2, native_overhead_us=14)
    bandwidth = exact.cpu.cluster.bandwidth_gb_s.value
    for cost in (exact.enter(tensor, LAYOUT), exact.leave(tensor, LAYOUT)):
        assert cost.path == "native"
        assert cost.ns == pytest.approx(14_000 + 2 * 2 * 80 * 80 * 64 / bandwidth, abs=1)


def test_an_image_is_only_copied() -> None:
    rgb = Tensor(0, "", (1, 224, 224, 3), DType.INT8)
    exact = model(native_passes=2, native_overhead_us=14)
    copied = 14_000 + 2 * 224 * 224 * 3 / exact.cpu.cluster.bandwidth_gb_s.value
    assert exact.enter(rgb, LAYOUT).ns == pytest.approx(copied, abs=1)
    assert exact.leave(rgb, LAYOUT).ns > exact.enter(rgb, LAYOUT).ns


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.FLOAT32, DType.INT32])
def test_another_type_needs_the_runtime_s_conversion(dtype: DType) -> None:
    tensor = Tensor(0, "", (1, 80, 80, 64), dtype)
    exact = model(enter_ns_per_byte=2, enter_overhead_us=5, leave_ns_per_byte=1, leave_overhead_us=3)
    assert (exact.enter(tensor, LAYOUT).path, exact.leave(tensor, LAYOUT).path) == ("default", "default")
    assert exact.enter(tensor, LAYOUT).ns == 5_000 + 2 * tensor.nbytes
    assert exact.leave(tensor, LAYOUT).ns == 3_000 + tensor.nbytes


def test_the_cheaper_path_is_taken() -> None:
    few = Tensor(0, "", (1, 1000), DType.INT8)
    assert model(leave_overhead_us=1, leave_ns_per_byte=0.1).leave(few, LAYOUT).path == "default"
    assert model(leave_overhead_us=99).leave(few, LAYOUT).path == "native"


# --- published latencies ----------


def results() -> list[Result]:
    return [rknn.predict(row) for row in rknn.rows()]


def test_unfitted_published_latencies_are_met() -> None:
    """Four fifths within 20 %, and 85 % inside their interval, on every chip."""
    found = defaultdict(list)
    for result in results():
        found["rk3568" if result.row.board == "rk3566" else result.row.board].append(result)
    assert sorted(found) == sorted(FITTED)
    for those in found.values():
        unfitted = [result for result in those if result.row.fitted == "no"]
        assert len(unfitted) >= 15
        assert sum(abs(result.error) <= 0.2 for result in unfitted) >= 0.8 * len(unfitted)
        assert sum(result.is_inside for result in unfitted) >= 0.85 * len(unfitted)


def test_the_fitted_column_says_what_was_fitted() -> None:
    with (rknn.PUBLISHED / "rknn.csv").open(newline="") as lines:
        said = [(raw["model"], raw["board"], raw["ms"], raw["fitted"]) for raw in csv.DictReader(lines)]
    known = [(row.model, row.board, row.ms, row.fitted) for row in rknn.rows()]
    assert known == [(name, board, float(ms), fitted) for name, board, ms, fitted in said if fitted]


@pytest.mark.parametrize("board", FITTED)
def test_the_fit_uses_the_product_s_formula(board: str) -> None:
    npu = rknn.npu_of(board)
    assert isinstance(npu, RknnCost)
    constants = {name: quantity.value for name, quantity in npu.stack.costs.items()}
    for name in ("yolov5n", "yolov10n", "mobilenetv2-12"):
        graph = rknn.network(name, 224 if name.startswith("mobile") else 640, "int8")
        formula = fit_rknn.times(fit_rknn.table_of([(graph, 1.0)], npu), constants)
        product = [
            (npu.fused if one.is_fused else npu.op)(graph, one.op, one.kernel, one.layout).ns / 1000
            for one in rknn.placed(graph, npu.stack.soc)
        ]
        np.testing.assert_allclose(formula, product, rtol=1e-6, atol=6e-4)


@pytest.mark.parametrize("board", FITTED)
def test_the_profile_has_what_the_fit_finds(board: str) -> None:
    """Moving a constant by a tenth, up or down, makes the fit worse, but for what rounding to three digits costs."""
    stack = load_board(board).stacks["rknn"]
    problem = fit_rknn.Fit.of(board, stack.costs["image_channel_block"].value)
    chosen = {name: stack.costs[name].value for name in fit_rknn.START[board]}
    if problem.log is not None:
        chosen["profiling"] = min(
            (1.5 + i / 100 for i in range(101)), key=lambda p: problem.loss({**chosen, "profiling": p})
        )
    least = problem.loss(chosen)
    for name in fit_rknn.START[board]:
        assert stack.costs[name].source == "rknn-fit"
        for factor in (0.9, 1.1):
            assert problem.loss({**chosen, name: chosen[name] * factor}) > 0.99 * least, (name, factor)


def test_both_chips_of_one_column_have_the_same_constants() -> None:
    a, b = (load_board(name).stacks["rknn"].costs for name in ("rk3566", "rk3568"))
    assert {name: q.value for name, q in a.items()} == {name: q.value for name, q in b.items()}
