# SPDX-License-Identifier: Apache-2.0
"""Plans of models that few people have: shuffled files, several subgraphs, results that are constants, huge shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgedeploy_partitioner import plan as p
from edgedeploy_partitioner.checker import check
from edgedeploy_partitioner.errors import InputError, NotDeployable
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.planning import Request, partition
from edgedeploy_profiles import load_board, load_runtime
from support.runtime import executed_plan

RUNTIME = load_runtime("ai-edge-litert", "2.3.0")


def plan(graph: Graph, board: str = "rk3588", **options: Any) -> p.Plan:
    return partition(graph, load_board(board), Request(RUNTIME, **options))


def shuffled() -> bytes:
    """RELU stands before the ABS that makes its input."""
    model = Model()
    g = model.subgraph()
    x, a = g.input((1, 8)), g.tensor((1, 8))
    y = g.apply("RELU", [a], (1, 8))
    g.op("ABS", [x], [a])
    g.outputs(y)
    return model.build()


def test_a_shuffled_file_is_planned_where_a_delegate_puts_it_in_order() -> None:
    graph = read_bytes(shuffled())
    found = plan(graph, "rpi5")
    assert found.subgraphs[0].order == (1, 0)
    assert check(found, graph) == ()
    assert executed_plan(shuffled())[0][1] == (1, 0), "the runtime agrees"


def test_a_shuffled_file_without_claims_is_refused() -> None:
    """The runtime would compute RELU of nothing."""
    with pytest.raises(NotDeployable, match="op 0 RELU of subgraph 0 comes before op 1"):
        plan(read_bytes(shuffled()), "rpi5", xnnpack="off")


def loop(rounds: int = 8) -> bytes:
    """A WHILE whose body adds int8 tensors, which the NPU takes."""
    model = Model()
    g, condition, body = (model.subgraph(name) for name in ("main", "condition", "body"))
    g.outputs(g.apply("WHILE", [g.input((1, rounds))], (1, rounds), cond_subgraph_index=1, body_subgraph_index=2))
    x = condition.input((1, rounds))
    condition.outputs(condition.apply("LESS", [x, condition.constant(np.ones((1, rounds), np.float32))], (), "bool"))
    body.outputs(body.apply("ADD", [y := body.input((1, rounds)), y], (1, rounds)))
    return model.build()


@pytest.mark.parametrize("limit", [0, 1, 2])
@pytest.mark.parametrize("force", [(), ("2:0=rknn",)])
def test_a_partition_limit_over_several_subgraphs_is_judged_truly(limit: int, force: tuple[str, ...]) -> None:
    graph = read_bytes(loop())
    if force and not limit:
        with pytest.raises(InputError, match="--max-partitions 0"):
            plan(graph, max_partitions=limit, force=force)
        return
    found = plan(graph, max_partitions=limit, force=force)
    assert check(found, graph) == ()
    assert (found.solver.status == "optimal") == (found.solver.lower_bound_ns == found.solver.objective_ns)


def test_what_a_reducer_calls_is_a_body() -> None:
    model = Model()
    g, body = model.subgraph(), model.subgraph("sum")
    x, start = g.input((4, 4)), g.constant(np.zeros((), np.float32))
    g.outputs(g.apply("STABLEHLO_REDUCE", [x, start], (4,), dimensions=(1,), body_subgraph_index=1))
    body.outputs(body.apply("STABLEHLO_ADD", [body.input(()), body.input(())], ()))
    graph = read_bytes(model.build())
    found = plan(graph)
    assert [(use.role, use.times) for use in found.subgraphs] == [("main", 1), ("body", 1)]
    assert check(found, graph) == ()


def half_weights(*, weight_is_result: bool) -> bytes:
    """float16 weights behind a DEQUANTIZE, read by a convolution after an op that XNNPACK leaves."""
    model = Model()
    g = model.subgraph()
    x = g.input((1, 4, 4, 8))
    weights = g.apply("DEQUANTIZE", [g.constant(np.ones((8, 1, 1, 8), np.float16))], (8, 1, 1, 8))
    bias = g.constant(np.zeros(8, np.float32))
    y = g.apply("CONV_2D", [x, weights, bias], (1, 4, 4, 8), padding="SAME", stride_h=1, stride_w=1)
    y = g.apply("LOG_SOFTMAX", [y], (1, 4, 4, 8))
    weights2 = g.apply("DEQUANTIZE", [g.constant(np.full((8, 1, 1, 8), 2, np.float16))], (8, 1, 1, 8))
    y = g.apply("CONV_2D", [y, weights2, bias], (1, 4, 4, 8), padding="SAME", stride_h=1, stride_w=1)
    g.outputs(y, *([weights] if weight_is_result else []))
    return model.build()


@pytest.mark.parametrize("weight_is_result", [False, True])
@pytest.mark.parametrize("board", ["rk3588", "rpi5"])
def test_unpacked_weights_in_several_delegate_nodes(board: str, weight_is_result: bool) -> None:
    graph = read_bytes(half_weights(weight_is_result=weight_is_result))
    found = plan(graph, board)
    assert check(found, graph) == ()
    nodes = [members for _, members in executed_plan(half_weights(weight_is_result=weight_is_result)) if members]
    claimed = {op.index for op in found.ops if op.partition is not None}
    assert claimed == {op for members in nodes for op in members}


def test_times_that_json_could_not_hold_are_refused() -> None:
    model = Model()
    g = model.subgraph()
    side = 2_000_000_000
    g.outputs(g.apply("ABS", [g.input((1, side, side // 2))], (1, side, side // 2)))
    with pytest.raises(NotDeployable, match="one inference takes more than"):
        plan(read_bytes(model.build()))


@pytest.mark.parametrize(
    "options",
    [
        {"xnnpack": "junk"}, {"assume_unknown": "maybe"}, {"threads": 1.5}, {"threads": True}, {"threads": "4"},
        {"max_partitions": -1}, {"memory_limit_bytes": -5}, {"force": "0=cpu"},
    ],
    ids=str,
)  # fmt: skip
def test_python_callers_get_the_checks_of_the_command_line(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        Request(RUNTIME, **options)


def test_lists_become_what_json_gives_back() -> None:
    graph = read_bytes(shuffled())
    found = plan(graph, force=["0=cpu"])
    assert p.from_json(p.to_json(found)) == found
