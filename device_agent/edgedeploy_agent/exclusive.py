# SPDX-License-Identifier: Apache-2.0
"""One client measures at a time, whatever agents there are on the machine; the others are told who and since when.

The lock is a socket name of the kernel's (an abstract one): no file is left, and it is free again the moment that its
holder is gone. Whoever connects to it is told about the holder. Agents that see the same folder for temporary files
share the lock, so that a system in a folder of its own (a chroot) has its own.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

_ASK_S = 2.0
_AGAIN_S = 0.1
_MOST_SAID = 4096


class Taken(Exception):
    """Another client measures. The message says who and since when."""


@contextlib.contextmanager
def alone(client: str, *, wait: bool, goes_on: Callable[[], bool]) -> Iterator[None]:
    """Hold the lock for ``client``. Raises Taken, with ``wait`` only when ``goes_on()`` is false."""
    with socket.socket(socket.AF_UNIX) as listener:
        while not _bound(listener):
            if not (wait and goes_on()):
                raise Taken(_holder())
            time.sleep(_AGAIN_S)
        listener.listen()
        started = time.monotonic()
        teller = threading.Thread(target=_tell, args=(listener, client, started), daemon=True)
        teller.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # wakes the teller
            teller.join()


def _name() -> str:
    try:
        place = os.stat(tempfile.gettempdir())
    except FileNotFoundError:  # nothing can be written, as when the disk is full
        place = os.stat("/")
    return f"\0edgedeploy-measuring-{place.st_dev:x}-{place.st_ino:x}"


def _bound(listener: socket.socket) -> bool:
    try:
        listener.bind(_name())
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True


def _tell(listener: socket.socket, client: str, started: float) -> None:
    while True:
        try:
            asker, _ = listener.accept()
        except OSError:
            return
        with asker, contextlib.suppress(OSError):
            asker.settimeout(_ASK_S)
            asker.sendall(json.dumps({"client": client, "for_s": round(time.monotonic() - started)}).encode())


def _holder() -> str:
    # whoever holds the name need not be an agent: what it says is as short as it should be, or counts for nothing
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError), socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(_ASK_S)
        asking.connect(_name())
        said = json.loads(asking.recv(_MOST_SAID))
        return f"{said['client']} measures there, for {said['for_s']} s now"
    return "another client measures there"
