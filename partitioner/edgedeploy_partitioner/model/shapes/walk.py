# SPDX-License-Identifier: Apache-2.0
"""Carry shapes through a subgraph and the subgraphs it calls."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from edgedeploy_partitioner.model.graph import Graph, Op, Subgraph, Tensor
from edgedeploy_partitioner.model.shapes.site import (
    MAX_DIM,
    RULES,
    UNKNOWN,
    Flow,
    Rule,
    ShapeMismatch,
    Site,
    Unknown,
    brackets,
    constant,
)
from edgedeploy_partitioner.model.shapes.values import value_of

_MAX_DEPTH = 64


class Walk:
    """One propagation over ``graph``. ``flows[subgraph][tensor]`` is what was found, for each subgraph reached."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.flows: dict[int, dict[int, Flow]] = {}
        self._given: dict[int, tuple[Flow, ...]] = {}
        self._running: set[int] = set()

    def run(self, subgraph: int, inputs: Sequence[Flow]) -> list[Flow]:
        """Give a subgraph its inputs; returns its outputs.

        A subgraph that is called with different shapes keeps what holds for all calls. An impossible call (no such
        subgraph, recursion, too deep, another number of inputs) gives nothing known.
        """
        impossible = subgraph in self._running or len(self._running) > _MAX_DEPTH
        if impossible or not 0 <= subgraph < len(self.graph.subgraphs):
            return []
        sub = self.graph.subgraphs[subgraph]
        if len(inputs) != len(sub.inputs):
            return []
        before = self._given.get(subgraph)
        given = tuple(Flow(f.shape, f.is_fixed) for f in inputs)
        given = tuple(map(Flow.merge, before, given)) if before else given
        if given != before:
            self._given[subgraph] = given
            self._running.add(subgraph)
            self.flows[subgraph] = self._carry(sub, given)
            self._running.remove(subgraph)
        flows = self.flows[subgraph]
        return [flows.get(t, UNKNOWN) for t in sub.outputs]

    def _carry(self, sub: Subgraph, given: Sequence[Flow]) -> dict[int, Flow]:
        written = {t for op in sub.ops for t in op.outputs}
        flows = {t.id: self._as_stored(t) for t in sub.tensors if t.id not in written}
        flows.update(zip(sub.inputs, given, strict=True))
        for op in in_order(sub):
            inputs = [flows.get(t, UNKNOWN) for t in op.inputs]
            outputs = self._outputs(op, inputs)
            outputs += [UNKNOWN] * (len(op.outputs) - len(outputs))
            for t, flow in zip(op.outputs, outputs, strict=False):
                if t >= 0:
                    flows[t] = self._settled(sub, op, inputs, sub.tensors[t], flow)
        return flows

    def _as_stored(self, tensor: Tensor) -> Flow:
        """A constant, a state, or a tensor that nothing writes."""
        value = None if tensor.is_variable else constant(self.graph, tensor)
        return Flow(tensor.shape, not tensor.is_dynamic, value)

    def _outputs(self, op: Op, inputs: list[Flow]) -> list[Flow]:
        """What is known of the outputs; fewer than there are when nothing is."""
        if op.kind in _CALLS:
            return _CALLS[op.kind](self, op, inputs)
        function = RULES.get(op.kind)
        return [] if function is None else self._by_rule(function, Site(self.graph, op, inputs))

    def _by_rule(self, function: Rule, site: Site) -> list[Flow]:
        try:
            shapes = function(site)
        except Unknown:
            return []
        for shape in shapes:
            if not all(0 <= d <= MAX_DIM for d in shape):
                raise ShapeMismatch(site.op, f"an output would have the shape {brackets(shape)}")
        is_fixed, site.is_fixed = site.is_fixed, True
        try:
            value = value_of(site, shapes[0]) if len(shapes) == 1 else None
        except Unknown:
            value = None
        return [Flow(shape, is_fixed, value, site.is_fixed) for shape in shapes]

    def _settled(self, sub: Subgraph, op: Op, inputs: list[Flow], tensor: Tensor, flow: Flow) -> Flow:
        """``flow`` of an output; if nothing is known and the inputs have not changed, the file's shape, which is
        then a guess unless the op has no rule and the file calls it static."""
        same = all(f.shape == sub.tensors[t].shape for t, f in zip(op.inputs, inputs, strict=True) if t >= 0)
        if flow.shape is not None or not same:
            return flow
        has_rule = op.kind in RULES or op.kind in _CALLS
        is_fixed = not has_rule and tensor.has_rank and not tensor.is_dynamic and all(f.is_fixed for f in inputs)
        return Flow(tensor.shape, is_fixed)


def result_shapes(graph: Graph, op: Op) -> Sequence[tuple[int, ...]] | None:
    """The shapes of the results of ``op`` as they follow from its inputs as stored; None where they do not.

    Raises :class:`ShapeMismatch`.
    """
    function = RULES.get(op.kind)
    tensors = [graph.subgraphs[op.subgraph].tensors[t] if t >= 0 else None for t in op.inputs]
    flows = [UNKNOWN if t is None else Flow(t.shape, value=constant(graph, t)) for t in tensors]
    try:
        return None if function is None else function(Site(graph, op, flows))
    except Unknown:
        return None


def in_order(sub: Subgraph) -> list[Op]:
    """Ops after the ops they depend on, else in file order."""
    waits = {op.index: {sub.producer[t] for t in op.inputs if t in sub.producer} for op in sub.ops}
    readers: dict[int, list[int]] = {}
    for index, producers in waits.items():
        for p in producers:
            readers.setdefault(p, []).append(index)
    missing = {index: len(producers) for index, producers in waits.items()}
    ready = [index for index, count in missing.items() if not count]
    done = []
    while ready:
        index = heapq.heappop(ready)
        done.append(sub.ops[index])
        for reader in readers.get(index, ()):
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    return done


# --- ops that call subgraphs ----------


def _if(walk: Walk, op: Op, inputs: list[Flow]) -> list[Flow]:
    branches = (walk.run(_callee(op, f"{name}_subgraph_index"), inputs[1:]) for name in ("then", "else"))
    return [a.merge(b) for a, b in zip(*branches, strict=False)]


def _while(walk: Walk, op: Op, inputs: list[Flow]) -> list[Flow]:
    """Shapes that hold before and after the body; one that changes from trip to trip is not known."""
    while True:
        walk.run(_callee(op, "cond_subgraph_index"), inputs)
        outputs = walk.run(_callee(op, "body_subgraph_index"), inputs)
        if len(outputs) != len(inputs):
            return []
        merged = [a.merge(b) for a, b in zip(inputs, outputs, strict=True)]
        if merged == inputs:
            return merged
        inputs = merged


def _call_once(walk: Walk, op: Op, inputs: list[Flow]) -> list[Flow]:
    walk.run(_callee(op, "init_subgraph_index"), inputs)
    return []


def _composite(walk: Walk, op: Op, inputs: list[Flow]) -> list[Flow]:
    return walk.run(_callee(op, "decomposition_subgraph_index"), inputs)


def _callee(op: Op, option: str) -> int:
    index = op.options.get(option, -1)
    return index if isinstance(index, int) else -1


_CALLS: dict[str, Callable[[Walk, Op, list[Flow]], list[Flow]]] = {
    "IF": _if,
    "WHILE": _while,
    "CALL_ONCE": _call_once,
    "STABLEHLO_COMPOSITE": _composite,
}
