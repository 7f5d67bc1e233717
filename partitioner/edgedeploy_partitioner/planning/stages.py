# SPDX-License-Identifier: Apache-2.0
"""From candidates to numbers: the planning problem of each subgraph."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import Op, Subgraph, Tensor
from edgedeploy_partitioner.planning.candidate import Candidate
from edgedeploy_partitioner.planning.placement import OpKey, Placement
from edgedeploy_partitioner.planning.target import CPU, NHWC, XNNPACK_KERNEL, Target
from edgedeploy_partitioner.runtime.replay import file_plan
from edgedeploy_partitioner.solver.problem import XNNPACK, Arena, Border, Fusion, Lane, Node, Problem
from edgedeploy_partitioner.solver.settle import Stage
from edgedeploy_partitioner.support.kernels import NEON

BUILTIN_LANE, XNNPACK_LANE = 0, 1
FIRST_CHOSEN_LANE = 2


@dataclass(frozen=True)
class Scene:
    """One subgraph with all candidates of its ops, and the problem made of them.

    ``choices[i][lane]`` is the candidate that runs node i in that lane, whether or not it may be chosen.
    """

    target: Target
    subgraph: Subgraph
    ops: tuple[Op, ...]
    candidates: Mapping[int, tuple[Candidate, ...]]
    lanes: tuple[Lane, ...]
    choices: tuple[Mapping[int, Candidate], ...]
    stage: Stage
    assume_supported: bool
    """Whether an unknown verdict counts as a yes."""

    @cached_property
    def cpu_lanes(self) -> tuple[int, ...]:
        """The lanes of a plan that keeps everything on the CPU."""
        return tuple(_cpu_lane(self.target, op) for op in self.ops)

    @cached_property
    def stock_lanes(self) -> tuple[int, ...] | None:
        """The lanes of a delegate that takes all it supports; None without an NPU."""
        if self.target.backend is None:
            return None
        return tuple(
            min(
                (n for n, c in choice.items() if c.backend == self.target.backend.name and self._counts(c)),
                key=lambda n, choice=choice: (_ns(choice[n]), n),  # type: ignore[misc]
                default=cpu,
            )
            for choice, cpu in zip(self.choices, self.cpu_lanes, strict=True)
        )

    def _counts(self, candidate: Candidate) -> bool:
        return candidate.verdict == "supported" or self.assume_supported

    def with_limits(
        self, max_partitions: int | None, limits: Mapping[str, int] | None = None, arena: Arena | None = None
    ) -> Stage:
        """The stage with limits on partitions, on those of single delegates, and on the arena."""
        problem = dataclasses.replace(
            self.stage.problem, max_partitions=max_partitions, limits=limits or {}, arena=arena
        )
        return dataclasses.replace(self.stage, problem=problem)


def scene(
    target: Target,
    index: int,
    placement: Placement,
    *,
    assume_supported: bool,
    candidates: Mapping[int, tuple[Candidate, ...]],
    supported: Collection[OpKey] = (),
) -> Scene:
    """The scene of one subgraph, made of ``candidates`` by op. Raises :class:`InputError` where ``--force`` and
    ``--forbid`` leave an op no place."""
    subgraph = target.graph.subgraphs[index]
    ops = tuple(op for op in subgraph.ops if op.index not in subgraph.folded)
    candidates = {
        op.index: target.supported(op, candidates[op.index]) if (index, op.index) in supported else candidates[op.index]
        for op in ops
    }
    lanes = _lanes(target, candidates)
    choices = tuple(_choices(lanes, candidates[op.index]) for op in ops)
    nodes = _nodes(subgraph, ops)
    full = Problem(
        lanes=lanes,
        nodes=tuple(_priced(node, choice, lanes) for node, choice in zip(nodes, choices, strict=True)),
        borders=_borders(target, subgraph, nodes, lanes),
        outputs=frozenset(subgraph.outputs),
        fusions=_fusions(ops, choices),
    )
    offered = []
    for op, node, choice in zip(ops, nodes, choices, strict=True):
        kept = _offered(target, op, choice, placement, assume_supported)
        if not kept:
            raise InputError(_no_place(op, candidates[op.index], placement))
        offered.append(_priced(node, kept, lanes))
    stage = Stage(
        problem=dataclasses.replace(full, nodes=tuple(offered)),
        full=full,
        plan=file_plan(subgraph),
        travels_with=_travels_with(subgraph),
        xnnpack=partial(target.xnnpack_claims, index),
        builtin_lane=BUILTIN_LANE,
        xnnpack_lane=XNNPACK_LANE,
    )
    return Scene(target, subgraph, ops, candidates, lanes, choices, stage, assume_supported)


def _lanes(target: Target, candidates: Mapping[int, Sequence[Candidate]]) -> tuple[Lane, ...]:
    lanes = [Lane(None, CPU, NHWC), Lane(XNNPACK, CPU, NHWC, partition_ns=target.xnnpack_handover.ns)]
    used = {(c.backend, c.layout) for cs in candidates.values() for c in cs if c.backend != CPU and c.cost}
    lanes += [
        Lane(
            delegate=target.delegate(backend),
            backend=backend,
            layout=layout,
            partition_ns=target.partition_handover(target.delegate(backend)).ns,
            segment_ns=target.segment_handover(backend).ns,
        )
        for backend, layout in sorted(used)
    ]
    return tuple(lanes)


def _fusions(ops: Sequence[Op], choices: Sequence[Mapping[int, Candidate]]) -> tuple[Fusion, ...]:
    """Hosts run with the same kernel in the same lane; a C kernel that needs one computes what its host does."""
    position = {op.index: i for i, op in enumerate(ops)}
    found = []
    for i, choice in enumerate(choices):
        for lane, c in choice.items():
            if c.fused is None:
                continue
            beside = [(position[h], choices[position[h]].get(lane)) for h in c.hosts]
            hosts = tuple(h for h, o in beside if o is not None and (o.kernel == c.kernel or c.backend == NEON))
            if c.fusion_required or (hosts and c.fused.ns < _ns(c)):
                also = tuple(position[j] for j in c.companions)
                found.append(Fusion(i, lane, hosts, _ns(c) - c.fused.ns, c.fusion_required, also))
    return tuple(found)


def _choices(lanes: Sequence[Lane], candidates: Sequence[Candidate]) -> Mapping[int, Candidate]:
    """The cheapest supported candidate by lane; an unknown one only where no other is."""
    best: dict[int, Candidate] = {}
    for c in candidates:
        if c.cost is None:
            continue
        if c.backend == CPU:
            best[XNNPACK_LANE if c.kernel == XNNPACK_KERNEL else BUILTIN_LANE] = c
            continue
        lane = next(n for n, lane in enumerate(lanes) if (lane.backend, lane.layout) == (c.backend, c.layout))
        known = best.get(lane)
        if known is None or (c.verdict != "supported", _ns(c)) < (known.verdict != "supported", _ns(known)):
            best[lane] = c
    return best


def _offered(
    target: Target, op: Op, choice: Mapping[int, Candidate], placement: Placement, assume_supported: bool
) -> dict[int, Candidate]:
    """What the solver may choose from: one CPU kernel (derived), and back ends that the verdict and the user allow."""
    key = (op.subgraph, op.index)
    kept = {}
    for n, c in choice.items():
        if n < FIRST_CHOSEN_LANE:
            usable = n == _cpu_lane(target, op)
        else:
            usable = c.verdict == "supported" or assume_supported or key in placement.forced
        if usable and placement.allows(key, c.backend):
            kept[n] = c
    return kept


def _cpu_lane(target: Target, op: Op) -> int:
    return XNNPACK_LANE if target.cpu_kernel(op) == XNNPACK_KERNEL else BUILTIN_LANE


def _no_place(op: Op, candidates: Sequence[Candidate], placement: Placement) -> str:
    key = (op.subgraph, op.index)
    forced = placement.forced.get(key)
    what = f"op {op.index} {op.name}" if op.subgraph == 0 else f"op {op.subgraph}:{op.index} {op.name}"
    if forced is None:
        return f"{', '.join(placement.forbidden[key].values())}: {what} is left with no place to run"
    backend, option = forced
    reasons = [c.reason for c in candidates if c.backend == backend and c.verdict == "refused"]
    return f"{option}: {what} cannot run on {backend}: {reasons[0] if reasons else 'there is no kernel for it'}"


def _nodes(subgraph: Subgraph, ops: Sequence[Op]) -> tuple[Node, ...]:
    fixed = {t.id for t in subgraph.tensors if t.is_constant} | {-1}
    fixed.update(t for i in subgraph.folded for t in subgraph.ops[i].outputs)
    return tuple(
        Node(
            op=op.index,
            inputs=tuple(t for t in dict.fromkeys(op.inputs) if t not in fixed),
            outputs=tuple(t for t in op.outputs if t >= 0),
            costs=(),
        )
        for op in ops
    )


def _priced(node: Node, choice: Mapping[int, Candidate], lanes: Sequence[Lane]) -> Node:
    costs = tuple(_ns(choice[n]) if n in choice else None for n in range(len(lanes)))
    return Node(node.op, node.inputs, node.outputs, costs)


def _borders(target: Target, subgraph: Subgraph, nodes: Sequence[Node], lanes: Sequence[Lane]) -> dict[int, Border]:
    chosen = lanes[FIRST_CHOSEN_LANE:]
    mixed = any(a.delegate == b.delegate and a.layout != b.layout for a in chosen for b in chosen)
    borders = {}
    for t in sorted({t for node in nodes for t in (*node.inputs, *node.outputs)}):
        tensor = subgraph.tensors[t]
        internal: tuple[tuple[int, ...], ...] = ()
        if mixed:
            internal = tuple(tuple(_internal(target, tensor, a, b) for b in lanes) for a in lanes)
        borders[t] = Border(
            enter_ns=(0, 0, *(target.enter(tensor, lane.backend, lane.layout).ns for lane in chosen)),
            leave_ns=(0, 0, *(target.leave(tensor, lane.backend, lane.layout).ns for lane in chosen)),
            internal_ns=internal,
        )
    return borders


def _internal(target: Target, tensor: Tensor, a: Lane, b: Lane) -> int:
    if a.layout == b.layout or a.delegate != b.delegate or a.backend == CPU:
        return 0
    return target.internal(tensor, a.layout, b.layout).ns


def _travels_with(subgraph: Subgraph) -> dict[int, frozenset[int]]:
    """Folded op -> the ops that read what it unpacks, through chains. One whose value is also a result stays."""
    results = set(subgraph.outputs)
    return {
        i: _readers(subgraph, i) for i in sorted(subgraph.folded) if results.isdisjoint(subgraph.ops[i].outputs)
    }  # fmt: skip


def _readers(subgraph: Subgraph, folded: int) -> frozenset[int]:
    seen, stack = {folded}, [folded]
    while stack:
        for t in subgraph.ops[stack.pop()].outputs:
            new = [reader for reader in subgraph.consumers.get(t, ()) if reader not in seen]
            seen.update(new)
            stack += [reader for reader in new if reader in subgraph.folded]
    return frozenset(seen - subgraph.folded)


def _ns(candidate: Candidate) -> int:
    assert candidate.cost is not None
    return candidate.cost.ns
