# SPDX-License-Identifier: Apache-2.0
"""The arenas of a live interpreter, by the addresses of its tensors, beside those that are predicted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edgedeploy_partitioner.memory.arena import Arena, ExecutedNode, arena
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.solver.problem import XNNPACK
from support.runtime import Answer
from support.runtimes import HERE, Runtime


def executed_nodes(plan: Mapping[str, Any]) -> tuple[ExecutedNode, ...]:
    """What the runtime executes of one subgraph, with its own borders of delegate nodes."""
    return tuple(
        ExecutedNode(
            op=node["op"] if node["members"] is None else None,
            members=tuple(node["members"] or (node["op"],)),
            inputs=tuple(t for t in node["inputs"] if t >= 0),
            outputs=tuple(t for t in node["outputs"] if t >= 0),
            delegate=None if node["members"] is None else XNNPACK if "XNNPack" in node["name"] else "npu",
        )
        for node in plan["nodes"]
    )


def real_bytes(plan: Mapping[str, Any]) -> tuple[int, int]:
    """Size of the arena and of the persistent arena of one subgraph."""
    return _extent(plan, "arena_rw"), _extent(plan, "arena_rw_persistent")


def real_offsets(plan: Mapping[str, Any]) -> dict[int, int]:
    """Where each tensor of the arena lies, by id."""
    held = _held(plan, "arena_rw")
    start = min((t["address"] for t in held.values()), default=0)
    return {i: t["address"] - start for i, t in held.items()}


def compared(
    graph: Graph, answer: Answer, threads: int = 1, runtime: Runtime = HERE
) -> Iterator[tuple[Mapping[str, Any], Arena]]:
    """Each subgraph that the runtime allocated, and its predicted arena."""
    assert answer.subgraphs is not None, answer.failure
    assert not answer.failure, answer.failure
    release = runtime.release
    for plan in answer.subgraphs:
        if any(real_bytes(plan)):
            yield plan, arena(graph, graph.subgraphs[plan["subgraph"]], executed_nodes(plan), threads, release)


def _extent(plan: Mapping[str, Any], allocation: str) -> int:
    held = _held(plan, allocation).values()
    return max((t["address"] + t["bytes"] for t in held), default=0) - min((t["address"] for t in held), default=0)


def _held(plan: Mapping[str, Any], allocation: str) -> dict[int, Mapping[str, Any]]:
    tensors = enumerate(plan["tensors"])
    return {i: t for i, t in tensors if t["allocation"] == allocation and t["address"] and t["bytes"]}
