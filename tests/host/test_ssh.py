# SPDX-License-Identifier: Apache-2.0
"""What a link to a real OpenSSH server on this machine can do."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from edgedeploy.link import LinkError, LinkLost, LinkTimeout, ssh_process
from edgedeploy.link.forwarding import Forwarding
from edgedeploy.link.ssh import SshLink
from support.accounts import Account, soon
from support.processes import command_line, descendants, kill
from support.sshd import Sshd, sshd


@pytest.fixture
def link(user: Account, server: Sshd) -> Iterator[SshLink]:
    user.knows(server.known_hosts_line)
    with user.link(server.target) as opened:
        yield opened


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_command_is_run(link: SshLink) -> None:
    done = link.run("cat; echo 'it''s $HOME' >&2; exit 3", input=b"\0\xff" * 200_000)
    assert (done.code, done.stdout) == (3, b"\0\xff" * 200_000)
    assert done.stderr == b"its $HOME\n"
    assert link.run("kill -9 $$").code == -1  # which signal paramiko does not tell
    assert [link.run(f"exit {code}").code for code in (0, 128, 137, 255)] == [0, 128, -9, 255]


def test_a_command_that_does_not_end_is_ended(link: SshLink, server: Sshd) -> None:
    with pytest.raises(LinkTimeout, match="pi: no answer within 1 s"):
        link.run("echo begun; sleep 1000", timeout_s=1)
    assert soon(lambda: not any(map(sleeps, server.sessions())))


def sleeps(pid: int) -> bool:
    return command_line(pid).startswith("sleep 1000")


def test_files_go_there_and_back(link: SshLink, server: Sshd, tmp_path: Path) -> None:
    source = tmp_path / "a file's name"
    source.write_bytes(os.urandom(3_000_001))
    source.chmod(0o700)
    seen: list[int] = []
    target = f"{server.home}/it's; there"
    link.push(source, target, seen.append)
    assert link.pull(target) == source.read_bytes()
    assert os.stat(target).st_mode & 0o777 == 0o755
    assert seen == sorted(seen)
    assert seen[-1] == 3_000_001
    assert not list(server.home.glob("*.part-*"))


def test_what_cannot_be_read_or_written_is_told(link: SshLink, tmp_path: Path) -> None:
    with pytest.raises(LinkError, match=r"pi: cannot read /dev/nowhere: .*No such file"):
        link.pull("/dev/nowhere")
    with pytest.raises(LinkError, match=r"cannot read .*/missing: No such file"):
        link.push(tmp_path / "missing", "x")
    (tmp_path / "there").write_bytes(b"x")
    with pytest.raises(LinkError, match=r"pi: cannot write /dev/nowhere/x: .*(nonexistent|No such)"):
        link.push(tmp_path / "there", "/dev/nowhere/x")


def test_a_file_that_does_not_fit_leaves_nothing(user: Account, key: Path, tmp_path: Path) -> None:
    source = tmp_path / "big"
    source.write_bytes(bytes(1 << 20))
    with sshd(tmp_path / "full", key, before="ulimit -f 100") as full:
        user.knows(full.known_hosts_line)
        with user.link(full.target) as link, pytest.raises(LinkError, match="pi: cannot write"):
            link.push(source, f"{full.home}/big")
        assert list(full.home.iterdir()) == []


def test_a_transfer_that_stalls_is_given_up(link: SshLink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_process, "_STALL_S", 1.0)
    with pytest.raises(LinkTimeout, match=r"nothing moved for 1 s, \d+ bytes"):
        link.stream("sleep 30", BytesIO(bytes(8 << 20)))


def test_a_connection_that_breaks_in_a_transfer_leaves_nothing(user: Account, server: Sshd, tmp_path: Path) -> None:
    user.knows(server.known_hosts_line)
    source = tmp_path / "big"
    source.write_bytes(bytes(64 << 20))

    def break_off(sent: int) -> None:
        if sent > 1 << 20:
            for pid in descendants(server.process.pid):
                if "sshd" in command_line(pid):
                    kill(pid)

    with (
        user.link(server.target) as link,
        pytest.raises(LinkLost, match=r"pi: the connection was lost, \d+ bytes"),
    ):
        link.push(source, f"{server.home}/broken", break_off)
    assert soon(lambda: not list(server.home.glob("broken*")))


def test_a_program_talks(link: SshLink) -> None:
    process = link.start('echo ready; read word; echo "got $word"; echo why >&2; exit 7')
    assert process.read_line(5) == "ready"
    assert process.poll() is None
    process.write(b"token\n")
    assert process.read_line(5) == "got token"
    with pytest.raises(LinkLost, match="ended"):
        process.read_line(5)
    assert soon(lambda: process.poll() == 7)
    assert process.stderr_tail() == "why\n"
    process.stop()
    process.stop()


@pytest.mark.parametrize("how", ["stop", "close", "kill"])
def test_a_program_ends_with_its_session(how: str, user: Account, server: Sshd) -> None:
    user.knows(server.known_hosts_line)
    with user.link(server.target) as link:
        process = link.start("echo $$; sleep 1000 & echo $!; exec sleep 1000")
        pids = [int(process.read_line(5)) for _ in range(2)]
        assert not any(map(is_gone, pids))
        if how == "stop":
            process.stop()
        elif how == "close":
            link.close()
        else:
            for pid in server.sessions():
                if "notty" in command_line(pid):
                    kill(pid)
        assert soon(lambda: all(map(is_gone, pids)))
        if how == "kill":
            with pytest.raises(LinkLost):
                link.run("true")


def test_what_a_program_started_ends_with_it(link: SshLink) -> None:
    process = link.start("sleep 1000 & echo $!; exit 0")
    pid = int(process.read_line(5))
    assert soon(lambda: is_gone(pid))
    assert soon(lambda: process.poll() == 0)


def test_programs_that_end_at_once_leave_nothing(link: SshLink) -> None:
    """Many at a time, so that the shell which ends a group may not have run yet when the program has."""
    for _ in range(4):
        processes = [link.start("exit 7") for _ in range(8)]
        assert soon(lambda: all(process.poll() == 7 for process in processes)), [p.poll() for p in processes]  # noqa: B023
        for process in processes:
            process.close()


def test_a_port_is_forwarded(link: SshLink) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                connection, _ = listener.accept()
                with connection:
                    data = b""
                    while more := connection.recv(1 << 16):
                        data += more
                    connection.sendall(data[::-1])
                if data:
                    return

        server = threading.Thread(target=serve)
        server.start()
        port = link.forward(listener.getsockname()[1])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"ab" * 500_000)
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while more := client.recv(1 << 16):
                answer += more
        server.join()
    assert answer == b"ba" * 500_000
    link.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_connection_that_is_broken_at_once_does_no_harm() -> None:
    class Broken(socket.socket):
        def setsockopt(self, *_: Any) -> None:
            raise OSError(errno.EINVAL, "Invalid argument")

    connection = Broken()
    forwarding = Forwarding(lambda: pytest.fail("it is broken"))
    forwarding._join(connection)
    forwarding.close()
    assert connection.fileno() == -1


def test_a_program_that_prints_without_end_is_ended(link: SshLink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_process, "_MOST", 1 << 20)
    with pytest.raises(LinkTimeout, match="pi: the program prints without end"):
        link.run("yes")
    process = link.start("tr '\\0' x < /dev/zero")
    with pytest.raises(LinkLost, match="prints without end"):
        process.read_line(30)
    process.stop()


def test_forwarding_that_is_forbidden_is_told(user: Account, key: Path, tmp_path: Path) -> None:
    with sshd(tmp_path / "closed", key, "AllowTcpForwarding no") as closed:
        user.knows(closed.known_hosts_line)
        with user.link(closed.target) as link, pytest.raises(LinkError, match="forbids forwarding: AllowTcpForwarding"):
            link.forward(22)


def test_noise_of_a_login_shell_is_no_output(user: Account, key: Path, tmp_path: Path) -> None:
    with sshd(tmp_path / "noisy", key, before="echo welcome; printf 'no end of line '") as noisy:
        user.knows(noisy.known_hosts_line)
        with user.link(noisy.target) as link:
            assert link.run("echo said").stdout == b"said\n"
