# SPDX-License-Identifier: Apache-2.0
"""The one checked cursor over the bytes of a model: every offset, length and size is tested before it is used.

The generated accessors trust the file. Here nothing is trusted: a read outside the file, a table that does not fit
or more objects than the file has room for raises MalformedModel with the object's name and the byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from edgedeploy_partitioner.errors import MalformedModel
from edgedeploy_partitioner.model.graph import OptionValue, Span
from edgedeploy_partitioner.model.schema import Field, Kind, fields, names

_UOFFSET = struct.Struct("<I")
_SOFFSET = struct.Struct("<i")
_VOFFSET = struct.Struct("<H")

# Flatbuffers may share objects, so a small file could stand for a huge model. What is decoded is therefore limited
# to a multiple of the file's size. Intact files need less than a third of this (`make fuzz` prints the largest).
_TABLE_COST_BYTES = 32
_BUDGET_PER_BYTE = 4
_BUDGET_FLOOR_BYTES = 1 << 14
_BUDGET_CEILING_BYTES = 1 << 28


class File:
    """Bytes of one model and the budget of what may still be decoded from them.

    Args:
        data: the whole file, one-dimensional bytes.
        name: what the user calls the file, for messages.
    """

    def __init__(self, data: memoryview, name: str) -> None:
        self.data = data
        self.name = name
        self.size = len(data)
        self.spent_bytes = 0
        self.budget_bytes = min(_BUDGET_FLOOR_BYTES + _BUDGET_PER_BYTE * self.size, _BUDGET_CEILING_BYTES)

    def root(self, table: str) -> Table:
        """The root table, whose offset is the file's first word."""
        return self.table(table, "", self.number(_UOFFSET, 0, "root"))

    def table(self, table: str, where: str, offset: int) -> Table:
        """The table at ``offset``, its vtable tested."""
        label = where or table.lower()
        vtable = offset - self.number(_SOFFSET, offset, label)
        vtable_size = self.number(_VOFFSET, vtable, f"{label} field list")
        size = self.number(_VOFFSET, vtable + 2, f"{label} field list")
        if vtable_size < 4 or size < 4:
            raise self.malformed(label, offset, f"a table of {size} bytes with a field list of {vtable_size}")
        self.span(vtable, vtable_size, f"{label} field list")
        self.span(offset, size, label)
        self.spend(_TABLE_COST_BYTES, label, offset)
        return Table(self, table, where, offset, vtable, vtable_size, size)

    def vector(self, offset: int, element_bytes: int, where: str) -> Span:
        """The contents of the vector whose length is at ``offset``."""
        count = self.number(_UOFFSET, offset, where)
        return self.span(offset + 4, count * element_bytes, where)

    def number(self, form: struct.Struct, offset: int, where: str) -> Any:
        """The number at ``offset``: an int, a float or a bool, as ``form`` says."""
        self.span(offset, form.size, where)
        return form.unpack_from(self.data, offset)[0]

    def span(self, start: int, size: int, where: str) -> Span:
        """``size`` bytes from ``start``, tested to lie inside the file."""
        if start < 0 or start + size > self.size:
            problem = f"{size} bytes lie outside the file, which has {self.size}; was the download or copy cut short?"
            raise self.malformed(where, start, problem)
        return Span(start, size)

    def spend(self, cost_bytes: int, where: str, offset: int) -> None:
        """Count what is decoded; more than the file can honestly hold is refused."""
        self.spent_bytes += cost_bytes
        if self.spent_bytes > self.budget_bytes:
            problem = f"its parts overlap: they unfold to more than {self.budget_bytes} bytes, the file has {self.size}"
            raise self.malformed(where, offset, problem)

    def malformed(self, where: str, offset: int, problem: str) -> MalformedModel:
        """The error to raise about the object ``where``."""
        return MalformedModel(f"{self.name}: {where}", offset, problem)


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the file; ``where`` is what messages call it. Fields are read by their schema names."""

    file: File
    type: str
    where: str
    offset: int
    vtable: int
    vtable_size: int
    size: int

    def number(self, name: str) -> int:
        """An integer field or its default; booleans come as 0 and 1."""
        return int(self._number(fields(self.type)[name]))

    def text(self, name: str) -> str:
        """A string, empty if absent. Bytes that are not UTF-8 come as ``\\xNN``."""
        return self._text(fields(self.type)[name])

    def integers(self, name: str) -> tuple[int, ...] | None:
        """A vector of integers, None if absent."""
        return self._numbers(fields(self.type)[name])

    def floats(self, name: str) -> tuple[float, ...] | None:
        """A vector of floats, None if absent."""
        return self._numbers(fields(self.type)[name])

    def span(self, name: str) -> Span | None:
        """Where a vector of bytes lies; nothing is copied. None if absent."""
        at = self._target(fields(self.type)[name])
        return self.file.vector(at, 1, self._name(name)) if at else None

    def length(self, name: str) -> int:
        """How many elements a vector of tables has."""
        at = self._target(fields(self.type)[name])
        return self.file.vector(at, _UOFFSET.size, self._name(name)).size // _UOFFSET.size if at else 0

    def table(self, name: str) -> Table | None:
        field = fields(self.type)[name]
        at = self._target(field)
        return self.file.table(field.table, self._name(name), at) if at else None

    def tables(self, name: str, label: str) -> Iterator[Table]:
        """The elements of a vector of tables, called ``label 0``, ``label 1``, …; nothing if absent."""
        field = fields(self.type)[name]
        at = self._target(field)
        if not at:
            return
        start, size = self.file.vector(at, _UOFFSET.size, self._name(name))
        for i, slot in enumerate(range(start, start + size, _UOFFSET.size)):
            where = f"{self.where} {label} {i}".lstrip()
            yield self.file.table(field.table, where, slot + self.file.number(_UOFFSET, slot, where))

    def union(self, name: str, types: str) -> Table | None:
        """The table of a union field; which one its ``NAME_type`` says, by the enum ``types``.

        None if the union is empty or its type is newer than the schema. A type without a table is that table with
        every field at its default, as the runtime takes it.
        """
        member = names(types).get(self.number(f"{name}_type"), "NONE")
        if member == "NONE":
            return None
        at = self._target(fields(self.type)[name])
        if at:
            return self.file.table(member, self._name(name), at)
        return Table(self.file, member, self._name(name), self.offset, self.vtable, 0, 0)

    def values(self) -> Iterator[tuple[Field, OptionValue]]:
        """Every number, string and vector of numbers of the table, defaults filled in."""
        for field in fields(self.type).values():
            if field.kind is Kind.NUMBER:
                yield field, self._number(field)
            elif field.kind is Kind.TEXT:
                yield field, self._text(field)
            elif field.kind is Kind.NUMBERS:
                yield field, self._numbers(field) or ()

    def malformed(self, problem: str, name: str = "") -> MalformedModel:
        """The error to raise about this table, or about its field ``name``."""
        return self.file.malformed(self._name(name), self.offset, problem)

    def _name(self, field: str) -> str:
        return f"{self.where} {field}".strip() or self.type.lower()

    def _place(self, field: Field, size: int) -> int:
        """Where the field lies in the file, 0 if the table does not have it."""
        entry = 4 + 2 * field.slot
        if entry + 2 > self.vtable_size:
            return 0
        at = self.file.number(_VOFFSET, self.vtable + entry, self._name(field.name))
        if at and (at < 4 or at + size > self.size):
            raise self.malformed(f"lies at {at} of a table of {self.size} bytes", field.name)
        return self.offset + at if at else 0

    def _target(self, field: Field) -> int:
        """Where the object that an offset field points to lies, 0 if absent."""
        at = self._place(field, _UOFFSET.size)
        return at + int(self.file.number(_UOFFSET, at, self._name(field.name))) if at else 0

    def _number(self, field: Field) -> Any:
        form = struct.Struct("<" + field.format)
        at = self._place(field, form.size)
        return self.file.number(form, at, self._name(field.name)) if at else field.default

    def _numbers(self, field: Field) -> tuple[Any, ...] | None:
        at = self._target(field)
        if not at:
            return None
        width = struct.calcsize("<" + field.format)
        start, size = self.file.vector(at, width, self._name(field.name))
        self.file.spend(size, self._name(field.name), at)
        return struct.unpack_from(f"<{size // width}{field.format}", self.file.data, start)

    def _text(self, field: Field) -> str:
        at = self._target(field)
        if not at:
            return ""
        start, size = self.file.vector(at, 1, self._name(field.name))
        self.file.spend(size, self._name(field.name), at)
        return str(self.file.data[start : start + size], "utf-8", "backslashreplace")
