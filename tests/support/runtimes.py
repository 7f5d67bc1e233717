# SPDX-License-Identifier: Apache-2.0
"""The TFLite runtimes that a test or a benchmark can ask, each in a Python of its own.

The one of this environment is always there. Others cannot be installed beside it, so ``make runtimes`` gives each an
environment in ``.runtimes/``; the tests that need one are skipped without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path

import pytest

from edgedeploy_partitioner.memory.release import Release

ROOT = Path(__file__).parents[2]
AGENT = ROOT / "device_agent"
OTHERS = (("ai-edge-litert", "2.1.0"), ("tflite-runtime", "2.14.0"))
SWITCHED = ("tflite-runtime", "2.14.0", "switched")
"""The one that a plan can switch XNNPACK's 8-bit kernels on in, when it does."""


UNCACHED = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
"""For who asks malloc what it gave out: blocks in a thread's cache count as given out, and how many is chance."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime, and the command that starts a Python which has it and the agent. ``board`` has such a CPU.

    Of one that ``is_switched``, libedgedeploy.so applies XNNPACK.
    """

    name: str
    version: str
    machine: str = "x86_64"
    board: str = "local"
    command: tuple[str, ...] = (sys.executable,)
    environment: Mapping[str, str] = field(default_factory=dict)
    is_switched: bool = False

    @property
    def is_emulated(self) -> bool:
        return self.machine != os.uname().machine

    @property
    def release(self) -> Release:
        return Release.of(self.name, self.version, self.machine, is_switched=self.is_switched)

    @property
    def title(self) -> str:
        where = f"emulated {self.machine} ({self.board})" if self.is_emulated else self.machine
        return f"{self.name} {self.version} on {where}"

    def start(self, *arguments: str) -> tuple[list[str], dict[str, str]]:
        """The command line and the environment of a child process; a forking one should have one thread."""
        return [*self.command, *arguments], {**os.environ, "OPENBLAS_NUM_THREADS": "1", **self.environment}


HERE = Runtime("ai-edge-litert", metadata.version("ai-edge-litert"), os.uname().machine)


def other(name: str, version: str) -> Runtime:
    """A runtime of ``make runtimes``. Raises LookupError if it is not there."""
    python = ROOT / ".runtimes" / f"{name}-{version}" / "bin" / "python"
    if not python.exists() or not python.parents[1].with_name(f"{name}-{version}.stamp").exists():
        raise LookupError(f"{name} {version} is not in .runtimes: make runtimes")
    return Runtime(name, version, os.uname().machine, "local", (str(python),), {"PYTHONPATH": str(AGENT)})


def other_or_skip(name: str, version: str) -> Runtime:
    try:
        return other(name, version)
    except LookupError as error:
        pytest.skip(str(error))


SWITCHED_TOO = pytest.param(SWITCHED, marks=pytest.mark.runtimes)
EVERY = ((HERE.name, HERE.version), *(pytest.param(o, marks=pytest.mark.runtimes) for o in OTHERS))
"""Parameters for a fixture: this runtime always, the others with ``-m runtimes``. :func:`any_or_skip` takes them."""


def any_or_skip(name: str, version: str, mode: str = "") -> Runtime:
    found = HERE if (name, version) == (HERE.name, HERE.version) else other_or_skip(name, version)
    return replace(found, is_switched=mode == "switched")


def present() -> tuple[Runtime, ...]:
    """Every runtime that can be asked now, this environment's first."""
    found = [HERE]
    for name, version in OTHERS:
        try:
            found.append(other(name, version))
        except LookupError:
            continue
    return tuple(found)
