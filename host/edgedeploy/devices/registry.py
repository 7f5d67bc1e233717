# SPDX-License-Identifier: Apache-2.0
"""The devices that the user has named: a JSON file in the configuration folder. Keys and passwords are never in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from edgedeploy import user
from edgedeploy.files import write_whole
from edgedeploy.link import LinkError

LOCAL = "local"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class UnknownDevice(LinkError):
    """No device has that name."""

    exit_code = 2


class BadRegistry(LinkError):
    """The file of devices cannot be read or written."""

    exit_code = 2


class Setup(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was put on a device, and how the agent is started from it."""

    folder: str
    python: str
    runtime: str
    """``name==version``."""
    trees: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """SHA-256 names in the store; the agent's is the first."""
    command: str


class Device(msgspec.Struct, frozen=True, omit_defaults=True):
    """One machine. ``target`` is ``[USER@]HOST[:PORT]``; HOST may be an alias of the ssh configuration."""

    target: str
    board: str | None = None
    remote_dir: str | None = None
    setup: Setup | None = None


class _File(msgspec.Struct, frozen=True):
    schema: Literal["edgedeploy.devices/1"]
    devices: dict[str, Device]


@dataclass(frozen=True, slots=True)
class Registry:
    """The file ``devices.json`` in ``folder``."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "devices.json"

    @property
    def known_hosts(self) -> Path:
        """Where keys go when the ssh configuration keeps none."""
        return self.folder / "known_hosts"

    def devices(self) -> Mapping[str, Device]:
        """By name, sorted. Raises BadRegistry."""
        try:
            found = msgspec.json.decode(self.path.read_bytes(), type=_File).devices
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise BadRegistry(f"cannot read {self.path}: {error.strerror}") from error
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise BadRegistry(f"{self.path} is no list of devices: {error}") from error
        return dict(sorted(found.items()))

    def get(self, name: str) -> Device:
        """Raises UnknownDevice, BadRegistry. ``local`` is always there."""
        if name == LOCAL:
            return Device(LOCAL, board=LOCAL)
        devices = self.devices()
        if name not in devices:
            known = ", ".join((LOCAL, *devices))
            raise UnknownDevice(f"no device {name!r}; known are {known}: edgedeploy device add NAME HOST")
        return devices[name]

    def put(self, name: str, device: Device) -> None:
        with self._changing() as devices:
            devices[name] = device

    def remove(self, name: str) -> None:
        """Raises UnknownDevice."""
        with self._changing() as devices:
            if devices.pop(name, None) is None:
                raise UnknownDevice(f"no device {name!r}")

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, Device]]:
        """The devices, to be changed; written as a whole, after other programs that do the same."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with open(self.folder / "devices.lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                devices = dict(self.devices())
                yield devices
                file = _File("edgedeploy.devices/1", dict(sorted(devices.items())))
                content = msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n"
                write_whole(self.path, content, mode=0o600)
        except OSError as error:
            raise BadRegistry(f"cannot write {self.path}: {error.strerror}") from error


def check_name(name: str) -> None:
    """Raises ValueError for what is no name of a device."""
    if name == LOCAL:
        raise ValueError(f"{LOCAL!r} is this machine and always there")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name for a device: letters, digits, '.', '_' and '-'")


def user_registry() -> Registry:
    """That of the user, in ``$XDG_CONFIG_HOME/edgedeploy`` (by default ``~/.config``)."""
    config = os.environ.get("XDG_CONFIG_HOME") or user.home() / ".config"
    return Registry(Path(config, "edgedeploy"))
