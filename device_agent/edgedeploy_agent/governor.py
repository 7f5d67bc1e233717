# SPDX-License-Identifier: Apache-2.0
"""Sets the CPU frequency governor for as long as its stdin is open, then sets back what was there.

    python -m edgedeploy_agent.governor ROOT GOVERNOR CPU...

A process of its own, so that the governor is restored whatever becomes of the agent; if that process is killed, the
agent restores it. Prints one line: "set", or why it cannot.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence

from edgedeploy_agent.clusters import CPU
from edgedeploy_agent.machine import Machine


class NotSet(Exception):
    """The governor cannot be set. The message says why."""


@contextlib.contextmanager
def governed(machine: Machine, governor: str, cpus: Sequence[int]) -> Iterator[None]:
    """Run the body under ``governor``. Raises NotSet; whatever happens, the old ones are back afterwards."""
    before = _governors(machine, cpus)
    keeper = subprocess.Popen(
        [sys.executable, "-m", "edgedeploy_agent.governor", machine.root, governor, *map(str, cpus)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/",
        start_new_session=True,
        text=True,
    )
    try:
        with keeper:  # closes its stdin and waits for it
            assert keeper.stdout is not None
            said = keeper.stdout.readline().strip()
            if said != "set":
                raise NotSet(said or "the governor's keeper ended")
            yield
    finally:
        if keeper.returncode < 0:
            _restore(machine, before)


def main() -> int:
    root, governor, *cpus = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    machine = Machine(root)
    before: dict[int, str] = {}
    try:
        before = _governors(machine, list(map(int, cpus)))
        _set(machine, governor, before)
        print("set", flush=True)
        sys.stdin.read()
    except NotSet as error:
        print(error, flush=True)
        return 1
    finally:
        _restore(machine, before)
    return 0


def _governors(machine: Machine, cpus: Sequence[int]) -> dict[int, str]:
    """Those of each CPU now, of all before any is set: CPUs share governors. Raises NotSet."""
    found = {}
    for cpu in cpus:
        governor = machine.text(_file(cpu))
        if governor is None:
            raise NotSet(f"CPU {cpu} has no frequency governor")
        found[cpu] = governor
    return found


def _set(machine: Machine, governor: str, cpus: Collection[int]) -> None:
    for cpu in cpus:
        offered = machine.text(f"{CPU}/cpu{cpu}/cpufreq/scaling_available_governors")
        if offered is not None and governor not in offered.split():
            raise NotSet(f"CPU {cpu} has no governor {governor!r}, but {offered}")
    try:
        for cpu in cpus:
            _write(machine.path(_file(cpu)), governor)
    except OSError as error:
        raise NotSet(f"cannot set the governor: {error.strerror}; the agent needs root for it") from None


def _restore(machine: Machine, before: Mapping[int, str]) -> None:
    for cpu, governor in before.items():
        with contextlib.suppress(OSError):
            _write(machine.path(_file(cpu)), governor)


def _file(cpu: int) -> str:
    return f"{CPU}/cpu{cpu}/cpufreq/scaling_governor"


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(main())
