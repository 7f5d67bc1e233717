# SPDX-License-Identifier: Apache-2.0
"""What models cost a process in a real runtime, beside what the product predicts from the file alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from edgedeploy import partition, read_model
from edgedeploy.arenaview import executed, release_of
from edgedeploy_agent import footprint
from edgedeploy_partitioner.errors import PlanningError
from edgedeploy_partitioner.memory import interpreter, xnnpack
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.plan import Plan
from edgedeploy_profiles import load_board, load_core
from edgedeploy_profiles.schema import Kernels
from support.runtimes import UNCACHED, Runtime

_BATCH = 20  # models a process: each is a fork of one that has the runtime
_DEADLINE_S = 20
_NO_KERNELS = Kernels("edgedeploy.kernels/1")


@dataclass(frozen=True, slots=True)
class Setting:
    """How a model is run: by which runtime, with XNNPACK or without, with how many threads."""

    runtime: Runtime
    xnnpack: bool = True
    threads: int = 1

    @property
    def title(self) -> str:
        threads = "" if self.threads == 1 else f", {self.threads} threads"
        return f"{self.runtime.title}, XNNPACK {'on' if self.xnnpack else 'off'}{threads}"


class Pair(NamedTuple):
    predicted: int
    measured: int

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1 if self.measured else 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """One model. ``arena`` is that of the main subgraph; what others need is freed after the op that runs them.

    ``heap`` and ``peak`` are what the process grew by: bytes that malloc gave out after two runs, and resident bytes at
    the highest. ``low`` and ``high`` bound the predicted peak; ``high`` None: it says that it has no bound.
    """

    model: Path
    arena: Pair
    arena_low: int
    arena_high: int | None
    is_exact: bool
    heap: Pair
    peak: Pair | None  # None where it cannot be measured: of an emulated process it is the emulator's
    low: int
    high: int | None

    @property
    def has_arena_inside(self) -> bool:
        measured = self.arena.measured
        return self.arena_low <= measured and (self.arena_high is None or measured <= self.arena_high)

    @property
    def is_inside(self) -> bool:
        assert self.peak is not None
        return self.low <= self.peak.measured and (self.high is None or self.peak.measured <= self.high)


class Skipped(NamedTuple):
    model: Path
    reason: str


def compare(models: Sequence[Path], setting: Setting, tiny: Path, repeats: int = 1) -> Iterator[Result | Skipped]:
    """Each model predicted and measured. ``tiny`` runs first in each process, for what any model needs.

    The heap is that of a process without malloc's thread cache. Of ``repeats`` more the one with the median peak
    counts: where blocks lie in the heap differs from one to the next, and with it what of it is left unused.
    """
    for i in range(0, len(models), _BATCH):
        batch = models[i : i + _BATCH]
        heaps = _measure(batch, setting, tiny, UNCACHED)
        answers = [_measure(batch, setting, tiny, {}) for _ in range(repeats)]
        for model, heap, of_model in zip(batch, heaps, zip(*answers, strict=True), strict=True):
            yield _result(model, heap, sorted(of_model, key=_grown)[repeats // 2], setting)


def _grown(answer: Mapping[str, Any]) -> int:
    """Bytes that became resident; -1 where that is not known."""
    known = not answer["error"] and answer["peak_bytes"] is not None
    return answer["peak_bytes"] - answer["stages"]["before"]["rss_bytes"] if known else -1


def _measure(models: Iterable[Path], setting: Setting, tiny: Path, extra: Mapping[str, str]) -> list[dict[str, Any]]:
    paths = list(models)
    command, environment = setting.runtime.start(
        "-m", footprint.__name__, "--xnnpack", "default" if setting.xnnpack else "off", "--first", str(tiny),
        "--threads", str(setting.threads), "--deadline", str(_DEADLINE_S), *map(str, paths),
    )  # fmt: skip
    try:
        done = subprocess.run(
            command,
            env={**environment, **extra},
            capture_output=True,
            text=True,
            check=False,
            timeout=_DEADLINE_S * (len(paths) + 3),
        )
    except subprocess.TimeoutExpired:
        sys.exit(f"{setting.title}: no answer in time")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(paths):
        told = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        sys.exit(f"{setting.title}: {len(answers)} answers for {len(paths)} models: {told[-1]}")
    return answers


def _result(model: Path, heap: Mapping[str, Any], answer: Mapping[str, Any], setting: Setting) -> Result | Skipped:
    if error := answer["error"] or heap["error"]:
        return Skipped(model, f"does not run: {error}")
    if answer["arenas"] is None or heap["stages"]["run"]["heap_bytes"] is None:
        return Skipped(model, "cannot be looked into: another C library than glibc 2.33 or newer, or another runtime")
    try:
        graph = read_model(model)
        plan = _plan(graph, setting)
    except PlanningError as error:
        return Skipped(model, f"is not planned: {error}")
    before, after = (heap["stages"][stage]["heap_bytes"] for stage in ("before", "run"))
    memory, peak = plan.memory, None if setting.runtime.is_emulated else answer["peak_bytes"]
    return Result(
        model=model,
        arena=Pair(memory.arena_bytes, answer["arenas"][0]["arena_bytes"]),
        arena_low=memory.bounds["arena_bytes"][0],
        arena_high=memory.bounds["arena_bytes"][1],
        is_exact=memory.arena_exact,
        heap=Pair(_heap(plan, graph), after - before),
        peak=None if peak is None else Pair(memory.peak_bytes, _grown(answer)),
        low=memory.peak_low_bytes,
        high=memory.peak_high_bytes,
    )


def _plan(graph: Graph, setting: Setting) -> Plan:
    """The plan for the runtime by itself: without an NPU and kernels of ours. Raises PlanningError."""
    runtime = setting.runtime
    return partition(
        graph, runtime.board, runtime=f"{runtime.name}=={runtime.version}", npu="none",
        xnnpack="default" if setting.xnnpack else "off", threads=setting.threads,
        kernels=_NO_KERNELS,
    )  # fmt: skip


def _heap(plan: Plan, graph: Graph) -> int:
    """What malloc gives out. The lines of the plan have what of it is written, and so takes memory."""
    nodes = {use.index: executed(plan, graph.subgraphs[use.index]) for use in plan.subgraphs}
    core = load_core(load_board(plan.inputs.board.name).clusters[0].core)
    arenas = plan.memory.arena_bytes + (plan.memory.persistent_bytes or 0)
    release = release_of(plan)
    own = interpreter.heap_bytes(graph, nodes, core.isa, release)
    return arenas + own + xnnpack.heap_bytes(graph, nodes, core, release)
