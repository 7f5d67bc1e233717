# SPDX-License-Identifier: Apache-2.0
"""The stock TFLite runtime as an oracle: what it executes, asked in a child process with a deadline."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from edgedeploy_agent import inspector
from edgedeploy_partitioner.edp import switching
from edgedeploy_partitioner.model.fingerprint import fingerprints
from edgedeploy_partitioner.model.read import read_bytes
from support.delegates import library
from support.runtimes import HERE, Runtime

_DEADLINE_S = 120


class Answer(NamedTuple):
    """The plans as the inspector gives them, None if the model did not load; ``failure`` is what the runtime said
    when it refused to load, allocate or run, or the signal that ended the process."""

    subgraphs: list[dict[str, Any]] | None
    failure: str = ""

    def claimed(self, subgraph: int = 0) -> frozenset[int]:
        """Ops of ``subgraph`` that a delegate took."""
        assert self.subgraphs is not None, self.failure
        return frozenset(i for n in self.subgraphs[subgraph]["nodes"] for i in n["members"] or ())


def inspect_all(
    models: Iterable[bytes],
    *,
    claims: Iterable[Sequence[Sequence[int]]] | None = None,
    plans: Sequence[bytes] = (),
    xnnpack: bool = True,
    run: bool = False,
    threads: int = 1,
    deadline_s: float = _DEADLINE_S,
    runtime: Runtime = HERE,
) -> list[Answer]:
    """Allocate each model in the runtime, with ``run`` invoke it once, and read its plans.

    ``claims[i]``: calls made on model i's main subgraph. libedgedeploy.so carries out ``plans[i]``, a plan.edp; where
    the runtime is switched it is there without plans, too, and only applies XNNPACK.

    Raises :class:`subprocess.TimeoutExpired` when all together take longer than ``deadline_s``.
    """
    calls = list(claims) if claims is not None else None
    requests = [
        {
            "base64": base64.b64encode(model).decode(),
            "xnnpack": xnnpack,
            "run": run,
            "threads": threads,
            "claims": {"0": [list(ops) for ops in calls[i]]} if calls is not None else {},
            **(_library(model, plans[i : i + 1], runtime) if runtime.is_switched or plans else {}),
        }
        for i, model in enumerate(models)
    ]
    command, environment = runtime.start("-m", inspector.__name__)
    done = subprocess.run(
        command,
        input="".join(json.dumps(request) + "\n" for request in requests),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=deadline_s,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(requests)
    return [Answer(a.get("subgraphs"), a.get("signal") or a.get("refusal", "")) for a in answers]


def _library(model: bytes, plans: Sequence[bytes], runtime: Runtime) -> dict[str, str]:
    plan = plans[0] if plans else switching(fingerprints(read_bytes(model)))
    return {"library": str(library(runtime.machine)), "plan": base64.b64encode(plan).decode()}


def executed_plan(
    model: bytes, claims: Sequence[Sequence[int]] = (), xnnpack: bool = True
) -> list[tuple[int, tuple[int, ...] | None]]:
    """What the runtime executes of the main subgraph after ``claims``: (node, ops it replaces or None), in order."""
    [answer] = inspect_all([model], claims=[claims], xnnpack=xnnpack)
    assert answer.subgraphs is not None, answer.failure
    return [(n["op"], None if n["members"] is None else tuple(n["members"])) for n in answer.subgraphs[0]["nodes"]]
