# SPDX-License-Identifier: Apache-2.0
"""A plan and its model, joined by ids for the checks. Made only when every reference of the plan resolves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from edgedeploy_partitioner.errors import printable
from edgedeploy_partitioner.model.graph import Graph, Subgraph
from edgedeploy_partitioner.plan import XNNPACK as XNNPACK
from edgedeploy_partitioner.plan import OpEntry, Partition, Plan, Segment, SubgraphUse

ARENA_LAYOUT = "NHWC"
"""How TFLite hands tensors from node to node."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a plan. ``code`` is stable; ``message`` is one line for people."""

    code: str
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", printable(self.message))  # names in it come from files

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@dataclass(frozen=True)
class View:
    plan: Plan
    graph: Graph

    @cached_property
    def entry(self) -> Mapping[tuple[int, int], OpEntry]:
        """(subgraph, op index) -> what the plan says of the op."""
        return {(op.subgraph, op.index): op for op in self.plan.ops}

    @cached_property
    def partition(self) -> Mapping[int, Partition]:
        return {p.id: p for p in self.plan.partitions}

    @cached_property
    def segment(self) -> Mapping[int, Segment]:
        return {s.id: s for s in self.plan.segments}

    @cached_property
    def use(self) -> Mapping[int, SubgraphUse]:
        return {s.index: s for s in self.plan.subgraphs}

    @cached_property
    def main(self) -> int:
        """The subgraph of the signature that was asked for, or of the first one."""
        key = self.plan.inputs.options.signature
        return next((s.subgraph for s in self.graph.signatures if key in (None, s.key)), 0)

    @cached_property
    def scopes(self) -> tuple[Scope, ...]:
        return tuple(Scope(self, subgraph) for subgraph in self.graph.subgraphs)


@dataclass(frozen=True)
class Scope:
    """One subgraph of a :class:`View`. Ops are indices in the file."""

    view: View
    subgraph: Subgraph

    @property
    def index(self) -> int:
        return self.subgraph.index

    def entry(self, op: int) -> OpEntry:
        return self.view.entry[self.index, op]

    def name(self, op: int) -> str:
        return f"op {self.index}:{op} {self.subgraph.ops[op].name}"

    @cached_property
    def running(self) -> tuple[int, ...]:
        """Every op that is not folded, in file order."""
        return tuple(op.index for op in self.subgraph.ops if op.index not in self.subgraph.folded)

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(sorted((p for p in self.view.plan.partitions if p.subgraph == self.index), key=lambda p: p.id))

    @cached_property
    def members(self) -> Mapping[int, frozenset[int]]:
        """Partition id -> every op that carries it, folded ones too: what is claimed."""
        found: dict[int, set[int]] = {p.id: set() for p in self.partitions}
        for op in self.subgraph.ops:
            home = self.entry(op.index).partition
            if home is not None:
                found[home].add(op.index)
        return {id_: frozenset(ops) for id_, ops in found.items()}

    @cached_property
    def fixed(self) -> frozenset[int]:
        """Tensors whose value is known before the first op: constants and outputs of folded ops; and -1."""
        constants = {t.id for t in self.subgraph.tensors if t.is_constant}
        return frozenset(constants.union({-1}, *(self.subgraph.ops[op].outputs for op in self.subgraph.folded)))

    def reads(self, op: int) -> tuple[int, ...]:
        """Computed tensors that ``op`` reads, each once."""
        return tuple(dict.fromkeys(t for t in self.subgraph.ops[op].inputs if t not in self.fixed))

    def writes(self, op: int) -> tuple[int, ...]:
        return tuple(dict.fromkeys(t for t in self.subgraph.ops[op].outputs if t >= 0))

    def needed_outside(self, tensor: int, ops: frozenset[int]) -> bool:
        """Is ``tensor`` an output of the subgraph or read by an op that is not in ``ops``?"""
        readers = self.subgraph.consumers.get(tensor, ())
        return tensor in self.subgraph.outputs or any(op not in ops for op in readers)

    def homes_of_readers(self, folded: int) -> set[int | None]:
        """Partitions of the ops that use what ``folded`` unpacks, through further folded ops; None: no partition."""
        homes: set[int | None] = set()
        todo, seen = [folded], {folded}
        while todo:
            for tensor in self.writes(todo.pop()):
                if tensor in self.subgraph.outputs:
                    homes.add(None)
                for reader in self.subgraph.consumers.get(tensor, ()):
                    if reader not in self.subgraph.folded:
                        homes.add(self.entry(reader).partition)
                    elif reader not in seen:
                        seen.add(reader)
                        todo.append(reader)
        return homes
