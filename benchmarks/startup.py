# SPDX-License-Identifier: Apache-2.0
"""How long ``edgedeploy --help`` takes to start, next to ``python -c "import numpy"``.

    python benchmarks/startup.py [RUNS]

The runs alternate, so that both see the same machine; the table gives the fastest and the median of each.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

COMMANDS = {
    'python -c "import numpy"': (sys.executable, "-c", "import numpy"),
    "edgedeploy --help": (sys.executable, "-m", "edgedeploy", "--help"),
}


def seconds(command: Sequence[str]) -> float:
    """Wall-clock time of one run."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def measure(runs: int) -> dict[str, list[float]]:
    """Seconds of every run by command, after one run of each that is not counted."""
    for command in COMMANDS.values():
        seconds(command)
    rounds = [{name: seconds(command) for name, command in COMMANDS.items()} for _ in range(runs)]
    return {name: [each[name] for each in rounds] for name in COMMANDS}


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    samples = measure(runs)
    base = next(iter(samples.values()))
    print(f"{'command':<26}{'fastest':>10}{'median':>10}{'ratio':>8}   ({runs} runs)")
    for name, times in samples.items():
        ratio = statistics.median(times) / statistics.median(base)
        print(f"{name:<26}{min(times) * 1000:>7.0f} ms{statistics.median(times) * 1000:>7.0f} ms{ratio:>8.2f}")


if __name__ == "__main__":
    main()
