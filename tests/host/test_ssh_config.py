# SPDX-License-Identifier: Apache-2.0
"""The ssh configuration means what OpenSSH says that it means."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from edgedeploy.link import LinkError
from edgedeploy.link import ssh_config as module
from edgedeploy.link.ssh_config import Target, parse_target, route

CONFIG = """
Include more/*
User everyone
Host board
  HostName 10.1.2.3
  Port 2200
  User root
  IdentityFile ~/.ssh/board_key
  IdentitiesOnly yes
Host far
  HostName far.example
  ProxyJump me@gate:2222
Host piped
  HostName %h.example
  ProxyCommand ssh -W %h:%p gate
Host keyed
  HostKeyAlias the-board
  UserKnownHostsFile ~/known1 ~/known2
  ConnectTimeout 3
Host *.lab !not.lab
  Port 1022
Match host matched
  Port 1023
Host direct
  ProxyJump none
Host *
  Port 24
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(module, "_SYSTEM", tmp_path / "system")
    (tmp_path / ".ssh" / "more").mkdir(parents=True)
    (tmp_path / ".ssh" / "config").write_text(CONFIG)
    (tmp_path / ".ssh" / "more" / "a").write_text("Host included\n  HostName from.include\n  Port 77\n")
    return tmp_path


def hops(text: str, home: Path) -> tuple[module.Hop, ...]:
    return route(parse_target(text), home / "own")


@pytest.mark.parametrize(
    "host", ["board", "far", "piped", "keyed", "a.lab", "not.lab", "matched", "direct", "included", "other", "10.0.0.1"]
)
def test_a_host_is_what_openssh_makes_of_it(host: str, home: Path) -> None:
    if not shutil.which("ssh"):
        pytest.skip("no OpenSSH client here: make system-deps")
    config = home / "config"
    config.write_text(CONFIG.replace("more/*", f"{home}/.ssh/more/*"))
    command = ["ssh", "-G", "-F", str(config), host]
    said: dict[str, list[str]] = {}
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        key, _, value = line.partition(" ")
        said.setdefault(key, []).append(value)
    hop = hops(host, home)[-1]
    assert (hop.host, str(hop.port), hop.user) == (said["hostname"][0], said["port"][0], said["user"][0])
    assert hop.identities_only == (said["identitiesonly"] == ["yes"])
    command_line = said.get("proxycommand", [""])[0]  # as it was written
    assert hop.proxy_command == command_line.replace("%h", hop.host).replace("%p", str(hop.port))
    assert bool(hops(host, home)[:-1]) == ("proxyjump" in said)
    assert hop.known_as == said.get("hostkeyalias", [module.bracketed(hop.host, hop.port)])[0]


def test_what_the_user_says_wins(home: Path) -> None:
    (hop,) = hops("admin@board:2299", home)
    assert (hop.host, hop.port, hop.user) == ("10.1.2.3", 2299, "admin")
    assert hop.identities == (home / ".ssh" / "board_key",)
    assert hops("x:99", home)[0].port == 99
    assert hops("far", home)[-1].port == 24


def test_files_of_keys(home: Path) -> None:
    (hop,) = hops("keyed", home)
    assert hop.known_hosts[:3] == (home / "known1", home / "known2", home / "own")
    assert hop.timeout_s == 3
    (home / ".ssh" / "config").write_text("UserKnownHostsFile /dev/null\n")
    assert hops("any", home)[0].known_hosts[0] == home / "own"


def test_jumps(home: Path) -> None:
    jump, far = hops("far", home)
    assert (jump.host, jump.port, jump.user, jump.is_jump) == ("gate", 2222, "me", True)
    assert "jump host me@[gate]:2222" in str(jump)
    assert not far.is_jump
    (home / ".ssh" / "config").write_text("Host a\n ProxyJump b,c\nHost b\n ProxyJump d\nHost c\n ProxyJump e\n")
    assert [hop.host for hop in hops("a", home)] == ["d", "b", "c", "a"]  # as OpenSSH: of several, the first's own
    (home / ".ssh" / "config").write_text("Host a\n ProxyJump b\nHost b\n ProxyJump a\n")
    with pytest.raises(LinkError, match="circle"):
        hops("a", home)


def test_no_configuration_is_fine(home: Path) -> None:
    (home / ".ssh" / "config").unlink()
    (hop,) = hops("h", home)
    assert (hop.host, hop.port, hop.known_as) == ("h", 22, "h")
    assert [path.name for path in hop.identities] == ["id_ed25519", "id_ecdsa", "id_rsa"]


def test_a_configuration_that_is_broken_is_told(home: Path) -> None:
    for text in ("Match\n  Port 1\n", "Port x\n", "Port 0\n", "Port 70000\n", 'UserKnownHostsFile "x\n'):
        (home / ".ssh" / "config").write_text(text)
        with pytest.raises(LinkError, match="h: cannot follow the ssh configuration"):
            hops("h", home)
    (home / ".ssh" / "config").write_text('Include "x\n')
    with pytest.raises(LinkError, match='config: Include "x: No closing quotation'):
        hops("h", home)


def test_a_configuration_of_another_system_or_user_is_read(home: Path) -> None:
    (home / ".ssh" / "config").write_bytes(
        b"Host pi\r\n  HostName 10.0.0.9\r\n  Port 2022\r\n  User me\r\n  IdentityFile ~no-such-user/key\r\n"
        b"  UserKnownHostsFile ~no-such-user/known\r\n  ConnectTimeout 99999999999999999999999\r\n"
        b"Include ~no-such-user/*\r\n"
    )
    (hop,) = hops("pi", home)
    assert (hop.host, hop.port, hop.user, hop.timeout_s) == ("10.0.0.9", 2022, "me", 3600)
    assert not hop.identities[0].exists()


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("h", Target("h")),
        ("u@h", Target("h", "u")),
        ("u@h:2", Target("h", "u", 2)),
        ("[::1]:22", Target("::1", None, 22)),
        ("u@[fe80::1%eth0]", Target("fe80::1%eth0", "u")),
        ("fe80::1", Target("fe80::1")),
        ("ssh://u@h:2/", Target("h", "u", 2)),
    ],
)
def test_targets(text: str, target: Target) -> None:
    assert parse_target(text) == target
    assert parse_target(str(target)) == target


@pytest.mark.parametrize(
    "text", ["", "@h", "u@", "h:", "h:0", "h:65536", "h:x", "-oProxyCommand=x", "a b", "$(x)@h", "h;x"]
)
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(ValueError):
        parse_target(text)
