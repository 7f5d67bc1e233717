# SPDX-License-Identifier: Apache-2.0
"""Unpack a packed tree from stdin into a store: ``python unpack.py STORE SHA256``. It appears whole or not at all.

The host sends this source before anything else is on a device, so it stands alone. The last line on stderr says why it
failed.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import signal
import sys
import tarfile
from typing import Any


class Hashed:
    """What is read through it is hashed."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.sum = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._stream.read(size)
        self.sum.update(data)
        return data


def unpack(packed: Any, store: str, sha256: str) -> str:
    """Make the folder ``sha256`` in ``store`` from a .tar.gz whose tar has that hash; why it could not, or nothing."""
    final = os.path.join(store, sha256)
    part = f"{final}.part-{os.getpid()}"
    try:
        stream: Any = Hashed(gzip.GzipFile(fileobj=packed))
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extractall(part, filter="data")
            else:
                archive.extractall(part)
        while stream.read(1 << 20):
            pass
        if stream.sum.hexdigest() != sha256:
            return "what arrived is not what was sent"
        os.sync()  # or a device that loses its power keeps the name and not the content
        try:
            os.rename(part, final)
        except OSError:
            if not os.path.isdir(final):
                raise
    except (OSError, EOFError, tarfile.TarError) as error:
        return getattr(error, "strerror", None) or str(error)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return ""


def _end(number: int, frame: Any) -> None:
    del frame
    sys.exit(128 + number)


if __name__ == "__main__":
    for ending in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(ending, _end)
    sys.exit(unpack(sys.stdin.buffer, *sys.argv[1:]) or 0)
