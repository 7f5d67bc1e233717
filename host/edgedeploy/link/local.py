# SPDX-License-Identifier: Apache-2.0
"""This machine, reached without a network."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from edgedeploy.link import Finished, LinkError, LinkLost, LinkTimeout, ended

_CHUNK = 1 << 20
_GRACE_S = 2.0
_TAIL_LINES = 50


class LocalLink:
    """A `Link` to the machine that this program runs on."""

    def __init__(self, name: str = "local") -> None:
        self.name = name

    def run(self, command: str, *, input: bytes = b"", timeout_s: float = 30) -> Finished:  # noqa: A002
        with _shell(command) as process:
            try:
                stdout, stderr = process.communicate(input, timeout_s)
            except subprocess.TimeoutExpired:
                raise LinkTimeout(f"{self.name}: no answer within {timeout_s:g} s to: {command}") from None
            finally:
                _end(process)
        return Finished(process.returncode, stdout, stderr)

    def start(self, command: str) -> LocalProcess:
        return LocalProcess(self.name, command)

    def forward(self, port: int) -> int:
        return port

    def push(self, source: Path, target: str, progress: Callable[[int], None] | None = None) -> None:
        place = Path(target)
        copied = 0
        try:
            with source.open("rb") as content, tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as copy:
                try:
                    while chunk := content.read(_CHUNK):
                        copy.write(chunk)
                        copied += len(chunk)
                        if progress:
                            progress(copied)
                    copy.close()
                    shutil.copymode(source, copy.name)
                    os.replace(copy.name, place)
                except BaseException:
                    os.unlink(copy.name)
                    raise
        except OSError as error:
            raise LinkError(f"{self.name}: cannot copy {source} to {target}: {error.strerror}") from error

    def pull(self, path: str) -> bytes:
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise LinkError(f"{self.name}: cannot read {path}: {error.strerror}") from error

    def close(self) -> None:
        """Nothing is open."""


class LocalProcess:
    """A `Process` on this machine: a shell and what it starts, in a process group of its own."""

    def __init__(self, name: str, command: str) -> None:
        self._name = name
        self._process = _shell(command)
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._tail: deque[bytes] = deque(maxlen=_TAIL_LINES)
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read_out, self._read_err)]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except (OSError, ValueError):
            raise LinkLost(f"{self._name}: the program does not read its input any more") from None

    def close_stdin(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def read_line(self, timeout_s: float) -> str:
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            raise LinkTimeout(f"{self._name}: no answer within {timeout_s:g} s") from None
        if line is None:
            self._lines.put(None)
            raise LinkLost(f"{self._name}: the program ended")
        return line.decode(errors="replace").rstrip("\n")

    def stderr_tail(self) -> str:
        if self._process.poll() is not None:
            self._readers[1].join(_GRACE_S)  # what it wrote last may still be in the pipe
        return b"".join(tuple(self._tail)).decode(errors="replace")

    def poll(self) -> int | None:
        return self._process.poll()

    def why_ended(self, timeout_s: float) -> str:
        try:
            return ended(self._process.wait(timeout_s))
        except subprocess.TimeoutExpired:
            return ""

    def stop(self) -> None:
        self.close_stdin()
        _end(self._process, grace_s=_GRACE_S)
        for reader in self._readers:
            reader.join(_GRACE_S)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _read_out(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _read_err(self) -> None:
        assert self._process.stderr is not None
        self._tail.extend(self._process.stderr)


def _shell(command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes], grace_s: float = 0) -> None:
    """End a process and its group: let it end by itself for ``grace_s``, then kill what is left."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(grace_s)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
