# SPDX-License-Identifier: Apache-2.0
"""Getting into real OpenSSH servers on this machine: their keys, the user's keys, the hops between."""

from __future__ import annotations

import base64
import socket
import subprocess
import time
from pathlib import Path

import pytest

from edgedeploy.link import AuthenticationFailed, HostKeyChanged, HostKeyUnknown, Unreachable
from support.accounts import Account, soon
from support.sshd import Sshd, make_key, sshd


def test_an_unknown_key_is_refused_until_it_is_accepted(user: Account, server: Sshd) -> None:
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


def test_a_changed_key_is_refused_though_new_ones_are_accepted(user: Account, server: Sshd, gate: Sshd) -> None:
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


def test_a_revoked_key_is_refused(user: Account, server: Sshd) -> None:
    user.knows(server.known_hosts_line, f"@revoked * {server.public_key}\n")
    with pytest.raises(HostKeyChanged, match=r"revoked in .*known_hosts:2"), user.link(server.target, accept_new=True):
        pass


def test_a_known_kind_of_key_is_asked_for(user: Account, key: Path, tmp_path: Path) -> None:
    folder = tmp_path / "two"
    folder.mkdir()
    make_key(folder / "rsa", "-t", "rsa", "-b", "2048")
    with sshd(folder, key, f"HostKey {folder / 'rsa'}") as two:
        rsa = " ".join((folder / "rsa.pub").read_text().split()[:2])
        user.knows(f"[127.0.0.1]:{two.port} {rsa}\n")
        with user.link(two.target) as link:
            assert link.run("true").code == 0


def fingerprint_of(server: Sshd) -> str:
    command = ["ssh-keygen", "-l", "-f", str(server.folder / "host_ed25519.pub")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[1]


def test_a_wrong_key_is_told(user: Account, server: Sshd) -> None:
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


@pytest.mark.parametrize("kind", ["sk-ssh-ed25519@openssh.com", "ssh-unheard-of"])
def test_a_key_of_a_kind_that_is_not_had_is_told(user: Account, server: Sshd, kind: str) -> None:
    """As that of a security key, of which the file is no more than a handle."""
    user.knows(server.known_hosts_line)
    start, content, end = user.key.read_text().partition("\n")[0], user.key.read_text(), "-----END"
    blob = base64.b64decode("".join(content.splitlines()[1:-1]))
    name = kind.encode()
    changed = blob.replace(b"\0\0\0\x0bssh-ed25519", len(name).to_bytes(4, "big") + name, 1)
    user.key.write_text(f"{start}\n{base64.b64encode(changed).decode()}\n{end} OPENSSH PRIVATE KEY-----\n")
    words = f"no key was found; {user.key} cannot be read"
    with pytest.raises(AuthenticationFailed, match=words), user.link(server.target):
        pass


def test_the_agent_s_keys_are_used(user: Account, server: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_jump_hosts_have_keys_of_their_own(user: Account, server: Sshd, gate: Sshd) -> None:
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


def test_the_hop_that_failed_is_named(user: Account, server: Sshd, gate: Sshd) -> None:
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


def test_proxy_commands_are_followed(user: Account, server: Sshd, gate: Sshd) -> None:
    user.knows(server.known_hosts_line)
    ssh = f"ssh -F none -i {user.key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -p {gate.port}"
    user.configure(f"Host 127.0.0.1\n ProxyCommand {ssh} -W %h:%p 127.0.0.1 2>/dev/null\n")
    with user.link(server.target) as link:
        assert link.run("echo through").stdout == b"through\n"
    user.configure("Host 127.0.0.1\n ProxyCommand exit 1\n")
    with pytest.raises(Unreachable, match="no SSH server answers there"), user.link(server.target):
        pass


def test_no_answer_has_a_time_limit(user: Account) -> None:
    user.configure("ConnectTimeout 1\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started, target = time.monotonic(), f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match="no SSH server answers within 1 s"), user.link(target):
            pass
        assert time.monotonic() - started < 5
    with pytest.raises(Unreachable, match="no host 'nowhere"), user.link("nowhere.invalid"):
        pass
