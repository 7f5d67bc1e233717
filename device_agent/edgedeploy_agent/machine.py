# SPDX-License-Identifier: Apache-2.0
"""The kernel's files, under a root that tests replace. What is not there, or not for us to read, is None."""

from __future__ import annotations

import glob
import os
from typing import NamedTuple


class Machine(NamedTuple):
    root: str = "/"

    def path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def text(self, name: str) -> str | None:
        """A file's content without surrounding blanks; of a device tree's strings the first."""
        try:
            with open(self.path(name), "rb") as file:
                return file.read().decode(errors="replace").strip()
        except OSError:
            return None

    def number(self, name: str) -> int | None:
        """A file's content as a number, decimal or 0x."""
        try:
            return int(self.text(name) or "", 0)
        except ValueError:
            return None

    def names(self, pattern: str) -> list[str]:
        """What matches ``pattern``, relative to the root, in an order that does not change."""
        found = glob.glob(self.path(pattern))
        return sorted((os.path.relpath(path, self.root) for path in found), key=lambda name: (len(name), name))

    def fields(self, name: str) -> dict[str, str]:
        """``key: value`` lines; of a key that comes twice the first."""
        found: dict[str, str] = {}
        for line in (self.text(name) or "").splitlines():
            key, colon, value = line.partition(":")
            if colon:
                found.setdefault(key.strip(), value.strip())
        return found


def parse_cpus(text: str) -> list[int]:
    """``0,2-3`` as numbers. Raises ValueError."""
    found: list[int] = []
    for part in filter(None, text.replace(" ", ",").split(",")):
        first, dash, last = part.partition("-")
        found += range(int(first), int(last if dash else first) + 1)
    return sorted(set(found))
