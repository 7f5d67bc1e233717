# SPDX-License-Identifier: Apache-2.0
"""Files by their SHA-256: those in the agent's folder, and those the host pointed to on this machine."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
from typing import Any

_CHUNK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")

_State = tuple[int, ...]


class Files:
    """What has been found so far. Nothing is believed: each file is read once, and hashed, in each session.

    It is read again if it has changed since.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._known: dict[str, tuple[str, _State]] = {}

    def find(self, sha256: str, size: int, path: str) -> bool:
        """Is the file here, whole? What lies under its name in the folder and is not it is removed."""
        if not _SHA256.fullmatch(sha256):
            raise ValueError(f"{sha256!r} is no SHA-256")
        stored = os.path.join(self.folder, sha256)
        for place in filter(None, (path, stored)):
            state = _state(place)
            if state is None or state[0] != size:
                continue
            if self._known.get(sha256) == (place, state) or _hash(place) == sha256:
                self._known[sha256] = place, state
                return True
        with contextlib.suppress(FileNotFoundError):
            os.remove(stored)
        return False

    def path(self, sha256: str) -> str:
        """Where it is. Raises KeyError for one that was never found."""
        return self._known[sha256][0]

    def make_room(self) -> int:
        """Make the folder and remove what transfers that are gone have left in it; the bytes that are free."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        for part in glob.glob(os.path.join(glob.escape(self.folder), "*.part-*")):
            if not os.path.exists(f"/proc/{part.rpartition('-')[2]}"):  # the number of the process that writes it
                with contextlib.suppress(OSError):
                    os.remove(part)
        disk = os.statvfs(self.folder)
        return disk.f_bavail * disk.f_frsize


def _state(path: str) -> _State | None:
    """Size, and what changes with the content; None for what is no file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # the latter for a path that this system's names cannot have
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev


def _hash(path: str) -> str:
    digest: Any = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for chunk in iter(lambda: file.read(_CHUNK), b""):
                digest.update(chunk)
    except OSError:
        return ""
    return str(digest.hexdigest())
