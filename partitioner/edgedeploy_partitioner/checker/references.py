# SPDX-License-Identifier: Apache-2.0
"""Is this plan about this model, and does every id in it point at something? The other checks rely on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator

from edgedeploy_partitioner.checker.view import Fault
from edgedeploy_partitioner.errors import PlanningError
from edgedeploy_partitioner.model.fingerprint import fingerprints
from edgedeploy_partitioner.model.graph import Graph, Op
from edgedeploy_partitioner.plan import OpEntry, Plan


def check_references(plan: Plan, graph: Graph) -> Iterator[Fault]:
    yield from _model(plan, graph)
    yield from _ops(plan, graph)
    yield from _subgraphs(plan, graph)
    yield from _partitions(plan, graph)
    yield from _placements(plan)
    yield from _transitions(plan, graph)
    yield from _memory(plan, graph)
    yield from _notes(plan)


def _model(plan: Plan, graph: Graph) -> Iterator[Fault]:
    model = plan.inputs.model
    if model.sha256 != graph.sha256:
        yield Fault("model", f"the plan is for model {model.sha256[:12]}…, the file is {graph.sha256[:12]}…")
    if model.bytes != graph.size:
        yield Fault("model", f"the plan's model has {model.bytes} bytes, the file has {graph.size}")
    try:
        expected = fingerprints(graph)
    except PlanningError as error:
        yield Fault("fingerprint", error.message)
        return
    if model.fingerprints != expected:
        wrong = [i for i, (a, b) in enumerate(zip(model.fingerprints, expected, strict=False)) if a != b]
        where = f"of subgraph {wrong[0]}" if wrong else f"count {len(model.fingerprints)}, not {len(expected)}:"
        yield Fault("fingerprint", f"graph fingerprint {where} is not that of the model")


def _ops(plan: Plan, graph: Graph) -> Iterator[Fault]:
    ops = {(s.index, op.index): op for s in graph.subgraphs for op in s.ops}
    yield from _once("op", ((e.subgraph, e.index) for e in plan.ops), ops)
    for entry in plan.ops:
        op = ops.get((entry.subgraph, entry.index))
        if op is not None and (entry.op, entry.custom_code, entry.inputs, entry.outputs) != _identity(op):
            yield Fault("op-identity", f"op {entry.subgraph}:{entry.index} is {_words(op)}, not {_words(entry)}")


def _identity(op: Op) -> tuple[str, str, tuple[int, ...], tuple[int, ...]]:
    return op.code, op.custom_code, op.inputs, op.outputs


def _words(op: Op | OpEntry) -> str:
    name = op.code if isinstance(op, Op) else op.op
    return f"{name}{op.custom_code and ' ' + op.custom_code} {list(op.inputs)} -> {list(op.outputs)}"


def _subgraphs(plan: Plan, graph: Graph) -> Iterator[Fault]:
    yield from _once("subgraph", (s.index for s in plan.subgraphs), [s.index for s in graph.subgraphs])
    for use in plan.subgraphs:
        if 0 <= use.index < len(graph.subgraphs):
            subgraph = graph.subgraphs[use.index]
            if use.name != subgraph.name:
                yield Fault("subgraph", f"subgraph {use.index} is named {subgraph.name!r}, not {use.name!r}")
            unknown = [i for i in use.order if not 0 <= i < len(subgraph.ops)]
            if unknown:
                yield Fault("order", f"the order of subgraph {use.index} has op {unknown[0]}, which does not exist")


def _partitions(plan: Plan, graph: Graph) -> Iterator[Fault]:
    partitions = {p.id: p for p in plan.partitions}
    segments = {s.id: s for s in plan.segments}
    yield from _repeated("partition", (p.id for p in plan.partitions))
    yield from _repeated("segment", (s.id for s in plan.segments))
    for partition in plan.partitions:
        if not 0 <= partition.subgraph < len(graph.subgraphs):
            yield Fault("partition", f"partition {partition.id}: there is no subgraph {partition.subgraph}")
        if not partition.segments:
            yield Fault("partition", f"partition {partition.id} has no segment")
        for id_ in partition.segments:
            if id_ not in segments or segments[id_].partition != partition.id:
                yield Fault("partition", f"partition {partition.id} lists segment {id_}, which is not in it")
    yield from _repeated("segment", (id_ for p in plan.partitions for id_ in p.segments))
    for segment in plan.segments:
        home = partitions.get(segment.partition)
        if home is None or segment.id not in home.segments:
            yield Fault("segment", f"segment {segment.id} is not listed in its partition {segment.partition}")
        if not segment.ops:
            yield Fault("segment", f"segment {segment.id} has no op")


def _placements(plan: Plan) -> Iterator[Fault]:
    """Ops and their partition and segment point at each other."""
    partitions = {p.id: p for p in plan.partitions}
    segments = {s.id: s for s in plan.segments}
    listed = {
        (partitions[s.partition].subgraph, op, s.id) for s in plan.segments if s.partition in partitions for op in s.ops
    }
    claimed = {(e.subgraph, e.index, e.segment) for e in plan.ops if e.segment is not None}
    for subgraph, op, segment in sorted(listed ^ claimed):
        yield Fault("segment", f"op {subgraph}:{op} and segment {segment} do not list each other")
    yield from _repeated("segment", ((s.id, op) for s in plan.segments for op in s.ops))
    for e in plan.ops:
        name = f"op {e.subgraph}:{e.index}"
        home = partitions.get(e.partition) if e.partition is not None else None
        if e.partition is not None and (home is None or home.subgraph != e.subgraph):
            yield Fault("partition", f"{name} is in partition {e.partition}, not one of its subgraph")
        if e.segment is not None and (e.segment not in segments or segments[e.segment].partition != e.partition):
            yield Fault("segment", f"{name} is in segment {e.segment}, not one of its partition")
        if not e.folded and (e.segment is None) != (e.partition is None):
            yield Fault("segment", f"{name} has only one of partition and segment")


def _transitions(plan: Plan, graph: Graph) -> Iterator[Fault]:
    home = {p.id: p.subgraph for p in plan.partitions}
    for t in plan.transitions:
        if home.get(t.partition) != t.subgraph:
            yield Fault("transition", f"a transition names partition {t.partition}, not one of subgraph {t.subgraph}")
        elif 0 <= t.subgraph < len(graph.subgraphs) and not _is_tensor(graph, t.subgraph, t.tensor):
            yield Fault("transition", f"a transition names tensor {t.subgraph}:{t.tensor}, which does not exist")


def _memory(plan: Plan, graph: Graph) -> Iterator[Fault]:
    ops = {(e.subgraph, e.index) for e in plan.ops}
    partitions = {(p.subgraph, p.id) for p in plan.partitions}
    memory = plan.memory
    if memory.peak_op is not None and memory.peak_op not in ops:
        yield Fault("timeline", f"the peak is at op {memory.peak_op}, which does not exist")
    peak_subgraph = memory.peak_op[0] if memory.peak_op else 0
    if not all(_is_tensor(graph, peak_subgraph, t) for t in memory.peak_tensors):
        yield Fault("timeline", "the peak names a tensor that does not exist")
    for step in memory.timeline:
        if (step.op is None) == (step.partition is None):
            yield Fault("timeline", f"a step of subgraph {step.subgraph} is not exactly one of op and partition")
        elif (step.subgraph, step.op) not in ops and (step.subgraph, step.partition) not in partitions:
            yield Fault("timeline", f"a step of subgraph {step.subgraph} names an op or partition that does not exist")


def _notes(plan: Plan) -> Iterator[Fault]:
    ops = {(e.subgraph, e.index) for e in plan.ops}
    for warning in plan.warnings:
        if warning.op is not None and warning.op not in ops:
            yield Fault("warning", f"warning {warning.code} is about op {warning.op}, which does not exist")
    for op in plan.predicted.ops_to_probe:
        if op not in ops:
            yield Fault("ops-to-probe", f"op {op} to probe does not exist")
    for change in plan.advice:
        for op in change.ops:
            if op not in ops:
                yield Fault("advice", f"advice {change.code} is about op {op}, which does not exist")
        if change.latency_ns >= plan.predicted.latency_ns:
            yield Fault("advice", f"advice {change.code} makes the plan no faster")
    yield from _repeated("backend", (b.name for b in plan.backends))


def _is_tensor(graph: Graph, subgraph: int, tensor: int) -> bool:
    return 0 <= subgraph < len(graph.subgraphs) and 0 <= tensor < len(graph.subgraphs[subgraph].tensors)


def _once(code: str, given: Iterable[Hashable], expected: Iterable[Hashable]) -> Iterator[Fault]:
    count = Counter(given)
    wanted = dict.fromkeys(expected)
    for key, times in count.items():
        if key not in wanted:
            yield Fault(code, f"{code} {key} is not in the model")
        elif times > 1:
            yield Fault(code, f"{code} {key} is listed {times} times")
    for key in wanted:
        if key not in count:
            yield Fault(code, f"{code} {key} is missing")


def _repeated(code: str, given: Iterable[Hashable]) -> Iterator[Fault]:
    for key, times in Counter(given).items():
        if times > 1:
            yield Fault(code, f"{code} {key} is listed {times} times")
