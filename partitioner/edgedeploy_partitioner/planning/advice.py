# SPDX-License-Identifier: Apache-2.0
"""What a change to the model would be worth, found by planning again as if it had been made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from edgedeploy_partitioner.errors import PlanningError
from edgedeploy_partitioner.model.facts import dtype_class
from edgedeploy_partitioner.model.graph import Graph, Op, Subgraph
from edgedeploy_partitioner.model.shapes.site import constant
from edgedeploy_partitioner.model.work import multiplied
from edgedeploy_partitioner.plan import ON_ARM, Advice
from edgedeploy_partitioner.planning.candidate import Candidate
from edgedeploy_partitioner.planning.changed import requantised, without
from edgedeploy_partitioner.planning.placement import OpKey
from edgedeploy_partitioner.planning.search import Search
from edgedeploy_partitioner.planning.target import Target
from edgedeploy_partitioner.planning.whole import Whole

WORTH = 0.02
"""Share of the latency from which a change is worth a line."""
MAX_OPS = 2_000
"""Ops that all the further plans together may have: work is bounded by counts, never by time."""
_VARIANTS: tuple[tuple[Literal["int8", "uint8"], str], ...] = (
    ("int8", "int8, weights by channel"), ("uint8", "uint8 with one scale a tensor"),
)  # fmt: skip
_NEVER = ("CUSTOM", "IF", "WHILE", "CALL_ONCE", "STABLEHLO_COMPOSITE", "VAR_HANDLE")
"""Ops that no NPU's compiler could be taught: what their support would be worth is of no use."""
_CONVERSIONS = ("QUANTIZE", "DEQUANTIZE")


def advice(search: Search, whole: Whole) -> tuple[Advice, ...]:
    """The changes that are worth it, each with the latency that the plan would then have; best first.

    None under a memory limit: each of the plans would be a search of its own.
    """
    if search.target.backend is None or search.request.memory_limit_bytes is not None:
        return ()
    return tuple(_Advisor(search, whole).told())


