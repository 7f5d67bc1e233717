# SPDX-License-Identifier: Apache-2.0
"""One model on one board, stack and runtime: every way to run each op, with its verdict and its price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from edgedeploy_partitioner.cost import Cost, CpuCost, NpuCost, Range, fixed, npu_cost
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import Graph, Op
from edgedeploy_partitioner.plan import CandidateEntry, Status, XnnpackMode
from edgedeploy_partitioner.planning.request import Request, cpu_cost, stack_of
from edgedeploy_partitioner.runtime.census import Found, kernel_of, xnnpack_claims
from edgedeploy_partitioner.support.verdicts import check_table, verdicts
from edgedeploy_profiles import load_backend
from edgedeploy_profiles.schema import Backend, Board, Runtime

CPU, NHWC = "cpu", "NHWC"
XNNPACK_KERNEL, BUILTIN_KERNEL = "xnnpack", "builtin"
FREE = Cost(0, 0, 0, "overhead")


@dataclass(frozen=True)
class Candidate:
    """One way to run an op. ``cost`` is None where an NPU refuses it."""

    backend: str
    kernel: str
    layout: str
    verdict: Status
    reason: str
    rule: str
    source: str
    sdk_version: str | None
    cost: Cost | None

    def entry(self) -> CandidateEntry:
        cost = self.cost
        return CandidateEntry(
            backend=self.backend,
            kernel=self.kernel,
            layout=self.layout,
            verdict=self.verdict,
            reason=self.reason,
            rule=self.rule,
            source=self.source,
            sdk_version=self.sdk_version,
            predicted_ns=cost.ns if cost else None,
            low_ns=cost.low_ns if cost else None,
            high_ns=cost.high_ns if cost else None,
            provenance=cost.provenance if cost else None,
        )


@dataclass(frozen=True)
class Target:
    graph: Graph
    board: Board
    stack: str | None
    runtime: Runtime
    xnnpack: XnnpackMode
    cpu: CpuCost
    cpus: str

    @staticmethod
    def of(graph: Graph, board: Board, request: Request) -> Target:
        """Resolve the request's options on the board. Raises :class:`InputError`."""
        runtime = request.runtime
        if request.xnnpack == "switch" and runtime.xnnpack_default:
            raise InputError(
                f"--xnnpack switch: {runtime.name} {runtime.version} applies XNNPACK by itself; say default or off"
            )
        cost, cpus = cpu_cost(board, request.cpus, request.threads)
        return Target(graph, board, stack_of(board, request.npu), request.runtime, request.xnnpack, cost, cpus)

    @cached_property
    def backend(self) -> Backend | None:
        """The stack's support table, checked; None without an NPU."""
        if self.stack is None:
            return None
        backend = load_backend(self.board.stacks[self.stack].backend)
        check_table(backend)
        return backend

    @cached_property
    def npu(self) -> NpuCost:
        """The NPU's cost model; only where there is a stack."""
        assert self.stack is not None
        assert self.backend is not None
        return npu_cost(self.backend.cost_model, self.board.stacks[self.stack], self.cpu)

    @cached_property
    def census(self) -> Mapping[tuple[int, int], Found]:
        """What the census says of each (subgraph, op)."""
        ops = [op for sub in self.graph.subgraphs for op in sub.ops]
        return {(op.subgraph, op.index): kernel_of(self.graph, op, self.runtime) for op in ops}

    @cached_property
    def xnnpack_handover(self) -> Cost:
        """What calling one XNNPACK delegate node costs."""
        return fixed(Range.of(self.board.partition_handover_us))

    @property
    def backends(self) -> tuple[str, ...]:
        """What ``--force`` and ``--forbid`` may name."""
        return (CPU, *((self.backend.name,) if self.backend else ()))

    def candidates(self, op: Op) -> tuple[Candidate, ...]:
        """NPU first, then the CPU's kernels."""
        return (*self._npu_candidates(op), *self._cpu_candidates(op))

    def takes_whole(self, op: Op) -> bool:
        """Is this a composite that XNNPACK runs as one op?"""
        return op.code == "STABLEHLO_COMPOSITE" and self.cpu_kernel(op) == XNNPACK_KERNEL

    def cpu_kernel(self, op: Op) -> str:
        """The kernel that runs ``op`` on the CPU when nobody else claims anything."""
        return XNNPACK_KERNEL if op.index in self._claimed[op.subgraph] else BUILTIN_KERNEL

    @cached_property
    def _claimed(self) -> Mapping[int, frozenset[int]]:
        """What XNNPACK claims of each subgraph when all of it is there."""
        every = {sub.index: frozenset(op.index for op in sub.ops) for sub in self.graph.subgraphs}
        return {index: self.xnnpack_claims(index, ops) for index, ops in every.items()}

    def has_kernel(self, op: Op) -> bool:
        """Does the runtime register a built-in kernel for ``op``?"""
        known = self.runtime.custom_kernels if op.code == "CUSTOM" else self.runtime.builtin_kernels
        return op.name in known

    def xnnpack_claims(self, subgraph: int, available: frozenset[int]) -> frozenset[int]:
        if self.xnnpack == "off":
            return frozenset()
        return frozenset(xnnpack_claims(self.graph, subgraph, available, self.runtime))

    def _npu_candidates(self, op: Op) -> tuple[Candidate, ...]:
        backend = self.backend
        if backend is None or self.stack is None:
            return ()
        return tuple(
            Candidate(
                backend=backend.name,
                kernel=judged.kernel,
                layout=judged.layout,
                verdict=judged.status,
                reason=judged.reason,
                rule=judged.rule,
                source=judged.source,
                sdk_version=judged.sdk_version,
                cost=None
                if judged.status == "refused"
                else self.npu.op(self.graph, op, judged.kernel, judged.layout),
            )
            for judged in verdicts(self.graph, op, backend, self.board.stacks[self.stack].soc)
        )

    def _cpu_candidates(self, op: Op) -> tuple[Candidate, ...]:
        found = [self._builtin(op)]
        if self.xnnpack != "off":
            found.insert(0, self._xnnpack(op))
        return tuple(found)

    def _xnnpack(self, op: Op) -> Candidate:
        """The price stands even where XNNPACK leaves the op: it may claim it when other ops have other owners."""
        seen = self.census[op.subgraph, op.index]
        return Candidate(
            backend=CPU,
            kernel=XNNPACK_KERNEL,
            layout=NHWC,
            verdict="supported" if self.cpu_kernel(op) == XNNPACK_KERNEL else "refused",
            reason=_census_reason(seen),
            rule=f"xnnpack_{seen.verdict}",
            source=self._census_source,
            sdk_version=None,
            cost=self.cpu.op(self.graph, op, XNNPACK_KERNEL),
        )

    def _builtin(self, op: Op) -> Candidate:
        registered = self.has_kernel(op)
        return Candidate(
            backend=CPU,
            kernel=BUILTIN_KERNEL,
            layout=NHWC,
            verdict="supported" if registered else "refused",
            reason="" if registered else f"{self.runtime.name} {self.runtime.version} has no kernel for {op.name}",
            rule="runtime_kernel" if registered else "no_runtime_kernel",
            source=self._census_source,
            sdk_version=None,
            cost=self._builtin_cost(op) if registered else FREE,
        )

    def _builtin_cost(self, op: Op) -> Cost:
        """A composite that nobody takes whole only calls its decomposition, whose ops have costs of their own."""
        if op.code == "STABLEHLO_COMPOSITE":
            return fixed(Range.of(self.cpu.core.op_overhead_us[BUILTIN_KERNEL]))
        return self.cpu.op(self.graph, op, BUILTIN_KERNEL)

    @property
    def _census_source(self) -> str:
        return f"census of {self.runtime.name} {self.runtime.version} on {self.runtime.taken_on}"


def _census_reason(found: Found) -> str:
    if found.verdict == "fails":
        return "XNNPACK claims this op and then refuses to prepare it: the model does not load with XNNPACK on"
    if found.row is not None:
        return f"XNNPACK {found.verdict} it (census row {found.row})"
    if found.known:
        return "XNNPACK leaves this op with these types and options"
    return "the census has not seen this op with these types: taken as left to the built-in kernel"
