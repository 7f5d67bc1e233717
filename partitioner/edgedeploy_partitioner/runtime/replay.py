# SPDX-License-Identifier: Apache-2.0
"""What TFLite does with claims: the epoch rule, replayed.

One ``ReplaceNodeSubsetsWithDelegateKernels`` call regroups the execution plan. An op is ready when its inputs are
constants, graph inputs or done, and the previous op with a side effect is done. Sweep the plan again and again:
the first ready op fixes whether the epoch is claimed, every ready op of that kind joins, until a sweep adds
nothing. A claimed epoch becomes one delegate node in that place, an unclaimed one appends its ops as they joined.
Delegate nodes of earlier calls count as ordinary ops; an empty claim changes nothing.

The rule was read off tflite-runtime 2.14 and LiteRT 2.1 and 2.3; the tests compare it with the installed runtime.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from edgedeploy_partitioner.model.graph import Subgraph

_CONTROL = frozenset({"IF", "WHILE", "CALL_ONCE"})


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of an execution plan: an op, or a delegate node with its members in joining order."""

    op: int
    """Index of the op; of the first member for a delegate node."""
    members: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    call: int | None = None
    """Which claim call made this delegate node; None for an op that nobody claimed."""
    has_side_effect: bool = False


def file_plan(subgraph: Subgraph) -> tuple[Step, ...]:
    """The execution plan before any claim: every op in file order, constants and absent inputs left out."""
    fixed = {t.id for t in subgraph.tensors if t.is_constant} | {-1}
    stateful = {t.id for t in subgraph.tensors if t.dtype.value in ("resource", "variant")}
    return tuple(
        Step(
            op=op.index,
            members=(op.index,),
            inputs=tuple(t for t in op.inputs if t not in fixed),
            outputs=tuple(t for t in op.outputs if t >= 0),
            has_side_effect=op.code in _CONTROL or not stateful.isdisjoint((*op.inputs, *op.outputs)),
        )
        for op in subgraph.ops
    )


def claim(plan: Sequence[Step], claimed: Collection[int], call: int) -> tuple[Step, ...]:
    """The plan after one call that claims the ops ``claimed`` (indices; ops already in delegate nodes are ignored)."""
    wanted = frozenset(claimed)
    takes = [step.call is None and step.op in wanted for step in plan]
    if not any(takes):
        return tuple(plan)
    result: list[Step] = []
    for epoch in _epochs(plan, takes):
        if takes[epoch[0]]:
            result.append(_merge([plan[i] for i in epoch], call))
        else:
            result += [plan[i] for i in epoch]
    return tuple(result)


def replay(plan: Sequence[Step], calls: Iterable[Collection[int]], first: int = 0) -> tuple[Step, ...]:
    """The plan after all ``calls``, in order, numbered from ``first``."""
    steps = tuple(plan)
    for number, claimed in enumerate(calls, first):
        steps = claim(steps, claimed, number)
    return steps


def topological(plan: Sequence[Step]) -> tuple[Step, ...]:
    """The plan in the order one epoch gives it: file order where that is possible."""
    return tuple(plan[i] for epoch in _epochs(plan, [False] * len(plan)) for i in epoch)


def _epochs(plan: Sequence[Step], takes: Sequence[bool]) -> list[list[int]]:
    """Positions of ``plan`` grouped into epochs. Positions that can never be ready end in epochs of their own.

    A sweep visits positions in order; what a step makes ready joins the same sweep if it lies ahead, else the next
    one. So a heap of (sweep, position) gives the joining order without sweeping.
    """
    in_order = _epochs_in_order(plan, takes)
    if in_order is not None:
        return in_order
    waits, wakes = _dependencies(plan)
    ready: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    for i in range(len(plan)):
        if not waits[i]:
            ready[takes[i]].append((0, i))
    left = dict.fromkeys(range(len(plan)))
    epochs: list[list[int]] = []
    while left:
        if not ready[True] and not ready[False]:
            # A cycle: no runtime runs this. Keep file order so that callers still see every op.
            ready[takes[next(iter(left))]].append((0, next(iter(left))))
        claimed = min((heap[0][1], kind) for kind, heap in ready.items() if heap)[1]
        heap, epoch = ready[claimed], []
        while heap:
            sweep, i = heappop(heap)
            if i not in left:
                continue
            del left[i]
            epoch.append(i)
            for j in wakes[i]:
                waits[j] -= 1
                if not waits[j]:
                    later = sweep if j > i else sweep + 1
                    heappush(ready[takes[j]], (later if takes[j] == claimed else 0, j))
        epochs.append(epoch)
    return [epoch for epoch in epochs if epoch]


def _epochs_in_order(plan: Sequence[Step], takes: Sequence[bool]) -> list[list[int]] | None:
    """``_epochs`` of a plan whose steps all come after those they wait for; None for any other.

    Such an epoch is full after one sweep, and claimed and unclaimed ones take turns. So a step joins the first of its
    kind that is not before the epochs of what it waits for.
    """
    made = {t for step in plan for t in step.outputs}
    epoch_of: dict[int, int] = {}
    epochs: list[list[int]] = []
    chained = 0
    for i, step in enumerate(plan):
        joins = chained if step.has_side_effect else 0
        for t in step.inputs:
            if t in epoch_of:
                joins = max(joins, epoch_of[t])
            elif t in made:
                return None
        if (joins % 2 == 0) != (takes[i] == takes[0]):
            joins += 1
        if step.has_side_effect:
            chained = joins
        for t in step.outputs:
            if t in epoch_of:
                return None
            epoch_of[t] = joins
        if joins == len(epochs):
            epochs.append([])
        epochs[joins].append(i)
    return epochs


def _dependencies(plan: Sequence[Step]) -> tuple[list[int], list[list[int]]]:
    """How many steps each step waits for, and which steps wait for it."""
    made_by = {t: i for i, step in enumerate(plan) for t in step.outputs}
    waits, wakes = [0] * len(plan), [list[int]() for _ in plan]
    last: int | None = None
    for i, step in enumerate(plan):
        needed = {made_by[t] for t in step.inputs if t in made_by}
        if step.has_side_effect:
            needed |= set() if last is None else {last}
            last = i
        waits[i] = len(needed)
        for j in needed:
            wakes[j].append(i)
    return waits, wakes


def _merge(steps: Sequence[Step], call: int) -> Step:
    produced = {t for step in steps for t in step.outputs}
    return Step(
        op=steps[0].op,
        members=tuple(m for step in steps for m in step.members),
        inputs=tuple(dict.fromkeys(t for step in steps for t in step.inputs if t not in produced)),
        outputs=tuple(dict.fromkeys(t for step in steps for t in step.outputs)),
        call=call,
        has_side_effect=any(step.has_side_effect for step in steps),
    )
