# SPDX-License-Identifier: Apache-2.0
"""A program at the other end of an SSH session."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from edgedeploy.link import Finished, LinkLost, LinkTimeout, ended

GRACE_S = 2
"""How long a program may take to end by itself once its input has ended."""
_MARK = "edgedeploy-session"
_STALL_S = 30.0
_SETTLE_S = 0.2
_CHUNK = 1 << 15  # the most that one SSH packet carries
_TAIL = 64 * 1024
_MOST = 64 << 20
"""Bytes that are kept of what a program prints: a device that goes mad takes no more of this machine's memory."""
_UNKNOWN = -1
_LOST = "the connection was lost"

# The shell is the leader of a process group. What the login shell prints before the mark counts for nothing.
_PLAIN = f'echo; echo "{_MARK} $$"; {{command}}'

# `cat` sees that the session is gone, whoever killed what, and ends the group; before that the program gets the end of
# its input and may end by itself. When the program ends first, the group ends with it. The program waits for a line of
# the shell that runs `cat`: a shell that was just forked still has the trap, and would stay.
_TIED = f"""echo; echo "{_MARK} $$"
trap : TERM
exec 3>&2 2>/dev/null
{{{{ echo; cat; exec >&-; sleep {GRACE_S}; trap "" TERM; kill -TERM -$$; sleep 1; kill -KILL -$$; }}}} 3>&- |
{{{{ read -r _ || exit 1; {{command}} 2>&3 3>&-; code=$?; trap "" TERM; kill -TERM -$$; exit $code; }}}}"""


class SshProcess:
    """A `Process` in a session of its own. ``tied``: it cannot outlive the session."""

    def __init__(self, name: str, channel: Any, command: str, kill: Callable[[int], None], *, tied: bool) -> None:
        self._name, self._channel, self._kill = name, channel, kill
        self._buffer = bytearray()
        self._tail: deque[bytes] = deque()
        inner = f"sh -c {shlex.quote(command)}"
        script = _TIED.format(command=inner) if tied else _PLAIN.format(command=command)
        self._group = 0
        channel.settimeout(_STALL_S)
        with self._reaching():
            channel.exec_command(f"exec sh -c {shlex.quote(script)}")
        self._errors = threading.Thread(target=self._read_errors, daemon=True)
        self._errors.start()
        line, deadline = "", time.monotonic() + _STALL_S
        while not (marked := re.fullmatch(rf"{_MARK} ([0-9]+)\s*", line, re.ASCII)):
            try:
                line = self.read_line(max(0.0, deadline - time.monotonic()))
            except LinkLost:
                said = self.stderr_tail().strip().splitlines()[-1:] or ["its login shell ended"]
                raise LinkLost(f"{name}: no program can be started: {said[0]}") from None
        self._group = int(marked[1])

    def write(self, data: bytes) -> None:
        for start in range(0, len(data), _CHUNK):
            with self._reaching("does not read its input any more"):
                self._channel.sendall(data[start : start + _CHUNK])

    def close_stdin(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            self._channel.shutdown_write()

    def read_line(self, timeout_s: float) -> str:
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            if not (more := self._read(deadline, timeout_s)):
                raise LinkLost(f"{self._name}: the program ended")
            self._buffer += more
            if len(self._buffer) > _MOST:
                raise LinkLost(f"{self._name}: the program prints without end")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="replace")

    def finish(self, input: bytes, timeout_s: float) -> Finished:  # noqa: A002
        """Give it its input and read all that it prints. Raises LinkTimeout, LinkLost."""
        deadline = time.monotonic() + timeout_s
        writer = threading.Thread(target=self._feed, args=(input,), daemon=True)
        writer.start()
        output = bytearray()
        try:
            while more := self._read(deadline, timeout_s):
                output += more
                if len(output) > _MOST:
                    raise LinkTimeout(f"{self._name}: the program prints without end")
            return Finished(self._code(deadline, timeout_s), bytes(self._buffer + output), self.stderr_tail().encode())
        except LinkTimeout:
            self._kill(self._group)
            raise

    def stderr_tail(self) -> str:
        if self._channel.exit_status_ready() or self._channel.closed:
            self._errors.join(1)
        return b"".join(tuple(self._tail)).decode(errors="replace")

    def poll(self) -> int | None:
        if self._channel.exit_status_ready():
            return _signed(int(self._channel.recv_exit_status()))
        return _UNKNOWN if self._channel.closed else None

    def why_ended(self, timeout_s: float) -> str:
        self._channel.status_event.wait(timeout_s)  # it is set when the connection is lost, too
        if not self._channel.get_transport().is_active():
            return _LOST
        code = self.poll()
        return "" if code is None or code == _UNKNOWN else ended(code)

    def stop(self) -> None:
        self.close_stdin()
        deadline = time.monotonic() + GRACE_S
        while self.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        if self.poll() is None:
            self._kill(self._group)
            self._channel.status_event.wait(1)
        self.close()

    def close(self) -> None:
        """Close the session; what is tied to it ends."""
        self._channel.close()

    def _feed(self, data: bytes) -> None:
        with contextlib.suppress(LinkLost, LinkTimeout):  # how it ended says more
            self.write(data)
        self.close_stdin()

    def _code(self, deadline: float, timeout_s: float) -> int:
        if not self._channel.status_event.wait(max(0.0, deadline - time.monotonic())):
            raise LinkTimeout(f"{self._name}: no answer within {timeout_s:g} s")
        code = int(self._channel.recv_exit_status())  # -1 if a signal ended it, too: paramiko does not say which
        transport = self._channel.get_transport()
        if code < 0:
            transport.join(_SETTLE_S)  # it closes its channels before it says that it has ended
        if code < 0 and not transport.is_active():
            raise LinkLost(f"{self._name}: {_LOST}")
        return _signed(code)

    def _read(self, deadline: float, timeout_s: float) -> bytes:
        self._channel.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            return bytes(self._channel.recv(1 << 20))
        except TimeoutError:
            raise LinkTimeout(f"{self._name}: no answer within {timeout_s:g} s") from None
        except (OSError, EOFError):
            raise LinkLost(f"{self._name}: {_LOST}") from None
        finally:
            self._channel.settimeout(_STALL_S)

    def _read_errors(self) -> None:
        size = 0
        with contextlib.suppress(OSError, EOFError):
            while more := self._channel.makefile_stderr("rb", 0).read(1 << 14):
                self._tail.append(more)
                size += len(more)
                while size > _TAIL and len(self._tail) > 1:
                    size -= len(self._tail.popleft())

    def _reaching(self, broken: str = f"cannot be started: {_LOST}") -> Any:
        return _translated(self._name, broken)


def _signed(code: int) -> int:
    """A shell tells of a signal by adding 128 to it."""
    return 128 - code if 128 < code <= 128 + signal.SIGRTMAX else code


@contextlib.contextmanager
def _translated(name: str, broken: str) -> Any:
    import paramiko

    try:
        yield
    except TimeoutError:
        raise LinkTimeout(f"{name}: nothing moved for {_STALL_S:g} s") from None
    except (OSError, EOFError, paramiko.SSHException):
        raise LinkLost(f"{name}: the program {broken}") from None
