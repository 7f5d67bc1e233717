# SPDX-License-Identifier: Apache-2.0
"""Sizes that the file says, beside those that follow from the inputs: where they differ no arena is exact."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.shapes import ShapeMismatch, propagate
from edgedeploy_partitioner.model.shapes.detection import NAME as DETECTION


def with_room(graph: Graph) -> Graph:
    """Each tensor with its stored shape or the one that follows from the inputs, if that is larger. Its arena is
    planned where an op sizes its result at run time (warning ``arena_as_stored``).

    A converter that could not tell what a computed shape will be has left ones in it.
    """
    try:
        resolved = propagate(graph)
    except ShapeMismatch:
        return graph
    both = zip(graph.subgraphs, resolved.subgraphs, strict=True)
    larger = (tuple(max(ts, key=lambda t: t.nbytes) for ts in zip(a.tensors, b.tensors, strict=True)) for a, b in both)
    subgraphs = (replace(s, tensors=tensors) for s, tensors in zip(graph.subgraphs, larger, strict=True))
    return replace(graph, subgraphs=tuple(subgraphs))


def stored_otherwise(graph: Graph, subgraphs: Collection[int]) -> tuple[tuple[int, int], ...]:
    """(subgraph, op) of those whose result has another size than the file says, if it follows from the inputs; the
    first whose operands do not fit. Built-in kernels compute sizes, XNNPACK believes the file.
    """
    try:
        resolved = propagate(graph)
    except ShapeMismatch as mismatch:
        return (mismatch.op,)
    both = [(graph.subgraphs[i], resolved.subgraphs[i]) for i in sorted(subgraphs)]
    return tuple(
        (a.index, op.index)
        for a, b in both
        for op in a.ops
        if op.name != DETECTION and any(a.tensors[t].nbytes != b.tensors[t].nbytes for t in op.outputs if t >= 0)
    )
