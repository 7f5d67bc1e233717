# SPDX-License-Identifier: Apache-2.0
"""A real OpenSSH server for tests: on a free port of the loopback, for the user who runs them, with its own keys."""

from __future__ import annotations

import contextlib
import getpass
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.processes import descendants

PATH = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
_START_S = 10


@dataclass(frozen=True, slots=True)
class Sshd:
    """A server that runs. ``folder`` has its keys, ``log`` what it says."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def target(self) -> str:
        return f"{getpass.getuser()}@127.0.0.1:{self.port}"

    @property
    def public_key(self) -> str:
        """Type and key, as a line of known_hosts ends."""
        return " ".join((self.folder / "host_ed25519.pub").read_text().split()[:2])

    @property
    def known_hosts_line(self) -> str:
        return f"[127.0.0.1]:{self.port} {self.public_key}\n"

    @property
    def home(self) -> Path:
        """The folder of whoever logs in."""
        return self.folder / "home"

    def sessions(self) -> list[int]:
        """Process ids of the servers of each connection, and of what these started."""
        return descendants(self.process.pid)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()


def make_key(path: Path, *options: str) -> Path:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path), *options]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path


def server_program() -> str:
    """Raises LookupError if there is none."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
    program = shutil.which("sshd", path=path)
    if not program or not shutil.which("ssh-keygen"):
        raise LookupError("no OpenSSH server here: make system-deps")
    return program


@contextlib.contextmanager
def sshd(
    folder: Path, authorized: Path, *options: str, port: int = 0, path: str = PATH, before: str = "", mounts: str = ""
) -> Iterator[Sshd]:
    """Run a server that takes the key ``authorized``.pub; ``options`` are lines of its configuration.

    Who logs in has the search path ``path``, after the shell command ``before``. ``mounts`` is a shell command that
    mounts what only this server sees; raises LookupError where that is not allowed.
    """
    program = server_program()
    folder.mkdir(exist_ok=True)
    (folder / "home").mkdir(exist_ok=True)
    login = folder / "login"
    login.write_text(
        f"#!/bin/sh\nexport HOME={shlex.quote(str(folder / 'home'))} PATH={shlex.quote(path)}\nunset XDG_DATA_HOME\n"
        f'cd; {before}\nexec sh -c "$SSH_ORIGINAL_COMMAND"\n'
    )
    login.chmod(0o755)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # it insists
    if not (folder / "host_ed25519").exists():
        make_key(folder / "host_ed25519")
    shutil.copy(authorized.with_suffix(".pub"), folder / "authorized_keys")
    port = port or _free_port()
    lines = (
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder / 'host_ed25519'}",
        f"AuthorizedKeysFile {folder / 'authorized_keys'}",
        f"PidFile {folder / 'pid'}",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin prohibit-password",
        "StrictModes no",
        "UsePAM no",
        "UseDNS no",
        f"ForceCommand {login}",
        f"SetEnv HOME={folder / 'home'}",  # or the login shell reads the files of whoever runs the tests
        *options,
    )
    (folder / "config").write_text("\n".join(lines) + "\n")
    with (folder / "log").open("wb") as log:
        command = [program, "-D", "-e", "-f", str(folder / "config")]
        if mounts:
            command = ["unshare", "--mount", "/bin/sh", "-c", f'{mounts} && exec "$@"', "sh", *command]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_for(port, process, folder / "log")
        yield Sshd(folder, port, process)
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise LookupError(f"the OpenSSH server does not start: {log.read_text().strip().rpartition(chr(10))[2]}")
