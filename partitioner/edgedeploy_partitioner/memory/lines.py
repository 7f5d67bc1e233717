# SPDX-License-Identifier: Apache-2.0
"""The memory lines of a plan, as the runtime holds them from the first run on. ``docs/memory.md`` defines each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

from msgspec import structs

from edgedeploy_partitioner.memory.arena import Arena, ExecutedNode, arena
from edgedeploy_partitioner.memory.interpreter import interpreter
from edgedeploy_partitioner.memory.line import Line
from edgedeploy_partitioner.memory.npu import npu_lines, pool_warnings
from edgedeploy_partitioner.memory.platform import Platform
from edgedeploy_partitioner.memory.release import LITERT_2_3
from edgedeploy_partitioner.memory.stored import stored_otherwise, with_room
from edgedeploy_partitioner.memory.xnnpack import packed
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.plan import Memory, TimelineStep, Warn
from edgedeploy_partitioner.solver.problem import XNNPACK

Executed = Mapping[int, Sequence[ExecutedNode]]

_BASELINE = "baseline_bytes"
_OF_PARTITIONS = ("delegate_internal_bytes", "npu_pool_bytes", "handover_bytes")
_NOT_MODELLED = {
    "delegate_internal_bytes": "tensors inside delegate partitions",
    "npu_pool_bytes": "what the NPU's driver allocates",
    "handover_bytes": "buffers that hand tensors to partitions",
    _BASELINE: "the process and the runtime without a model",
}
_LISTED = 4
_READ_IN_PART = ("IF", "GATHER", "EMBEDDING_LOOKUP")


def memory_lines(
    graph: Graph, executed: Executed, main: int, threads: int = 1, platform: Platform | None = None
) -> tuple[Memory, tuple[Warn, ...]]:
    """The memory of running subgraph ``main``, and warnings for what the numbers leave out.

    ``executed`` has the nodes of every subgraph in execution order; its delegate nodes are the plan's partitions,
    numbered as they come. ``threads`` matters to built-in kernels. Without a ``platform`` nothing is known of an NPU
    and of the baseline, XNNPACK is that of x86-64 and the runtime ai-edge-litert 2.3.0.
    """
    reached = _reached(graph, executed, main)
    release = platform.release if platform else LITERT_2_3
    arenas = {i: arena(graph, graph.subgraphs[i], executed[i], threads, release) for i in reached}
    doubtful = stored_otherwise(graph, reached)
    if doubtful or any(its.dynamic for its in arenas.values()):
        graph = with_room(graph)
        arenas = {i: arena(graph, graph.subgraphs[i], executed[i], threads, release) for i in reached}
    # An initialisation subgraph (CALL_ONCE) gives its arena back after the first run, but not what is persistent.
    held = {i: arenas[i] for i in _reached(graph, executed, main, initial=False)}
    moments = tuple(_moments(graph, executed, held, main))
    top = max(moments, key=lambda moment: moment.live_bytes, default=None)
    live_bytes = top.live_bytes if top else 0
    arena_bytes = _arena_bytes(graph, executed, held, main)
    is_exact = len(held) == 1 and held[main].exact and not doubtful

    least_bytes = min(live_bytes, held[main].bytes)  # a branch that is never taken needs nothing
    in_arena = Line.exact(arena_bytes) if is_exact else Line(arena_bytes, least_bytes, None, "modelled")
    lines, warns = _lines(graph, executed, arenas, in_arena, platform)
    sized = sum(its.on_heap_bytes for its in held.values()) + held[main].growth_bytes
    if sized and (kept := lines["interpreter_bytes"]) is not None:
        lines["interpreter_bytes"] = kept + Line(sized, 0, None, "modelled")
    known = Line.total(line for name, line in lines.items() if line is not None and name != _BASELINE)
    unwritten = held[main].unwritten_bytes
    is_known = None not in [line for name, line in lines.items() if name != _BASELINE]
    values: dict[str, Any] = {name: None if line is None else line.bytes for name, line in lines.items()}
    memory = Memory(
        **values,
        arena_exact=is_exact,
        unwritten_bytes=unwritten,
        peak_bytes=known.bytes - unwritten,
        # A tenth more may stay unwritten: of 70 models it was 9 % in one (torchaudio_conformer, tflite-runtime 2.14).
        peak_low_bytes=max(0, known.low_bytes - unwritten * 11 // 10),
        peak_high_bytes=known.high_bytes if is_known else None,
        peak_op=(top.subgraph, executed[top.subgraph][top.position].members[0]) if top else None,
        peak_tensors=_tensors(graph, held[top.subgraph], top) if top else (),
        lowest_arena_bytes=live_bytes,
        timeline=_timeline(executed, moments),
        kinds={name: line.kind for name, line in lines.items() if line is not None},
        bounds={name: (line.low_bytes, line.high_bytes) for name, line in lines.items() if line is not None},
    )
    return memory, (*_arena_warnings(graph, held, doubtful), *warns, *_line_warnings(memory))


def without_bound(memory: Memory) -> Memory:
    """``memory`` where the arena may be larger than what was replayed."""
    name = "arena_bytes"
    return structs.replace(
        memory,
        arena_exact=False,
        peak_high_bytes=None,
        kinds={**memory.kinds, name: "modelled"},
        bounds={**memory.bounds, name: (memory.bounds[name][0], None)},
    )


@dataclass(frozen=True, slots=True)
class _Moment:
    """One node runs: ``live_bytes`` are alive in its subgraph and in those that called it."""

    subgraph: int
    position: int
    live_bytes: int


# --- which subgraphs run, and when ---


def _callees(graph: Graph, executed: Executed, subgraph: int, node: ExecutedNode) -> tuple[int, ...]:
    op = None if node.op is None else graph.subgraphs[subgraph].ops[node.op]
    return () if op is None else tuple(c for c in op.callees if c in executed)


def _reached(graph: Graph, executed: Executed, main: int, *, initial: bool = True) -> tuple[int, ...]:
    """The subgraphs that ``main`` runs with built-in kernels, itself first; without ``initial``, those of every run."""
    found = {main: None}
    todo = [main]
    while todo:
        subgraph = todo.pop()
        for node in executed[subgraph]:
            if not initial and node.op is not None and graph.subgraphs[subgraph].ops[node.op].code == "CALL_ONCE":
                continue
            new = [c for c in _callees(graph, executed, subgraph, node) if c not in found]
            found |= dict.fromkeys(new)
            todo += new
    return tuple(found)


def _moments(graph: Graph, executed: Executed, arenas: Mapping[int, Arena], main: int) -> Iterator[_Moment]:
    """All nodes in execution order, each subgraph once: where it is called first, before the node that calls it."""
    below = _live_below(graph, executed, arenas)
    entered = {main}
    stack = [(main, 0)]
    while stack:
        subgraph, position = stack.pop()
        if position == len(executed[subgraph]):
            continue
        called = _callees(graph, executed, subgraph, executed[subgraph][position])
        if new := [c for c in dict.fromkeys(called) if c in arenas and c not in entered]:
            entered.update(new)
            stack += [(subgraph, position), *((c, 0) for c in reversed(new))]
            continue
        yield _Moment(subgraph, position, below[subgraph] + arenas[subgraph].live_bytes[position])
        stack.append((subgraph, position + 1))


def _live_below(graph: Graph, executed: Executed, arenas: Mapping[int, Arena]) -> Mapping[int, int]:
    """The most bytes that may be alive in the callers of each subgraph while it runs."""
    below = dict.fromkeys(arenas, 0)
    for subgraph in reversed(_callees_first(graph, executed, arenas)):
        for node, live in zip(executed[subgraph], arenas[subgraph].live_bytes, strict=True):
            for callee in _callees(graph, executed, subgraph, node):
                if callee in arenas:
                    below[callee] = max(below[callee], below[subgraph] + live)
    return below


def _arena_bytes(graph: Graph, executed: Executed, arenas: Mapping[int, Arena], main: int) -> int:
    """The arena of ``main`` and, for the op that needs most, of what it runs: the runtime frees those after each op.

    Condition and body of a WHILE are held together, of an IF one branch.
    """
    deep: dict[int, int] = {}
    for subgraph in _callees_first(graph, executed, arenas):
        most = 0
        for node in executed[subgraph]:
            called = [deep[c] for c in _callees(graph, executed, subgraph, node) if c in deep]
            is_choice = node.op is not None and graph.subgraphs[subgraph].ops[node.op].code == "IF"
            most = max(most, max(called, default=0) if is_choice else sum(called))
        deep[subgraph] = arenas[subgraph].bytes + most
    return deep[main]


def _callees_first(graph: Graph, executed: Executed, arenas: Mapping[int, Arena]) -> tuple[int, ...]:
    calls = {
        caller: [c for node in executed[caller] for c in _callees(graph, executed, caller, node) if c in arenas]
        for caller in arenas
    }
    return tuple(TopologicalSorter(calls).static_order())


# --- the lines ---


def _lines(
    graph: Graph, executed: Executed, arenas: Mapping[int, Arena], in_arena: Line, platform: Platform | None
) -> tuple[dict[str, Line | None], tuple[Warn, ...]]:
    """Every line by name, None for one that is not modelled, and warnings of the NPU's."""
    run, isa = {i: executed[i] for i in arenas}, platform.isa if platform else ()
    release = platform.release if platform else LITERT_2_3
    persistent_bytes = sum(a.persistent_bytes for a in arenas.values()) + _resource_bytes(graph, arenas)
    lines: dict[str, Line | None] = {
        "arena_bytes": in_arena,
        "persistent_bytes": Line(persistent_bytes, persistent_bytes, None, "modelled")
        if any(a.unknown_scratch for a in arenas.values())
        else Line.exact(persistent_bytes),
        "packed_bytes": packed(graph, run, platform.core if platform else None, release),
        "interpreter_bytes": interpreter(graph, run, isa, release),
        "model_bytes": _file_line(graph, run),
        _BASELINE: platform.baseline_line if platform else None,
    }
    partitions = {
        number: place[0]
        for number, place in enumerate(_partitions(executed))
        if place[0] in arenas and executed[place[0]][place[1]].delegate != XNNPACK
    }
    warns: tuple[Warn, ...] = ()
    npu: tuple[Line | None, ...] = (None, None, None) if partitions else (Line.none(),) * 3
    if platform and partitions:
        found = npu_lines(graph, platform, partitions)
        npu, warns = (found.delegate_internal, found.npu_pool, found.handover), tuple(pool_warnings(platform, found))
    return lines | dict(zip(_OF_PARTITIONS, npu, strict=True)), warns


