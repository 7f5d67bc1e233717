# SPDX-License-Identifier: Apache-2.0
"""What a stock runtime refuses, or dies of, judged from the file. Each check says when the runtime would notice.

The checks were compared with ai-edge-litert 2.3.0 on x86-64, by a model made for each. A model without a
finding may still be refused: only a run can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from edgedeploy_partitioner.model.facts.finding import (
    Finding,
    all_ops,
    at_op,
    at_ops,
    at_tensor,
    counted,
    operand,
    plural,
)
from edgedeploy_partitioner.model.facts.oddities import without_source
from edgedeploy_partitioner.model.facts.quantization import axis_problem
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Subgraph
from edgedeploy_partitioner.model.shapes import ShapeMismatch, propagate
from edgedeploy_partitioner.runtime.census import kernel_of, unwritten
from edgedeploy_profiles.schema import Runtime

Check = Callable[[Graph, Runtime], Iterator[Finding]]
_SCHEMA_VERSION = 3


def runtime_refusals(graph: Graph, runtime: Runtime) -> tuple[Finding, ...]:
    """Why ``runtime`` would not load, allocate or run ``graph``; empty if nothing is known against it."""
    return tuple(finding for check in _CHECKS for finding in check(graph, runtime))


def _schema(graph: Graph, runtime: Runtime) -> Iterator[Finding]:  # noqa: ARG001 - every check has it
    if graph.version != _SCHEMA_VERSION:
        yield Finding("schema_version", f"the file has schema version {graph.version}, runtimes read {_SCHEMA_VERSION}")


def _axes(graph: Graph, runtime: Runtime) -> Iterator[Finding]:
    for sub in graph.subgraphs:
        wrong = [t for t in sub.tensors if axis_problem(t)]
        if wrong:
            more = f" (and {plural(len(wrong) - 1, 'more tensor')})" if len(wrong) > 1 else ""
            message = f"{axis_problem(wrong[0])}{more}; {runtime.name} does not load such a file"
            yield at_tensor("quantized_dimension", sub, wrong[0], message)


def _kernels(graph: Graph, runtime: Runtime) -> Iterator[Finding]:
    """Ops that nothing in the runtime can run; one finding for each kind."""
    name = f"{runtime.name} {runtime.version}"
    for sub in graph.subgraphs:
        missing = [op for op in sub.ops if not _has_kernel(graph, op, runtime)]
        flex = [op for op in missing if op.custom_code.startswith("Flex")]
        words = f"needs Select TF ops, which {name} does not have: {counted(op.custom_code for op in flex)}"
        yield from at_ops("flex_op", flex[:1], words)
        others: dict[str, list[Op]] = {}
        for op in missing:
            if op not in flex:
                others.setdefault(op.name, []).append(op)
        for ops in others.values():
            lack = "does not register this custom op" if ops[0].code == "CUSTOM" else "has no kernel for it"
            yield from at_ops("no_kernel", ops, f"{name} {lack}")
        newer = [op for op in sub.ops if op.version > runtime.kernel_versions.get(op.code, op.version)]
        for op in newer[:1]:
            known = runtime.kernel_versions[op.code]
            yield at_op("op_version", op, f"has version {op.version}, {name} knows up to {known}")


def _has_kernel(graph: Graph, op: Op, runtime: Runtime) -> bool:
    if op.code != "CUSTOM":
        return op.code in runtime.builtin_kernels
    if op.custom_code in runtime.custom_kernels:
        return True
    return runtime.xnnpack_default and kernel_of(graph, op, runtime).verdict == "takes"


def _xnnpack(graph: Graph, runtime: Runtime) -> Iterator[Finding]:
    """XNNPACK takes the op and then cannot prepare it: the runtime gives up and does not fall back. Or it takes an op
    for what it unpacks and never writes that, although others read it."""
    for sub in graph.subgraphs if runtime.xnnpack_default else ():
        running = [op for op in sub.ops if op.index not in sub.folded]
        failing = [op for op in running if kernel_of(graph, op, runtime).verdict == "fails"]
        yield from at_ops("xnnpack_fails", failing, "XNNPACK takes it and then fails; it may run with XNNPACK off")
        lost = unwritten(graph, sub.index, runtime)
        words = "XNNPACK takes it and does not write its result, which is read elsewhere: the run fails or gives wrong"
        yield from at_ops("xnnpack_unwritten", lost, f"{words} values; it is right with XNNPACK off")


def _shapes(graph: Graph, runtime: Runtime) -> Iterator[Finding]:  # noqa: ARG001
    try:
        propagate(graph)
    except ShapeMismatch as mismatch:
        yield Finding("shapes", mismatch.problem, mismatch.where, mismatch.op)


def _sources(graph: Graph, runtime: Runtime) -> Iterator[Finding]:  # noqa: ARG001
    for sub, op in all_ops(graph):
        for tensor in without_source(sub, op):
            yield at_op("no_source", op, f"reads tensor {tensor.id} {tensor.name!r}, which nothing writes")


def _convolutions(graph: Graph, runtime: Runtime) -> Iterator[Finding]:  # noqa: ARG001
    for sub, op in all_ops(graph):
        if op.code in ("CONV_2D", "DEPTHWISE_CONV_2D"):
            reason = _convolution(sub, op)
            if reason:
                yield at_op("convolution_quantization", op, reason)


def _convolution(sub: Subgraph, op: Op) -> str:
    """The kernels' demands on the quantisation of integer convolutions."""
    data, weights = operand(sub, op.inputs, 0), operand(sub, op.inputs, 1)
    if data is None or weights is None or weights.dtype not in (DType.INT8, DType.UINT8):
        return ""
    if axis_problem(weights):
        return ""  # said already
    q = weights.quantization
    if q is None:
        return "its weights have no scale"
    if data.dtype in (DType.INT8, DType.UINT8, DType.INT16) and data.quantization is None:
        return "its input has no scale"
    if weights.dtype is DType.UINT8:
        return "uint8 weights cannot be quantised per channel" if q.per_channel else ""
    if any(q.zero_points):
        return "its int8 weights have a zero point other than 0"
    channels = weights.shape[3 if op.code == "DEPTHWISE_CONV_2D" else 0] if len(weights.shape) == 4 else 0
    if channels and len(q.scales) not in (1, channels):
        return f"{plural(len(q.scales), 'weight scale')} for {plural(channels, 'output channel')}"
    return ""


def _svdf(graph: Graph, runtime: Runtime) -> Iterator[Finding]:
    """The kernel keeps the state of an int8 SVDF in int16, whatever the file says, and writes past the end."""
    for sub in graph.subgraphs:
        narrow = [op for op in sub.ops if op.code == "SVDF" and _has_int8_state(sub, op)]
        words = f"its state is int8 and {runtime.name} writes int16 into it, past its end: the process may crash"
        yield from at_ops("svdf_state", narrow, words)


def _has_int8_state(sub: Subgraph, op: Op) -> bool:
    data, state = operand(sub, op.inputs, 0), operand(sub, op.inputs, 4)
    return bool(data and state and data.dtype is DType.INT8 and state.dtype is DType.INT8)


_CHECKS: tuple[Check, ...] = (_schema, _axes, _kernels, _xnnpack, _shapes, _sources, _convolutions, _svdf)