@dataclass
class _Advisor:
    search: Search
    whole: Whole
    budget: int = MAX_OPS

    def told(self) -> list[Advice]:
        quantised = list(self._quantisation())
        found = [*quantised, *self._support(cured=bool(quantised)), *self._transposes(), *self._conversions()]
        return sorted(found, key=lambda a: (a.latency_ns, a.code, a.ops))

    # --- the NPU would take an op ---

    def _support(self, *, cured: bool) -> Iterator[Advice]:
        """Ops that the NPU refuses: those that part it, one by one, and all alike together. ``cured``: without those
        that multiply weights, which quantising helps."""
        reasons = {key: c for key, c in self._refused() if not (cured and multiplied(self._op(key)))}
        alike: dict[tuple[str, str], list[OpKey]] = {}
        for key, candidate in reasons.items():
            alike.setdefault((self._op(key).name, candidate.rule), []).append(key)
        groups = [tuple(keys) for keys in alike.values()]
        single = [(key,) for key in reasons if self._parts(key) and (key,) not in groups]
        for keys in [*groups, *single]:
            then = self._latency_if(keys)
            if then is None:
                continue
            names = dict.fromkeys(self._op(key).name for key in keys)
            what = f"op {keys[0][1]}" if len(keys) == 1 else f"these {len(keys)} ops"
            message = f"if the NPU took {what} {', '.join(names)} ({reasons[keys[0]].reason})"
            yield Advice("support", message, keys, then)

    def _refused(self) -> Iterator[tuple[OpKey, Candidate]]:
        for scn in self.whole.scenes:
            if scn.subgraph.index in self.search.running:
                for op in scn.ops:
                    if op.code in _NEVER:
                        continue
                    npu = [c for c in scn.candidates[op.index] if c.backend not in ON_ARM]
                    if npu and all(c.verdict == "refused" for c in npu):
                        yield (op.subgraph, op.index), npu[0]

    def _parts(self, key: OpKey) -> bool:
        """Does the op stand between ops that the plan has on the NPU?"""
        sub, op = self.search.graph.subgraphs[key[0]], self._op(key)
        made = {sub.producer[t] for t in op.inputs if t in sub.producer}
        read = {r for t in op.outputs for r in sub.consumers.get(t, ())}
        return all(any((key[0], i) in self._on_npu for i in side) for side in (made, read))

    @cached_property
    def _on_npu(self) -> frozenset[OpKey]:
        ops = (op for e in self.whole.entries for op in e.ops)
        return frozenset((op.subgraph, op.index) for op in ops if op.backend not in ON_ARM)

    # --- ops would not be there ---

    def _transposes(self) -> Iterator[Advice]:
        """Two transposes that undo each other."""
        for sub in self._running_subgraphs():
            for op in sub.ops:
                first = _only_maker(sub, op)
                if first is None or op.code != first.code or op.code != "TRANSPOSE":
                    continue
                one, two = self._permutation(first), self._permutation(op)
                if one and two and len(one) == len(two) and [one[i] for i in two] == list(range(len(one))):
                    keys = ((sub.index, first.index), (sub.index, op.index))
                    then = self._latency_of(without(self.search.graph, sub.index, [first.index, op.index]))
                    if then is not None:
                        yield Advice("transpose_pair", "these transposes undo each other: remove both", keys, then)

    def _conversions(self) -> Iterator[Advice]:
        """QUANTIZE at the model's inputs and DEQUANTIZE at its outputs: quantised inputs and outputs need none."""
        sub = self.search.graph.subgraphs[self.search.main]
        keys = tuple(
            (sub.index, op.index)
            for op in sub.ops
            if op.code in _CONVERSIONS
            and op.index not in sub.folded
            and (set(op.inputs) & set(sub.inputs) or set(op.outputs) & set(sub.outputs))
        )
        then = self._latency_of(without(self.search.graph, sub.index, [i for _, i in keys])) if keys else None
        if then is not None:
            names = " and ".join(dict.fromkeys(sub.ops[i].code for _, i in keys))
            message = f"with quantised inputs and outputs of the model: no {names} at its borders"
            yield Advice("quantised_border", message, keys, then)

    def _permutation(self, op: Op) -> list[int] | None:
        graph = self.search.graph
        tensor = graph.tensor(op.subgraph, op.inputs[1]) if len(op.inputs) > 1 and op.inputs[1] >= 0 else None
        values = constant(graph, tensor) if tensor is not None else None
        found = None if values is None else [int(v) for v in values.reshape(-1)]
        return found if found is not None and sorted(found) == list(range(len(found))) else None

    # --- other numbers ---

    def _quantisation(self) -> Iterator[Advice]:
        """The whole model as full 8-bit integers of a kind that it is not yet."""
        kind = dtype_class(self.search.graph)
        for variant, words in _VARIANTS:
            if variant == kind or kind == "none":
                continue
            then = self._latency_of(requantised(self.search.graph, variant))
            if then is not None:
                yield Advice(
                    "quantise",
                    f"quantised in full to {words} (the model is {kind}; accuracy is yours to check)",
                    (),
                    then,
                )

    # --- planning again ---

    def _latency_if(self, supported: Collection[OpKey]) -> int | None:
        """Latency of the plan if the NPU took these ops; None if that is not worth it, or not affordable any more."""
        return self._worth(self.search, supported) if self._afford() else None

    def _latency_of(self, graph: Graph) -> int | None:
        """Latency of the plan of another graph. What is forced is of the graph as it is: then nothing is said."""
        old, request = self.search, self.search.request
        if request.force or request.forbid or not self._afford():
            return None
        target = Target.of(graph, old.target.board, request)
        return self._worth(Search(graph, old.main, target, request), ())

    def _worth(self, search: Search, supported: Collection[OpKey]) -> int | None:
        assume = search.request.assume_unknown == "supported"
        try:
            found = search.best(search.scenes_with(assume_supported=assume, supported=supported))
        except PlanningError:  # what is forced elsewhere, or over a limit, cannot be had
            return None
        then, now = found.latency_ns, self.whole.latency_ns
        return then if then < now * (1 - WORTH) else None

    def _afford(self) -> bool:
        ops = sum(len(s.ops) for s in self.search.graph.subgraphs)
        if ops > self.budget:
            return False
        self.budget -= ops
        return True

    def _op(self, key: OpKey) -> Op:
        return self.search.graph.subgraphs[key[0]].ops[key[1]]

    def _running_subgraphs(self) -> Iterable[Subgraph]:
        return (sub for sub in self.search.graph.subgraphs if sub.index in self.search.running)


def _only_maker(sub: Subgraph, op: Op) -> Op | None:
    """The op that makes the data of ``op``, if nobody else reads it."""
    data = op.inputs[0] if op.inputs else -1
    maker = sub.producer.get(data)
    readers: Sequence[int] = sub.consumers.get(data, ())
    alone = set(readers) == {op.index} and data not in sub.outputs
    return sub.ops[maker] if maker is not None and alone else None
