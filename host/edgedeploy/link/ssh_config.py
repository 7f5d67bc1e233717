# SPDX-License-Identifier: Apache-2.0
"""What the user's OpenSSH configuration says about a host: the hops that lead to it."""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgedeploy import user
from edgedeploy.link import LinkError

_SYSTEM = Path("/etc/ssh")
_DEEPEST_INCLUDE = 16  # as in OpenSSH
_MOST_HOPS = 8
_CONNECT_S, _LONGEST_S = 10.0, 3600.0
_HOST = re.compile(r"[A-Za-z0-9_.:%-]+")
_USER = re.compile(r"[^\s'\"`$;&|<>(){}\\@:]+")


@dataclass(frozen=True, slots=True)
class Target:
    """``[USER@]HOST[:PORT]`` as the user wrote it; HOST may be an alias of the configuration."""

    host: str
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user + '@' if self.user else ''}{host}{f':{self.port}' if self.port else ''}"


@dataclass(frozen=True, slots=True)
class Hop:
    """One SSH server on the way, and how to get into it."""

    alias: str
    host: str
    port: int
    user: str
    known_as: str
    """What known_hosts calls it."""
    known_hosts: tuple[Path, ...]
    """Files, the user's first; a new key is written into the first."""
    hash_names: bool
    identities: tuple[Path, ...]
    identities_only: bool
    agent: str
    """The agent's socket, ``none``, or empty for the one of the environment."""
    proxy_command: str
    timeout_s: float
    is_jump: bool = False

    @property
    def address(self) -> str:
        return bracketed(self.host, self.port)

    def __str__(self) -> str:
        where = f"{self.user}@{self.address}"
        where = where if self.alias == self.host else f"{self.alias} ({where})"
        return f"jump host {where}" if self.is_jump else where


def bracketed(host: str, port: int) -> str:
    """The name that known_hosts gives a server."""
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


def parse_target(text: str) -> Target:
    """``[USER@]HOST[:PORT]`` or ``ssh://...``. Raises ValueError."""
    rest = text.removeprefix("ssh://").removesuffix("/")
    user, at, place = rest.rpartition("@")
    match = re.fullmatch(
        r"\[([0-9A-Fa-f:.]+(?:%\w+)?)\](?::(\d+))?|([^:]+)(?::(\d+))?|([0-9A-Fa-f]*:[0-9A-Fa-f:.]+)", place
    )
    host = match and (match[1] or match[3] or match[5])
    if not match or not host or not _HOST.fullmatch(host) or host[0] in "-.%" or (at and not _USER.fullmatch(user)):
        raise ValueError(f"{text!r} is not [USER@]HOST[:PORT]")
    port = match[2] or match[4]
    if port and not 0 < int(port) < 65536:
        raise ValueError(f"{text!r}: {port} is no port")
    return Target(host, user or None, int(port) if port else None)


def route(target: Target, own_known_hosts: Path) -> tuple[Hop, ...]:
    """The hops to ``target``, jump hosts first. ``own_known_hosts`` counts beside OpenSSH's. Raises LinkError."""
    text = _configuration()
    hops: list[Hop] = []
    seen: list[str] = []

    def add(target: Target, *, is_jump: bool, jumps: str | None) -> None:
        if len(seen) >= _MOST_HOPS or target.host in seen:
            raise LinkError(f"{target}: ProxyJump in the ssh configuration leads in a circle, or over too many hosts")
        seen.append(target.host)
        settings = _settings(text, target)
        try:
            hop = _hop(target, settings, own_known_hosts, is_jump)
        except ValueError as error:
            raise LinkError(f"{target}: cannot follow the ssh configuration: {error}") from error
        jumps = settings.get("proxyjump", "") if jumps is None else jumps
        if jumps.lower() == "none":
            jumps = ""
        names = [name.strip() for name in jumps.split(",") if name.strip()]
        for number, name in enumerate(names):
            try:  # of several only the first is reached as its own configuration says, as in OpenSSH
                add(parse_target(name), is_jump=True, jumps="" if number else None)
            except ValueError as error:
                raise LinkError(f"{target}: ProxyJump in the ssh configuration: {error}") from None
        hops.append(hop)

    add(target, is_jump=False, jumps=None)
    return tuple(hops)


