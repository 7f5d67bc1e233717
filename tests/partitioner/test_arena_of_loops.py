# SPDX-License-Identifier: Apache-2.0
"""The arena of a subgraph that runs a loop, beside the runtime's."""

from __future__ import annotations

import numpy as np
import pytest

from edgedeploy_partitioner.memory.arena import arena
from edgedeploy_partitioner.memory.liveness import ExecutedNode, sure_bytes
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.runtime.replay import file_plan, replay
from support.arenas import real_bytes
from support.runtime import inspect_all


def handing_on(used: str) -> bytes:
    """WHILE whose body changes the first tensor, which is returned, and hands on the second."""
    model = Model()
    main, cond, body = (model.subgraph(name) for name in ("main", "cond", "body"))
    given = [main.apply("NEG", [main.input((n,))], (n,)) for n in (1, 100)]
    results = [main.tensor((n,)) for n in (1, 100)]
    main.op("WHILE", given, results, cond_subgraph_index=1, body_subgraph_index=2)
    main.outputs(results[0])
    if used == "returned":
        main.outputs(results[1])
    if used == "read":
        main.outputs(main.apply("NEG", results[1:], (100,)))
    first, _ = cond.input((1,)), cond.input((100,))
    cond.outputs(cond.apply("GREATER", [first, cond.constant(np.ones(1, np.float32))], (1,), "bool"))
    changed, kept = body.input((1,)), body.input((100,))
    body.outputs(body.apply("SUB", [changed, body.constant(np.ones(1, np.float32))], (1,)), kept)
    return model.build()


@pytest.mark.parametrize("used", ["nowhere", "returned", "read"])
def test_a_result_that_a_body_hands_on_takes_nothing_if_nobody_reads_it(used: str) -> None:
    graph = read_bytes(handing_on(used))
    [answer] = inspect_all([bytes(graph.source)], xnnpack=False, run=True)
    assert answer.subgraphs is not None
    assert not answer.failure
    main = graph.subgraphs[0]
    nodes = [ExecutedNode(s.op, s.members, s.inputs, s.outputs) for s in replay(file_plan(main), [])]
    predicted = arena(graph, main, nodes)
    assert (predicted.bytes, 0) == real_bytes(answer.subgraphs[0])
    assert sum(sure_bytes(graph, main).values()) <= sum(block.bytes for block in predicted.blocks)
