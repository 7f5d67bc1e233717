# SPDX-License-Identifier: Apache-2.0
"""``edgedeploy bench --on local`` beside a plain loop around ``Interpreter.invoke`` with the same settings.

    python benchmarks/agent_overhead.py [--rounds N] [MODEL...]

The two alternate, a second each, so that both see the same machine; which is first alternates, too. Of the ratios the
median counts. Exit 1 if one differs by more than 3%.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from edgedeploy.devices.registry import LOCAL
from edgedeploy.measure.bench import Extent, bench
from edgedeploy.measure.session import Session, Settings
from edgedeploy.measure.subject import subject
from edgedeploy.measure.targets import reach

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
MODELS = ("dscnn_kws.int8.tflite", "mnv1_025_128.int8.tflite", "unet_128.int8.tflite")
MOST = 0.03
SECONDS = 1.0
LOOP = """
import json, os, sys, time
import numpy as np
from ai_edge_litert.interpreter import Interpreter

model, cpu, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
os.sched_setaffinity(0, {cpu})
interpreter = Interpreter(model, num_threads=1)
interpreter.allocate_tensors()
random = np.random.default_rng(1)
for tensor in interpreter.get_input_details():
    interpreter.set_tensor(tensor["index"], random.integers(-128, 127, tensor["shape"], tensor["dtype"]))
for _ in range(4):
    interpreter.invoke()
samples, end = [], time.perf_counter() + seconds
while time.perf_counter() < end:
    begun = time.perf_counter_ns()
    interpreter.invoke()
    samples.append(time.perf_counter_ns() - begun)
print(json.dumps(samples))
"""


def looped(model: Path, cpu: int) -> list[int]:
    """Nanoseconds of a plain loop's runs."""
    command = [sys.executable, "-c", LOOP, str(model), str(cpu), str(SECONDS)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    samples: list[int] = json.loads(done.stdout)
    return samples


def benched(session: Session, model: Path, cpu: int) -> list[int]:
    """Nanoseconds of the agent's runs."""
    settings = Settings(model, threads=1, cpus=str(cpu), wait=True)
    return bench(session, subject(model), settings, Extent(min_time_s=SECONDS, warmup=3)).samples


def _pair(session: Session, model: Path, cpu: int, *, swapped: bool) -> tuple[float, float]:
    """Medians of one second of bench and of the loop, which runs first if ``swapped``."""
    plain = looped(model, cpu) if swapped else []
    ours = benched(session, model, cpu)
    return statistics.median(ours), statistics.median(plain or looped(model, cpu))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("models", nargs="*", type=Path, default=[EXAMPLES / name for name in MODELS])
    options = parser.parse_args()
    cpu = max(os.sched_getaffinity(0))
    apart = []
    with reach(LOCAL) as session:
        for model in options.models:
            pairs = [_pair(session, model, cpu, swapped=bool(i % 2)) for i in range(options.rounds)]
            ours, plain = (statistics.median(side) for side in zip(*pairs, strict=True))
            apart.append(statistics.median(one / other for one, other in pairs) - 1)
            print(f"{model.name:28} bench {ours / 1000:9.1f} us  loop {plain / 1000:9.1f} us  {100 * apart[-1]:+.2f}%")
    return 1 if max(map(abs, apart)) > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
