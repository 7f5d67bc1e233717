# SPDX-License-Identifier: Apache-2.0
"""A port of this machine's loopback that leads into an SSH connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any

_CHUNK = 1 << 15


class Forwarding:
    """Listens on 127.0.0.1; each connection is joined with a channel that ``open_channel`` makes."""

    def __init__(self, open_channel: Callable[[], Any]) -> None:
        self._open_channel = open_channel
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the one who accepts
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(connection,), daemon=True).start()

    def _join(self, connection: socket.socket) -> None:
        with connection:
            try:  # it may be broken again by now
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                channel = self._open_channel()
            except Exception:  # whoever connected sees it closed
                return
            back = threading.Thread(target=_copy, args=(channel, connection), daemon=True)
            back.start()
            _copy(connection, channel)
            back.join()
            channel.close()


def _copy(source: Any, target: Any) -> None:
    """Until the source ends or either breaks; then the target is told that no more comes."""
    with contextlib.suppress(OSError, EOFError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    with contextlib.suppress(OSError, EOFError):
        target.shutdown(socket.SHUT_WR)
