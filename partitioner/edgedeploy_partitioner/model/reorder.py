# SPDX-License-Identifier: Apache-2.0
"""Put the ops of a model into another order, touching nothing else in the file.

A subgraph's list of operators holds offsets to their tables. Only these offsets are written anew: tables, tensors,
constants, signatures and metadata stay where they are, and the file keeps its length.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.flatbuffer import File
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes

CONTROL_DEPENDENCIES = "model_control_dependencies"
"""Metadata in which TensorFlow Lite keeps pairs of op indices that must run one after the other."""

_UOFFSET = struct.Struct("<I")


def with_order(graph: Graph, orders: Mapping[int, Sequence[int]]) -> Graph:
    """``graph`` with the ops of the named subgraphs in another order, numbered anew. Its bytes are the old file's:
    constants lie where they did.

    ``orders[subgraph]`` has the op indices as they are now, in the order they will have.
    """
    subgraphs = list(graph.subgraphs)
    for index, order in orders.items():
        ops = tuple(replace(subgraphs[index].ops[old], index=new) for new, old in enumerate(order))
        subgraphs[index] = replace(subgraphs[index], ops=ops)
    return replace(graph, subgraphs=tuple(subgraphs))


def with_order_written(data: bytes | memoryview, graph: Graph, orders: Mapping[int, Sequence[int]]) -> bytes:
    """The file ``data``, from which ``graph`` was read, with the order of :func:`with_order`.

    Raises:
        InputError: ``data`` is another model, names ops by their place, or shares parts in which the order lies.
    """
    source = memoryview(data).cast("B")
    if hashlib.sha256(source).hexdigest() != graph.sha256:
        raise InputError("the new order cannot be written: this is not the file that the model was read from")
    if any(name == CONTROL_DEPENDENCIES for name, _ in graph.metadata):
        raise InputError(f"the new order cannot be written: the metadata {CONTROL_DEPENDENCIES} names ops by place")
    out = bytearray(source)
    tables = list(File(source, "model").root("Model").tables("subgraphs", "subgraph"))
    for index, order in orders.items():
        span = tables[index].span("operators")
        if span is not None:
            _permute(out, source, span.start, order)
    result = bytes(out)
    wanted = with_order(graph, orders)
    if replace(read_bytes(result), sha256=wanted.sha256) != wanted:
        raise InputError("the new order cannot be written: parts of the model share the bytes in which it lies")
    return result


def _permute(out: bytearray, source: memoryview, start: int, order: Sequence[int]) -> None:
    for new, old in enumerate(order):
        entry, was = start + _UOFFSET.size * new, start + _UOFFSET.size * old
        offset = was + _UOFFSET.unpack_from(source, was)[0] - entry
        if offset <= 0:
            raise InputError("the new order cannot be written: an operator lies inside the list of operators")
        _UOFFSET.pack_into(out, entry, offset)
