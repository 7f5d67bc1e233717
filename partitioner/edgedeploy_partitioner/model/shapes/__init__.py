# SPDX-License-Identifier: Apache-2.0
"""Shapes of all tensors from shapes of the inputs, by one small rule per kind of op.

A new rule is one function with ``@rule("OP")`` in a module of this folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import Graph, Signature, Subgraph, Tensor
from edgedeploy_partitioner.model.shapes.site import MAX_DIM, RULES, Flow, ShapeMismatch, brackets
from edgedeploy_partitioner.model.shapes.walk import Walk

__all__ = ["RULES", "ShapeMismatch", "entry_point", "entry_points", "propagate", "with_input_shapes"]

for _module in iter_modules(__path__):  # each module of rules registers its own
    import_module(f"{__name__}.{_module.name}")


def propagate(graph: Graph) -> Graph:
    """``graph`` with every shape recomputed from the stored shapes of its inputs, in all subgraphs that run.

    A tensor whose shape is only known when the model runs (a RESHAPE to computed numbers, the output of WHERE) gets
    a ``signature`` of -1 and keeps its stored shape. Raises :class:`ShapeMismatch` if the shapes do not fit.
    """
    walk = Walk(graph)
    for index in entry_points(graph):
        sub = graph.subgraphs[index]
        walk.run(index, [_stored(sub.tensors[t]) for t in sub.inputs])
    return _written(graph, walk)


def with_input_shapes(graph: Graph, shapes: Mapping[str, tuple[int, ...]], signature: str | None = None) -> Graph:
    """``graph`` with the given input shapes and all that follows from them.

    Keys name an input: its tensor name, its name in the signature, or its position (``"0"``). A tensor whose shape
    is now fixed has no ``signature`` any more; one that still depends on an open dimension, on data, or on an op
    without a rule keeps -1 there.

    Raises :class:`InputError` for an unknown name or a size below 1, :class:`ShapeMismatch` naming the op whose
    inputs do not fit.
    """
    index, entry = entry_point(graph, signature)
    sub = graph.subgraphs[index]
    given: dict[int, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        position = _position(sub, entry, name)
        if given.setdefault(position, tuple(shape)) != tuple(shape):
            raise InputError(f"--input-shape {name}: the same input was given the shape {brackets(given[position])}")
        if not all(1 <= d <= MAX_DIM for d in shape):
            raise InputError(f"--input-shape {name}={','.join(map(str, shape))}: every size must be 1 to {MAX_DIM}")
    walk = Walk(graph)
    walk.run(index, [Flow(given[i]) if i in given else _stored(sub.tensors[t]) for i, t in enumerate(sub.inputs)])
    return _written(graph, walk)


def entry_points(graph: Graph) -> tuple[int, ...]:
    """Subgraphs that a caller can run: those that signatures name, and the first."""
    indices = sorted({0, *(s.subgraph for s in graph.signatures)})
    return tuple(i for i in indices if i < len(graph.subgraphs))


def entry_point(graph: Graph, key: str | None) -> tuple[int, Signature | None]:
    """The subgraph that runs, and the signature that names its inputs.

    Without ``key`` it is the only subgraph that signatures name, or subgraph 0 if there are none. Raises
    :class:`InputError` listing the keys when ``key`` is unknown or there is a choice.
    """
    keys = ", ".join(repr(s.key) for s in graph.signatures)
    if key is not None:
        for found in graph.signatures:
            if found.key == key:
                return found.subgraph, found
        raise InputError(f"--signature {key!r}: the model has {keys or 'no signatures'}")
    if len({s.subgraph for s in graph.signatures}) > 1:
        raise InputError(f"the model has several signatures: choose one with --signature: {keys}")
    first = graph.signatures[0] if graph.signatures else None
    index = first.subgraph if first else 0
    if index >= len(graph.subgraphs):
        raise InputError("the model has no subgraph")
    return index, first


def _position(sub: Subgraph, entry: Signature | None, name: str) -> int:
    named = [i for i, t in enumerate(sub.inputs) if sub.tensors[t].name == name]
    named = named or [sub.inputs.index(t) for n, t in (entry.inputs if entry else ()) if n == name and t in sub.inputs]
    named = named or [i for i in range(len(sub.inputs)) if str(i) == name]
    if len(named) == 1:
        return named[0]
    problem = f"names {len(named)} inputs" if named else "is no input"
    inputs = "; ".join(_describe(sub, entry, i) for i in range(len(sub.inputs)))
    raise InputError(f"--input-shape {name}: {name!r} {problem} of this model; inputs are {inputs or 'none'}")


def _describe(sub: Subgraph, entry: Signature | None, i: int) -> str:
    tensor = sub.tensors[sub.inputs[i]]
    alias = next((f" (signature: {n!r})" for n, t in (entry.inputs if entry else ()) if t == tensor.id), "")
    return f"{i} {tensor.name!r}{alias} {brackets(tensor.signature or tensor.shape)}"


def _stored(tensor: Tensor) -> Flow:
    return Flow(tensor.shape, not tensor.is_dynamic)


def _written(graph: Graph, walk: Walk) -> Graph:
    subgraphs = (_with_flows(sub, walk.flows.get(sub.index, {})) for sub in graph.subgraphs)
    return replace(graph, subgraphs=tuple(subgraphs))


def _with_flows(sub: Subgraph, flows: Mapping[int, Flow]) -> Subgraph:
    tensors = tuple(_with_flow(t, flows[t.id]) if t.id in flows else t for t in sub.tensors)
    return sub if tensors == sub.tensors else replace(sub, tensors=tensors)


def _with_flow(tensor: Tensor, flow: Flow) -> Tensor:
    shape = tensor.shape if flow.shape is None else flow.shape
    if flow.is_fixed and flow.shape is not None:
        keep = tensor.signature == shape
        return replace(tensor, shape=shape, signature=shape if keep else None, has_rank=True)
    return replace(tensor, shape=shape, signature=_open(tensor, shape))


def _open(tensor: Tensor, shape: Sequence[int]) -> tuple[int, ...]:
    """``shape`` with -1 where the file has it; everywhere if the file does not say."""
    if tensor.is_dynamic and tensor.signature and len(tensor.signature) == len(shape):
        return tuple(-1 if old < 0 else new for old, new in zip(tensor.signature, shape, strict=True))
    return (-1,) * len(shape)
