# SPDX-License-Identifier: Apache-2.0
"""What is in a model file, schema ``edgedeploy.model/1``: facts of the file alone, no board and no plan."""

from __future__ import annotations

import math
from collections.abc import Iterator

from edgedeploy.trial import Trial
from edgedeploy_partitioner.model import facts
from edgedeploy_partitioner.model.facts import Finding
from edgedeploy_partitioner.model.facts.kind import stored_type
from edgedeploy_partitioner.model.graph import Graph, Op, Quantization, Subgraph, Tensor
from edgedeploy_partitioner.model.work import work
from edgedeploy_partitioner.plan import Value
from edgedeploy_profiles.schema import Runtime

SCHEMA = "edgedeploy.model/1"


class QuantFacts(Value, frozen=True):
    """``scales`` is how many there are: 1 is per tensor. The first of them and of the zero points are given.

    ``scale`` is null where there is none and where it is not finite; ``oddities`` names the latter.
    """

    scales: int
    axis: int
    scale: float | None
    zero_point: int | None
    block_size: int


class TensorFacts(Value, frozen=True):
    """``stored_dtype`` is the type in the file: of a folded weight that of the constant behind it."""

    id: int
    name: str
    dtype: str
    stored_dtype: str
    shape: tuple[int, ...]
    signature: tuple[int, ...] | None
    bytes: int
    constant: bool
    variable: bool
    sparse: bool
    quantization: QuantFacts | None


class OpFacts(Value, frozen=True):
    """``inputs`` has null where an optional input is absent. ``intensity`` is MACs per byte."""

    index: int
    op: str
    custom_code: str
    version: int
    inputs: tuple[TensorFacts | None, ...]
    outputs: tuple[TensorFacts | None, ...]
    folded: bool
    macs: int
    read_bytes: int
    written_bytes: int
    intensity: float


class SubgraphFacts(Value, frozen=True):
    index: int
    name: str
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    ops: tuple[OpFacts, ...]


class SignatureFacts(Value, frozen=True):
    key: str
    subgraph: int
    inputs: dict[str, int]
    outputs: dict[str, int]


class Refused(Value, frozen=True):
    """What the stock runtime will not run, judged without running it."""

    runtime: str
    version: str
    findings: tuple[Finding, ...]


class ModelFacts(Value, frozen=True):
    """``macs`` counts every subgraph once; a decomposition is counted by the composites that stand for it."""

    schema: str
    name: str
    sha256: str
    bytes: int
    version: int
    description: str
    dtype_class: str
    compiled_for: str | None
    macs: int
    constant_bytes: int
    signatures: tuple[SignatureFacts, ...]
    subgraphs: tuple[SubgraphFacts, ...]
    oddities: tuple[Finding, ...]
    refused: Refused
    trial: Trial | None


def inspect(graph: Graph, name: str, runtime: Runtime, trial: Trial | None = None) -> ModelFacts:
    """The facts of ``graph``; ``runtime`` is the one asked what it would refuse."""
    subgraphs = tuple(_subgraph(graph, sub) for sub in graph.subgraphs)
    decompositions = _decompositions(graph)
    return ModelFacts(
        schema=SCHEMA,
        name=name,
        sha256=graph.sha256,
        bytes=graph.size,
        version=graph.version,
        description=graph.description,
        dtype_class=facts.dtype_class(graph),
        compiled_for=facts.compiled_for(graph),
        macs=sum(op.macs for sub in subgraphs if sub.index not in decompositions for op in sub.ops),
        constant_bytes=sum({t.buffer: t.nbytes for t in _constants(graph)}.values()),
        signatures=tuple(SignatureFacts(s.key, s.subgraph, dict(s.inputs), dict(s.outputs)) for s in graph.signatures),
        subgraphs=subgraphs,
        oddities=facts.oddities(graph),
        refused=Refused(runtime.name, runtime.version, facts.runtime_refusals(graph, runtime)),
        trial=trial,
    )


def _constants(graph: Graph) -> Iterator[Tensor]:
    return (t for sub in graph.subgraphs for t in sub.tensors if t.is_constant)


def _decompositions(graph: Graph) -> frozenset[int]:
    composites = (op for sub in graph.subgraphs for op in sub.ops if op.code == "STABLEHLO_COMPOSITE")
    return frozenset(callee for op in composites for callee in op.callees)


def _subgraph(graph: Graph, sub: Subgraph) -> SubgraphFacts:
    def known(ids: tuple[int, ...]) -> tuple[TensorFacts, ...]:
        return tuple(_tensor(sub, t) for t in ids if t >= 0)

    ops = tuple(_op(graph, sub, op) for op in sub.ops)
    return SubgraphFacts(sub.index, sub.name, known(sub.inputs), known(sub.outputs), ops)


def _op(graph: Graph, sub: Subgraph, op: Op) -> OpFacts:
    done = work(graph, op)
    return OpFacts(
        index=op.index,
        op=op.code,
        custom_code=op.custom_code,
        version=op.version,
        inputs=tuple(_tensor(sub, t) if t >= 0 else None for t in op.inputs),
        outputs=tuple(_tensor(sub, t) if t >= 0 else None for t in op.outputs),
        folded=op.index in sub.folded,
        macs=done.macs,
        read_bytes=done.read_bytes,
        written_bytes=done.written_bytes,
        intensity=round(done.intensity, 3),
    )


def _tensor(sub: Subgraph, id_: int) -> TensorFacts:
    t = sub.tensors[id_]
    return TensorFacts(
        id=t.id,
        name=t.name,
        dtype=t.dtype.value,
        stored_dtype=stored_type(sub, t).value,
        shape=t.shape,
        signature=t.signature,
        bytes=t.nbytes,
        constant=t.is_constant or sub.producer.get(id_) in sub.folded,
        variable=t.is_variable,
        sparse=t.is_sparse,
        quantization=_quantization(t.quantization),
    )


def _quantization(q: Quantization | None) -> QuantFacts | None:
    if q is None:
        return None
    scale, zero = next(iter(q.scales), None), next(iter(q.zero_points), None)
    finite = scale if scale is not None and math.isfinite(scale) else None
    return QuantFacts(len(q.scales), q.axis, finite, zero, q.block_size)
