# SPDX-License-Identifier: Apache-2.0
"""Take the census of XNNPACK on the emulated arm64 board, and list what differs from this machine: model by model.

    PYTHONPATH=tests python tools/census_on_board.py [--core cortex-a76] [--sample N] [--keep FOLDER]

All of the models, or a sample by a fixed seed, are asked about in both places, a thousand at a time; with ``--keep``
answers are kept in a folder, and a run that was stopped goes on there. All of them take about an hour on two cores.
Prints what XNNPACK takes on one only, and, apart from that, which models the runtime runs on one only. What XNNPACK
seems to take on one only is asked about again, a few times: it may be chance. Exit 1 if it is not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from census_graphs import RULES
from edgedeploy_agent import inspector
from support.runtimes import HERE, Runtime
from support.userland import core_of, userland
from xnnpack_census import models, observations

_CHUNK = 1000
_SEED = 0
_SHOWN = 3
_AGAIN = 8

Json = dict[str, Any]
Asked = Sequence[tuple[Json, Json]]


class Difference(NamedTuple):
    """Of one model: what it is, and what happened here and there."""

    label: str
    here: str
    there: str
    number: int
    """Of the request."""


def sampled(requests: Iterable[Json], count: int | None) -> list[Json]:
    """All requests, or ``count`` of the models with one op and all others; a reader stays with its op."""
    groups: list[list[Json]] = []
    for request in requests:
        if request["about"] == "reader":
            groups[-1].append(request)
        else:
            groups.append([request])
    ops = [i for i, group in enumerate(groups) if group[0]["about"] == "op"]
    left_out = set(ops) - set(random.Random(_SEED).sample(ops, min(len(ops), count or len(ops))))
    return [request for i, group in enumerate(groups) if i not in left_out for request in group]


def answers(runtime: Runtime, requests: Sequence[Json], folder: Path) -> list[Json]:
    """What ``runtime`` says to each. What is in ``folder`` already is not asked again."""

    def ask(number: int) -> list[Json]:
        lines = "".join(json.dumps(request) + "\n" for request in requests[number : number + _CHUNK])
        command, environment = runtime.start("-m", inspector.__name__, "--batch", "200")
        asked = hashlib.sha256(f"{runtime.version} {command} {lines}".encode()).hexdigest()
        kept = folder / f"{asked}.jsonl"
        if not kept.exists():
            done = subprocess.run(
                ["nice", *command], input=lines, env=environment, text=True, check=True,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            scratch = kept.with_suffix(".part")
            scratch.write_text(done.stdout)
            scratch.rename(kept)
        found = [json.loads(line) for line in kept.read_text().splitlines()]
        print(f"{runtime.title}: {number + len(found)} of {len(requests)}", file=sys.stderr)
        return found

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [answer for chunk in pool.map(ask, range(0, len(requests), _CHUNK)) for answer in chunk]


def claims(here: Asked, there: Asked) -> tuple[int, list[Difference]]:
    """How many models both say something of, and those of which XNNPACK takes something else."""
    both, found = 0, []
    for i, ((request, mine), (_, other)) in enumerate(zip(here, there, strict=True)):
        if request["about"] == "rule":
            both += 1
            a, b = (RULES[request["rule"]](answer) for answer in (mine, other))
            if a != b:
                found.append(Difference(request["rule"], str(a), str(b), i))
    seen = [{i: o.verdict for i, o in _verdicts(asked)} for asked in (here, there)]
    for i in sorted(seen[0].keys() & seen[1].keys()):
        both += 1
        if seen[0][i] != seen[1][i]:
            found.append(Difference(_label(here[i][0]), seen[0][i], seen[1][i], i))
    return both, found


def is_chance(requests: Sequence[Json], number: int, here: Runtime, there: Runtime) -> bool:
    """Do both say the same of a model at times? Each time in a process of its own."""
    said = []
    for runtime in (here, there):
        command, environment = runtime.start("-m", inspector.__name__)
        lines = json.dumps(requests[number]) + "\n"
        done = subprocess.run(
            command, input=lines * _AGAIN, env=environment, text=True, check=True, capture_output=True
        )
        found = [json.loads(line) for line in done.stdout.splitlines()]
        said.append({o.verdict for answer in found for _, o in _verdicts([(requests[number], answer)])})
    return bool(said[0] & said[1])


def _verdicts(asked: Asked) -> Iterator[tuple[int, Any]]:
    """The observation of each op, by the number of its request."""
    starts = [i for i, (request, _) in enumerate(asked) if request["about"] == "op"]
    for i in starts:
        group = asked[i : i + (2 if i + 1 < len(asked) and asked[i + 1][0]["about"] == "reader" else 1)]
        for observation in observations((*group, ({"about": "rule"}, {}))):
            yield i, observation


def endings(here: Asked, there: Asked) -> list[Difference]:
    """Models that run in one place only, or end otherwise."""
    ends = [(request, _ending(mine), _ending(other)) for (request, mine), (_, other) in zip(here, there, strict=True)]
    return [Difference(_label(r), mine, other, i) for i, (r, mine, other) in enumerate(ends) if mine != other]


def _ending(answer: Mapping[str, Any]) -> str:
    return str(answer["signal"]) if "signal" in answer else "refused" if answer.get("refusal") else "runs"


def _label(request: Mapping[str, Any]) -> str:
    return str(request.get("label") or request.get("rule") or request.get("name") or request["about"])


def shown(differences: Iterable[Difference]) -> Iterator[str]:
    """Differences by the op and what happened, with a few of the models."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for label, here, there, _ in differences:
        groups.setdefault((label.split()[0], here, there), []).append(label)
    for (op, here, there), labels in sorted(groups.items()):
        yield f"  {op}: {here} here, {there} there: {len(labels)}, such as {'; '.join(sorted(labels)[:_SHOWN])}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--core", default="cortex-a76")
    parser.add_argument("--sample", type=int, metavar="N")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    board = userland().runtime(core_of(options.core))
    requests = sampled(models(), options.sample)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        here, there = ([*zip(requests, answers(runtime, requests, folder), strict=True)] for runtime in (HERE, board))
    about = Counter(request["about"] for request in requests)
    both, found = claims(here, there)
    print(f"{HERE.title} and {board.title}, QEMU's {options.core}: {dict(about)}")
    print(f"XNNPACK: {both} models of which both say something, {len(found)} differences")
    print(*shown(found), sep="\n")
    found = [
        d for d in found if requests[d.number]["about"] == "rule" or not is_chance(requests, d.number, HERE, board)
    ]
    print(f"{len(found)} of them stay when they are asked about {_AGAIN} times more")
    others = endings(here, there)
    print(f"the runtime: {len(others)} models that end otherwise")
    print(*shown(others), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
