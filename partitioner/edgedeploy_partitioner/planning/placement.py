# SPDX-License-Identifier: Apache-2.0
"""``--force`` and ``--forbid``: ``WHAT=BACKEND``.

``WHAT`` is an op index (of the main subgraph), a range ``3-9``, ``subgraph:index``, an operator name, or
``tensor:NAME`` (the op that makes it). Folded ops cannot be placed: they go where their readers go.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import Graph

OpKey = tuple[int, int]
_WHAT = "an index, 3-9, subgraph:index, an operator name or tensor:NAME"
_INDEX = re.compile(r"(?:(\d{1,9}):)?(\d{1,9})(?:-(\d{1,9}))?")


@dataclass(frozen=True)
class Placement:
    """Which back ends an op is held to or kept off, with the option that said so."""

    forced: Mapping[OpKey, tuple[str, str]]
    forbidden: Mapping[OpKey, Mapping[str, str]]

    def allows(self, op: OpKey, backend: str) -> bool:
        forced = self.forced.get(op)
        return (forced is None or forced[0] == backend) and backend not in self.forbidden.get(op, {})


def placement(
    graph: Graph, main: int, force: Iterable[str], forbid: Iterable[str], backends: Collection[str]
) -> Placement:
    """Resolve the options. Raises :class:`InputError` for what cannot be found or contradicts itself."""
    forced: dict[OpKey, tuple[str, str]] = {}
    forbidden: dict[OpKey, dict[str, str]] = {}
    for text in force:
        ops, backend = _parse("--force", text, graph, main, backends)
        for op in ops:
            if op in forced and forced[op][0] != backend:
                raise InputError(f"--force {text}: op {op[1]} is already forced by {forced[op][1]}")
            forced[op] = backend, f"--force {text}"
    for text in forbid:
        ops, backend = _parse("--forbid", text, graph, main, backends)
        for op in ops:
            forbidden.setdefault(op, {})[backend] = f"--forbid {text}"
            if forced.get(op, ("",))[0] == backend:
                raise InputError(f"--forbid {text}: op {op[1]} is held there by {forced[op][1]}")
    return Placement(forced, forbidden)


def _parse(option: str, text: str, graph: Graph, main: int, backends: Collection[str]) -> tuple[tuple[OpKey, ...], str]:
    what, equals, backend = text.rpartition("=")
    if not equals or not what:
        raise InputError(f"{option} {text}: expected WHAT=BACKEND, e.g. 3-9=cpu")
    if backend not in backends:
        raise InputError(f"{option} {text}: unknown back end {backend!r}; here: {', '.join(sorted(backends))}")
    named = _ops(what, graph, main)
    if not named:
        raise InputError(f"{option} {text}: the model has no such op ({_WHAT})")
    ops = tuple(op for op in named if op[1] not in graph.subgraphs[op[0]].folded)
    if not ops:
        raise InputError(f"{option} {text}: that only unpacks a constant, which goes where its readers go")
    return ops, backend


def _ops(what: str, graph: Graph, main: int) -> tuple[OpKey, ...]:
    if what.startswith("tensor:"):
        name = what.removeprefix("tensor:")
        return tuple(
            (sub.index, sub.producer[t.id]) for sub in graph.subgraphs for t in sub.tensors
            if t.name == name and t.id in sub.producer
        )  # fmt: skip
    match = _INDEX.fullmatch(what)
    if match is None:
        return tuple((sub.index, op.index) for sub in graph.subgraphs for op in sub.ops if op.name == what)
    subgraph = int(match[1]) if match[1] else main
    first, last = int(match[2]), int(match[3] or match[2])
    if subgraph >= len(graph.subgraphs) or last >= len(graph.subgraphs[subgraph].ops) or first > last:
        return ()
    return tuple((subgraph, index) for index in range(first, last + 1))
