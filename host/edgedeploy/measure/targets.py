# SPDX-License-Identifier: Apache-2.0
"""From a device's name to a session on it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from edgedeploy import output
from edgedeploy.devices.reach import reached
from edgedeploy.devices.registry import LOCAL, user_registry
from edgedeploy.link import LinkError
from edgedeploy.measure.errors import BadRequest, ModelFailed
from edgedeploy.measure.session import Session, session


def board_of(name: str) -> str | None:
    """The profile of a device, where it is known."""
    return LOCAL if name == LOCAL else user_registry().get(name).board


@contextlib.contextmanager
def reach(name: str, tell: Callable[[str], None] = lambda _: None) -> Iterator[Session]:
    """A session on the device ``name``, which tells what it sends there. Raises LinkError."""
    with reached(name) as (link, command), session(link, command, shares_files=name == LOCAL, tell=tell) as opened:
        yield opened


Failed = LinkError | BadRequest | ModelFailed
T = TypeVar("T")


def attempts(
    names: Sequence[str], act: Callable[[Session], T], tell: Callable[[str], None] = lambda _: None
) -> dict[str, T | Failed]:
    """What ``act`` gives on each device, one after the other; that one is not usable does not stop the others."""
    results: dict[str, T | Failed] = {}
    for name in names:
        try:
            with reach(name, tell) as opened:
                results[name] = act(opened)
        except (LinkError, BadRequest, ModelFailed) as error:
            results[name] = error
    return results


def error_json(name: str, error: Failed) -> dict[str, Any]:
    return {"schema": "edgedeploy.error/1", "device": name, "exit_code": error.exit_code, "error": str(error)}


def failed(error: Failed) -> int:
    """Say it; its exit code."""
    output.say(f"error: {error}")
    return error.exit_code


def highest(codes: Sequence[int], devices: int) -> int:
    """The exit code of a command: the highest, which is said where others of several devices went well or otherwise."""
    code = max(codes, default=0)
    if code and devices > 1:
        output.say(f"{len(codes)} of {devices} devices went wrong; exit code {code}, the highest")
    return code
