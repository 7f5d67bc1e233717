# SPDX-License-Identifier: Apache-2.0
"""Which ops XNNPACK takes, from a runtime's census: what it does with an op alone, and with a graph.

The census is a table of rows over keys (``census_key.py``), taken from the runtime itself by
``tools/xnnpack_census.py``. A claim depends only on what is in the file: XNNPACK looks at a subgraph before any
shape is propagated.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

from edgedeploy_partitioner.model.graph import Graph, Op, Subgraph
from edgedeploy_partitioner.runtime.census_key import Feature, Key, key_of
from edgedeploy_profiles.schema import Allowed, CensusRow, Runtime

Verdict = Literal["takes", "leaves", "fails"]


class Found(NamedTuple):
    """What the census says about one op. ``row`` is the number of the row that decided.

    Without a row XNNPACK leaves the op; if the census never tried such an op (not ``known``), that is a guess which
    deserves a warning.
    """

    verdict: Verdict
    row: int | None
    known: bool


def kernel_of(graph: Graph, op: Op, runtime: Runtime) -> Found:
    """What XNNPACK does with ``op`` when it may take any op of its subgraph.

    ``takes``: claims and runs it; ``leaves``: the runtime's builtin kernel runs it; ``fails``: it claims the op and
    the model then does not load.
    """
    return _look_up(_key(graph, op, range(len(graph.subgraphs[op.subgraph].ops)), runtime), runtime)


Taken = dict[tuple[int, int, frozenset[int]], bool]
"""(subgraph, op, operands that are unpacked) -> does XNNPACK claim it?"""


def xnnpack_claims(
    graph: Graph, subgraph: int, available: Collection[int], runtime: Runtime, known: Taken | None = None
) -> frozenset[int]:
    """Indices of the ops of ``subgraph`` that XNNPACK claims of those in ``available``; the others have other owners.

    Includes ops that it claims and then fails on. ``known`` keeps what was looked up, for the next question about the
    same graph and runtime.
    """
    known = {} if known is None else known

    def takes(op: Op) -> bool:
        unpacked = _unpacked(graph, op, left, runtime)
        key = subgraph, op.index, unpacked
        if key not in known:
            known[key] = _look_up(key_of(graph, op, unpacked), runtime).verdict != "leaves"
        return known[key]

    if not _looks_at(graph, subgraph, runtime):
        return frozenset()
    within, left = graph.subgraphs[subgraph], frozenset(available)
    ops = [op for op in within.ops if op.index in left]
    unpackers = {op.index for op in ops if _unpacks(graph, op, left, runtime)}
    taken = {op.index for op in ops if op.index not in unpackers and takes(op)}
    if runtime.graph_rules.get("handles_follow_users"):
        taken |= {op.index for op in ops if op.code == "VAR_HANDLE" and taken & _readers(within, op)}
    if runtime.graph_rules.get("unpacks_with_all_readers"):
        unpackers = {u for u in unpackers if _readers(within, within.ops[u]) <= taken | unpackers}
    return frozenset(taken | unpackers)


def _looks_at(graph: Graph, subgraph: int, runtime: Runtime) -> bool:
    if runtime.graph_rules.get("skips_decompositions"):
        composites = (op for s in graph.subgraphs for op in s.ops if op.code == "STABLEHLO_COMPOSITE")
        if any(subgraph in op.callees for op in composites):
            return False
    return subgraph == 0 or runtime.graph_rules.get("all_subgraphs", False)


def _readers(subgraph: Subgraph, op: Op) -> set[int]:
    return {reader for t in op.outputs for reader in subgraph.consumers.get(t, ())}


def _key(graph: Graph, op: Op, available: Collection[int], runtime: Runtime) -> Key:
    return key_of(graph, op, _unpacked(graph, op, available, runtime))


def _unpacked(graph: Graph, op: Op, available: Collection[int], runtime: Runtime) -> frozenset[int]:
    """Operands of ``op`` that XNNPACK makes constant itself: directly or through a chain."""
    subgraph = graph.subgraphs[op.subgraph]
    producers = {t: subgraph.producer.get(t, -1) for t in op.inputs}
    return frozenset(
        t
        for t, p in producers.items()
        if p in available and p != op.index and _unpacks(graph, subgraph.ops[p], available, runtime)
    )


def _unpacks(graph: Graph, op: Op, available: Collection[int], runtime: Runtime) -> bool:
    rows = [row for _, row in runtime.rows_of.get(op.code, ()) if row.verdict == "unpacks"]
    if not rows:
        return False
    key = _key(graph, op, available, runtime)
    return any(fits(row, key) for row in rows)


# --- looking a key up ------------------------------------------------


def _look_up(key: Key, runtime: Runtime) -> Found:
    for number, row in runtime.rows_of.get(key.op, ()):
        if fits(row, key):
            return Found("takes" if row.verdict == "unpacks" else row.verdict, number, True)
    return Found("leaves", None, key.op in runtime.tried)


def fits(row: CensusRow, key: Key) -> bool:
    """Whether ``row`` speaks of an op with this key."""
    return row.op == key.op and (not row.types or key.types in row.types) and inside(key.features, row.when)


def inside(features: Mapping[str, Feature], box: Mapping[str, Allowed]) -> bool:
    """Whether every feature that ``box`` names has an allowed value; one that an op lacks does not count."""
    return all(name not in features or _allows(allowed, features[name]) for name, allowed in box.items())


def _allows(allowed: Allowed, value: Feature) -> bool:
    if isinstance(allowed, tuple):
        return value in allowed
    return not isinstance(value, str) and allowed.get("min", -math.inf) <= value <= allowed.get("max", math.inf)
