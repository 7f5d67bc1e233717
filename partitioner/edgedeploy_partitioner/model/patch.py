# SPDX-License-Identifier: Apache-2.0
"""Write new shapes into the bytes of a model, touching nothing else.

A shape of the same rank is written over the old one. Where that cannot be (another rank, no shape in the file, a
vector that something else uses too) a new tensor table is put behind the file and the subgraph's list points to it.
Offsets in a flatbuffer are relative, so nothing moves: constants stay where they are, also those behind the flatbuffer.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import flatbuffers

from edgedeploy_partitioner.errors import InputError, MalformedModel
from edgedeploy_partitioner.model.flatbuffer import File, Table
from edgedeploy_partitioner.model.graph import Graph, Subgraph, Tensor
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.model.schema import SCHEMA

_ALIGNMENT_BYTES = 16
_MAX_FILE_BYTES = 2**31 - 1
_FIELDS = ("shape", "shape_signature")


@dataclass(frozen=True, slots=True)
class _Place:
    """A tensor in the file: its table and where the subgraph's list points to it."""

    tensor: Tensor
    table: Table
    entry: int

    @property
    def wanted(self) -> dict[str, tuple[int, ...]]:
        """What the fields should hold. A file without a shape_signature gets none."""
        found = {"shape": self.tensor.shape}
        if self.table.integers("shape_signature"):
            found["shape_signature"] = self.tensor.signature or self.tensor.shape
        return found

    def vector(self, name: str) -> int:
        """Where the numbers of a field start, 0 if it is absent."""
        span = self.table.span(name)
        return span.start if span else 0


def with_shapes_written(data: bytes | memoryview, graph: Graph) -> bytes:
    """The file ``data``, from which ``graph`` was read, with the shapes that ``graph`` has now.

    Dimensions that a ``shape_signature`` of the file leaves open are closed where ``graph`` has them fixed. Reading
    the result gives ``graph`` again, but for signatures of tensors that have none in the file.

    Raises:
        InputError: ``data`` is another model, or so large that nothing can be added.
    """
    source = memoryview(data).cast("B")
    if hashlib.sha256(source).hexdigest() != graph.sha256:
        raise InputError("the new input shapes cannot be written: this is not the file that the model was read from")
    out = bytearray(source)
    places = list(_places(File(source, "model"), graph))
    users = Counter(place.vector(name) for place in places for name in _FIELDS)
    for place in places:
        _write(out, place, users)
    result = bytes(out)
    if _comparable(read_bytes(result)) != _comparable(graph):
        raise InputError("the new input shapes cannot be written: parts of the model share the bytes of their shapes")
    return result


def _places(file: File, graph: Graph) -> Iterator[_Place]:
    for sub, table in zip(graph.subgraphs, file.root("Model").tables("subgraphs", "subgraph"), strict=False):
        start = getattr(table.span("tensors"), "start", 0)
        for tensor, entry in zip(sub.tensors, table.tables("tensors", "tensor"), strict=False):
            yield _Place(tensor, entry, start + 4 * tensor.id)


def _write(out: bytearray, place: _Place, users: Counter[int]) -> None:
    changes = {name: new for name, new in place.wanted.items() if (place.table.integers(name) or ()) != new}
    fits = all(len(place.table.integers(name) or ()) == len(new) for name, new in changes.items())
    if fits and all(users[place.vector(name)] == 1 for name in changes):
        for name, new in changes.items():
            struct.pack_into(f"<{len(new)}i", out, place.vector(name), *new)
    elif changes:
        _append(out, place)


def _append(out: bytearray, place: _Place) -> None:
    """Put a copy of the tensor's table, with its new shape, behind the file."""
    out.extend(bytes(-len(out) % _ALIGNMENT_BYTES))
    packed, root = _packed(out, place)
    if len(out) + len(packed) > _MAX_FILE_BYTES:
        raise InputError("the new input shapes cannot be written: the model would be larger than 2 GiB")
    struct.pack_into("<I", out, place.entry, len(out) + root - place.entry)
    out.extend(packed)


def _packed(out: bytearray, place: _Place) -> tuple[bytes, int]:
    """A flatbuffer of the tensor alone, and where in it the table starts."""
    table = SCHEMA.Tensor()
    table.Init(out, place.table.offset)
    try:
        value: Any = SCHEMA.TensorT.InitFromObj(table)
        value.shape, value.hasRank = list(place.tensor.shape), True
        if "shape_signature" in place.wanted:
            value.shapeSignature = list(place.wanted["shape_signature"])
        builder = flatbuffers.Builder(256)
        builder.Finish(value.Pack(builder))
    except (AttributeError, IndexError, TypeError, ValueError, struct.error) as error:
        raise MalformedModel(place.table.where, place.table.offset, f"cannot be copied: {error}") from None
    packed = bytes(builder.Output())
    return packed, int(struct.unpack_from("<I", packed)[0])


def _comparable(graph: Graph) -> Graph:
    """``graph`` without what writing shapes may change."""

    def bare(sub: Subgraph) -> Subgraph:
        return replace(sub, tensors=tuple(replace(t, signature=None, has_rank=True) for t in sub.tensors))

    return replace(graph, subgraphs=tuple(map(bare, graph.subgraphs)), sha256="", size=0)
