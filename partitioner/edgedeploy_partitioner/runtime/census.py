# SPDX-License-Identifier: Apache-2.0
"""Which ops XNNPACK takes, from a runtime's census: what it does with an op alone, and with a graph.

The census is a table of rows over keys (``census_key.py``), taken from the runtime itself by
``tools/xnnpack_census.py``. A claim depends only on what is in the file: XNNPACK looks at a subgraph before any
shape is propagated.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Literal, NamedTuple

from edgedeploy_partitioner.model.graph import DType, Graph, Op, Subgraph
from edgedeploy_partitioner.runtime.census_key import Key, key_of, unpacked_as
from edgedeploy_partitioner.runtime.census_view import Feature, Unpacked
from edgedeploy_partitioner.runtime.prepared import prepared
from edgedeploy_profiles.schema import Allowed, CensusRow, Runtime

Verdict = Literal["takes", "leaves", "fails", "undoes"]


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
    the model then does not load; ``undoes``: the same, but the runtime goes on without any delegate.
    """
    return _look_up(_key(graph, op, range(len(graph.subgraphs[op.subgraph].ops)), runtime), runtime)


Taken = dict[tuple[int, int, frozenset[tuple[int, Unpacked]]], Verdict]
"""(subgraph, op, operands that are unpacked, and how) -> what XNNPACK does with it."""


def xnnpack_claims(
    graph: Graph, subgraph: int, available: Collection[int], runtime: Runtime, known: Taken | None = None
) -> frozenset[int]:
    """Indices of the ops of ``subgraph`` that XNNPACK claims of those in ``available``; the others have other owners.

    Includes ops that it claims and then fails on. ``known`` keeps what was looked up, for the next question about the
    same graph and runtime.
    """
    known = {} if known is None else known
    if not _looks_at(graph, subgraph, runtime) or stopper(graph, subgraph, available, runtime, known):
        return frozenset()
    return _claims(graph, subgraph, available, runtime, known)


def unwritten(graph: Graph, subgraph: int, runtime: Runtime) -> tuple[Op, ...]:
    """Ops that XNNPACK claims because they unpack a constant for it, and whose result somebody else wants too: the
    caller, or a built-in kernel. It never writes that result: the run may fail, or goes on with what was in memory."""
    within = graph.subgraphs[subgraph]
    every = range(len(within.ops))
    claimed = xnnpack_claims(graph, subgraph, every, runtime)
    return tuple(
        op
        for op in (within.ops[i] for i in sorted(claimed))
        if _unpacks(graph, op, every, runtime)
        and not (_readers(within, op) <= claimed and set(within.outputs).isdisjoint(op.outputs))
    )


def stopper(
    graph: Graph, subgraph: int, available: Collection[int], runtime: Runtime, known: Taken | None = None
) -> tuple[Op, Literal["dynamic", "undoes"]] | None:
    """The op for which XNNPACK claims nothing at all in ``subgraph``, and why: the op gives its result a size only at
    run time, or XNNPACK fails on it and the runtime ``undoes`` the claims of all delegates.

    Of other subgraphs every op counts as available.
    """
    known = {} if known is None else known
    for within in graph.subgraphs:
        if not _looks_at(graph, within.index, runtime):
            continue
        left = available if within.index == subgraph else range(len(within.ops))
        if runtime.graph_rules.get("dynamic_turns_off"):
            # There it stops. It keeps what it claimed in the subgraphs before.
            for op in _sized_at_run_time(graph, within, left):
                return (op, "dynamic") if within.index <= subgraph else None
        for i in sorted(_claims(graph, within.index, left, runtime, known)) if runtime.may_undo else ():
            if _verdict(graph, within.ops[i], left, runtime, known) == "undoes":
                return within.ops[i], "undoes"
    return None


