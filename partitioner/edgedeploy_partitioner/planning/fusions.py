# SPDX-License-Identifier: Apache-2.0
"""Which op could another run inside of?"""

from __future__ import annotations

from collections.abc import Iterator

from edgedeploy_partitioner.model.graph import Graph, Op, Subgraph
from edgedeploy_profiles.schema import Fusion


def hosts(graph: Graph, op: Op, fusion: Fusion) -> tuple[Op, ...]:
    """The ops that ``fusion`` allows and that make an operand of ``op`` which nobody else reads.

    ``x * LOGISTIC(x)`` counts as one op: the LOGISTIC may share ``x`` with the MUL that reads its result, and the MUL
    goes into the LOGISTIC.
    """
    subgraph = graph.subgraphs[op.subgraph]
    return tuple(dict.fromkeys(_producers(subgraph, op, fusion)))


def _producers(subgraph: Subgraph, op: Op, fusion: Fusion) -> Iterator[Op]:
    results = set(subgraph.outputs)
    for t, host in _makers(subgraph, op, fusion):
        if t in results:
            continue
        readers = set(subgraph.consumers.get(t, ())) - {op.index}
        if readers and readers != _gate(subgraph, op, t):
            continue
        if (host.code, op.code) == ("LOGISTIC", "MUL") and not set(host.inputs) & set(op.inputs):
            continue
        yield host


def follows(graph: Graph, op: Op, fusion: Fusion) -> bool:
    """Does ``op`` read what an op makes that ``fusion`` allows, whoever else reads it?"""
    return any(_makers(graph.subgraphs[op.subgraph], op, fusion))


def _makers(subgraph: Subgraph, op: Op, fusion: Fusion) -> Iterator[tuple[int, Op]]:
    """Operands of ``op`` that ``fusion`` is about, each with the op that makes it, if that is one it allows."""
    for t in dict.fromkeys(t for i, t in enumerate(op.inputs) if i in (fusion.inputs or range(len(op.inputs)))):
        maker = subgraph.producer.get(t)
        if maker is not None and subgraph.ops[maker].code in fusion.into:
            yield t, subgraph.ops[maker]


def companions(graph: Graph, op: Op, host: Op) -> tuple[int, ...]:
    """What must run with ``op`` for it to be fused into ``host``: the MUL that shares its operand."""
    subgraph = graph.subgraphs[op.subgraph]
    between = set(host.outputs) & set(op.inputs)
    return tuple(sorted({r for t in between for r in subgraph.consumers.get(t, ())} - {op.index}))


def _gate(subgraph: Subgraph, op: Op, t: int) -> set[int]:
    """The MUL that multiplies ``t`` with what the LOGISTIC ``op`` makes of it, if that is all it makes it for."""
    if op.code != "LOGISTIC" or subgraph.outputs.count(op.outputs[0]):
        return set()
    readers = set(subgraph.consumers.get(op.outputs[0], ()))
    multiply = [r for r in readers if subgraph.ops[r].code == "MUL" and t in subgraph.ops[r].inputs]
    return readers if len(multiply) == len(readers) == 1 else set()
