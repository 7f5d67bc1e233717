# SPDX-License-Identifier: Apache-2.0
"""The heap that a model takes in a child process, beside what is predicted of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from edgedeploy_agent import footprint
from edgedeploy_partitioner.edp import switching
from edgedeploy_partitioner.memory import interpreter, xnnpack
from edgedeploy_partitioner.memory.line import Line
from edgedeploy_partitioner.model.fingerprint import fingerprints
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_profiles import load_board, load_core
from edgedeploy_profiles.schema import Core
from support.arenas import executed_nodes, real_bytes
from support.delegates import library
from support.runtime import inspect_all
from support.runtimes import HERE, UNCACHED, Runtime

BUILTIN_RUN_BYTES = 4000  # what allocating and running costs on the heap without XNNPACK, beside arenas
ARENA_SLACK_BYTES = 64  # so that each can be aligned


class Heap(NamedTuple):
    """Bytes of one model: of the heap on loading, and from then on without the arenas; what is predicted of them.

    ``packed`` and ``structures`` are what malloc should have given out, ``line`` what of it should take memory.
    """

    name: str
    loaded: int
    own: int
    line: Line
    packed: int
    structures: int


def heaps(
    models: Sequence[tuple[str, bytes]], folder: Path, *options: str, core: Core | None = None, runtime: Runtime = HERE
) -> list[Heap]:
    """Each model in a process of its own, in ``runtime`` on a machine of ``core``, this one if none is given."""
    release = runtime.release
    core = core or load_core(load_board(runtime.board).clusters[0].core)
    paths = [folder / f"{i}.tflite" for i in range(len(models))]
    for path, (_, data) in zip(paths, models, strict=True):
        path.write_bytes(data)
    if runtime.is_switched:
        for path, (_, data) in zip(paths, models, strict=True):
            path.with_suffix(".edp").write_bytes(switching(fingerprints(read_bytes(data))))
    switch = ("--library", str(library(runtime.machine))) if runtime.is_switched else ()
    command, environment = runtime.start("-m", footprint.__name__, *options, *switch, *map(str, paths))
    done = subprocess.run(command, env=environment | UNCACHED, capture_output=True, text=True, timeout=120, check=True)
    answers = inspect_all([data for _, data in models], xnnpack=not options, run=True, runtime=runtime)
    found = []
    for (name, data), answer, line in zip(models, answers, done.stdout.splitlines(), strict=True):
        assert not json.loads(line)["error"], name
        assert answer.subgraphs is not None, answer.failure
        stages = {stage: usage["heap_bytes"] for stage, usage in json.loads(line)["stages"].items()}
        sizes = [size for plan in answer.subgraphs for size in real_bytes(plan) if size]
        graph = read_bytes(data)
        nodes = {plan["subgraph"]: executed_nodes(plan) for plan in answer.subgraphs}
        own = stages["run"] - stages["load"] - sum(sizes) - ARENA_SLACK_BYTES * len(sizes)
        loaded = stages["load"] - stages["before"]
        packed = xnnpack.heap_bytes(graph, nodes, core, release)
        structures = interpreter.heap_bytes(graph, nodes, core.isa, release)
        found.append(Heap(name, loaded, own, xnnpack.packed(graph, nodes, core, release), packed, structures))
    return found