def _sized_at_run_time(
    graph: Graph, subgraph: Subgraph, available: Collection[int], callers: tuple[int, ...] = ()
) -> Iterator[Op]:
    """Ops of ``available`` whose result is a text or has no size before it is there, as that of a branch may be."""

    here = (*callers, subgraph.index)  # a file may have subgraphs that call each other without end

    def calls_such(op: Op) -> bool:
        called = (s for s in graph.subgraphs if s.index in op.callees and s.index not in here)
        return any(True for s in called for _ in _sized_at_run_time(graph, s, range(len(s.ops)), here))

    dynamic = prepared(subgraph, ((op, op.index in available) for op in subgraph.ops)).dynamic
    strings = {t.id for t in subgraph.tensors if t.dtype is DType.STRING}
    for op in subgraph.ops:
        if op.index in available and (op.index in dynamic or not strings.isdisjoint(op.outputs) or calls_such(op)):
            yield op


def _verdict(graph: Graph, op: Op, available: Collection[int], runtime: Runtime, known: Taken) -> Verdict:
    unpacked = _unpacked(graph, op, available, runtime)
    key = op.subgraph, op.index, frozenset(unpacked.items())
    if key not in known:
        known[key] = _look_up(key_of(graph, op, unpacked), runtime).verdict
    return known[key]


def _claims(graph: Graph, subgraph: int, available: Collection[int], runtime: Runtime, known: Taken) -> frozenset[int]:
    """What it claims as it looks at the ops one by one."""
    within, left = graph.subgraphs[subgraph], frozenset(available)
    ops = [op for op in within.ops if op.index in left]
    unpackers = {op.index for op in ops if _unpacks(graph, op, left, runtime)}
    elsewhere = {t for op in within.ops if op.code == "VAR_HANDLE" and op.index not in left for t in op.outputs}
    taken = {
        op.index
        for op in ops
        if op.index not in unpackers
        and elsewhere.isdisjoint(op.inputs)
        and _verdict(graph, op, left, runtime, known) != "leaves"
    }
    if runtime.graph_rules.get("handles_follow_users"):
        taken |= {op.index for op in ops if op.code == "VAR_HANDLE" and taken & _readers(within, op)}
    if runtime.graph_rules.get("unpacks_with_all_readers"):
        unpackers = {u for u in unpackers if _readers(within, within.ops[u]) <= taken | unpackers}
    return frozenset(taken | unpackers)


def _looks_at(graph: Graph, subgraph: int, runtime: Runtime) -> bool:
    if runtime.graph_rules.get("needs_floats") and not _has_floats(graph):
        return False
    if runtime.graph_rules.get("skips_decompositions"):
        composites = (op for s in graph.subgraphs for op in s.ops if op.code == "STABLEHLO_COMPOSITE")
        if any(subgraph in op.callees for op in composites):
            return False
    return subgraph == 0 or runtime.graph_rules.get("all_subgraphs", False)


def _has_floats(graph: Graph) -> bool:
    return any(t.dtype is DType.FLOAT32 for s in graph.subgraphs for t in s.tensors)


def _readers(subgraph: Subgraph, op: Op) -> set[int]:
    return {reader for t in op.outputs for reader in subgraph.consumers.get(t, ())}


def _key(graph: Graph, op: Op, available: Collection[int], runtime: Runtime) -> Key:
    return key_of(graph, op, _unpacked(graph, op, available, runtime))


def _unpacked(graph: Graph, op: Op, available: Collection[int], runtime: Runtime) -> Mapping[int, Unpacked]:
    """Operands of ``op`` that XNNPACK makes constant itself, directly or through a chain, as ``key_of`` wants them."""
    subgraph = graph.subgraphs[op.subgraph]
    producers = {t: subgraph.producer.get(t, -1) for t in op.inputs}
    return {
        t: unpacked_as(subgraph, t, available)
        for t, p in producers.items()
        if p in available and p != op.index and _unpacks(graph, subgraph.ops[p], available, runtime)
    }


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
