# SPDX-License-Identifier: Apache-2.0
"""Does the runtime execute the claims of a plan in the plan's order?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from edgedeploy_partitioner.checker.epochs import Node, claim, has_side_effect, node_of
from edgedeploy_partitioner.checker.view import XNNPACK, Fault, Scope, View


def check_execution(view: View) -> Iterator[Fault]:
    for scope in view.scopes:
        order = view.use[scope.index].order
        complete = tuple(_complete(scope, order))
        yield from complete
        if not complete:
            yield from _topological(scope, order)
            yield from _side_effects(scope, order)
            yield from _contiguous(scope, order)
            yield from _replayed(scope, order)
        yield from _convex(scope)


# --- the order, by itself --------------------------------------------


def _complete(scope: Scope, order: Sequence[int]) -> Iterator[Fault]:
    """Every op once; folded ones, if at all, where no delegate reads their constants."""
    given = Counter(order)
    for op in scope.running:
        if given[op] != 1:
            yield Fault("order", f"{scope.name(op)} is {given[op]} times in the order")
    for op in sorted(scope.subgraph.folded & set(given)):
        if given[op] > 1 or scope.entry(op).partition is not None:
            yield Fault("order", f"{scope.name(op)} is folded and no step of its own")


def _topological(scope: Scope, order: Sequence[int]) -> Iterator[Fault]:
    ready = {t.id for t in scope.subgraph.tensors} - set(scope.subgraph.producer)
    ready |= scope.fixed
    for op in order:
        late = [t for t in scope.subgraph.ops[op].inputs if t not in ready]
        if late:
            yield Fault("order", f"{scope.name(op)} runs before its input tensor {late[0]} is made")
        ready.update(scope.subgraph.ops[op].outputs)


def _side_effects(scope: Scope, order: Sequence[int]) -> Iterator[Fault]:
    chain = [op for op in order if has_side_effect(scope.subgraph, op)]
    for before, after in pairwise(chain):
        if after < before:
            yield Fault("side-effect", f"{scope.name(before)} runs before {scope.name(after)}; both have side effects")


def _contiguous(scope: Scope, order: Sequence[int]) -> Iterator[Fault]:
    """Segments are what the order says: each in one piece, in its own order."""
    place = {op: i for i, op in enumerate(order)}
    for partition in scope.partitions:
        segments = [scope.view.segment[id_] for id_ in partition.segments]
        ops = [op for segment in segments for op in segment.ops if op in place]
        places = [place[op] for op in ops]
        if places and places != list(range(places[0], places[0] + len(places))):
            yield Fault("segment-order", f"partition {partition.id} does not run as one piece in its segments' order")


# --- the order, by the runtime ---------------------------------------


def _replayed(scope: Scope, order: Sequence[int]) -> Iterator[Fault]:
    partitions = scope.partitions
    xnnpack = frozenset().union(*(scope.members[p.id] for p in partitions if p.delegate == XNNPACK))
    nodes: list[Node] | None = [node_of(scope.subgraph, op.index) for op in scope.subgraph.ops]
    for partition in partitions:
        if nodes is not None and partition.delegate != XNNPACK:
            yield from _left_behind(scope, nodes, partition.id)
            nodes = claim(scope.subgraph, nodes, scope.members[partition.id])
    nodes = nodes if nodes is None else claim(scope.subgraph, nodes, xnnpack)
    if nodes is None:
        yield Fault("order", f"the ops of subgraph {scope.index} wait for each other, none can run first")
        return
    delegates = {frozenset(node.ops) for node in nodes if node.is_delegate}
    lost = [p for p in partitions if scope.members[p.id] not in delegates]
    for partition in lost:
        yield Fault("claim", f"the runtime does not make partition {partition.id} one delegate node")
    if lost:
        return
    folded = scope.subgraph.folded
    executed = [op for node in nodes for op in node.ops if op not in folded]
    for place, (op, given) in enumerate(zip(executed, (op for op in order if op not in folded), strict=True)):
        if op != given:
            yield Fault("replay", f"step {place} is {scope.name(op)} in the runtime, not {scope.name(given)}")
            break
    homes = (scope.entry(op).partition for op in executed)
    ids = [id_ for id_, _ in groupby(home for home in homes if home is not None)]
    if ids != sorted(ids):
        yield Fault("partition-order", f"partitions of subgraph {scope.index} do not run in the order of their ids")


def _left_behind(scope: Scope, plan: list[Node], partition: int) -> Iterator[Fault]:
    """Folded ops that only this partition reads are claimed with it, unless that would tear the claim in two."""
    alone = [op for op in sorted(scope.subgraph.folded) if scope.entry(op).partition is None]
    left = [op for op in alone if scope.homes_of_readers(op) == {partition}]
    together = scope.members[partition].union(left)
    if left and any(set(node.ops) == together for node in claim(scope.subgraph, plan, together) or ()):
        yield Fault("folded-partition", f"{scope.name(left[0])} is not claimed with its readers' partition {partition}")


# --- convexity -------------------------------------------------------


def _convex(scope: Scope) -> Iterator[Fault]:
    """No path leaves a partition and comes back."""
    for partition in scope.partitions:
        ops = scope.members[partition.id]
        todo = [t for op in ops for t in scope.writes(op)]
        seen: set[int] = set()
        returned: int | None = None
        while todo and returned is None:
            tensor = todo.pop()
            for reader in scope.subgraph.consumers.get(tensor, ()):
                if reader in ops:
                    returned = reader if tensor in seen else None
                else:
                    fresh = [t for t in scope.writes(reader) if t not in seen]
                    seen.update(fresh)
                    todo += fresh
                if returned is not None:
                    break
        if returned is not None:
            yield Fault("convexity", f"partition {partition.id} waits for itself: {scope.name(returned)} closes a loop")
