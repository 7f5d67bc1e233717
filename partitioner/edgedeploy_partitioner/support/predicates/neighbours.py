# SPDX-License-Identifier: Apache-2.0
"""Rules on what comes before an op, for ops that are computed inside the op that makes their input 0."""

from __future__ import annotations

from edgedeploy_partitioner.support.case import Case
from edgedeploy_partitioner.support.predicates.registry import predicate


@predicate
def addend_ready(case: Case) -> str | None:
    """input 1 to be there before the op that makes input 0

    In the file's order.
    """
    producer = case.graph.subgraphs[case.op.subgraph].producer
    if len(case.op.inputs) < 2:
        return None
    host, other = (producer.get(t, -1) for t in case.op.inputs[:2])
    return f"input 0 comes from op {host}, input 1 only from op {other}" if 0 <= host < other else None


@predicate
def addend_from(case: Case, codes: tuple[str, ...]) -> str | None:
    """an input 1 that comes from {}, which can be in the same partition"""
    subgraph = case.graph.subgraphs[case.op.subgraph]
    if len(case.op.inputs) < 2:
        return None
    maker = subgraph.producer.get(case.op.inputs[1])
    if maker is None:
        return "no op makes input 1"
    code = subgraph.ops[maker].code
    return None if code in codes else f"input 1 comes from {code}"


@predicate
def linear_host(case: Case) -> str | None:
    """an input 0 that is made without a fused activation, which would come before the sum"""
    subgraph = case.graph.subgraphs[case.op.subgraph]
    host = subgraph.producer.get(case.op.inputs[0]) if case.op.inputs else None
    fused = subgraph.ops[host].options.get("fused_activation_function", "NONE") if host is not None else "NONE"
    return f"input 0 is made with a fused {fused}" if fused != "NONE" else None
