# SPDX-License-Identifier: Apache-2.0
"""No cost model lets an NPU compute faster than its array can."""

from __future__ import annotations

import pytest

from edgedeploy_partitioner.cost import CpuCost, npu_cost
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Quantization, Span, Subgraph, Tensor
from edgedeploy_profiles import board_names, load_backend, load_board, load_core, load_kernel_costs

STACKS = [(name, stack) for name in board_names() for stack in load_board(name).stacks]


@pytest.mark.parametrize(("board", "stack"), STACKS)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.FLOAT32])
def test_no_matrix_product_is_faster_than_the_whole_array(board: str, stack: str, dtype: DType) -> None:
    """512 rows, so that the products count and not the weights' way."""
    q = Quantization((0.1,), (0,), 0)
    tensors = (
        Tensor(0, "x", (512, 1024), dtype, quantization=q),
        Tensor(1, "w", (1024, 1024), dtype, quantization=q, data=Span(0, 1)),
        Tensor(2, "y", (512, 1024), dtype, quantization=q),
    )
    op = Op(0, 0, "FULLY_CONNECTED", (0, 1, -1), (2,))
    graph = Graph("", 0, 3, "", (Subgraph(0, "", tensors, (op,), (0,), (2,)),))
    own, cluster = load_board(board).stacks[stack], load_board(board).clusters[0]
    cpu = CpuCost(load_board(board), cluster, load_core(cluster.core), load_kernel_costs(), 1, 1)
    costs = own.costs
    cores = costs["cores"].highest if "cores" in costs else 1.0
    rate = costs["int8_macs_per_cycle"].highest if "int8_macs_per_cycle" in costs else 256.0  # of an Ethos-U65-256
    peak_per_us = rate * cores * costs["npu_clock_ghz"].highest * 1000
    found = npu_cost(load_backend(own.backend).cost_model, own, cpu).op(graph, op, "npu", "NHWC")
    assert found.low_ns >= 512 * 1024 * 1024 / peak_per_us * 1000 * 0.99
