# SPDX-License-Identifier: Apache-2.0
"""Starts workers, reads what they say, and makes every way they can end an event."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

from edgedeploy_agent.ending import how_it_died, tail

_END_S = 5.0
_TAIL_BYTES = 1 << 16
_READ = 1 << 16
_CLOSED: Any = None

Event = dict[str, Any]


class Worker:
    """One worker process, in a session of its own. Nothing of it is left after :meth:`close`."""

    def __init__(self, task: dict[str, Any], payload: bytes = b"", *, cpu_features: str = "") -> None:
        self._deadline_s = task["deadline_s"]
        self._cpu_features = cpu_features
        self._lock = threading.Lock()
        self._open = True
        self._stage = "start"
        self._log = _log()
        # The worker dies with the thread that starts it: one of the server's pool, which live as long as the server.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "edgedeploy_agent.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd="/",  # nothing is imported from where the agent was started
            start_new_session=True,
        )
        line = json.dumps({**task, "parent": os.getpid()}).encode() + b"\n"
        self._feeder = threading.Thread(target=self._feed, args=(line, payload), daemon=True)
        self._feeder.start()

    def events(self) -> Iterator[Event]:
        """What the worker says, up to and including "done" or "failure"; of a chunk the data is in the event."""
        for event in self._said():
            if event is _CLOSED:
                yield self._ended()
                return
            if "progress" in event:
                self._stage = event["progress"]["stage"]
            yield event
            if "done" in event or "failure" in event:
                return

    def kill(self) -> None:
        """End it, now; from any thread."""
        with self._lock:
            if self._open:
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End it and clean up after it."""
        self.kill()
        with self._lock:
            if self._open:
                self._open = False
                self._process.wait()
        self._feeder.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()

    def _feed(self, line: bytes, payload: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError), self._process.stdin as pipe:
            pipe.write(line)
            pipe.write(payload)

    def _said(self) -> Iterator[Event]:
        """Lines of its stdout; ``_CLOSED`` at the end, a failure if it is silent for too long."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        ready = select.poll()
        ready.register(descriptor, select.POLLIN)
        buffer = bytearray()
        until = time.monotonic() + self._deadline_s
        wanted: Event | None = None  # has its data still to come
        while True:
            if not ready.poll(max(0, until - time.monotonic()) * 1000):
                yield {"failure": self._failure("timeout", f"no sign of life within {self._deadline_s:g} s")}
                return
            read = os.read(descriptor, _READ)
            if not read:
                yield _CLOSED
                return
            buffer += read
            while True:
                if wanted is None:
                    line, newline, rest = buffer.partition(b"\n")
                    if not newline:
                        break
                    buffer = rest
                    wanted = json.loads(line)
                size = wanted.get("bytes", 0)
                if len(buffer) < size:
                    break
                if "bytes" in wanted:
                    wanted = {"chunk": {**wanted["chunk"], "data": bytes(buffer[:size])}}
                    del buffer[:size]
                yield wanted
                wanted = None
                until = time.monotonic() + self._deadline_s

    def _ended(self) -> Event:
        """It closed its stdout without a last word: what became of it."""
        code = self._exit_code()
        if code == -signal.SIGALRM:
            return {"failure": self._failure("timeout", "ended by its own deadline")}
        self._log.seek(max(self._log.seek(0, os.SEEK_END) - _TAIL_BYTES, 0))
        kind, message = how_it_died(code, tail(self._log.read()), cpu_features=self._cpu_features)
        if code == -signal.SIGKILL:
            message = "killed by SIGKILL, as the kernel does when the memory of the machine runs out"
        return {"failure": self._failure(kind, message)}

    def _failure(self, kind: str, message: str) -> Event:
        return {"kind": kind, "stage": self._stage, "message": message}

    def _exit_code(self) -> int:
        """Waits for its end, without taking its number from the kernel: the group is still to be killed."""
        until = time.monotonic() + _END_S
        while time.monotonic() < until:
            ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if ended is not None:
                return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            time.sleep(0.01)
        return 0


def _log() -> Any:
    """A file for what a worker prints; in memory where that can be, as the disk may be full."""
    try:
        return os.fdopen(os.memfd_create("log"), "w+b")
    except (AttributeError, OSError):
        return tempfile.TemporaryFile()
