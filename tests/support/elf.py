# SPDX-License-Identifier: Apache-2.0
"""What a shared library shows and needs, read from its dynamic section (ELF, 64 bits, little-endian)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_DYNAMIC, _DYNSYM, _VERSYM, _VERNEED = 6, 11, 0x6FFFFFFF, 0x6FFFFFFE
_NEEDED = 1
_GLOBAL_VERSION = 1


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    is_defined: bool
    version: str
    """Of an undefined one: the version that it must have, or empty."""


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    data: bytes
    link: int


def _sections(file: Path) -> list[_Section]:
    data = file.read_bytes()
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<2H", data, 58)
    found = []
    for i in range(count):
        _, kind, _, _, offset, length, link = struct.unpack_from("<IIQQQQI", data, table + i * size)
        found.append(_Section(kind, b"" if kind == 8 else data[offset : offset + length], link))
    return found


def _text(strings: bytes, offset: int) -> str:
    return strings[offset : strings.index(b"\0", offset)].decode()


def _versions(sections: list[_Section]) -> dict[int, str]:
    """Names of the versions that are needed, by the number that symbols have."""
    found: dict[int, str] = {}
    for section in (s for s in sections if s.kind == _VERNEED):
        strings, at = sections[section.link].data, 0
        while True:
            _, count, _, first, following = struct.unpack_from("<HHIII", section.data, at)
            entry = at + first
            for _ in range(count):
                _, _, number, name, more = struct.unpack_from("<IHHII", section.data, entry)
                found[number] = _text(strings, name)
                entry += more
            if not following:
                break
            at += following
    return found


def symbols(file: Path) -> Iterator[Symbol]:
    """The dynamic symbols that are global."""
    sections = _sections(file)
    [table] = [s for s in sections if s.kind == _DYNSYM]
    numbers = [s for s in sections if s.kind == _VERSYM]
    versions = _versions(sections)
    for i in range(1, len(table.data) // 24):
        name, info, _, section, _, _ = struct.unpack_from("<IBBHQQ", table.data, i * 24)
        number = struct.unpack_from("<H", numbers[0].data, 2 * i)[0] & 0x7FFF if numbers else _GLOBAL_VERSION
        if info >> 4 == 0:
            continue
        yield Symbol(_text(sections[table.link].data, name), bool(section), versions.get(number, ""))


def needed(file: Path) -> Iterator[str]:
    """The libraries that it is linked with."""
    sections = _sections(file)
    for section in (s for s in sections if s.kind == _DYNAMIC):
        for tag, value in struct.iter_unpack("<QQ", section.data):
            if tag == _NEEDED:
                yield _text(sections[section.link].data, value)
