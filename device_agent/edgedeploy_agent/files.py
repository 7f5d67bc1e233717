# SPDX-License-Identifier: Apache-2.0
"""Files by their SHA-256: those in the agent's folder, and those the host pointed to on this machine."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from typing import Any

_CHUNK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Files:
    """What has been found so far. Nothing is believed: each file is read once, and hashed, in each session."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._known: dict[str, str] = {}

    def find(self, sha256: str, size: int, path: str) -> bool:
        """Is the file here, whole? What lies under its name in the folder and is not it is removed."""
        if not _SHA256.fullmatch(sha256):
            raise ValueError(f"{sha256!r} is no SHA-256")
        stored = os.path.join(self.folder, sha256)
        for place in filter(None, (path, stored)):
            if _is(place, sha256, size):
                self._known[sha256] = place
                return True
        with contextlib.suppress(FileNotFoundError):
            os.remove(stored)
        return False

    def path(self, sha256: str) -> str:
        """Where it is. Raises KeyError for one that was never found."""
        return self._known[sha256]


def _is(path: str, sha256: str, size: int) -> bool:
    digest: Any = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size != size:
                return False
            for chunk in iter(lambda: file.read(_CHUNK), b""):
                digest.update(chunk)
    except (OSError, ValueError):  # the latter for a path that this system's names cannot have
        return False
    return bool(digest.hexdigest() == sha256)