def _file_line(graph: Graph, run: Executed) -> Line:
    """The file, mapped whole. Tables, and constants that only an IF or its branches read, are on pages that nobody may
    ever read."""
    choices = [op for i in run for op in graph.subgraphs[i].ops if op.code in _READ_IN_PART]
    branches = {c for op in choices for c in op.callees}
    spans = {t.data for i in branches for t in graph.subgraphs[i].tensors}
    spans |= {graph.tensor(op.subgraph, t).data for op in choices for t in op.inputs if t >= 0}
    for subgraph in (graph.subgraphs[i] for i in run if i not in branches):
        readers = [op for op in subgraph.ops if op.code not in _READ_IN_PART]
        spans -= {subgraph.tensors[t].data for op in readers for t in op.inputs if t >= 0}
    unread = sum(span.size for span in spans if span is not None)
    return Line(graph.size, graph.size - unread, graph.size, "modelled") if unread else Line.exact(graph.size)


def _partitions(executed: Executed) -> list[tuple[int, int]]:
    """Subgraph and position of each delegate node, by its number in the plan."""
    return [(i, at) for i, nodes in executed.items() for at, node in enumerate(nodes) if node.op is None]


def _resource_bytes(graph: Graph, subgraphs: Collection[int]) -> int:
    """The values of resource variables, which are kept by container and name."""
    sizes: dict[tuple[object, object], int] = {}
    for subgraph in (graph.subgraphs[i] for i in subgraphs):
        handles = {op.outputs[0]: op.options for op in subgraph.ops if op.code == "VAR_HANDLE" and op.outputs}
        for op in subgraph.ops:
            value = {"ASSIGN_VARIABLE": op.inputs[1:2], "READ_VARIABLE": op.outputs[:1]}.get(op.code, ())
            if value and value[0] >= 0 and op.inputs and op.inputs[0] in handles:
                options = handles[op.inputs[0]]
                key = options.get("container"), options.get("shared_name")
                sizes[key] = max(sizes.get(key, 0), subgraph.tensors[value[0]].nbytes)
    return sum(sizes.values())


