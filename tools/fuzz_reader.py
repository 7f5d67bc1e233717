# SPDX-License-Identifier: Apache-2.0
"""Feed damaged models to the reader: each must give a Graph or one line.

    python tools/fuzz_reader.py --mutants 20000 --seed 0 examples/*.tflite

Batches run in child processes with a deadline and a memory limit. The first mutant that makes a traceback, a hang or
a crash is written to a file, and the exit code is 1. The same seed and files make the same mutants.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.decode import decode
from edgedeploy_partitioner.model.flatbuffer import File
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes
from support.mutate import mutant, structure

BATCH = 500
MEMORY_BYTES = 1 << 30
"""Address space a child may add to what it has before it reads."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--deadline", type=float, default=120, metavar="SECONDS", help=f"for {BATCH} mutants")
    parser.add_argument("--first", type=int, default=None, help=argparse.SUPPRESS)  # this process is a child
    parser.add_argument("paths", nargs="+", type=Path)
    options = parser.parse_args()
    if options.first is not None:
        run_batch(options.paths, options.seed, range(options.first, options.first + options.mutants))
        return 0
    return run_all(options.paths, options.seed, options.mutants, options.deadline)


def run_all(paths: Sequence[Path], seed: int, mutants: int, deadline_s: float) -> int:
    """Start one child after the other; returns the exit code."""
    totals: Counter[str] = Counter()
    for first in range(0, mutants, BATCH):
        count = min(BATCH, mutants - first)
        result, failure = start_batch(paths, seed, range(first, first + count), deadline_s)
        totals.update(result)
        if failure:
            return report(paths, seed, first + sum(result.values()), failure)
        if sys.stderr.isatty():
            print(f"\r{first + count} of {mutants}", end="", file=sys.stderr, flush=True)
    largest = max(budget_share(path) for path in paths)
    counts = ", ".join(f"{number} {what}" for what, number in sorted(totals.items()))
    print(f"{mutants} mutants of {len(paths)} models, seed {seed}: {counts}; no traceback, hang or crash. "
          f"An intact model uses at most {largest:.0%} of the reader's budget.")  # fmt: skip
    return 0


def start_batch(paths: Sequence[Path], seed: int, numbers: range, deadline_s: float) -> tuple[Counter[str], str]:
    """Run mutants in a child: how many gave what, and what the next one did if it failed."""
    batch = ["--first", str(numbers.start), "--mutants", str(len(numbers)), "--seed", str(seed)]
    with tempfile.TemporaryFile("w+") as answers, tempfile.TemporaryFile("w+") as errors:
        try:
            command = [sys.executable, __file__, *batch, *map(str, paths)]
            code = subprocess.run(command, stdout=answers, stderr=errors, timeout=deadline_s, check=False).returncode
            failure = f"the child ended with {code}" if code else ""
        except subprocess.TimeoutExpired:
            failure = f"no answer within {deadline_s} s"
        answers.seek(0)
        errors.seek(0)
        return Counter(answers.read().split()), failure and f"{failure}\n{errors.read()}"


def report(paths: Sequence[Path], seed: int, number: int, failure: str) -> int:
    data = next(make_mutants(paths, seed, [number]))
    saved = Path(tempfile.gettempdir()) / f"fuzz-{seed}-{number}.tflite"
    saved.write_bytes(data)
    print(f"mutant {number} of {paths[number % len(paths)]}: {failure}", file=sys.stderr)
    print(f"mutant {number}, seed {seed}, breaks the reader; it is in {saved}")
    return 1


def run_batch(paths: Sequence[Path], seed: int, numbers: range) -> None:
    """In the child: read mutants and print one word each."""
    mutants = make_mutants(paths, seed, numbers)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, used + MEMORY_BYTES))
    for data in mutants:
        try:
            walk(read_bytes(data, "mutant"))
            answer = "read"
        except InputError as error:
            if not (str(error).startswith("mutant: ") and str(error).isprintable()):
                raise AssertionError(f"not one line that names the file: {str(error)!r}") from error
            answer = "refused"
        except BaseException:
            traceback.print_exc()
            sys.exit(1)
        print(answer, flush=True)


def make_mutants(paths: Sequence[Path], seed: int, numbers: Sequence[int]) -> Iterator[bytes]:
    models = [path.read_bytes() for path in paths]
    places = [structure(model) for model in models]
    donors = [model for model in models if len(model) < 1 << 20]
    for number in numbers:
        rng = random.Random(f"{seed}:{number}")
        i = number % len(models)
        yield mutant(models[i], places[i], donors, rng)


def walk(graph: Graph) -> None:
    """Use everything that a Graph computes from what was read."""
    json.dumps(graph.description)
    for subgraph in graph.subgraphs:
        assert len(subgraph.folded) <= len(subgraph.ops)
        assert set(subgraph.consumers) | set(subgraph.producer) <= set(range(len(subgraph.tensors)))
        for tensor in subgraph.tensors:
            tensor.name.encode()
            assert tensor.data is None or len(graph.bytes_of(tensor.data)) == tensor.data.size
            assert tensor.nbytes >= 0


def budget_share(path: Path) -> float:
    file = File(memoryview(path.read_bytes()), str(path))
    decode(file)
    return file.spent_bytes / file.budget_bytes


if __name__ == "__main__":
    sys.exit(main())
