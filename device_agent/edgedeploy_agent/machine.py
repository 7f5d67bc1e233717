# SPDX-License-Identifier: Apache-2.0
"""The kernel's files, under a root that tests replace. What is not there, or not for us to read, is None.

Where ``reads`` is given it remembers which of the two, and what was read: it is where each fact comes from.
"""

from __future__ import annotations

import glob
import os
import re
from typing import NamedTuple

_ABSENT = (FileNotFoundError, NotADirectoryError)
_RANGE = re.compile(r"[0-9]{1,5}(-[0-9]{1,5})?")


class Machine(NamedTuple):
    root: str = "/"
    reads: dict[str, str] | None = None
    """File -> why it could not be read; empty if it was. What is not there is not in it."""

    def path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def text(self, name: str) -> str | None:
        """A file's content without surrounding blanks; of a device tree's strings the first."""
        try:
            with open(self.path(name), "rb") as file:
                found = file.read().decode(errors="replace").strip()
        except OSError as error:
            self.note(name, error)
            return None
        self.note(name)
        return found

    def number(self, name: str) -> int | None:
        """A file's content as a number, decimal or 0x."""
        try:
            return int(self.text(name) or "", 0)
        except ValueError:
            return None

    def names(self, pattern: str) -> list[str]:
        """What matches ``pattern``, relative to the root, in an order that does not change."""
        found = glob.glob(self.path(pattern))
        if not found and glob.has_magic(pattern):  # it is silent where it may not look
            try:
                os.listdir(self.path(_folder_before_magic(pattern)))
            except OSError as error:
                self.note(_folder_before_magic(pattern), error)
        return sorted((os.path.relpath(path, self.root) for path in found), key=lambda name: (len(name), name))

    def has(self, name: str) -> bool:
        """Is the file or folder there?"""
        try:
            os.stat(self.path(name))
        except OSError as error:
            self.note(name, error)
            return False
        self.note(name)
        return True

    def note(self, name: str, error: OSError | None = None) -> None:
        """Remember that ``name`` was read, or could not be."""
        if self.reads is not None and not isinstance(error, _ABSENT):
            self.reads[name] = "" if error is None else error.strerror or type(error).__name__

    def fields(self, name: str, separator: str = ":") -> dict[str, str]:
        """``key: value`` lines; of a key that comes twice the first."""
        found: dict[str, str] = {}
        for line in (self.text(name) or "").splitlines():
            key, found_it, value = line.partition(separator)
            if found_it:
                found.setdefault(key.strip(), value.strip())
        return found


def _folder_before_magic(pattern: str) -> str:
    parts = pattern.split("/")
    return "/".join(parts[: next(i for i, part in enumerate(parts) if glob.has_magic(part))])


def parse_cpus(text: str) -> list[int]:
    """``0,2-3`` as numbers. Raises ValueError."""
    found: set[int] = set()
    for part in filter(None, text.replace(" ", ",").split(",")):
        if not _RANGE.fullmatch(part):
            raise ValueError(part)
        first, dash, last = part.partition("-")
        found.update(range(int(first), int(last if dash else first) + 1))
    return sorted(found)
