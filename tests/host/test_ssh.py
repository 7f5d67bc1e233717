# SPDX-License-Identifier: Apache-2.0
"""Links to real OpenSSH servers on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import pytest

from edgedeploy.link import (
    AuthenticationFailed,
    HostKeyChanged,
    HostKeyUnknown,
    LinkError,
    LinkLost,
    LinkTimeout,
    Unreachable,
    ssh_config,
    ssh_process,
)
from edgedeploy.link.ssh import SshLink
from edgedeploy.link.ssh_config import parse_target
from edgedeploy.link.ssh_connect import Trust
from support.sshd import Sshd, descendants, make_key, server_program, sshd

SOON_S = 10.0


@dataclass
class User:
    """Somebody with a home, a key, and servers to log in to."""

    home: Path
    accepted: list[str] = field(default_factory=list)

    @property
    def key(self) -> Path:
        return self.home / ".ssh" / "id_ed25519"

    def configure(self, text: str) -> None:
        (self.home / ".ssh" / "config").write_text(text)

    def knows(self, *lines: str) -> None:
        (self.home / ".ssh" / "known_hosts").write_text("".join(lines))

    @contextlib.contextmanager
    def link(self, target: str, *, accept_new: bool = False) -> Iterator[SshLink]:
        trust = Trust("do this", accept_new, self.accepted.append)
        link = SshLink("pi", parse_target(target), self.home / "own", trust)
        try:
            yield link
        finally:
            link.close()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        server_program()
    except LookupError as error:
        pytest.skip(str(error))
    return make_key(tmp_path_factory.mktemp("keys") / "id_ed25519")


@pytest.fixture
def user(keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr(ssh_config, "_SYSTEM", tmp_path)
    made = User(tmp_path)
    made.key.parent.mkdir()
    for name in ("id_ed25519", "id_ed25519.pub"):
        os.link(keys.with_name(name), made.key.with_name(name))
    return made


@pytest.fixture(scope="module")
def server(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("server"), keys) as running:
        yield running


@pytest.fixture(scope="module")
def gate(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("gate"), keys) as running:
        yield running


@pytest.fixture
def link(user: User, server: Sshd) -> Iterator[SshLink]:
    user.knows(server.known_hosts_line)
    with user.link(server.target) as opened:
        yield opened


def soon(what: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SOON_S
    while not what() and time.monotonic() < deadline:
        time.sleep(0.05)
    return what()


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_command_is_run(link: SshLink) -> None:
    done = link.run("cat; echo 'it''s $HOME' >&2; exit 3", input=b"\0\xff" * 200_000)
    assert (done.code, done.stdout) == (3, b"\0\xff" * 200_000)
    assert done.stderr == b"its $HOME\n"
    assert link.run("kill -9 $$").code in (-1, -9)


def test_a_command_that_does_not_end_is_ended(link: SshLink, server: Sshd) -> None:
    with pytest.raises(LinkTimeout, match="pi: no answer within 1 s"):
        link.run("echo begun; sleep 1000", timeout_s=1)
    assert soon(lambda: not any(map(sleeps, server.sessions())))


def sleeps(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\x001000")
    return False


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


def test_a_file_that_does_not_fit_leaves_nothing(user: User, keys: Path, tmp_path: Path) -> None:
    source = tmp_path / "big"
    source.write_bytes(bytes(1 << 20))
    with sshd(tmp_path / "full", keys, before="ulimit -f 100") as full:
        user.knows(full.known_hosts_line)
        with user.link(full.target) as link, pytest.raises(LinkError, match="pi: cannot write"):
            link.push(source, f"{full.home}/big")
        assert list(full.home.iterdir()) == []


def test_a_transfer_that_stalls_is_given_up(link: SshLink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_process, "_STALL_S", 1.0)
    with pytest.raises(LinkTimeout, match=r"nothing moved for 1 s, \d+ bytes"):
        link.stream("sleep 30", BytesIO(bytes(8 << 20)))


def test_a_connection_that_breaks_in_a_transfer_leaves_nothing(user: User, server: Sshd, tmp_path: Path) -> None:
    user.knows(server.known_hosts_line)
    source = tmp_path / "big"
    source.write_bytes(bytes(64 << 20))

    def break_off(sent: int) -> None:
        if sent > 1 << 20:
            for pid in descendants(server.process.pid):
                with contextlib.suppress(OSError):
                    if b"sshd" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        os.kill(pid, signal.SIGKILL)

    with (
        user.link(server.target) as link,
        pytest.raises(LinkLost, match=r"pi: the connection was lost after \d+ bytes"),
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
def test_a_program_ends_with_its_session(how: str, user: User, server: Sshd) -> None:
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
                if b"notty" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
        assert soon(lambda: all(map(is_gone, pids)))
        if how == "kill":
            with pytest.raises(LinkLost):
                link.run("true")


def test_what_a_program_started_ends_with_it(link: SshLink) -> None:
    process = link.start("sleep 1000 & echo $!; exit 0")
    pid = int(process.read_line(5))
    assert soon(lambda: is_gone(pid))
    assert soon(lambda: process.poll() == 0)


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


def test_forwarding_that_is_forbidden_is_told(user: User, keys: Path, tmp_path: Path) -> None:
    with sshd(tmp_path / "closed", keys, "AllowTcpForwarding no") as closed:
        user.knows(closed.known_hosts_line)
        with user.link(closed.target) as link, pytest.raises(LinkError, match="forbids forwarding: AllowTcpForwarding"):
            link.forward(22)


def test_an_unknown_key_is_refused_until_it_is_accepted(user: User, server: Sshd) -> None:
    shown = fingerprint_of(server)
    with pytest.raises(HostKeyUnknown, match="is not known") as refused, user.link(server.target):
        pass
    assert shown in str(refused.value)
    assert str(refused.value).endswith("then: do this")
    with user.link(server.target, accept_new=True):
        pass
    assert shown in user.accepted[0]
    with user.link(server.target) as link:
        assert link.run("true").code == 0
    assert (user.home / ".ssh" / "known_hosts").read_text() == server.known_hosts_line


def test_a_changed_key_is_refused_though_new_ones_are_accepted(user: User, server: Sshd, gate: Sshd) -> None:
    user.knows(f"[127.0.0.1]:{server.port} {gate.public_key}\n")
    with pytest.raises(HostKeyChanged) as refused, user.link(server.target, accept_new=True):
        pass
    words = str(refused.value)
    assert fingerprint_of(server) in words
    assert fingerprint_of(gate) in words
    command = words.partition("forget the old key: ")[2].partition(" and accept")[0]
    subprocess.run(command, shell=True, check=True, capture_output=True)  # is what it says it is
    with user.link(server.target, accept_new=True):
        pass


def test_a_revoked_key_is_refused(user: User, server: Sshd) -> None:
    user.knows(server.known_hosts_line, f"@revoked * {server.public_key}\n")
    with pytest.raises(HostKeyChanged, match=r"revoked in .*known_hosts:2"), user.link(server.target, accept_new=True):
        pass


def test_a_known_kind_of_key_is_asked_for(user: User, keys: Path, tmp_path: Path) -> None:
    folder = tmp_path / "two"
    folder.mkdir()
    make_key(folder / "rsa", "-t", "rsa", "-b", "2048")
    with sshd(folder, keys, f"HostKey {folder / 'rsa'}") as two:
        rsa = " ".join((folder / "rsa.pub").read_text().split()[:2])
        user.knows(f"[127.0.0.1]:{two.port} {rsa}\n")
        with user.link(two.target) as link:
            assert link.run("true").code == 0


def fingerprint_of(server: Sshd) -> str:
    command = ["ssh-keygen", "-l", "-f", str(server.folder / "host_ed25519.pub")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[1]


def test_a_wrong_key_is_told(user: User, server: Sshd) -> None:
    user.knows(server.known_hosts_line)
    user.key.unlink()
    user.key.with_suffix(".pub").unlink()
    with pytest.raises(AuthenticationFailed, match=r"no key was found.*ssh-copy-id -p"), user.link(server.target):
        pass
    make_key(user.key)
    with pytest.raises(AuthenticationFailed, match=f"it takes not the key.*{user.key}"), user.link(server.target):
        pass
    user.key.unlink()
    make_key(user.key, "-N", "secret")
    with pytest.raises(AuthenticationFailed, match=f"is encrypted: ssh-add {user.key}"), user.link(server.target):
        pass


def test_the_agent_s_keys_are_used(user: User, server: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    user.knows(server.known_hosts_line)
    sock = user.home / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(sock)], stdout=subprocess.DEVNULL) as agent:
        assert soon(sock.exists)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(sock))
        subprocess.run(["ssh-add", "-q", str(user.key)], check=True, capture_output=True)
        user.key.unlink()
        user.key.with_suffix(".pub").unlink()
        with user.link(server.target) as link:
            assert link.run("true").code == 0
        user.configure("IdentityAgent none\n")
        with pytest.raises(AuthenticationFailed), user.link(server.target):
            pass
        user.configure(f"IdentityAgent {sock}\n")
        monkeypatch.delenv("SSH_AUTH_SOCK")
        with user.link(server.target):
            pass
        agent.terminate()


def test_jump_hosts_have_keys_of_their_own(user: User, server: Sshd, gate: Sshd) -> None:
    user.configure(f"Host gate\n HostName 127.0.0.1\n Port {gate.port}\nHost 127.0.0.1\n ProxyJump gate\n")
    user.knows(server.known_hosts_line)
    said = r"pi: jump host gate \(.*\): the host key"
    with pytest.raises(HostKeyUnknown, match=said) as refused, user.link(server.target):
        pass
    assert fingerprint_of(gate) in str(refused.value)
    user.knows(server.known_hosts_line, gate.known_hosts_line)
    with user.link(server.target) as link:
        assert link.run("echo through").stdout == b"through\n"
        assert gate.sessions()


def test_the_hop_that_failed_is_named(user: User, server: Sshd, gate: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = free.getsockname()[1]
    user.knows(server.known_hosts_line, gate.known_hosts_line)
    user.configure(f"Host gate\n HostName 127.0.0.1\n Port {closed}\nHost 127.0.0.1\n ProxyJump gate\n")
    said = rf"pi: jump host gate .*cannot connect to \[127.0.0.1\]:{closed}: .*refused"
    with pytest.raises(Unreachable, match=said), user.link(server.target):
        pass
    user.configure(f"Host gate\n HostName 127.0.0.1\n Port {gate.port}\nHost 127.0.0.1\n ProxyJump gate\n")
    said = rf"pi: \S+@\[127.0.0.1\]:{closed}: the jump host cannot reach"
    with pytest.raises(Unreachable, match=said), user.link(f"127.0.0.1:{closed}"):
        pass


def test_proxy_commands_are_followed(user: User, server: Sshd, gate: Sshd) -> None:
    user.knows(server.known_hosts_line)
    ssh = f"ssh -F none -i {user.key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -p {gate.port}"
    user.configure(f"Host 127.0.0.1\n ProxyCommand {ssh} -W %h:%p 127.0.0.1 2>/dev/null\n")
    with user.link(server.target) as link:
        assert link.run("echo through").stdout == b"through\n"
    user.configure("Host 127.0.0.1\n ProxyCommand exit 1\n")
    with pytest.raises(Unreachable, match="no SSH server answers there"), user.link(server.target):
        pass


def test_no_answer_has_a_time_limit(user: User) -> None:
    user.configure("ConnectTimeout 1\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started, target = time.monotonic(), f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match="no SSH server answers within 1 s"), user.link(target):
            pass
        assert time.monotonic() - started < 5
    with pytest.raises(Unreachable, match="no host 'nowhere"), user.link("nowhere.invalid"):
        pass


def test_noise_of_a_login_shell_is_no_output(user: User, keys: Path, tmp_path: Path) -> None:
    with sshd(tmp_path / "noisy", keys, before="echo welcome; printf 'no end of line '") as noisy:
        user.knows(noisy.known_hosts_line)
        with user.link(noisy.target) as link:
            assert link.run("echo said").stdout == b"said\n"
