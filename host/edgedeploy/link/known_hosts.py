# SPDX-License-Identifier: Apache-2.0
"""OpenSSH's known_hosts files (sshd(8)): hashed names, ``[host]:port``, patterns and revoked keys."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Known:
    """One line that speaks of a host."""

    file: Path
    line: int
    revoked: bool
    type: str
    key: bytes


def known(files: Iterable[Path], name: str) -> tuple[Known, ...]:
    """What ``files`` know of the host ``name`` (``host`` or ``[host]:port``); a missing file knows nothing."""
    return tuple(entry for file in files for entry in _entries(file, name))


def fingerprint(key: bytes) -> str:
    """As ``ssh-keygen -l`` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def add(file: Path, name: str, key_type: str, key: bytes, *, hashed: bool) -> None:
    """Append a key; makes the file, and its folder, for the user alone. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    line = f"{_hashed(name) if hashed else name} {key_type} {base64.b64encode(key).decode()}\n"
    with open(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+b") as stream:
        size = stream.seek(0, os.SEEK_END)
        if size:
            stream.seek(size - 1)
            line = line if stream.read(1) == b"\n" else "\n" + line
        stream.write(line.encode())


def _entries(file: Path, name: str) -> Iterator[Known]:
    try:
        lines = file.read_text(errors="replace").split("\n")
    except OSError:
        return
    for number, line in enumerate(lines, 1):
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) < 3 or words[0].startswith("#") or marker not in ("", "@revoked"):
            continue  # certificates of hosts (@cert-authority) are not read
        try:
            key = base64.b64decode(words[2], validate=True)
        except (binascii.Error, ValueError):
            continue
        if _names(words[0], name):
            yield Known(file, number, bool(marker), words[1], key)


def _names(hosts: str, name: str) -> bool:
    """Does the first field of a line mean the host?"""
    if hosts.startswith("|"):
        return _is_hash_of(hosts, name)
    patterns = hosts.lower().split(",")
    if any(p.startswith("!") and _matches(p[1:], name) for p in patterns):
        return False
    return any(_matches(p, name) for p in patterns)


def _matches(pattern: str, name: str) -> bool:
    return fnmatchcase(name, pattern.replace("[", "[[]"))  # only * and ? are special


def _is_hash_of(hashed: str, name: str) -> bool:
    parts = hashed.split("|")
    if len(parts) != 4 or parts[1] != "1":
        return False
    try:
        salt, wanted = base64.b64decode(parts[2]), base64.b64decode(parts[3])
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(hmac.digest(salt, name.encode(), "sha1"), wanted)


def _hashed(name: str) -> str:
    salt = os.urandom(20)
    digest = hmac.digest(salt, name.encode(), "sha1")
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"
