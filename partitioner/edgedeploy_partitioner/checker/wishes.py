# SPDX-License-Identifier: Apache-2.0
"""``--force`` and ``--forbid``, read anew from the plan: ``WHAT=BACKEND``.

WHAT is an op index or a range ``3-9`` of the main subgraph, ``subgraph:index``, an operator name, or ``tensor:NAME``
(the op that writes it).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import Graph


@dataclass(frozen=True, slots=True)
class Wish:
    """Exactly one of ``ops`` (subgraph or None for the main one, first, last), ``name`` and ``tensor`` is set."""

    backend: str
    ops: tuple[int | None, int, int] | None = None
    name: str | None = None
    tensor: str | None = None


def parse_wish(text: str) -> Wish:
    """Raises :class:`InputError` if ``text`` is not WHAT=BACKEND."""
    what, equals, backend = text.rpartition("=")
    if not (what and equals and backend):
        raise InputError(f"{text!r} is not WHAT=BACKEND")
    if what.startswith("tensor:"):
        return Wish(backend, tensor=what.removeprefix("tensor:"))
    if match := re.fullmatch(r"(?:(\d{1,9}):)?(\d{1,9})(?:-(\d{1,9}))?", what, re.ASCII):
        subgraph, first, last = match.groups()
        return Wish(backend, ops=(int(subgraph) if subgraph else None, int(first), int(last or first)))
    return Wish(backend, name=what)


def selected(wish: Wish, graph: Graph, main: int) -> list[tuple[int, int]]:
    """(subgraph, index) of the ops that ``wish`` is about; ``main`` is the subgraph of bare indices."""
    return [
        (op.subgraph, op.index)
        for subgraph in graph.subgraphs
        for op in subgraph.ops
        if names(wish, op.subgraph, op.index, op.name, main)
        or any(wish.tensor == subgraph.tensors[t].name for t in op.outputs if t >= 0)
    ]


def names(wish: Wish, subgraph: int, index: int, name: str, main: int) -> bool:
    """Does ``wish`` name this op by index or operator?"""
    if wish.ops is None:
        return wish.name == name
    home, first, last = wish.ops
    return subgraph == (main if home is None else home) and first <= index <= last