def _hop(target: Target, settings: Mapping[str, Any], own: Path, is_jump: bool) -> Hop:
    host, port = settings["hostname"], int(settings.get("port", 22))
    if not 0 < port < 65536:
        raise ValueError(f"{port} is no port")
    users = _files(settings.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2"))
    system = _files(settings.get("globalknownhostsfile", f"{_SYSTEM}/ssh_known_hosts {_SYSTEM}/ssh_known_hosts2"))
    named = tuple(_path(each) for each in settings.get("identityfile", ()) if each.lower() != "none")
    standard = tuple(user.home() / ".ssh" / f"id_{kind}" for kind in ("ed25519", "ecdsa", "rsa"))
    proxy = settings.get("proxycommand") or ""
    agent = settings.get("identityagent", "")
    return Hop(
        alias=target.host,
        host=host,
        port=port,
        user=settings.get("user") or user.name(),
        known_as=settings.get("hostkeyalias", "").lower() or bracketed(host, port),
        known_hosts=(*(path for path in users if path != Path("/dev/null")), own, *system),
        hash_names=settings.get("hashknownhosts", "no").lower() == "yes",
        identities=named or standard,
        identities_only=settings.get("identitiesonly", "no").lower() == "yes",
        agent="" if agent == "SSH_AUTH_SOCK" else agent,
        proxy_command="" if proxy.lower() == "none" else proxy,
        timeout_s=_seconds(settings.get("connecttimeout")),
        is_jump=is_jump,
    )


def _seconds(text: str | None) -> float:
    return min(float(text), _LONGEST_S) if text and text.isdecimal() and int(text) else _CONNECT_S


def _path(text: str) -> Path:
    """With the user's folder for ``~``; that of a user who is not there stays as it is."""
    return Path(os.path.expanduser(text))


def _files(text: str) -> tuple[Path, ...]:
    return tuple(_path(each) for each in shlex.split(text) if each.lower() != "none")


def _settings(text: str, target: Target) -> dict[str, Any]:
    """What holds for ``target``: what the user said of it comes first, so it wins."""
    import paramiko

    said = f"Host {target.host}\n"
    said += f"User {target.user}\n" if target.user else ""
    said += f"Port {target.port}\n" if target.port else ""
    os.environ.setdefault("LOGNAME", user.name())  # paramiko fails where nobody tells it
    try:
        return dict(paramiko.SSHConfig.from_text(said + text).lookup(target.host))
    except (paramiko.ConfigParseError, paramiko.CouldNotCanonicalize, ValueError, KeyError) as error:
        raise LinkError(f"{target}: cannot follow the ssh configuration: {error}") from error


def _configuration() -> str:
    """The user's file and the system's, as one text."""
    parts = [_expanded(path, path.parent, 0) for path in (user.home() / ".ssh" / "config", _SYSTEM / "ssh_config")]
    return "\n".join(f"Host *\n{chr(10).join(lines)}" for lines in map(list, parts))


def _expanded(path: Path, folder: Path, depth: int) -> Iterator[str]:
    """The lines of ``path`` with those of the files that it includes, which the parser does not know."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise LinkError(f"cannot read {path}: {error.strerror}") from error
    block = "Host *"
    for line in lines:
        words = line.replace("=", " ", 1).split(None, 1)
        keyword = words[0].lower() if words else ""
        if keyword in ("host", "match"):
            block = line
        if keyword != "include" or len(words) < 2:
            yield line
            continue
        try:
            patterns = shlex.split(words[1]) if depth < _DEEPEST_INCLUDE else []
        except ValueError as error:
            raise LinkError(f"{path}: {line.strip()}: {error}") from None
        for pattern in patterns:
            for name in sorted(glob.glob(str(folder / _path(pattern)))):
                yield from _expanded(Path(name), folder, depth + 1)
        yield block  # what follows belongs to it again
