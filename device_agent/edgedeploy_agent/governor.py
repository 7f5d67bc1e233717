# SPDX-License-Identifier: Apache-2.0
"""Sets the CPU frequency governor for as long as its stdin is open, then sets back what was there.

    python -m edgedeploy_agent.governor ROOT GOVERNOR CPU...

A process of its own, so that the governor is restored whatever becomes of the agent. Prints one line: "set", or why
it cannot.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

from edgedeploy_agent.clusters import CPU
from edgedeploy_agent.machine import Machine


class NotSet(Exception):
    """The governor cannot be set. The message says why."""


@contextlib.contextmanager
def governed(machine: Machine, governor: str, cpus: Sequence[int]) -> Iterator[None]:
    """Run the body under ``governor``. Raises NotSet; whatever happens, the old ones are back afterwards."""
    keeper = subprocess.Popen(
        [sys.executable, "-m", "edgedeploy_agent.governor", machine.root, governor, *map(str, cpus)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/",
        start_new_session=True,
        text=True,
    )
    with keeper:  # closes its stdin and waits for it
        assert keeper.stdout is not None
        said = keeper.stdout.readline().strip()
        if said != "set":
            raise NotSet(said or "the governor's keeper ended")
        yield


def main() -> int:
    root, governor, *cpus = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    machine = Machine(root)
    before: dict[str, str] = {}
    try:
        problem = _set(machine, governor, cpus, before)
        print(problem or "set", flush=True)
        if not problem:
            sys.stdin.read()
    finally:
        for path, old in before.items():
            with contextlib.suppress(OSError):
                _write(path, old)
    return 1 if problem else 0


def _set(machine: Machine, governor: str, cpus: Sequence[str], before: dict[str, str]) -> str:
    """Why not, or nothing; ``before`` gets what to write back where."""
    for cpu in cpus:
        path = machine.path(f"{CPU}/cpu{cpu}/cpufreq/scaling_governor")
        old = machine.text(path)
        if old is None:
            return f"CPU {cpu} has no frequency governor"
        offered = machine.text(f"{CPU}/cpu{cpu}/cpufreq/scaling_available_governors")
        if offered is not None and governor not in offered.split():
            return f"CPU {cpu} has no governor {governor!r}, but {offered}"
        before[path] = old  # of all before any is set: CPUs share governors
    try:
        for path in before:
            _write(path, governor)
    except OSError as error:
        return f"cannot set the governor: {error.strerror}; the agent needs root for it"
    return ""


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(main())
