# SPDX-License-Identifier: Apache-2.0
"""One thing worth saying about a model, and the words for where it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from edgedeploy_partitioner.errors import printable
from edgedeploy_partitioner.model.graph import Graph, Op, Subgraph, Tensor
from edgedeploy_partitioner.model.shapes.site import where

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """``code`` for programs, ``message`` for people, ``where`` in the model ("op 3 CONV_2D", "" for all of it).

    ``op`` is (subgraph, index) when it is about one op.
    """

    code: str
    message: str
    where: str = ""
    op: tuple[int, int] | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


def at_op(code: str, op: Op, message: str) -> Finding:
    return Finding(code, message, where(op), (op.subgraph, op.index))


def at_ops(code: str, ops: Sequence[Op], message: str) -> Iterator[Finding]:
    """One finding for ops of one subgraph that have the same thing to say; none for no ops."""
    if ops:
        more = f" (also {listed(f'op {op.index}' for op in ops[1:])})" if len(ops) > 1 else ""
        yield at_op(code, ops[0], message + more)


def at_tensor(code: str, subgraph: Subgraph, tensor: Tensor, message: str) -> Finding:
    place = f"tensor {tensor.id} {tensor.name!r}"
    return Finding(code, message, f"subgraph {subgraph.index} {place}" if subgraph.index else place)


def all_ops(graph: Graph) -> Iterator[tuple[Subgraph, Op]]:
    """Every op that runs, folded ones left out, with its subgraph."""
    return ((sub, op) for sub in graph.subgraphs for op in sub.ops if op.index not in sub.folded)


def operand(sub: Subgraph, ids: Sequence[int], i: int) -> Tensor | None:
    """Tensor ``i`` of an op's inputs or outputs; None if it is absent."""
    return sub.tensors[ids[i]] if i < len(ids) and ids[i] >= 0 else None


def listed(things: Iterable[object]) -> str:
    """``a, b, c and 4 more``."""
    words = [str(t) for t in things]
    more = len(words) - _MOST_NAMED
    if more <= 1:
        return ", ".join(words)
    return f"{', '.join(words[:_MOST_NAMED])} and {more} more"


def counted(names: Iterable[str]) -> str:
    """``FlexMul x2, FlexSub``, in order of first appearance."""
    return ", ".join(printable(name) + (f" x{n}" if n > 1 else "") for name, n in Counter(names).items())


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
