# SPDX-License-Identifier: Apache-2.0
"""The whole way from a graph to a plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata

from msgspec import structs

import edgedeploy_kernels
from edgedeploy_partitioner import plan as p
from edgedeploy_partitioner.cost import Range, fixed
from edgedeploy_partitioner.errors import InputError, NotDeployable
from edgedeploy_partitioner.memory.lines import memory_lines
from edgedeploy_partitioner.memory.liveness import ExecutedNode
from edgedeploy_partitioner.model.facts import compiled_for, dtype_class
from edgedeploy_partitioner.model.fingerprint import fingerprints
from edgedeploy_partitioner.model.graph import Graph, Op
from edgedeploy_partitioner.model.shapes import with_input_shapes
from edgedeploy_partitioner.planning.assemble import Entries, entries
from edgedeploy_partitioner.planning.calls import Use, bounds, entry, main_subgraph, reached, uses
from edgedeploy_partitioner.planning.placement import placement
from edgedeploy_partitioner.planning.request import Request
from edgedeploy_partitioner.planning.stages import Scene, scene
from edgedeploy_partitioner.planning.target import CPU, Target
from edgedeploy_partitioner.planning.warnings import warnings
from edgedeploy_partitioner.solver.settle import Schedule, Settled, execute, settle, settled_as, stock
from edgedeploy_profiles import board_sha256, runtime_sha256, table_sha256
from edgedeploy_profiles.schema import Board

LONGEST_NS = 2**53
"""Nanoseconds up to which a time in microseconds is exact in JSON."""


def partition(graph: Graph, board: Board, request: Request, name: str = "model") -> p.Plan:
    """Plan ``graph`` on ``board``. ``name`` is the model's, for the plan.

    Raises :class:`InputError` for options that cannot be met, :class:`NotDeployable` for a model that this board
    cannot take.
    """
    compiled = compiled_for(graph)
    if compiled is not None:
        raise NotDeployable(f"{name} is already compiled for {compiled}: there is nothing left to partition")
    main = main_subgraph(graph, request.signature)
    if request.input_shapes:
        graph = with_input_shapes(graph, request.input_shapes, request.signature)
    planner = _Planner(graph, main, Target.of(graph, board, request), request)
    plan = planner.plan(name)
    _refuse_impossible(plan, graph)
    return plan


def _refuse_impossible(plan: p.Plan, graph: Graph) -> None:
    """Raise :class:`NotDeployable` for a plan that no runtime could follow, or whose times have no exact JSON."""
    for use in plan.subgraphs:
        made = {t for i in use.order for t in graph.subgraphs[use.index].ops[i].outputs}
        for i in use.order:
            op = graph.subgraphs[use.index].ops[i]
            early = [t for t in op.inputs if t in made]
            if early and use.role != "unused":
                maker = graph.subgraphs[use.index].producer[early[0]]
                raise NotDeployable(
                    f"op {i} {op.name} of subgraph {use.index} comes before op {maker}, which makes its input: the"
                    " runtime keeps the file's order where no delegate claims anything, and would compute nonsense"
                )
            made.difference_update(op.outputs)
    if max(plan.predicted.latency_ns, plan.predicted.high_ns or 0) > LONGEST_NS:
        raise NotDeployable(f"one inference takes more than {LONGEST_NS // 10**9} s: no such shapes are planned for")


@dataclass(frozen=True)
class _Whole:
    """Schedules of all subgraphs together, and what they come to."""

    graph: Graph
    main: int
    target: Target
    scenes: Sequence[Scene]
    schedules: Sequence[Schedule]

    @cached_property
    def entries(self) -> tuple[Entries, ...]:
        found: list[Entries] = []
        for scn, schedule in zip(self.scenes, self.schedules, strict=True):
            parts = sum(len(e.partitions) for e in found)
            segs = sum(len(e.segments) for e in found)
            found.append(entries(scn, schedule, parts, segs))
        return tuple(found)

    @cached_property
    def uses(self) -> Mapping[int, Use]:
        own = {i: e.sums.ns for i, e in enumerate(self.entries)}
        return uses(self.graph, self.main, own, self.target.takes_whole)

    @cached_property
    def overhead(self) -> tuple[int, int, int]:
        cost = fixed(Range.of(self.target.board.overhead_us))
        return cost.ns, cost.low_ns, cost.ns if cost.high_ns is None else cost.high_ns

    @cached_property
    def latency_ns(self) -> int:
        return self.overhead[0] + self.counted(lambda i: self.entries[i].sums.ns)

    @cached_property
    def bounds_ns(self) -> tuple[int, int | None]:
        """Low and high: the cheaper branch of an IF for the low one, no high one past a WHILE."""
        low, high = bounds(
            self.graph,
            self.main,
            {i: (e.sums.low_ns, e.sums.high_ns) for i, e in enumerate(self.entries)},
            self.target.takes_whole,
        )
        return self.overhead[1] + low, None if high is None else self.overhead[2] + high

    @cached_property
    def partitions(self) -> int:
        return sum(schedule.price.partitions for schedule in self.schedules)

    @cached_property
    def memory(self) -> tuple[p.Memory, tuple[p.Warn, ...]]:
        executed = {
            scn.subgraph.index: _executed(scn, schedule)
            for scn, schedule in zip(self.scenes, self.schedules, strict=True)
        }
        memory, warns = memory_lines(self.graph, executed, self.main, self.target.cpu.threads)
        if not any(schedule.unpacking for schedule in self.schedules):
            return memory, warns
        told = p.Warn("arena_lower_bound", "XNNPACK unpacks constants in a node of its own, which is not modelled")
        return structs.replace(memory, arena_exact=False), (*warns, told)

    def counted(self, value: Callable[[int], int]) -> int:
        """Sum over the subgraphs, each as often as it runs."""
        return sum(use.times * value(index) for index, use in self.uses.items())

    def baseline(self) -> p.Baseline:
        return p.Baseline(self.latency_ns, self.memory[0].peak_bytes, self.partitions)


@dataclass(frozen=True)
class _Planner:
    graph: Graph
    main: int
    target: Target
    request: Request

    def plan(self, name: str) -> p.Plan:
        scenes = self._scenes(assume_supported=self.request.assume_unknown == "supported")
        settled = self._within_limit(scenes, self._settle(scenes))
        whole = self._whole(scenes, [s.schedule for s in settled])
        all_cpu = self._all_cpu(scenes)
        bound = whole.overhead[0] + whole.counted(lambda i: settled[i].bound_ns)
        proved = all(s.is_optimal for i, s in enumerate(settled) if whole.uses[i].times)
        optimistic = self._optimistic(whole)
        memory, memory_warnings = whole.memory
        told = (*warnings(self.graph, self.target, whole.uses), *memory_warnings, *self._on_limit(memory_warnings))
        low, high = whole.bounds_ns
        return p.Plan(
            schema="edgedeploy.plan/1",
            tool=p.Tool(metadata.version("edgedeploy")),
            inputs=self._inputs(name),
            solver=p.Solver(
                status="optimal" if proved and bound == whole.latency_ns else "bounded",
                objective_ns=whole.latency_ns,
                lower_bound_ns=min(bound, whole.latency_ns),
                order=settled[self.main].order,
                orders_tried=settled[self.main].orders_tried,
            ),
            predicted=p.Predicted(
                latency_ns=whole.latency_ns,
                low_ns=low,
                high_ns=high,
                cold_start_ns=None,
                optimistic_ns=optimistic.latency_ns if optimistic else None,
                ops_to_probe=_to_probe(optimistic),
            ),
            baselines=p.Baselines(all_cpu.baseline(), self._stock(scenes)),
            backends=self._backends(whole),
            subgraphs=tuple(entry(self.graph, i, use, whole.entries[i].order) for i, use in whole.uses.items()),
            ops=tuple(op for e in whole.entries for op in e.ops),
            partitions=tuple(part for e in whole.entries for part in e.partitions),
            segments=tuple(segment for e in whole.entries for segment in e.segments),
            transitions=tuple(t for e in whole.entries for t in e.transitions),
            overhead_ns=whole.overhead[0],
            memory=memory,
            warnings=told,
        )

    # --- schedules ---

    def _scenes(self, *, assume_supported: bool) -> tuple[Scene, ...]:
        asked = self.request
        where = placement(self.graph, self.main, asked.force, asked.forbid, self.target.backends)
        return tuple(
            scene(self.target, sub.index, where, assume_supported=assume_supported) for sub in self.graph.subgraphs
        )

    def _settle(self, scenes: Sequence[Scene]) -> tuple[Settled, ...]:
        """Every subgraph on its own; a limit on partitions goes to the main one first."""
        left = self.request.max_partitions
        found: dict[int, Settled] = {}
        for index in sorted(range(len(scenes)), key=lambda i: (i != self.main, i)):
            scn = scenes[index]
            if index not in self._running:
                found[index] = settled_as(scn.stage, self._on_cpu(scn), "all_cpu", ())
                continue
            settled = settle(scn.with_limit(left), scn.stock_lanes, scn.cpu_lanes)
            if settled is None:
                raise InputError(
                    f"--max-partitions {self.request.max_partitions}: the forced ops need more partitions than that"
                )
            if left is not None:
                if index != self.main:
                    settled = _without_limit_bound(settled, scn)
                left -= settled.schedule.price.partitions
            found[index] = settled
        return tuple(found[i] for i in range(len(scenes)))

    def _within_limit(self, scenes: Sequence[Scene], settled: tuple[Settled, ...]) -> tuple[Settled, ...]:
        """The cheapest of the replayed schedules that keeps ``--memory-limit``. Raises :class:`NotDeployable`."""
        limit, main = self.request.memory_limit_bytes, settled[self.main]
        if limit is None:
            return settled
        peaks = []
        for schedule, name in ((main.schedule, main.order), *main.others):
            schedules = [schedule if i == self.main else s.schedule for i, s in enumerate(settled)]
            peaks.append(self._whole(scenes, schedules).memory[0].peak_bytes)
            if peaks[-1] <= limit and schedule == main.schedule:
                return settled
            if peaks[-1] <= limit:
                stage = scenes[self.main].with_limit(self.request.max_partitions)
                chosen = settled_as(stage, schedule, name, main.orders_tried)
                return tuple(chosen if i == self.main else s for i, s in enumerate(settled))
        raise NotDeployable(
            f"--memory-limit {limit} bytes: no plan found keeps it; the least peak of {len(peaks)} tried is"
            f" {min(peaks)} bytes, in the lines that are modelled"
        )

    def _whole(self, scenes: Sequence[Scene], schedules: Sequence[Schedule]) -> _Whole:
        return _Whole(self.graph, self.main, self.target, scenes, schedules)

    def _all_cpu(self, scenes: Sequence[Scene]) -> _Whole:
        return self._whole(scenes, [self._on_cpu(scn) for scn in scenes])

    def _on_cpu(self, scn: Scene) -> Schedule:
        schedule = execute(scn.stage, [], scn.cpu_lanes)
        assert schedule is not None, "a plan without claims always replays"
        return schedule

    def _stock(self, scenes: Sequence[Scene]) -> p.Baseline | None:
        if self.target.backend is None:
            return None
        schedules = [
            stock(scn.stage, scn.stock_lanes) if scn.stock_lanes and i in self._running else self._on_cpu(scn)
            for i, scn in enumerate(scenes)
        ]
        return self._whole(scenes, schedules).baseline()

    @cached_property
    def _running(self) -> frozenset[int]:
        """Subgraphs that can run; of the others only the CPU's kernels are planned."""
        return reached(self.graph, self.main, self.target.takes_whole)

    def _on_limit(self, memory_warnings: Sequence[p.Warn]) -> tuple[p.Warn, ...]:
        missing = sum(w.code == "line_not_modelled" for w in memory_warnings)
        if self.request.memory_limit_bytes is None or not missing:
            return ()
        message = f"--memory-limit holds for the lines that are modelled; {missing} lines are not"
        return (p.Warn("limit_is_partial", message),)

    def _optimistic(self, whole: _Whole) -> _Whole | None:
        """The plan if every unknown verdict were a yes; None if there is no unknown one."""
        unknown = any(c.verdict == "unknown" for s in whole.scenes for cs in s.candidates.values() for c in cs)
        if not unknown or self.request.assume_unknown == "supported":
            return None
        scenes = self._scenes(assume_supported=True)
        found = self._whole(scenes, [s.schedule for s in self._settle(scenes)])
        # More freedom never makes the best plan worse, but the search over orders may miss it.
        return min(found, whole, key=lambda w: w.latency_ns)

    # --- what the plan says of itself ---

    def _backends(self, whole: _Whole) -> tuple[p.BackendUse, ...]:
        used = {op.backend for e in whole.entries for op in e.ops}
        backend = self.target.backend
        found = [p.BackendUse(CPU, None, {}, None)] if CPU in used else []
        if backend is not None and backend.name in used:
            found.append(p.BackendUse(backend.name, backend.library, {}, backend.sdk_version))
        return tuple(found)

    def _inputs(self, name: str) -> p.Inputs:
        graph, target, request = self.graph, self.target, self.request
        backend = target.backend
        return p.Inputs(
            model=p.ModelInput(name, graph.sha256, graph.size, dtype_class(graph), fingerprints(graph)),
            board=p.BoardInput(target.board.name, board_sha256(target.board), target.stack),
            runtime=p.RuntimeInput(
                target.runtime.name, target.runtime.version, runtime_sha256(target.runtime), target.xnnpack
            ),
            tables={backend.name: p.TableInput(table_sha256(backend.name), backend.sdk_version)} if backend else {},
            kernels_sha256=edgedeploy_kernels.manifest_sha256(),
            measurements_sha256=None,
            options=p.Options(
                threads=target.cpu.threads,
                cpus=target.cpus,
                memory_limit_bytes=request.memory_limit_bytes,
                max_partitions=request.max_partitions,
                force=request.force,
                forbid=request.forbid,
                assume_unknown=request.assume_unknown,
                signature=request.signature,
                input_shapes=dict(request.input_shapes),
            ),
        )


