# SPDX-License-Identifier: Apache-2.0
"""The whole way from a graph to a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata

from edgedeploy_partitioner import plan as p
from edgedeploy_partitioner.errors import NotDeployable
from edgedeploy_partitioner.memory.platform import machine_of
from edgedeploy_partitioner.model.facts import compiled_for, dtype_class
from edgedeploy_partitioner.model.fingerprint import fingerprints
from edgedeploy_partitioner.model.graph import Graph, Op
from edgedeploy_partitioner.model.shapes import with_input_shapes
from edgedeploy_partitioner.planning.advice import advice
from edgedeploy_partitioner.planning.calls import entry, main_subgraph
from edgedeploy_partitioner.planning.limit import within_memory_limit
from edgedeploy_partitioner.planning.request import Request
from edgedeploy_partitioner.planning.search import Search
from edgedeploy_partitioner.planning.target import CPU, Target
from edgedeploy_partitioner.planning.warnings import warnings
from edgedeploy_partitioner.planning.whole import Whole
from edgedeploy_partitioner.support.kernels import NEON
from edgedeploy_profiles import board_sha256, kernels_sha256, runtime_sha256, table_sha256
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
    plan = _Planner(Search(graph, main, Target.of(graph, board, request), request)).plan(name)
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
class _Planner:
    search: Search

    @property
    def target(self) -> Target:
        return self.search.target

    def plan(self, name: str) -> p.Plan:
        search, target = self.search, self.search.target
        scenes = search.scenes
        free = search.settle(scenes)
        settled = within_memory_limit(search, scenes, free)
        whole = search.whole(scenes, [s.schedule for s in settled])
        bound = whole.overhead[0] + whole.counted(lambda i: settled[i].bound_ns)
        proved = all(s.is_optimal for i, s in enumerate(settled) if whole.uses[i].times)
        optimistic = search.optimistic(whole)
        stock = search.stock(scenes)
        memory, memory_warnings = whole.memory
        told = (
            *warnings(search.graph, target, whole.uses),
            *_on_stopped(whole, target),
            *_on_stock(stock, target),
            *memory_warnings,
            *self._on_limit(memory_warnings),
        )
        limit = search.request.memory_limit_bytes
        low, high = whole.bounds_ns
        return p.Plan(
            schema="edgedeploy.plan/1",
            tool=p.Tool(metadata.version("edgedeploy")),
            inputs=self._inputs(name),
            solver=p.Solver(
                status="optimal" if proved and bound == whole.latency_ns else "bounded",
                objective_ns=whole.latency_ns,
                lower_bound_ns=min(bound, whole.latency_ns),
                order=settled[search.main].order,
                orders_tried=settled[search.main].orders_tried,
            ),
            predicted=p.Predicted(
                latency_ns=whole.latency_ns,
                low_ns=low,
                high_ns=high,
                cold_start_ns=whole.cold_start_ns(),
                optimistic_ns=optimistic.latency_ns if optimistic else None,
                ops_to_probe=_to_probe(optimistic),
            ),
            baselines=p.Baselines(
                search.all_cpu(scenes).baseline(),
                None if stock is None or stock.stranded else stock.baseline(),
                None if limit is None else self._without_limit(whole, search.whole(scenes, [s.schedule for s in free])),
            ),
            backends=self._backends(whole),
            subgraphs=tuple(entry(search.graph, i, use, whole.entries[i].order) for i, use in whole.uses.items()),
            ops=tuple(op for e in whole.entries for op in e.ops),
            partitions=tuple(part for e in whole.entries for part in e.partitions),
            segments=tuple(segment for e in whole.entries for segment in e.segments),
            transitions=tuple(t for e in whole.entries for t in e.transitions),
            overhead_ns=whole.overhead[0],
            memory=memory,
            warnings=told,
            advice=advice(search, whole),
        )

    @staticmethod
    def _without_limit(kept: Whole, free: Whole) -> p.Baseline:
        """The search under a limit goes on for longer, and may find what the one without did not."""
        return min(free, kept, key=lambda whole: whole.latency_ns).baseline()

    # --- what the plan says of itself ---

    def _backends(self, whole: Whole) -> tuple[p.BackendUse, ...]:
        used = {op.backend for e in whole.entries for op in e.ops}
        found = [p.BackendUse(CPU, None, {}, None)] if CPU in used else []
        for name, table in self.target.tables.items():
            if name in used:
                sdk = None if name == NEON else table.sdk_version
                found.append(p.BackendUse(name, table.library, {}, sdk, table.max_partitions))
        return tuple(found)

    def _on_limit(self, memory_warnings: Sequence[p.Warn]) -> tuple[p.Warn, ...]:
        missing = sum(w.code == "line_not_modelled" for w in memory_warnings)
        if self.search.request.memory_limit_bytes is None or not missing:
            return ()
        message = f"--memory-limit holds for the lines that are modelled; {missing} lines are not"
        return (p.Warn("limit_is_partial", message),)

    def _inputs(self, name: str) -> p.Inputs:
        graph, target, request = self.search.graph, self.target, self.search.request
        backend = target.backend
        return p.Inputs(
            model=p.ModelInput(name, graph.sha256, graph.size, dtype_class(graph), fingerprints(graph)),
            board=p.BoardInput(target.board.name, board_sha256(target.board), target.stack),
            runtime=p.RuntimeInput(
                target.runtime.name,
                target.runtime.version,
                runtime_sha256(target.runtime),
                target.xnnpack,
                machine_of(target.cpu.core.isa),
            ),
            tables={backend.name: p.TableInput(table_sha256(backend), backend.sdk_version)} if backend else {},
            kernels_sha256=kernels_sha256(target.kernels),
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


def _on_stopped(whole: Whole, target: Target) -> Iterator[p.Warn]:
    """Say for which op XNNPACK claims nothing of what the plan leaves to the CPU."""
    told: set[tuple[int, int]] = set()
    for subgraph, e in zip(target.graph.subgraphs, whole.entries, strict=True):
        owned = {op.index for op in e.ops if op.backend != CPU}
        stopped = target.stopped(subgraph.index, {op.index for op in subgraph.ops} - owned)
        if stopped is not None and _key(stopped[0]) not in told:
            told.add(_key(stopped[0]))
            yield p.Warn("xnnpack_claims_nothing", stopped[1], _key(stopped[0]))


def _on_stock(stock: Whole | None, target: Target) -> tuple[p.Warn, ...]:
    """Say where the stock delegate, left to itself, would not run at all."""
    if stock is None or not stock.stranded or target.backend is None:
        return ()
    (scn, node) = next((s, i) for s, x in zip(stock.scenes, stock.schedules, strict=True) for i in x.price.stranded)
    op = scn.ops[node]
    message = (
        f"{target.backend.title} left to itself claims {op.name} without the op that it must run inside of, and fails;"
        " there is no stock baseline"
    )
    return (p.Warn("stock_delegate_fails", message, _key(op)),)


def _to_probe(optimistic: Whole | None) -> tuple[tuple[int, int], ...]:
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
