# SPDX-License-Identifier: Apache-2.0
"""The cost model: worked out by hand, monotone, inside its own bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedeploy_partitioner.cost import CpuCost, npu_cost
from edgedeploy_partitioner.cost.ranges import Range, gb_s_us, roofline
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Quantization, Span, Subgraph, Tensor
from edgedeploy_profiles import load_board, load_core, load_kernel_costs
from edgedeploy_profiles.schema import Stack

BOARD = load_board("rk3588")
STACK = BOARD.stacks["rknn"]
Q = Quantization((0.1,), (0,), 0)


def cpu(threads: int = 1, cluster: int = 0) -> CpuCost:
    own = BOARD.clusters[cluster]
    return CpuCost(BOARD, own, load_core(own.core), load_kernel_costs(), threads, threads)


def conv(height: int, width: int, cin: int, cout: int, k: int = 1, code: str = "CONV_2D") -> tuple[Graph, Op]:
    """An int8 convolution, SAME, stride 1, as a graph of one op."""
    weights = (1, k, k, cout) if code == "DEPTHWISE_CONV_2D" else (cout, k, k, cin)
    tensors = (
        Tensor(0, "x", (1, height, width, cin), DType.INT8, quantization=Q),
        Tensor(1, "w", weights, DType.INT8, quantization=Q, data=Span(0, 1)),
        Tensor(2, "b", (cout,), DType.INT32, quantization=Q, data=Span(0, 1)),
        Tensor(3, "y", (1, height, width, cout), DType.INT8, quantization=Q),
    )
    op = Op(0, 0, code, (0, 1, 2), (3,))
    return Graph("", 0, 3, "", (Subgraph(0, "", tensors, (op,), (0,), (3,)),)), op


@given(
    size=st.integers(1, 96),
    channels=st.integers(1, 96),
    k=st.sampled_from([1, 3]),
    code=st.sampled_from(["CONV_2D", "DEPTHWISE_CONV_2D"]),
)
def test_bounds_enclose_and_more_work_is_never_cheaper(size: int, channels: int, k: int, code: str) -> None:
    small, large = conv(size, size, channels, channels, k, code), conv(size + 8, size + 8, channels, channels, k, code)
    model = npu_cost("rknn", STACK, cpu())
    for kernel in ("npu", "xnnpack", "builtin"):
        less, more = (
            model.op(graph, op, kernel, "NC1HWC2/16") if kernel == "npu" else cpu().op(graph, op, kernel)
            for graph, op in (small, large)
        )
        assert less.high_ns is not None
        assert 0 <= less.low_ns <= less.ns <= less.high_ns
        assert less.ns <= more.ns
        assert less.low_ns <= more.low_ns


def test_threads_help_and_a_slower_core_is_slower() -> None:
    graph, op = conv(64, 64, 64, 64, 3)
    assert cpu(4).op(graph, op, "xnnpack").ns < cpu(1).op(graph, op, "xnnpack").ns
    assert cpu(1, cluster=1).op(graph, op, "xnnpack").ns > cpu(1).op(graph, op, "xnnpack").ns


def test_an_op_that_no_table_lists_still_has_a_price() -> None:
    tensors = (Tensor(0, "x", (8,), DType.INT64), Tensor(1, "y", (8,), DType.INT64))
    op = Op(0, 0, "CUSTOM", (0,), (1,), custom_code="Mine")
    graph = Graph("", 0, 3, "", (Subgraph(0, "", tensors, (op,), (0,), (1,)),))
    for kernel in ("xnnpack", "builtin"):
        cost = cpu().op(graph, op, kernel)
        assert cost.high_ns is not None
        assert 0 < cost.low_ns < cost.ns < cost.high_ns


def test_a_missing_constant_is_named() -> None:
    costs = {name: q for name, q in STACK.costs.items() if name != "npu_bandwidth_gb_s"}
    stack = Stack(backend="rknn", soc="rk3588", device_nodes=(), costs=costs)
    with pytest.raises(InputError, match="npu_bandwidth_gb_s"):
        npu_cost("rknn", stack, cpu()).op(*conv(8, 8, 8, 8), "npu", "NC1HWC2/16")
    with pytest.raises(InputError, match=r"known: .*rknn"):
        npu_cost("other", STACK, cpu())


def test_the_roofline_takes_the_larger_of_work_and_bytes() -> None:
    cost = roofline(Range(1, 0.5, 2), Range(10, 8, 12), gb_s_us(20_000, Range(2.0, 1.0, 4.0)))
    assert (cost.ns, cost.low_ns, cost.high_ns, cost.bound) == (11_000, 8_500, 22_000, "compute")
    assert roofline(Range.exact(1), Range.exact(2), Range.exact(3)).bound == "memory"
    assert roofline(Range.exact(9), Range.exact(2), Range.exact(3)).bound == "overhead"
