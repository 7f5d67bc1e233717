# SPDX-License-Identifier: Apache-2.0
"""What is unusual about a model and may matter to who deploys it. One small check per kind of thing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from edgedeploy_partitioner.errors import printable
from edgedeploy_partitioner.model.facts.finding import Finding, all_ops, at_op, at_ops, counted, listed, plural
from edgedeploy_partitioner.model.facts.quantization import CHECKS as QUANTIZATION_CHECKS
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Subgraph, Tensor
from edgedeploy_partitioner.model.shapes import ShapeMismatch, entry_points, propagate
from edgedeploy_partitioner.model.shapes.site import brackets

Check = Callable[[Graph], Iterator[Finding]]


def oddities(graph: Graph) -> tuple[Finding, ...]:
    """Everything odd about ``graph``, in a fixed order. Never fails."""
    return tuple(finding for check in (*_CHECKS, *QUANTIZATION_CHECKS) for finding in check(graph))


def _custom_ops(graph: Graph) -> Iterator[Finding]:
    names = [op.custom_code for _, op in all_ops(graph) if op.code == "CUSTOM"]
    flex = [n for n in names if n.startswith("Flex")]
    custom = [n or "without a name" for n in names if not n.startswith("Flex")]
    if flex:
        yield Finding("flex_ops", f"needs Select TF ops: {counted(flex)}")
    if custom:
        yield Finding("custom_ops", f"custom ops, which only a runtime that knows them can run: {counted(custom)}")


def _control_flow(graph: Graph) -> Iterator[Finding]:
    names = [op.code for _, op in all_ops(graph) if op.callees]
    if names:
        yield Finding("control_flow", f"runs other subgraphs: {counted(names)}")
    reached = set(entry_points(graph))
    todo = list(reached)
    while todo:
        callees = {c for op in graph.subgraphs[todo.pop()].ops for c in op.callees} - reached
        reached |= callees
        todo.extend(callees)
    for sub in graph.subgraphs:
        if sub.index not in reached:
            yield Finding("unreachable_subgraph", "nothing runs it", f"subgraph {sub.index} {sub.name!r}")


def _signatures(graph: Graph) -> Iterator[Finding]:
    if len(entry_points(graph)) > 1 and len(graph.signatures) > 1:
        keys = listed(repr(s.key) for s in graph.signatures)
        yield Finding("several_signatures", f"has several signatures, choose one with --signature: {keys}")


def _open_inputs(graph: Graph) -> Iterator[Finding]:
    for index in entry_points(graph):
        sub = graph.subgraphs[index]
        for tensor in (sub.tensors[t] for t in sub.inputs):
            if tensor.is_dynamic and tensor.signature:
                name, shape = printable(tensor.name), ",".join(map(str, tensor.shape))
                message = f"sizes are open: {brackets(tensor.signature)}, stored as {brackets(tensor.shape)}"
                place = f"input {tensor.name!r}" if index == 0 else f"subgraph {index} input {tensor.name!r}"
                yield Finding("open_dimension", f"{message}; fix it with --input-shape {name}={shape}", place)


def _dynamic_shapes(graph: Graph) -> Iterator[Finding]:
    """The ops where a shape stops being known although all before were: what follows is a consequence."""
    try:
        carried = propagate(graph)
    except ShapeMismatch:
        return  # a refusal, not an oddity
    for sub in carried.subgraphs:
        unknown = {t.id for t in sub.tensors if t.is_dynamic}
        first = [op for op in sub.ops if unknown.isdisjoint(op.inputs) and not unknown.isdisjoint(op.outputs)]
        yield from at_ops("dynamic_shape", first, "the shape of its output is known only when it runs")


def _state(graph: Graph) -> Iterator[Finding]:
    variables = [t for sub in graph.subgraphs for t in sub.tensors if t.is_variable]
    if variables:
        kept = sum(t.nbytes for t in variables)
        yield Finding("variable_tensors", f"keeps {plural(len(variables), 'state tensor')} ({kept} bytes) between runs")
    handles = {op.options.get("shared_name") for _, op in all_ops(graph) if op.code == "VAR_HANDLE"}
    if handles:
        yield Finding("resource_variables", f"keeps {plural(len(handles), 'resource variable')} between runs")


def _optional_inputs(graph: Graph) -> Iterator[Finding]:
    lacking = [op.name for _, op in all_ops(graph) if -1 in op.inputs]
    if lacking:
        yield Finding("optional_inputs", f"optional inputs are left out: {counted(lacking)}")


def _order(graph: Graph) -> Iterator[Finding]:
    for sub, op in all_ops(graph):
        late = [p for p in (sub.producer.get(t, -1) for t in op.inputs) if p > op.index]
        if late:
            yield at_op("file_order", op, f"comes in the file before {listed(f'op {p}' for p in late)}, which it reads")


def _unwritten(graph: Graph) -> Iterator[Finding]:
    """Tensors that are read, or given out, although nothing gives them a value."""
    for sub in graph.subgraphs:
        wanted = [t.id for op in sub.ops for t in without_source(sub, op)]
        wanted += [t for t in sub.outputs if t >= 0 and not _has_source(sub, sub.tensors[t])]
        unwritten = list(dict.fromkeys(wanted))
        if unwritten:
            yield _tensors("no_source", sub, unwritten, "never written")


def _unused(graph: Graph) -> Iterator[Finding]:
    for sub in graph.subgraphs:
        listed_ids = {t for op in sub.ops for t in (*op.inputs, *op.outputs, *op.intermediates)}
        named = listed_ids | {*sub.inputs, *sub.outputs} | _scale_tensors(sub)
        idle = [t.id for t in sub.tensors if t.id not in named]
        if idle:
            yield _tensors("unused_tensors", sub, idle, "used by nothing")
        unread = [t for t in sub.inputs if t >= 0 and t not in sub.consumers and t not in sub.outputs]
        if unread and sub.index in entry_points(graph):
            yield _tensors("unused_inputs", sub, unread, "given as input but read by nothing")
        read = {*sub.consumers, *sub.outputs}
        dead = [op for op in sub.ops if op.outputs and read.isdisjoint(op.outputs)]
        yield from at_ops("dead_op", dead, "nothing reads its output")


def _names(graph: Graph) -> Iterator[Finding]:
    for sub in graph.subgraphs:
        nameless = [t.id for t in sub.tensors if not t.name]
        if nameless:
            yield _tensors("empty_names", sub, nameless, "without a name")
        uses = Counter(t.name for t in sub.tensors if t.name)
        twice = [name for name, n in uses.items() if n > 1]
        if twice:
            where = f"subgraph {sub.index}" if sub.index else ""
            yield Finding("duplicate_names", f"names used twice: {listed(map(repr, twice))}", where)


def _borders(graph: Graph) -> Iterator[Finding]:
    """Float inputs and outputs of a model that computes in integers."""
    for index in entry_points(graph):
        sub = graph.subgraphs[index]
        for t in sub.inputs:
            readers = [sub.ops[i] for i in sub.consumers.get(t, ())]
            if sub.tensors[t].dtype is DType.FLOAT32 and readers and all(op.code == "QUANTIZE" for op in readers):
                yield at_op("float_input", readers[0], f"quantises the float input {sub.tensors[t].name!r}")
        for t in sub.outputs:
            op = sub.ops[sub.producer[t]] if t in sub.producer else None
            if op and op.code == "DEQUANTIZE" and op.index not in sub.folded:
                yield at_op("float_output", op, f"turns the output {sub.tensors[t].name!r} into floats")


def _storage(graph: Graph) -> Iterator[Finding]:
    if graph.external_files:
        yield Finding("external_weights", f"weights are in other files: {listed(map(repr, graph.external_files))}")
    sparse = [t for sub in graph.subgraphs for t in sub.tensors if t.is_sparse]
    if sparse:
        yield Finding("sparse_weights", f"{plural(len(sparse), 'weight')} stored sparse")
    unpacked = [sub.tensors[t] for sub in graph.subgraphs for i in sub.folded for t in sub.ops[i].outputs]
    if unpacked:
        count, size = plural(len(unpacked), "weight"), sum(t.nbytes for t in unpacked)
        yield Finding("folded_weights", f"{count} unpacked when the model is loaded, {size} bytes then")


def _tensors(code: str, sub: Subgraph, ids: list[int], what: str) -> Finding:
    where = f"subgraph {sub.index}" if sub.index else ""
    named = listed(f"{t} {sub.tensors[t].name!r}" if sub.tensors[t].name else t for t in ids)
    return Finding(code, f"{plural(len(ids), 'tensor')} {what}: {named}", where)


def _scale_tensors(sub: Subgraph) -> set[int]:
    details = [t.quantization for t in sub.tensors if t.quantization]
    return {t for q in details for t in (q.scale_tensor, q.zero_point_tensor) if t is not None}


def _has_source(sub: Subgraph, tensor: Tensor) -> bool:
    """Something gives the tensor a value: the file, the caller, an op, or the state before."""
    if tensor.is_constant or tensor.is_variable or not tensor.elements:
        return True
    return tensor.id in sub.producer or tensor.id in sub.inputs


def without_source(sub: Subgraph, op: Op) -> list[Tensor]:
    """Inputs of ``op`` that nothing gives a value. A custom op may use inputs as scratch memory."""
    if op.code == "CUSTOM":
        return []
    return [sub.tensors[t] for t in op.inputs if t >= 0 and not _has_source(sub, sub.tensors[t])]


_CHECKS: tuple[Check, ...] = (
    _custom_ops, _control_flow, _signatures, _open_inputs, _dynamic_shapes, _state, _optional_inputs, _borders,
    _storage, _order, _unwritten, _unused, _names,
)  # fmt: skip