def _without_limit_bound(limited: Settled, scn: Scene) -> Settled:
    """How a limit is best shared among subgraphs is not searched: past the main one only the bound without it holds."""
    free = settled_as(scn.with_limit(None), limited.schedule, limited.order, limited.orders_tried)
    return dataclasses.replace(limited, bound_ns=free.bound_ns, is_optimal=limited.is_optimal and free.is_optimal)


def _executed(scn: Scene, schedule: Schedule) -> tuple[ExecutedNode, ...]:
    """The steps as the memory planner sees them: who runs each node."""
    lane_of = {node.op: schedule.lanes[i] for i, node in enumerate(scn.stage.full.nodes)}
    nodes = []
    for step in schedule.steps:
        lane = next((lane_of[op] for op in step.members if op in lane_of), None)
        delegate = scn.lanes[lane].delegate if step.call is not None and lane is not None else None
        op = step.op if delegate is None else None
        nodes.append(ExecutedNode(op, step.members, step.inputs, step.outputs, delegate))
    return tuple(nodes)


def _to_probe(optimistic: _Whole | None) -> tuple[tuple[int, int], ...]:
    """Ops that the optimistic plan places on the strength of an unknown verdict."""
    if optimistic is None:
        return ()
    found: list[tuple[int, int]] = []
    for scn, schedule in zip(optimistic.scenes, optimistic.schedules, strict=True):
        for op, choice, lane in zip(scn.ops, scn.choices, schedule.lanes, strict=True):
            if choice[lane].verdict == "unknown":
                found.append(_key(op))
    return tuple(found)


def _key(op: Op) -> tuple[int, int]:
    return op.subgraph, op.index
