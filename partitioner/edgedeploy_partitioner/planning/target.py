# SPDX-License-Identifier: Apache-2.0
"""One model on one board, stack and runtime: every way to run each op, with its verdict and its price."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from msgspec import structs

import edgedeploy_kernels
from edgedeploy_partitioner.cost import FREE, Cost, CpuCost, NeonCost, NpuCost, Range, fixed, npu_cost
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import Graph, Op, Tensor
from edgedeploy_partitioner.plan import XnnpackMode
from edgedeploy_partitioner.planning.candidate import Candidate
from edgedeploy_partitioner.planning.fusions import companions, follows, hosts
from edgedeploy_partitioner.planning.request import Request, cpu_cost, stack_of
from edgedeploy_partitioner.runtime.census import Found, Taken, kernel_of, stopper, xnnpack_claims
from edgedeploy_partitioner.support.kernels import NEON, SOC, kernel_table
from edgedeploy_partitioner.support.verdicts import NO_RULE, Judged, check_table, verdicts
from edgedeploy_profiles import load_backend, load_kernels, load_switched, switched_names
from edgedeploy_profiles.schema import Backend, Board, Fusion, Kernels, Runtime

CPU, NHWC = "cpu", "NHWC"
XNNPACK_KERNEL, BUILTIN_KERNEL = "xnnpack", "builtin"


@dataclass(frozen=True)
class Target:
    graph: Graph
    board: Board
    stack: str | None
    runtime: Runtime
    xnnpack: XnnpackMode
    cpu: CpuCost
    cpus: str
    kernels: Kernels

    @staticmethod
    def of(graph: Graph, board: Board, request: Request) -> Target:
        """Resolve the request's options on the board. Raises :class:`InputError`."""
        runtime = _switched(request.runtime) if request.xnnpack == "switch" else request.runtime
        cost, cpus = cpu_cost(board, request.cpus, request.threads)
        kernels = load_kernels(edgedeploy_kernels.manifest()) if request.kernels is None else request.kernels
        stack = stack_of(board, request.npu)
        return Target(graph, board, stack, runtime, request.xnnpack, cost, cpus, kernels)

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

    # --- back ends that the plan may choose ---

    @cached_property
    def neon(self) -> NeonCost:
        return NeonCost(self.kernels, self.cpu)

    @cached_property
    def neon_table(self) -> Backend | None:
        """The manifest as a support table, checked; None where no kernel fits the cores."""
        fitting = tuple(self.neon.kernels.values())
        if not fitting:
            return None
        table = kernel_table(structs.replace(self.kernels, kernels=fitting))
        check_table(table)
        return table

    @cached_property
    def tables(self) -> Mapping[str, Backend]:
        """The support tables by name."""
        return {table.name: table for table in (self.backend, self.neon_table) if table is not None}

    @property
    def backends(self) -> tuple[str, ...]:
        """What ``--force`` and ``--forbid`` may name."""
        return (CPU, *self.tables)

    def delegate(self, backend: str) -> str:
        return self.tables[backend].delegate

    def partition_handover(self, delegate: str) -> Cost:
        """What calling one delegate node costs."""
        ours = self.backend is not None and delegate == self.backend.delegate
        return self.npu.partition_handover() if ours else self.xnnpack_handover

    def segment_handover(self, backend: str) -> Cost:
        return FREE if backend == NEON else self.npu.segment_handover()

    def enter(self, tensor: Tensor, backend: str, layout: str) -> Cost:
        """From the NHWC arena; our own kernels read it in place."""
        return FREE if backend == NEON and layout == NHWC else self.npu.enter(tensor, layout)

    def leave(self, tensor: Tensor, backend: str, layout: str) -> Cost:
        return FREE if backend == NEON and layout == NHWC else self.npu.leave(tensor, layout)

    def internal(self, tensor: Tensor, layout_from: str, layout_to: str) -> Cost:
        """Inside one partition; only NPU stacks have a second layout."""
        return FREE if layout_from == layout_to else self.npu.internal(tensor, layout_from, layout_to)

    # --- candidates ---

    def candidates(self, op: Op) -> tuple[Candidate, ...]:
        """NPU first, then our own kernels, then the CPU's."""
        return (*self._npu_candidates(op), *self._neon_candidates(op), *self._cpu_candidates(op))

    def supported(self, op: Op, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        """``candidates`` as they would be if the NPU took the op."""
        if self.backend is None:
            return candidates
        npu = self.backend.kernels[0]
        found = []
        for c in candidates:
            if (c.backend, c.kernel) == (self.backend.name, npu):
                cost = c.cost or self.npu.op(self.graph, op, npu, c.layout)
                c = replace(c, verdict="supported", cost=cost, fusion_required=False)
            found.append(c)
        return tuple(found)

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
        return xnnpack_claims(self.graph, subgraph, available, self.runtime, self._taken)

    def stopped(self, subgraph: int, available: Collection[int]) -> tuple[Op, str] | None:
        """The op that keeps XNNPACK from claiming any of ``available``, and why in words; None if there is none."""
        found = None if self.xnnpack == "off" else stopper(self.graph, subgraph, available, self.runtime, self._taken)
        return None if found is None else (found[0], _STOPPED[found[1]].format(found[0].name, self.runtime.title))

    @cached_property
    def is_undone(self) -> bool:
        """XNNPACK fails on an op that no other takes, and the runtime goes on without any delegate."""
        left = ((sub.index, range(len(sub.ops))) for sub in self.graph.subgraphs)
        found = (stopper(self.graph, i, ops, self.runtime, self._taken) for i, ops in left if self.xnnpack != "off")
        return any(f is not None and f[1] == "undoes" for f in found)

    @cached_property
    def _stopped_alone(self) -> tuple[tuple[Op, str] | None, ...]:
        """By subgraph, when XNNPACK may take every op."""
        return tuple(self.stopped(sub.index, range(len(sub.ops))) for sub in self.graph.subgraphs)

    @cached_property
    def _taken(self) -> Taken:
        return {}

    def _judged(self, op: Op) -> tuple[Judged, ...]:
        """The NPU table's verdicts on ``op``."""
        key = (op.subgraph, op.index)
        if key not in self._verdicts:
            assert self.backend is not None
            assert self.stack is not None
            self._verdicts[key] = verdicts(self.graph, op, self.backend, self.board.stacks[self.stack].soc)
        return self._verdicts[key]

    @cached_property
    def _verdicts(self) -> dict[tuple[int, int], tuple[Judged, ...]]:
        return {}

    def _npu_candidates(self, op: Op) -> tuple[Candidate, ...]:
        if self.backend is None:
            return ()
        return tuple(self._npu_candidate(op, judged, self.backend.name) for judged in self._judged(op))

    def _npu_candidate(self, op: Op, judged: Judged, backend: str) -> Candidate:
        candidate = Candidate.of(backend, judged, judged.layout)
        if judged.status == "refused":
            return candidate
        candidate = replace(candidate, cost=self.npu.op(self.graph, op, judged.kernel, judged.layout))
        if judged.fusion is None:
            return candidate
        beside = tuple(
            host for host in hosts(self.graph, op, judged.fusion)
            if any(j.status != "refused" and j.kernel == judged.kernel and j.layout == judged.layout
                   for j in self._judged(host))
        )  # fmt: skip
        fused = self.npu.fused(self.graph, op, judged.kernel, judged.layout) if beside else None
        return self._inside(op, candidate, judged.fusion, beside, fused, "of the NPU")

    def _inside(
        self, op: Op, candidate: Candidate, fusion: Fusion, beside: tuple[Op, ...], fused: Cost | None, whose: str
    ) -> Candidate:
        """``candidate``, which may run inside one of ``beside`` at the cost of ``fused``."""
        if not beside and fusion.required:
            reason = (
                f"{op.name} only runs inside a {' or '.join(fusion.into)} {whose} that makes an operand of it which "
                "nobody else reads; there is none"
            )
            return replace(candidate, verdict="refused", reason=reason, rule="fusion", cost=None, variant=None)
        if fused is not None and candidate.cost is not None and fused.ns > candidate.cost.ns:
            fused = candidate.cost
        return replace(
            candidate,
            fused=fused,
            fusion_required=fusion.required,
            hosts=tuple(host.index for host in beside),
            companions=companions(self.graph, op, beside[0]) if beside else (),
        )

    def _neon_candidates(self, op: Op) -> tuple[Candidate, ...]:
        table = self.neon_table
        if table is None:
            return ()
        npu_layouts = {judged.layout for judged in self._judged(op)} if self.backend is not None else set()
        found = []
        for judged in verdicts(self.graph, op, table, SOC):
            if judged.rule == NO_RULE:
                continue
            kernel = self.neon.kernels[judged.kernel]
            if kernel.fusion is not None and not follows(self.graph, op, kernel.fusion):
                continue  # most convolutions have nothing to do with a kernel of two ops
            # What the plan computes is what the runtime does without it.
            if kernel.numerics == XNNPACK_KERNEL != self.cpu_kernel(op) and judged.status != "refused":
                judged = replace(judged, status="refused", rule="numerics", reason=_OTHER_NUMERICS)
            for layout in kernel.layouts:
                if layout != NHWC and (layout not in npu_layouts or self.delegate(NEON) != self._npu_delegate):
                    continue
                candidate = replace(Candidate.of(NEON, judged, layout), sdk_version=None)
                if judged.status != "refused":
                    cost, variant = self.neon.op(self.graph, op, judged.kernel)
                    candidate = replace(candidate, cost=cost, variant=variant)
                    if judged.fusion is not None:
                        beside = tuple(h for h in hosts(self.graph, op, judged.fusion) if self._has_own_kernel(h))
                        candidate = self._inside(op, candidate, judged.fusion, beside, cost, "of the C kernels")
                found.append(candidate)
        return tuple(found)

    def _has_own_kernel(self, op: Op) -> bool:
        return any(candidate.verdict != "refused" for candidate in self._neon_candidates(op))

    @property
    def _npu_delegate(self) -> str | None:
        return self.backend.delegate if self.backend is not None else None

    def _cpu_candidates(self, op: Op) -> tuple[Candidate, ...]:
        found = [self._builtin(op)]
        if self.xnnpack != "off":
            found.insert(0, self._xnnpack(op))
        return tuple(found)

    def _xnnpack(self, op: Op) -> Candidate:
        """The price stands even where XNNPACK leaves the op: it may claim it when other ops have other owners."""
        seen = self.census[op.subgraph, op.index]
        takes = self.cpu_kernel(op) == XNNPACK_KERNEL
        stopped = None if takes else self._stopped_alone[op.subgraph]
        return Candidate(
            backend=CPU,
            kernel=XNNPACK_KERNEL,
            layout=NHWC,
            verdict="supported" if takes else "refused",
            reason=_census_reason(seen) if stopped is None else stopped[1],
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


def _switched(runtime: Runtime) -> Runtime:
    if runtime.title not in (names := [name.replace("==", " ") for name in switched_names()]):
        raise InputError(
            f"--xnnpack switch is for {', '.join(names)}, which leaves XNNPACK's 8-bit kernels off; {runtime.title}"
            " applies XNNPACK by itself, with them: say default or off"
        )
    return runtime.switched(load_switched(runtime.name, runtime.version))


_OTHER_NUMERICS = "it rounds as XNNPACK does, which leaves the op to the built-in kernel here"


_STOPPED = {
    "dynamic": "{0} gives its result a size only at run time, and XNNPACK in {1} then claims nothing",
    "undoes": "XNNPACK fails on {0}, and {1} then undoes the claims of all delegates; --xnnpack off keeps the others",
}


def _census_reason(found: Found) -> str:
    if found.verdict == "fails":
        return "XNNPACK claims this op and then refuses to prepare it: the model does not load with XNNPACK on"
    if found.row is not None:
        return f"XNNPACK {found.verdict} it (census row {found.row})"
    if found.known:
        return "XNNPACK leaves this op with these types and options"
    return "the census has not seen this op with these types: taken as left to the built-in kernel"
