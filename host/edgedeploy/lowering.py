# SPDX-License-Identifier: Apache-2.0
"""What would lower a plan's peak memory, each way with its peak and what it costs in latency."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from edgedeploy.arenaview import executed, in_place, main_arena, release_of
from edgedeploy.planview import claimed_partitions, ops_label
from edgedeploy.text import plural
from edgedeploy_partitioner.errors import PlanningError
from edgedeploy_partitioner.memory.arena import arena
from edgedeploy_partitioner.memory.order import lowest
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.plan import ON_ARM, XNNPACK, Memory, Plan

MOST_PLANS = 4
MOST_OPS_PLANNED = 2_000
"""All plans of the ladder together: a large model gets fewer rungs, at least two."""
RUNG = 8
"""Each rung asks for this part less of what is not the file than the last one took; one byte less where none does."""
OPS_SHOWN = 24
LINES = (
    "arena_bytes", "persistent_bytes", "packed_bytes", "delegate_internal_bytes", "npu_pool_bytes", "handover_bytes",
    "model_bytes", "interpreter_bytes",
)  # fmt: skip
"""What ``peak_bytes`` is the sum of."""

Planner = Callable[..., Plan]
"""Plans the model again with the same options but those given. Raises PlanningError."""


@dataclass(frozen=True, slots=True)
class Way:
    """A change and what it leads to. ``latency_ns`` is None where the change is not to the plan but to the model."""

    title: str
    peak_bytes: int
    high_bytes: int | None
    """Its upper bound, if it has one."""
    is_whole: bool
    """False where lines of its memory are not modelled: the peak is then a lower bound."""
    arena_bytes: int
    latency_ns: int | None


@dataclass(frozen=True, slots=True)
class Lowering:
    """``ways`` lower the peak; ``useless`` were tried and do not."""

    ways: tuple[Way, ...]
    useless: tuple[Way, ...]
    infeasible_bytes: int | None
    """The limit below the last of ``ways`` for which no plan was found; None where each that was tried was kept."""


def lowering(plan: Plan, graph: Graph, planner: Planner, limit_bytes: int | None) -> Lowering:
    """Try every way. ``graph`` is the planned model; a ``limit_bytes`` that the plan is over is the first rung."""
    rungs, infeasible = _ladder(plan, planner, limit_bytes)
    tried = [*rungs, *_planned_anew(plan, planner), *_other_order(plan, graph), *_in_place(plan, graph)]
    ways: dict[tuple[int, int | None], Way] = {}
    for way in tried:
        if way.peak_bytes < plan.memory.peak_bytes:
            ways.setdefault((way.peak_bytes, way.latency_ns), way)
    useless = tuple(way for way in tried if way.peak_bytes >= plan.memory.peak_bytes)
    return Lowering(tuple(ways.values()), useless, infeasible)


def this_plan(plan: Plan) -> Way:
    """The plan as it is, to compare with."""
    return _way("as it is", plan)


def _is_whole(memory: Memory) -> bool:
    return None not in [getattr(memory, line) for line in LINES]


def _ladder(plan: Plan, planner: Planner, limit_bytes: int | None) -> tuple[list[Way], int | None]:
    """Plans under lower and lower limits, and the highest limit that none was found to keep.

    Downwards in steps; below a step that failed, halfway between it and what was found.
    """
    found: list[Way] = []
    failed: int | None = None
    peak, file_bytes = plan.memory.peak_bytes, plan.memory.model_bytes
    limit = peak - 1 if limit_bytes is None else min(limit_bytes, peak - 1)
    for _ in range(max(2, min(MOST_PLANS, MOST_OPS_PLANNED // max(1, len(plan.ops))))):
        try:
            other = planner(memory_limit_bytes=limit)
        except PlanningError:
            failed = limit if failed is None else max(failed, limit)
        else:
            peak = other.memory.peak_bytes
            found.append(_way(f"--memory-limit {peak}: {_placement(other)}", other))
        step = max(2, (peak - file_bytes) // RUNG)
        limit = peak - step if failed is None else (peak + failed) // 2
        if failed is not None and peak - limit < max(1, step // RUNG):
            break
    return found, failed


def _placement(plan: Plan) -> str:
    ours = claimed_partitions(plan)
    if not ours:
        return "all on the CPU"
    backends = [op.backend for op in plan.ops if not op.folded]
    spread = ", ".join(f"{backends.count(b)} on {b}" for b in dict.fromkeys(backends) if b != "cpu")
    return f"{plural(len(ours), 'partition')}, of {plural(len(backends), 'op')} {spread}"


def _way(title: str, plan: Plan) -> Way:
    memory = plan.memory
    return Way(
        title, memory.peak_bytes, memory.peak_high_bytes, _is_whole(memory), memory.arena_bytes,
        plan.predicted.latency_ns,
    )  # fmt: skip


def _with_arena(title: str, plan: Plan, arena_bytes: int, latency_ns: int | None) -> Way:
    """The same plan with another arena."""
    memory = plan.memory
    saved, high = memory.arena_bytes - arena_bytes, memory.peak_high_bytes
    high = None if high is None else high - saved
    return Way(title, memory.peak_bytes - saved, high, _is_whole(memory), arena_bytes, latency_ns)


def _planned_anew(plan: Plan, planner: Planner) -> Iterator[Way]:
    """Without the NPU where the plan has it; without XNNPACK, or with it where it was turned off."""
    changes: list[tuple[str, dict[str, str]]] = []
    if any(op.backend not in ON_ARM for op in plan.ops):
        changes.append(("--npu none: no NPU", {"npu": "none"}))
    if plan.inputs.runtime.xnnpack == "off":
        changes.append(("--xnnpack default: as the runtime has it", {"xnnpack": "default"}))
    elif any(part.delegate == XNNPACK for part in plan.partitions):
        changes.append(("--xnnpack off: built-in kernels on the CPU", {"xnnpack": "off"}))
    for title, change in changes:
        with contextlib.suppress(PlanningError):
            yield _way(title, planner(**change))


def _other_order(plan: Plan, graph: Graph) -> Iterator[Way]:
    """The same partitions and ops in the order with the least alive, where its arena is smaller too."""
    its = main_arena(plan, graph)
    if its.bytes != plan.memory.arena_bytes:
        return
    subgraph, threads, release = graph.subgraphs[plan.main], plan.inputs.options.threads, release_of(plan)
    nodes = executed(plan, subgraph)
    best = lowest(graph, subgraph, nodes, threads, release, in_epochs=True)
    other = arena(graph, subgraph, [nodes[i] for i in best.order], threads, release)
    if other.bytes < its.bytes:
        how = "" if claimed_partitions(plan) else ", which 'edgedeploy reorder' writes"
        title = f"reorder: the same ops in another order{how}"
        yield _with_arena(title, plan, other.bytes, plan.predicted.latency_ns)


def _in_place(plan: Plan, graph: Graph) -> Iterator[Way]:
    """Only where the arena is that of the main subgraph alone."""
    found = in_place(plan, graph) if plan.memory.arena_exact else None
    if found is not None and found.before_bytes == plan.memory.arena_bytes:
        title = f"op {ops_label(plan, found.ops, OPS_SHOWN)} fused into the op before, or in place: a change of model"
        yield _with_arena(title, plan, found.arena_bytes, None)