def _tensors(graph: Graph, its: Arena, top: _Moment) -> tuple[int, ...]:
    """The tensors alive at ``top``, largest first, without the temporaries of kernels."""
    return tuple(t for t in its.alive(top.position) if t < len(graph.subgraphs[top.subgraph].tensors))


def _timeline(executed: Executed, moments: Sequence[_Moment]) -> tuple[TimelineStep, ...]:
    partition = {place: number for number, place in enumerate(_partitions(executed))}
    return tuple(
        TimelineStep(
            subgraph=m.subgraph,
            op=executed[m.subgraph][m.position].op,
            partition=partition.get((m.subgraph, m.position)),
            live_bytes=m.live_bytes,
        )
        for m in moments
    )


# --- what they leave out ---


def _arena_warnings(graph: Graph, arenas: Mapping[int, Arena], doubtful: Sequence[tuple[int, int]]) -> Iterator[Warn]:
    scratch = [(i, op) for i, its in arenas.items() for op in its.unknown_scratch]
    dynamic = [(i, op) for i, its in arenas.items() for op in its.dynamic]
    if scratch:
        message = f"the arena is a lower bound: it lacks the scratch memory of {_names(graph, scratch)}"
        yield Warn("arena_lower_bound", message, scratch[0])
    if dynamic:
        names = _names(graph, dynamic)
        message = f"the arena is for shapes as stored or as they follow from the inputs: {names} may get larger results"
        yield Warn("arena_as_stored", message, dynamic[0])
    elif doubtful:
        message = f"the arena is a bound: results of {_names(graph, doubtful)} are stored with other sizes than follow"
        yield Warn("arena_as_stored", f"{message} from the inputs; the larger is counted", doubtful[0])
    if len(arenas) > 1:
        message = f"the arena is a bound: control flow runs {len(arenas) - 1} more subgraphs, with the shapes as stored"
        yield Warn("arena_bound", message)


def _names(graph: Graph, ops: Sequence[tuple[int, int]]) -> str:
    listed = list(dict.fromkeys(graph.subgraphs[i].ops[op].name for i, op in ops))
    return ", ".join(listed[:_LISTED]) + (f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else "")


def _line_warnings(memory: Memory) -> Iterator[Warn]:
    for line, what in _NOT_MODELLED.items():
        if getattr(memory, line) is None:
            yield Warn("line_not_modelled", f"{line} is not modelled: {what}")
