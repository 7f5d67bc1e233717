# SPDX-License-Identifier: Apache-2.0
"""What can go wrong on a device, each with the exit code it leads to. The message is one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgedeploy.link import LinkError


class AgentError(LinkError):
    """The agent did not start, or is gone."""


class VersionMismatch(AgentError):
    """The agent on the device is of another version than this program."""


class Garbled(AgentError):
    """What the device answers is not what the protocol says."""

    def __init__(self, device: str) -> None:
        super().__init__(
            f"{device}: its agent answers what this program does not understand: edgedeploy device setup {device}"
        )


class NoRuntime(AgentError):
    """There is no TFLite runtime on the device, or it does not load."""


class NoSpace(AgentError):
    """The device has no room for the files."""


class Busy(AgentError):
    """Another client measures on the device."""


class BadRequest(Exception):
    """The device cannot do what was asked for."""

    exit_code: ClassVar[int] = 2


@dataclass
class ModelFailed(Exception):
    """The model did not run. ``kind``: refused, crashed, out-of-memory, timeout."""

    device: str
    kind: str
    stage: str
    message: str

    exit_code: ClassVar[int] = 6

    def __str__(self) -> str:
        words = {"out-of-memory": "ran out of memory", "timeout": "hung"}
        happened = words.get(self.kind, f"was {self.kind}" if self.kind == "refused" else self.kind)
        return f"{self.device}: the model {happened} (stage: {self.stage}): {self.message or 'no word of why'}"
