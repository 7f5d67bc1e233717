# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from edgedeploy.text import printable
from edgedeploy_partitioner.errors import InputError

_LONGEST_PREFIX = 40


def check_place(option: str, path: Path) -> None:
    """Raise InputError if no file can be put at ``path``, before there is anything to write."""
    shown = f"{option} {printable(str(path))}"
    if not path.parent.is_dir():
        raise InputError(f"{shown}: there is no folder {printable(str(path.parent))}")
    if path.is_dir():
        raise InputError(f"{shown}: it is a folder")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError(f"{shown}: it cannot be written")


def write_whole(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Put a file there, or leave what is there; a pipe or a device is written to. Raises OSError."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    place = path.resolve()  # a link stays one
    beside = place.with_name(f".{place.name[:_LONGEST_PREFIX]}.{secrets.token_hex(4)}")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, place)
    finally:
        beside.unlink(missing_ok=True)
