# SPDX-License-Identifier: Apache-2.0
"""What the memory report asks of a plan besides its lines: who makes a tensor, who reads it last, where it lies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from edgedeploy.planview import op_label
from edgedeploy.text import printable
from edgedeploy_partitioner.memory.arena import Arena, ExecutedNode, arena, place
from edgedeploy_partitioner.memory.liveness import FOREVER, Block
from edgedeploy_partitioner.memory.release import Release
from edgedeploy_partitioner.memory.stored import with_room
from edgedeploy_partitioner.model.graph import Graph, Op, Subgraph
from edgedeploy_partitioner.plan import XNNPACK, OpEntry, Plan, TimelineStep

LONGEST_NAME = 120
"""Characters of a tensor's name that any report shows."""
_ELEMENTWISE_OPS = (
    "ABS CEIL COS ELU EXP FLOOR GELU HARD_SWISH LEAKY_RELU LOG LOGICAL_NOT LOGISTIC MAXIMUM MINIMUM NEG POW PRELU"
    " QUANTIZE RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SIGN SIN SQRT SQUARE SQUARED_DIFFERENCE TANH"
)
_ELEMENTWISE = frozenset(_ELEMENTWISE_OPS.split())
"""Ops that could write over an operand of the size of the result, and do not in TFLite."""


@dataclass(frozen=True)
class ArenaView:
    """A plan and the planned model, and how steps and tensors of its arena are called."""

    plan: Plan
    graph: Graph

    @cached_property
    def _entries(self) -> Mapping[tuple[int, int], OpEntry]:
        return {(op.subgraph, op.index): op for op in self.plan.ops}

    @cached_property
    def _members(self) -> Mapping[int, list[OpEntry]]:
        found: dict[int, list[OpEntry]] = {}
        for op in self.plan.ops:
            if op.partition is not None and not op.folded:
                found.setdefault(op.partition, []).append(op)
        return found

    @cached_property
    def _position(self) -> Mapping[int, Mapping[int, int]]:
        return {use.index: {op: at for at, op in enumerate(use.order)} for use in self.plan.subgraphs}

    @cached_property
    def peak(self) -> TimelineStep | None:
        """The step with the most bytes alive, the first of equals."""
        return max(self.plan.memory.timeline, key=lambda step: step.live_bytes, default=None)

    def op(self, subgraph: int, index: int) -> str:
        """``op 7 SOFTMAX``."""
        entry = self._entries[subgraph, index]
        return f"op {op_label(self.plan, (subgraph, index))} {entry.custom_code or entry.op}"

    def step(self, step: TimelineStep) -> str:
        """``op 7 SOFTMAX`` or ``partition 1 (rknn, 18 ops from op 1)``."""
        if step.op is not None:
            return self.op(step.subgraph, step.op)
        inside = [] if step.partition is None else self._members.get(step.partition, [])
        backends = " + ".join(dict.fromkeys(XNNPACK if op.backend == "cpu" else op.backend for op in inside))
        if len(inside) == 1:
            return f"partition {step.partition} ({backends}, {self.op(step.subgraph, inside[0].index)})"
        first = op_label(self.plan, (step.subgraph, inside[0].index)) if inside else "?"
        return f"partition {step.partition} ({backends}, {len(inside)} ops from op {first})"

    def rest(self, step: TimelineStep) -> str:
        """What is alive at ``step`` besides tensors of its subgraph."""
        scratch = "" if step.op is None else f"scratch of {self.step(step)}"
        callers = "" if step.subgraph == self.plan.main else "what its callers keep"
        return ", ".join(part for part in (scratch, callers) if part) or "scratch of kernels"

    def name(self, subgraph: int, tensor: int) -> str:
        """On one line, and no longer than a report can take; ``tensor 7`` where the file has no name."""
        name = printable(self.graph.tensor(subgraph, tensor).name[: LONGEST_NAME + 1])
        if len(name) > LONGEST_NAME:
            name = f"{name[:LONGEST_NAME]}..."
        return name or f"tensor {tensor}"

    def kept(self, subgraph: int, tensor: int) -> str:
        """From where a tensor is kept to where: ``op 3 to 7``, ``input, never freed``, ``op 12, result``."""
        within = self.graph.subgraphs[subgraph]
        if tensor in within.inputs:
            return "input, never freed"
        if within.tensors[tensor].is_variable:
            return "variable, never freed"
        made = within.producer.get(tensor)
        start = "op ?" if made is None else f"op {op_label(self.plan, (subgraph, made))}"
        if tensor in within.outputs:
            return f"{start}, result"
        position = self._position[subgraph]
        readers = [op for op in within.consumers.get(tensor, ()) if op in position]
        if not readers:
            return f"{start}, not read"
        return f"{start} to {op_label(self.plan, (subgraph, max(readers, key=position.__getitem__)))}"


# --- the arena again, with the place of every tensor ---


