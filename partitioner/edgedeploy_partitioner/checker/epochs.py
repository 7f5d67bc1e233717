# SPDX-License-Identifier: Apache-2.0
"""TFLite's epoch rule, written a second time: what one claim makes of an execution plan.

A node is ready when its inputs are there and the previous node with a side effect has run. The first ready node of a
sweep says whether the epoch is of claimed nodes; ready nodes of that kind join, sweep after sweep, until none is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgedeploy_partitioner.model.graph import DType, Subgraph

_CONTROL_FLOW = ("IF", "WHILE", "CALL_ONCE")
_HANDLES = (DType.RESOURCE, DType.VARIANT)


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the runtime's execution plan: one op, or a delegate with several."""

    ops: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    chained: bool
    is_delegate: bool = False


def node_of(subgraph: Subgraph, op: int) -> Node:
    inputs, outputs = subgraph.ops[op].inputs, subgraph.ops[op].outputs
    return Node((op,), inputs, outputs, has_side_effect(subgraph, op))


def has_side_effect(subgraph: Subgraph, op: int) -> bool:
    found = subgraph.ops[op]
    return found.code in _CONTROL_FLOW or _holds_handle(subgraph, (*found.inputs, *found.outputs))


def _holds_handle(subgraph: Subgraph, tensors: Iterable[int]) -> bool:
    return any(subgraph.tensors[t].dtype in _HANDLES for t in tensors if t >= 0)


def claim(subgraph: Subgraph, plan: list[Node], claimed: frozenset[int]) -> list[Node] | None:
    """One ``ReplaceNodeSubsetsWithDelegateKernels`` call; None if some op can never run."""
    wanted = [not node.is_delegate and node.ops[0] in claimed for node in plan]
    if not any(wanted):
        return plan
    regrouped: list[Node] = []
    made: set[int] = set()
    computed = {t for node in plan for t in node.outputs if t >= 0}
    chain = [i for i, node in enumerate(plan) if node.chained]
    chain_done = 0
    left = list(range(len(plan)))
    while left:
        epoch: list[int] = []
        swept = -1
        while swept != len(left):  # one sweep over what is left, until it adds nothing
            swept, waiting = len(left), []
            for i in left:
                node = plan[i]
                held = node.chained and chain[chain_done] != i
                fits = not epoch or wanted[i] == wanted[epoch[0]]
                if held or not fits or any(t in computed and t not in made for t in node.inputs):
                    waiting.append(i)
                    continue
                epoch.append(i)
                made.update(node.outputs)
                chain_done += node.chained
            left = waiting
        if not epoch:
            return None
        nodes = [plan[i] for i in epoch]
        regrouped += [_delegate_node(subgraph, plan, nodes)] if wanted[epoch[0]] else nodes
    return regrouped


def _delegate_node(subgraph: Subgraph, plan: Sequence[Node], nodes: Sequence[Node]) -> Node:
    made = {t for node in nodes for t in node.outputs}
    inside = {op for node in nodes for op in node.ops}
    outside = {t for node in plan if node.ops[0] not in inside for t in node.inputs} | set(subgraph.outputs)
    inputs = tuple({t for node in nodes for t in node.inputs} - made)
    outputs = tuple(made)
    # A delegate node counts as an ordinary one: only the handles it takes or gives chain it.
    chained = _holds_handle(subgraph, (*inputs, *(made & outside)))
    return Node(tuple(op for node in nodes for op in node.ops), inputs, outputs, chained, is_delegate=True)
