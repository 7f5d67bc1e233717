# SPDX-License-Identifier: Apache-2.0
"""``plan.edp``: the part of a plan that ``libedgedeploy.so`` reads. ``docs/plan-edp.md`` is the byte layout.

Fixed-size little-endian records in flat tables, joined by ids: a C reader checks one checksum, a few counts and
references, and then uses the file in place.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.plan import XNNPACK, OpEntry, Partition, Plan

MAGIC = b"EDGEPLAN"
VERSION = 1
NONE = 0xFFFFFFFF

_HEADER = struct.Struct("<8s8I")  # magic, version, size, counts of the five tables, bytes of the string table
_SUBGRAPH = struct.Struct("<2I32s")  # index, 0, fingerprint
_BACKEND = struct.Struct("<2I")  # name, library
_OPTION = struct.Struct("<4I")  # backend, key, value, 0
_PARTITION = struct.Struct("<4I")  # id, subgraph, delegate, 0
_OP = struct.Struct("<8I")  # subgraph, index, partition, segment, backend, kernel, variant, layout
_TRAILER = struct.Struct("<2I")  # 0, CRC-32 of everything before the CRC
_TABLES = (_SUBGRAPH, _BACKEND, _OPTION, _PARTITION, _OP)

_MAX_INDEX = 2**31 - 1  # TFLite counts nodes and subgraphs in a C int


@dataclass(frozen=True, slots=True)
class EdpSubgraph:
    index: int
    fingerprint: str
    """SHA-256 in lower-case hex, see :mod:`edgedeploy_partitioner.model.fingerprint`."""


@dataclass(frozen=True, slots=True)
class EdpBackend:
    name: str
    library: str | None
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class EdpPartition:
    """One claim: one ``ReplaceNodeSubsetsWithDelegateKernels`` call, in ascending order of ``id``."""

    id: int
    subgraph: int
    delegate: str


@dataclass(frozen=True, slots=True)
class EdpOp:
    """One claimed op. A folded op has no segment, back end, kernel, variant or layout: it is claimed, never run."""

    subgraph: int
    index: int
    partition: int
    segment: int | None
    backend: str | None
    kernel: str | None
    variant: str | None
    layout: str | None


@dataclass(frozen=True)
class Edp:
    subgraphs: tuple[EdpSubgraph, ...]
    backends: tuple[EdpBackend, ...]
    partitions: tuple[EdpPartition, ...]
    ops: tuple[EdpOp, ...]
    """By partition, folded ops first, then in execution order."""


_SWITCHED_CPU = EdpBackend("cpu", None, (("xnnpack", "switch"),))
"""Of a plan for a runtime that has XNNPACK for quantised ops and does not use it by itself."""


def encode(plan: Plan, op_index_map: Mapping[tuple[int, int], Sequence[int]] | None = None) -> bytes:
    """The bytes of ``plan.edp``: every partition of the plan that XNNPACK does not take.

    ``op_index_map`` gives, per (subgraph, op index) of the given model, the indices of the ops that replace it in
    the same subgraph of the shipped model; None when the indices are the same. Raises :class:`InputError` for a plan
    that cannot be written down: a missing op or back end, a number or text that does not fit.
    """
    return pack(select(plan, op_index_map))


def switching(fingerprints: Iterable[str]) -> bytes:
    """The bytes of a ``plan.edp`` that claims nothing of a model with these subgraphs, and switches XNNPACK on."""
    return pack(Edp(tuple(EdpSubgraph(*numbered) for numbered in enumerate(fingerprints)), (_SWITCHED_CPU,), (), ()))


def select(plan: Plan, op_index_map: Mapping[tuple[int, int], Sequence[int]] | None = None) -> Edp:
    """What :func:`encode` writes, as values."""
    partitions = sorted((p for p in plan.partitions if p.delegate != XNNPACK), key=lambda p: p.id)
    ops = tuple(op for partition in partitions for op in _claimed(plan, partition, op_index_map))
    used = {op.backend for op in ops}
    return Edp(
        subgraphs=tuple(EdpSubgraph(i, digest) for i, digest in enumerate(plan.inputs.model.fingerprints)),
        backends=(
            *(EdpBackend(b.name, b.library, tuple(sorted(b.options.items()))) for b in plan.backends if b.name in used),
            *((_SWITCHED_CPU,) if plan.inputs.runtime.xnnpack == "switch" else ()),
        ),
        partitions=tuple(EdpPartition(p.id, p.subgraph, p.delegate) for p in partitions),
        ops=ops,
    )


def _claimed(
    plan: Plan, partition: Partition, op_index_map: Mapping[tuple[int, int], Sequence[int]] | None
) -> Iterable[EdpOp]:
    entries = {op.index: op for op in plan.ops if op.subgraph == partition.subgraph and op.partition == partition.id}
    segments = {segment.id: segment for segment in plan.segments}
    in_order = [
        (segment, index)
        for segment in (segments.get(s) for s in partition.segments)
        for index in (segment.ops if segment else ())
    ]
    rows: list[tuple[OpEntry, int | None]] = [(op, None) for op in entries.values() if op.folded]
    for segment, index in in_order:
        entry = entries.get(index)
        if segment is None or entry is None:
            raise InputError(f"partition {partition.id} lists op {index}, which is not in it; run check on the plan")
        if not entry.folded:
            rows.append((entry, segment.id))
    for entry, segment_id in rows:
        for index in _shipped(entry, op_index_map):
            yield _edp_op(entry, index, partition.id, segment_id)


def _shipped(entry: OpEntry, op_index_map: Mapping[tuple[int, int], Sequence[int]] | None) -> Sequence[int]:
    if op_index_map is None:
        return (entry.index,)
    try:
        return op_index_map[entry.subgraph, entry.index]
    except KeyError:
        raise InputError(f"op {entry.subgraph}:{entry.index} is claimed and missing in the op index map") from None


def _edp_op(entry: OpEntry, index: int, partition: int, segment: int | None) -> EdpOp:
    if segment is None:
        return EdpOp(entry.subgraph, index, partition, None, None, None, None, None)
    return EdpOp(entry.subgraph, index, partition, segment, entry.backend, entry.kernel, entry.variant, entry.layout)


# --- writing ---------------------------------------------------------


class _Strings:
    """The string table being written: equal texts are stored once, in order of first use."""

    def __init__(self) -> None:
        self.offsets: dict[str, int] = {}
        self.size = 0

    def add(self, text: str | None) -> int:
        if text is None:
            return NONE
        if text not in self.offsets:
            self.offsets[text] = self.size
            self.size += len(_utf8(text)) + 1
        return self.offsets[text]

    def table(self) -> bytes:
        data = b"".join(_utf8(text) + b"\0" for text in self.offsets)
        return data + bytes(-len(data) % 8)


def _utf8(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise InputError(f"plan.edp cannot hold the text {text!r}: not Unicode") from None
    if b"\0" in data:
        raise InputError(f"plan.edp cannot hold the text {text!r}: it has a zero byte")
    return data


def pack(edp: Edp) -> bytes:
    """``edp`` as bytes, the inverse of :func:`decode`. Raises :class:`InputError` for what does not fit."""
    strings = _Strings()
    number = {backend.name: i for i, backend in enumerate(edp.backends)}
    for op in edp.ops:
        if op.backend is not None and op.backend not in number:
            raise InputError(f"op {op.subgraph}:{op.index} runs on {op.backend}, which the plan does not list")
    try:
        tables = [
            [_SUBGRAPH.pack(s.index, 0, _digest(s.fingerprint)) for s in edp.subgraphs],
            [_BACKEND.pack(strings.add(b.name), strings.add(b.library)) for b in edp.backends],
            [
                _OPTION.pack(number[b.name], strings.add(key), strings.add(value), 0)
                for b in edp.backends
                for key, value in b.options
            ],
            [_PARTITION.pack(p.id, p.subgraph, strings.add(p.delegate), 0) for p in edp.partitions],
            [
                _OP.pack(
                    op.subgraph,
                    op.index,
                    op.partition,
                    NONE if op.segment is None else op.segment,
                    NONE if op.backend is None else number[op.backend],
                    strings.add(op.kernel),
                    strings.add(op.variant),
                    strings.add(op.layout),
                )
                for op in edp.ops
            ],
        ]
        text = strings.table()
        body = b"".join(record for table in tables for record in table) + text
        size = _HEADER.size + len(body) + _TRAILER.size
        data = _HEADER.pack(MAGIC, VERSION, size, *map(len, tables), len(text)) + body + bytes(4)
    except (struct.error, ValueError) as error:
        raise InputError(f"plan.edp cannot hold this plan: {error}") from None
    data += struct.pack("<I", zlib.crc32(data))
    decode(data)  # what is written can be read
    return data


def _digest(fingerprint: str) -> bytes:
    digest = bytes.fromhex(fingerprint)
    if len(digest) != 32:
        raise ValueError(f"{fingerprint!r} is not a SHA-256")
    return digest


# --- reading ---------------------------------------------------------


def decode(data: bytes | memoryview, where: str = "plan.edp") -> Edp:
    """Read ``plan.edp``. Raises :class:`InputError` that names the first thing wrong; never anything else."""
    tables, strings = _split(bytes(data), where)
    subgraphs, backends, options, partitions, ops = tables
    text = _Text(strings, where)
    names = [text(name) for name, _ in backends]
    result = Edp(
        subgraphs=tuple(EdpSubgraph(index, digest.hex()) for index, _, digest in subgraphs),
        backends=tuple(
            EdpBackend(
                names[i], text.optional(library), tuple((text(k), text(v)) for owner, k, v, _ in options if owner == i)
            )
            for i, (_, library) in enumerate(backends)
        ),
        partitions=tuple(EdpPartition(id_, subgraph, text(delegate)) for id_, subgraph, delegate, _ in partitions),
        ops=tuple(
            EdpOp(
                subgraph,
                index,
                partition,
                None if segment == NONE else segment,
                None if backend == NONE else _item(names, backend, f"{where}: op {subgraph}:{index}: back end"),
                text.optional(kernel),
                text.optional(variant),
                text.optional(layout),
            )
            for subgraph, index, partition, segment, backend, kernel, variant, layout in ops
        ),
    )
    zeros = [s[1] for s in subgraphs] + [o[3] for o in options] + [p[3] for p in partitions]
    _require(not any(zeros), f"{where}: a reserved field is not zero")
    _require(all(owner < len(backends) for owner, *_ in options), f"{where}: an option has no back end")
    keys = [(owner, text(key)) for owner, key, _, _ in options]
    _require(_ascending(keys), f"{where}: options are not in the order of their back ends and keys")
    _check(result, where)
    return result


def _split(data: bytes, where: str) -> tuple[list[list[tuple[Any, ...]]], bytes]:
    """The records of the five tables, and the string table."""
    _require(len(data) >= _HEADER.size + _TRAILER.size, f"{where}: {len(data)} bytes are too few for a plan.edp")
    magic, version, size, *counts, string_bytes = _HEADER.unpack_from(data)
    _require(magic == MAGIC, f"{where}: not a plan.edp (its first bytes are {magic!r})")
    _require(version == VERSION, f"{where}: version {version}, this program reads version {VERSION}")
    _require(size == len(data), f"{where}: {len(data)} bytes, its header says {size}; copy it again")
    (zero, checksum) = _TRAILER.unpack_from(data, len(data) - _TRAILER.size)
    _require(checksum == zlib.crc32(data[:-4]), f"{where}: wrong checksum, the file is damaged; copy it again")
    ends = [_HEADER.size]
    for record, count in zip(_TABLES, counts, strict=True):
        ends.append(ends[-1] + record.size * count)
    _require(
        ends[-1] + string_bytes + _TRAILER.size == size and string_bytes % 8 == 0 and zero == 0,
        f"{where}: its tables do not fill the file",
    )
    tables = [
        list(record.iter_unpack(data[start:end])) for record, (start, end) in zip(_TABLES, pairwise(ends), strict=True)
    ]
    strings = data[ends[-1] : size - _TRAILER.size]
    _require(not strings or strings[-1] == 0, f"{where}: its last text does not end")
    return tables, strings


class _Text:
    """Texts by their offset in the string table."""

    def __init__(self, table: bytes, where: str) -> None:
        self.table = table
        self.where = where

    def __call__(self, offset: int) -> str:
        end = self.table.find(b"\0", offset) if offset < len(self.table) else -1
        _require(end >= 0, f"{self.where}: no text at {offset} of the string table")
        try:
            return self.table[offset:end].decode()
        except UnicodeDecodeError:
            raise InputError(f"{self.where}: the text at {offset} of the string table is not UTF-8") from None

    def optional(self, offset: int) -> str | None:
        return None if offset == NONE else self(offset)


def _check(edp: Edp, where: str) -> None:
    """The references and orders that a reader relies on."""
    indices = [s.index for s in edp.subgraphs]
    ids = [p.id for p in edp.partitions]
    _require(_ascending(indices), f"{where}: subgraphs are not in ascending order")
    _require(_ascending(ids), f"{where}: partitions are not in ascending order")
    known, home = set(indices), {p.id: p for p in edp.partitions}
    for p in edp.partitions:
        _require(p.subgraph in known, f"{where}: partition {p.id} is in subgraph {p.subgraph}, which is not listed")
    for op in edp.ops:
        name = f"{where}: op {op.subgraph}:{op.index}"
        _require(op.index <= _MAX_INDEX, f"{name}: no such index")
        _require(op.partition in home, f"{name}: partition {op.partition} is not listed")
        _require(home[op.partition].subgraph == op.subgraph, f"{name}: its partition is in another subgraph")
        run = (op.segment is None, op.backend is None, op.kernel is None, op.layout is None)
        _require(all(run) or not any(run), f"{name}: it has some of segment, back end, kernel and layout, not all")
        _require(op.segment is not None or op.variant is None, f"{name}: it has a variant and no kernel")
    _require(len({(op.subgraph, op.index) for op in edp.ops}) == len(edp.ops), f"{where}: an op is listed twice")
    places = [(op.partition, -1 if op.segment is None else op.segment) for op in edp.ops]
    _require(places == sorted(places), f"{where}: ops are not in the order of their partitions and segments")
    busy = {op.partition for op in edp.ops if op.segment is not None}
    for p in edp.partitions:
        _require(p.id in busy, f"{where}: partition {p.id} runs no op")


def _ascending(keys: Sequence[Any]) -> bool:
    return all(a < b for a, b in pairwise(keys))


def _item(items: Sequence[str], i: int, what: str) -> str:
    _require(i < len(items), f"{what} {i} is not listed")
    return items[i]


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InputError(message)
