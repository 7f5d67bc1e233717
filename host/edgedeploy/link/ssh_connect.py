# SPDX-License-Identifier: Apache-2.0
"""Opening SSH connections hop by hop: the socket, the server's key, the user's keys. Says which hop failed, and how."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import paramiko

from edgedeploy.link import AuthenticationFailed, HostKeyChanged, HostKeyUnknown, LinkError, Unreachable
from edgedeploy.link.known_hosts import add, fingerprint, known
from edgedeploy.link.ssh_config import Hop

_AUTHENTICATE_S = 30.0
_EARLY_S = 0.5
_KEEPALIVE_S = 15
_DEAD_MS = 45_000  # without an acknowledgement of what was sent, keep-alives included
_RSA = ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # what it logs is in the errors, too


@dataclass(frozen=True, slots=True)
class Trust:
    """What to do about a key that no file knows."""

    fix: str
    """The command that accepts it, told to the user."""
    accept_new: bool = False
    said: Callable[[str], None] = field(default=lambda _: None)
    """Is told of each key that was accepted."""


class Chain:
    """Open transports, one per hop; the last leads to the device."""

    def __init__(self, name: str, hops: Sequence[Hop], trust: Trust) -> None:
        self._name, self._transports, self._proxies = name, list[Any](), list[subprocess.Popen[bytes]]()
        try:
            for hop in hops:
                with _named(name, hop):
                    self._open(hop, trust)
        except BaseException:
            self.close()
            raise

    @property
    def transport(self) -> Any:
        return self._transports[-1]

    def close(self) -> None:
        for transport in reversed(self._transports):
            transport.close()
        for proxy in self._proxies:
            proxy.kill()
            proxy.wait()

    def _open(self, hop: Hop, trust: Trust) -> None:
        transport = paramiko.Transport(self._socket(hop))
        self._transports.append(transport)
        transport.banner_timeout = hop.timeout_s
        transport.auth_timeout = _AUTHENTICATE_S
        _prefer_known(transport, hop)
        late = f"no SSH server answers within {hop.timeout_s:g} s"
        deadline = time.monotonic() + hop.timeout_s - _EARLY_S
        try:
            transport.start_client(timeout=hop.timeout_s)
        except (paramiko.SSHException, EOFError, OSError) as error:
            if "banner" not in str(error) and not isinstance(error, EOFError | ConnectionError):
                raise Unreachable(f"no agreement on a connection: {_words(error)}") from error
            early = "no SSH server answers there: it hung up, or speaks something else"
            raise Unreachable(late if time.monotonic() > deadline else early) from error
        if not transport.initial_kex_done:
            raise Unreachable(late)
        _check_key(hop, transport.get_remote_server_key(), trust)
        _authenticate(transport, hop)
        transport.set_keepalive(_KEEPALIVE_S)

    def _socket(self, hop: Hop) -> Any:
        if self._transports:
            try:
                return self.transport.open_channel(
                    "direct-tcpip", (hop.host, hop.port), ("127.0.0.1", 0), timeout=hop.timeout_s
                )
            except (paramiko.SSHException, EOFError, OSError) as error:
                raise Unreachable(f"the jump host cannot reach {hop.address}: {_words(error)}") from error
        if hop.proxy_command:
            ours, theirs = socket.socketpair()
            command = ["/bin/sh", "-c", f"exec {hop.proxy_command}"]
            with theirs:
                pipe = theirs.fileno()
                self._proxies.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True))
            return ours
        try:
            connection = socket.create_connection((hop.host, hop.port), hop.timeout_s)
        except (socket.gaierror, UnicodeError) as error:  # the latter where a part is empty or too long
            why = error.strerror if isinstance(error, OSError) else "it is no name"
            raise Unreachable(f"no host {hop.host!r} is known: {why}") from error
        except TimeoutError as error:
            raise Unreachable(f"no answer from {hop.address} within {hop.timeout_s:g} s") from error
        except OSError as error:
            raise Unreachable(f"cannot connect to {hop.address}: {error.strerror or error}") from error
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_MS)
        return connection


@contextlib.contextmanager
def _named(name: str, hop: Hop) -> Iterator[None]:
    """Put the device and the hop in front of what went wrong."""
    try:
        yield
    except LinkError as error:
        raise type(error)(f"{name}: {hop}: {error}") from error


def _words(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _prefer_known(transport: Any, hop: Hop) -> None:
    """Ask first for the kinds of key that are known, so that a server with several shows one of these."""
    kinds = {entry.type for entry in known(hop.known_hosts, hop.known_as) if not entry.revoked}
    options = transport.get_security_options()
    wanted = {algorithm for kind in kinds for algorithm in (_RSA if kind == "ssh-rsa" else (kind,))}
    options.key_types = tuple(sorted(options.key_types, key=lambda each: each not in wanted))


def _check_key(hop: Hop, key: Any, trust: Trust) -> None:
    blob, kind, shown = key.asbytes(), key.get_name(), fingerprint(key.asbytes())
    entries = known(hop.known_hosts, hop.known_as)
    for entry in entries:
        if entry.revoked and entry.key == blob:
            raise HostKeyChanged(f"its key {shown} is marked as revoked in {entry.file}:{entry.line}")
    valid = [entry for entry in entries if not entry.revoked]
    if any(entry.key == blob for entry in valid):
        return
    if valid:
        old = next((entry for entry in valid if entry.type == kind), valid[0])
        command = f"ssh-keygen -R {shlex.quote(hop.known_as)} -f {shlex.quote(str(old.file))}"
        raise HostKeyChanged(
            f"the host key has changed: it shows {kind} {shown}, known is {old.type} {fingerprint(old.key)} "
            f"({old.file}:{old.line}). If the machine was installed anew, forget the old key: {command} "
            f"and accept the new one: {trust.fix}"
        )
    if not trust.accept_new:
        raise HostKeyUnknown(
            f"the host key {kind} {shown} is not known (nothing is known of {hop.known_as}). Compare it with what "
            f"'ssh-keygen -l -f {_key_file(kind)}' prints there, then: {trust.fix}"
        )
    try:
        add(hop.known_hosts[0], hop.known_as, kind, blob, hashed=hop.hash_names)
    except OSError as error:
        raise LinkError(f"cannot write its key into {hop.known_hosts[0]}: {error.strerror}") from error
    trust.said(f"{hop}: accepted the host key {kind} {shown} into {hop.known_hosts[0]}")


def _key_file(kind: str) -> str:
    name = next((name for name in ("ed25519", "ecdsa", "rsa") if name in kind), "ed25519")
    return f"/etc/ssh/ssh_host_{name}_key.pub"


def _authenticate(transport: Any, hop: Hop) -> None:
    """As somebody who needs no key, or with each key in turn."""
    try:
        transport.auth_none(hop.user)
        return
    except paramiko.BadAuthenticationType as error:
        methods = list(error.allowed_types)
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise AuthenticationFailed(f"logging in failed: {_words(error)}") from error
    tried: list[str] = []
    skipped: list[str] = []
    if "publickey" in methods:
        with _keys(hop, skipped) as keys:
            for title, key in keys:
                tried.append(title)
                if _takes(transport, hop, key, len(tried)):
                    return
    raise AuthenticationFailed(_why_not(hop, methods, tried, skipped))


def _takes(transport: Any, hop: Hop, key: Any, count: int) -> bool:
    try:
        further = transport.auth_publickey(hop.user, key)
    except paramiko.AuthenticationException as error:
        if transport.is_active():
            return False
        raise AuthenticationFailed(_too_many(error, count)) from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise AuthenticationFailed(_too_many(error, count)) from error
    if further:
        raise AuthenticationFailed(f"after the key it also wants {' and '.join(further)}, which edgedeploy has not")
    return True


def _too_many(error: BaseException, count: int) -> str:
    return (
        f"the server hung up after {count} key{'s' if count > 1 else ''} ({_words(error)}); name one by "
        "IdentityFile with IdentitiesOnly yes in the ssh configuration"
    )


def _why_not(hop: Hop, methods: Sequence[str], tried: Sequence[str], skipped: Sequence[str]) -> str:
    if "publickey" not in methods:
        return f"it takes no keys, only {', '.join(methods) or 'nothing'}; allow PubkeyAuthentication there"
    port = f"-p {hop.port} " if hop.port != 22 else ""
    said = f"it takes none of {len(tried)} keys ({', '.join(tried)})" if tried else "no key was found"
    said = said.replace("none of 1 keys", "not the key") if len(tried) == 1 else said
    said += f"; {'; '.join(skipped)}" if skipped else ""
    return f"{said}; give it one: ssh-copy-id {port}{hop.user}@{hop.host}"


@contextlib.contextmanager
def _keys(hop: Hop, skipped: list[str]) -> Iterator[Iterator[tuple[str, Any]]]:
    """Each key with its title: the agent's first, as in OpenSSH. Files that give none add why to ``skipped``."""
    with _environment("SSH_AUTH_SOCK", os.path.expanduser(hop.agent)):
        agent = None
        try:
            agent = None if hop.agent.lower() == "none" else paramiko.Agent()
        except (paramiko.SSHException, OSError, EOFError) as error:
            skipped.append(f"the ssh agent does not answer: {_words(error)}")

    def found() -> Iterator[tuple[str, Any]]:
        of_agent = {key.asbytes(): key for key in (agent.get_keys() if agent else ())}
        named = {path: _public(path.with_name(path.name + ".pub")) for path in hop.identities}
        for blob, key in of_agent.items():
            if not hop.identities_only or blob in named.values():
                yield f"agent {fingerprint(blob)}", key
        for path, blob in named.items():
            if blob in of_agent or not path.exists():
                continue
            try:
                yield str(path), paramiko.PKey.from_path(path)
            except (TypeError, paramiko.PasswordRequiredException):
                skipped.append(f"{path} is encrypted: ssh-add {path}")
            except Exception as error:  # for a file that is none, or of a kind it has not, it raises nearly anything
                skipped.append(f"{path} cannot be read: {_words(error)}")

    try:
        yield found()
    finally:
        if agent:
            agent.close()


def _public(path: Any) -> bytes | None:
    import base64

    try:
        return base64.b64decode(path.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """``name`` set to ``value`` for a while, if it is not empty: paramiko finds the agent by it alone."""
    before = os.environ.get(name)
    if value:
        os.environ[name] = value
    try:
        yield
    finally:
        if value and before is None:
            del os.environ[name]
        elif before is not None:
            os.environ[name] = before
