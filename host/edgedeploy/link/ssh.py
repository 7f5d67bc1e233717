# SPDX-License-Identifier: Apache-2.0
"""A machine reached over SSH. It needs a shell there and `cat`, no SFTP server."""

from __future__ import annotations

import contextlib
import hashlib
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import paramiko

from edgedeploy.link import Finished, LinkError, LinkLost, LinkTimeout
from edgedeploy.link.forwarding import Forwarding
from edgedeploy.link.ssh_config import Target, route
from edgedeploy.link.ssh_connect import Chain, Trust
from edgedeploy.link.ssh_process import SshProcess

_OPEN_S = 15.0
_FINISH_S = 120.0  # to hash and rename what was received, and more for much
_SLOWEST_BYTES_S = 10 << 20
_CHUNK = 1 << 18
_AGAIN = "; nothing is kept of it, the next try starts again"

# A connection that is lost looks like the end of the file: so its size decides whether it appears.
_RECEIVE = """umask 077
t={target}; p=$t.part-$$
trap 'rm -f "$p"' EXIT
trap 'exit 1' HUP INT PIPE TERM
cat > "$p" || exit 1
size=$(wc -c < "$p")
[ "$size" -eq {size} ] || {{ echo "received $size of {size} bytes" >&2; exit 1; }}
if command -v sha256sum > /dev/null; then
sum=$(sha256sum < "$p")
[ "${{sum%% *}}" = {sha256} ] || {{ echo "what arrived is not what was sent" >&2; exit 1; }}
fi
chmod {mode:o} "$p" && mv -f "$p" "$t\""""


class SshLink:
    """A `Link` over SSH, jump hosts included. Raises LinkError if a hop cannot be used."""

    def __init__(self, name: str, target: Target, own_known_hosts: Path, trust: Trust) -> None:
        self.name = name
        self._forwardings: list[Forwarding] = []
        self._chain = Chain(name, route(target, own_known_hosts), trust)

    def run(self, command: str, *, input: bytes = b"", timeout_s: float = 30) -> Finished:  # noqa: A002
        with self._session(command, tied=False) as process:
            return process.finish(input, timeout_s)

    def start(self, command: str) -> SshProcess:
        return self._process(command, tied=True)

    def forward(self, port: int) -> int:
        def channel() -> Any:
            return self._chain.transport.open_channel(
                "direct-tcpip", ("127.0.0.1", port), ("127.0.0.1", 0), timeout=_OPEN_S
            )

        try:
            channel().close()  # whether it is allowed is known now, not at the first use
        except paramiko.ChannelException as error:
            why = "forbids forwarding: AllowTcpForwarding yes in its sshd_config" if error.code == 1 else error.text
            raise LinkError(f"{self.name}: cannot reach its port {port}: the SSH server {why}") from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise LinkLost(f"{self.name}: the connection was lost") from error
        self._forwardings.append(Forwarding(channel))
        return self._forwardings[-1].port

    def push(self, source: Path, target: str, progress: Callable[[int], None] | None = None) -> None:
        with contextlib.ExitStack() as opened:
            with _reading(source):
                content = opened.enter_context(source.open("rb"))
                sha256 = hashlib.file_digest(content, "sha256").hexdigest()
                size = content.tell()
                content.seek(0)
                mode = 0o755 if source.stat().st_mode & 0o100 else 0o644
            command = _RECEIVE.format(target=shlex.quote(target), size=size, sha256=sha256, mode=mode)
            done = self.stream(command, content, progress)
        if done.code:
            raise LinkError(f"{self.name}: cannot write {target}: {last_line(done)}")

    def stream(self, command: str, content: IO[bytes], progress: Callable[[int], None] | None = None) -> Finished:
        """Run a command that reads ``content``. Raises LinkTimeout when nothing moves."""
        sent = 0
        with self._session(command, tied=False) as process:
            try:
                while chunk := _next(content):
                    process.write(chunk)
                    sent += len(chunk)
                    if progress:
                        progress(sent)
            except LinkTimeout as error:
                raise LinkTimeout(f"{error}, {sent} bytes were sent{_AGAIN}") from None
            except LinkLost:
                pass  # if it is the program that ended, it may have said why
            try:
                return process.finish(b"", _FINISH_S + sent / _SLOWEST_BYTES_S)
            except LinkLost as error:
                raise LinkLost(f"{error}, {sent} bytes were sent{_AGAIN}") from None

    def pull(self, path: str) -> bytes:
        done = self.run(f"exec cat {shlex.quote(path)}", timeout_s=_FINISH_S)
        if done.code:
            raise LinkError(f"{self.name}: cannot read {path}: {last_line(done)}")
        return done.stdout

    def close(self) -> None:
        for forwarding in self._forwardings:
            forwarding.close()
        self._forwardings.clear()
        self._chain.close()

    @contextlib.contextmanager
    def _session(self, command: str, *, tied: bool) -> Iterator[SshProcess]:
        process = self._process(command, tied=tied)
        try:
            yield process
        finally:
            process.close()

    def _process(self, command: str, *, tied: bool) -> SshProcess:
        try:
            channel = self._chain.transport.open_session(timeout=_OPEN_S)
        except paramiko.ChannelException as error:
            raise LinkError(f"{self.name}: the SSH server opens no session: {error.text}") from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise LinkLost(f"{self.name}: the connection was lost") from error
        return SshProcess(self.name, channel, command, self._kill, tied=tied)

    def _kill(self, group: int) -> None:
        """End a process group for good."""
        with contextlib.suppress(LinkError):
            self.run(f"kill -TERM -{group}; sleep 1; kill -KILL -{group}", timeout_s=10)


@contextlib.contextmanager
def _reading(name: object) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LinkError(f"cannot read {name}: {error.strerror}") from error


def _next(content: IO[bytes]) -> bytes:
    with _reading(getattr(content, "name", "what is to be sent")):
        return content.read(_CHUNK)


def last_line(done: Finished) -> str:
    """What a command that failed said last."""
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else f"exit code {done.code}"