def executed(plan: Plan, subgraph: Subgraph) -> tuple[ExecutedNode, ...]:
    """What the runtime runs of ``subgraph`` in order: built-in ops, and the plan's partitions as delegate nodes."""
    order = next((use.order for use in plan.subgraphs if use.index == subgraph.index), ())
    home = {op.index: op.partition for op in plan.ops if op.subgraph == subgraph.index}
    delegates = {part.id: part.delegate for part in plan.partitions}
    fixed = {t.id for t in subgraph.tensors if t.is_constant} | {-1}
    nodes: list[ExecutedNode] = []
    seen: set[int] = set()
    for index in order:
        part = home.get(index)
        if part is None:
            op = subgraph.ops[index]
            inputs = tuple(t for t in op.inputs if t not in fixed)
            nodes.append(ExecutedNode(index, (index,), inputs, tuple(t for t in op.outputs if t >= 0)))
        elif part not in seen:
            seen.add(part)
            inside = [subgraph.ops[i] for i in home if home[i] == part]
            made = dict.fromkeys(t for op in inside for t in op.outputs if t >= 0)
            read = dict.fromkeys(t for op in inside for t in op.inputs if t not in fixed and t not in made)
            members = tuple(op.index for op in inside)
            nodes.append(ExecutedNode(None, members, tuple(read), tuple(made), delegates.get(part)))
    return tuple(nodes)


def as_sized(plan: Plan, graph: Graph) -> Graph:
    """``graph`` with the shapes that the plan's arena is for."""
    return with_room(graph) if any(w.code == "arena_as_stored" for w in plan.warnings) else graph


def main_arena(plan: Plan, graph: Graph) -> Arena:
    """The arena of the main subgraph, with the place of every tensor."""
    subgraph = graph.subgraphs[plan.main]
    return arena(graph, subgraph, executed(plan, subgraph), plan.inputs.options.threads, release_of(plan))


def release_of(plan: Plan) -> Release:
    runtime = plan.inputs.runtime
    return Release.of(runtime.name, runtime.version, runtime.machine, is_switched=runtime.xnnpack == "switch")


@dataclass(frozen=True, slots=True)
class InPlace:
    """The arena if ``ops``, which TFLite gives a result of their own, wrote over an operand that ends there."""

    ops: tuple[tuple[int, int], ...]
    arena_bytes: int
    before_bytes: int


def in_place(plan: Plan, graph: Graph) -> InPlace | None:
    """What running elementwise ops in place, or fusing them into their producer, would save of the main arena.

    None where nothing would be. An estimate: of the runtime's order among tensors of equal size nothing is known.
    """
    subgraph = graph.subgraphs[plan.main]
    nodes = executed(plan, subgraph)
    its = main_arena(plan, graph)
    found = {b.tensor: b for b in its.blocks}
    merged: list[tuple[int, int]] = []
    for position, node in enumerate(nodes):
        op = None if node.op is None else subgraph.ops[node.op]
        if op is None or op.code not in _ELEMENTWISE or not op.outputs:
            continue
        pair = _pair(op, position, found)
        if pair is not None:
            operand, result = pair
            del found[result.tensor]
            found[operand.tensor] = replace(operand, last=result.last)
            found[result.tensor] = replace(found[operand.tensor], tensor=result.tensor)
            del found[operand.tensor]
            merged.append((op.subgraph, op.index))
    if not merged:
        return None
    size = place(sorted(found.values(), key=_rank))[1]
    return InPlace(tuple(merged), size, its.bytes) if size < its.bytes else None


def _pair(op: Op, position: int, found: Mapping[int, Block]) -> tuple[Block, Block] | None:
    """The block of an operand that ends at ``op`` and that of the result, of one size."""
    result = found.get(op.outputs[0])
    if result is None or result.first != position:
        return None
    operands = (found[t] for t in op.inputs if t in found)
    ending = (b for b in operands if b.last == position and b.bytes == result.bytes)
    operand = next(ending, None)
    return None if operand is None else (operand, result)


def _rank(block: Block) -> tuple[int, int, int]:
    """The order in which TFLite's planner places: what lives for the whole run, then by size."""
    forever = block.first == 0 and block.last == FOREVER
    return (0, block.tensor, 0) if forever else (1, -block.bytes, block.first)


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor in the arena, or a kernel's scratch memory (``tensor`` None), from node ``first`` to ``last``."""

    tensor: int | None
    offset: int
    bytes: int
    first: int
    last: int


def placed(its: Arena, subgraph: Subgraph, nodes: Sequence[ExecutedNode]) -> Iterator[Placed]:
    """Everything in an arena, by offset."""
    end = max(0, len(nodes) - 1)
    for block in sorted(its.blocks, key=lambda b: (its.offsets[b.tensor], b.first)):
        tensor = block.tensor if block.tensor < len(subgraph.tensors) else None
        yield Placed(tensor, its.offsets[block.tensor], block.bytes, min(block.first, end), min(block.last, end))
