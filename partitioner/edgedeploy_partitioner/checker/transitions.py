# SPDX-License-Identifier: Apache-2.0
"""Are exactly the needed tensors moved? TFLite hands tensors between nodes as NHWC buffers of its arena.

A tensor made in a partition and needed outside it leaves once. A tensor from outside enters a partition once for
each layout it is used in. A tensor made inside in another layout is converted once for each layout it is used in.
Constants are no transitions, and XNNPACK works on the arena itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from edgedeploy_partitioner.checker.view import ARENA_LAYOUT, XNNPACK, Fault, Scope, View
from edgedeploy_partitioner.plan import Partition, Transition

Key = tuple[str, int, int, int, str, str]
"""kind, subgraph, tensor, partition, layout from, layout to."""


def check_transitions(view: View) -> Iterator[Fault]:
    given = Counter(_key(t) for t in view.plan.transitions)
    needed = {
        key
        for scope in view.scopes
        for partition in scope.partitions
        if partition.delegate != XNNPACK
        for key in _needed(scope, partition)
    }
    for key in sorted(needed - set(given)):
        yield Fault("transition-missing", f"{_words(key)} is missing")
    for key, count in sorted(given.items()):
        if key not in needed:
            yield Fault("transition-extra", f"{_words(key)} is not needed")
        elif count > 1:
            yield Fault("transition-extra", f"{_words(key)} is listed {count} times")
    for t in view.plan.transitions:
        held = view.graph.tensor(t.subgraph, t.tensor).nbytes
        if t.bytes != held:
            yield Fault("transition-bytes", f"{_words(_key(t))} moves {t.bytes} bytes, the tensor has {held}")


def _key(t: Transition) -> Key:
    return t.kind, t.subgraph, t.tensor, t.partition, t.layout_from, t.layout_to


def _words(key: Key) -> str:
    kind, subgraph, tensor, partition, layout_from, layout_to = key
    return f"{kind} of tensor {subgraph}:{tensor} at partition {partition} ({layout_from} to {layout_to})"


def _needed(scope: Scope, partition: Partition) -> Iterator[Key]:
    inside = scope.members[partition.id]
    layout = {op: scope.entry(op).layout for op in inside if op not in scope.subgraph.folded}
    made = {t: layout[op] for op in layout for t in scope.writes(op)}

    def key(kind: str, tensor: int, layout_from: str, layout_to: str) -> Key:
        return kind, scope.index, tensor, partition.id, layout_from, layout_to

    for op, wanted in layout.items():
        for tensor in scope.reads(op):
            if tensor not in made:
                yield key("enter", tensor, ARENA_LAYOUT, wanted)
            elif made[tensor] != wanted:
                yield key("internal", tensor, made[tensor], wanted)
    for tensor, layout_from in made.items():
        if scope.needed_outside(tensor, inside):
            yield key("leave", tensor, layout_from, ARENA_LAYOUT)
