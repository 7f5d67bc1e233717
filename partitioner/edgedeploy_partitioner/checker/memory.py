# SPDX-License-Identifier: Apache-2.0
"""Do the memory lines add up, and are the arena and its timeline those of the plan?"""

from __future__ import annotations

from collections.abc import Iterator

from edgedeploy_partitioner.checker.arena import ArenaNode, possible_arenas
from edgedeploy_partitioner.checker.view import Fault, Scope, View

LINES = (
    "arena_bytes",
    "persistent_bytes",
    "packed_bytes",
    "delegate_internal_bytes",
    "npu_pool_bytes",
    "handover_bytes",
    "interpreter_bytes",
    "model_bytes",
)
"""What ``peak_bytes`` is the sum of, less ``unwritten_bytes``."""


def check_memory(view: View) -> Iterator[Fault]:
    yield from _lines(view)
    yield from _bounds(view)
    yield from _arena(view)
    yield from _timeline(view)
    yield from _peak_op(view)


def _lines(view: View) -> Iterator[Fault]:
    m = view.plan.memory
    lines: dict[str, int | None] = {name: getattr(m, name) for name in LINES}
    if m.model_bytes != view.graph.size:
        yield Fault("line", f"the model has {view.graph.size} bytes, the line says {m.model_bytes}")
    total = sum(line or 0 for line in lines.values()) - m.unwritten_bytes
    if total != m.peak_bytes:
        yield Fault("peak", f"the memory lines sum to {total} bytes, the peak is {m.peak_bytes}")
    if not 0 <= m.unwritten_bytes <= m.arena_bytes + (m.persistent_bytes or 0):
        yield Fault("line", f"{m.unwritten_bytes} bytes of the arenas are not written, which is not within them")
    lines["baseline_bytes"] = m.baseline_bytes
    for name, line in lines.items():
        warned = any(w.code == "line_not_modelled" and name in w.message for w in view.plan.warnings)
        if warned != (line is None):
            yield Fault("line", f"{name} is {line}, and {'has a' if warned else 'no'} warning that it is not modelled")
    if any(line is not None and line < 0 for line in (*lines.values(), m.lowest_arena_bytes)):
        yield Fault("line", "a memory line is negative")
    if not m.peak_low_bytes <= m.peak_bytes or (m.peak_high_bytes is not None and m.peak_high_bytes < m.peak_bytes):
        yield Fault("peak", f"the peak is not between {m.peak_low_bytes} and {m.peak_high_bytes} bytes")
    if m.lowest_arena_bytes is not None and m.lowest_arena_bytes > m.arena_bytes:
        yield Fault("arena", f"the lowest possible arena {m.lowest_arena_bytes} bytes is over the arena")
    limit = view.plan.inputs.options.memory_limit_bytes
    if limit is not None and m.peak_bytes > limit:
        yield Fault("memory-limit", f"the peak is {m.peak_bytes} bytes, the limit is {limit}")


def _bounds(view: View) -> Iterator[Fault]:
    """Bounds hold the lines, those of an exact one are it, and they sum to those of the peak."""
    m = view.plan.memory
    lines = {name: value for name in (*LINES, "baseline_bytes") if (value := getattr(m, name)) is not None}
    if not m.bounds and not m.kinds:
        return
    if set(m.bounds) != set(lines) or set(m.kinds) != set(lines):
        yield Fault("line", "bounds and kinds are not of the lines that are modelled")
        return
    for name, line in lines.items():
        low, high = m.bounds[name]
        is_point = low == line == high
        if not low <= line or (high is not None and high < line) or (m.kinds[name] == "exact" and not is_point):
            yield Fault("line", f"{name} is {line}, {m.kinds[name]}, and not within {low} and {high}")
    summed = [m.bounds[name] for name in LINES if name in lines]
    low_bytes = max(0, sum(low for low, _ in summed) - m.unwritten_bytes * 11 // 10)
    highs = [high for _, high in summed if high is not None]
    high_bytes = sum(highs) if len(highs) == len(LINES) else None
    if (low_bytes, high_bytes) != (m.peak_low_bytes, m.peak_high_bytes):
        yield Fault("peak", f"the bounds sum to {low_bytes} and {high_bytes} bytes, those of the peak differ")


def _arena(view: View) -> Iterator[Fault]:
    """Replay the runtime's planner where the plan says that its own replay is exact and every kernel is plain."""
    used = [use for use in view.plan.subgraphs if use.times]
    if not view.plan.memory.arena_exact or [use.index for use in used] != [view.main]:
        return
    scope = view.scopes[view.main]
    if any(_is_torn(scope, op) for op in scope.subgraph.folded):
        return
    possible = possible_arenas(scope.subgraph, _nodes(scope), scope.fixed)
    if possible is not None and view.plan.memory.arena_bytes not in possible:
        sizes = " or ".join(map(str, sorted(possible)))
        yield Fault("arena", f"the runtime's arena has {sizes} bytes, not {view.plan.memory.arena_bytes}")


def _is_torn(scope: Scope, folded: int) -> bool:
    """Does a delegate node unpack this constant for a reader outside it, or as a result? Then it lies in the arena,
    which the plain rules here do not know."""
    home, made = scope.view.entry[scope.index, folded].partition, scope.subgraph.ops[folded].outputs
    readers = {r for t in made for r in scope.subgraph.consumers.get(t, ())}
    outside = any(scope.view.entry[scope.index, r].partition != home for r in readers)
    return home is not None and (outside or not set(made).isdisjoint(scope.subgraph.outputs))


def _nodes(scope: Scope) -> list[ArenaNode]:
    nodes = []
    for op, home in _executed(scope.view, scope.index):
        if op is not None:
            code = None if op in scope.subgraph.folded else scope.subgraph.ops[op].code
            nodes.append(ArenaNode(code, scope.subgraph.ops[op].inputs, scope.subgraph.ops[op].outputs))
        elif home is not None:
            inside = scope.members[home]
            made = dict.fromkeys(t for i in sorted(inside) for t in scope.writes(i))
            read = dict.fromkeys(t for i in sorted(inside) for t in scope.reads(i) if t not in made)
            left = tuple(t for t in made if scope.needed_outside(t, inside))
            nodes.append(ArenaNode(None, tuple(read), left))
    return nodes


def _timeline(view: View) -> Iterator[Fault]:
    """One step for each node the runtime executes, in its order, and none needs more than the arena.

    Whether a subgraph that does not count, such as the cheaper branch of an IF, is listed is not checked; nor are
    folded ops, which have a step only where the runtime unpacks them.
    """
    m = view.plan.memory
    for use in view.plan.subgraphs:
        folded = view.graph.subgraphs[use.index].folded
        given = [(s.op, s.partition) for s in m.timeline if s.subgraph == use.index and s.op not in folded]
        if (given or use.times) and given != [step for step in _executed(view, use.index) if step[0] not in folded]:
            yield Fault("timeline", f"the timeline of subgraph {use.index} is not its execution order")
    over = [s for s in m.timeline if not 0 <= s.live_bytes <= m.arena_bytes]
    if over:
        yield Fault("timeline", f"{over[0].live_bytes} bytes are live in an arena of {m.arena_bytes}")


def _peak_op(view: View) -> Iterator[Fault]:
    """The peak is at the node with the most live bytes."""
    m = view.plan.memory
    most = max((s.live_bytes for s in m.timeline), default=None)
    at = {
        (s.subgraph, op)
        for s in m.timeline
        if s.live_bytes == most
        for op in ([s.op] if s.partition is None else view.scopes[s.subgraph].members[s.partition])
    }
    if (m.peak_op not in at) if at else (m.peak_op is not None):
        yield Fault("timeline", f"the peak is at {m.peak_op}, the most bytes are live elsewhere")
    if most is not None and m.lowest_arena_bytes not in (most, None):
        yield Fault("arena", f"{most} bytes are live at once, the lowest arena is given as {m.lowest_arena_bytes}")


def _executed(view: View, subgraph: int) -> list[tuple[int | None, int | None]]:
    steps: list[tuple[int | None, int | None]] = []
    for op in view.use[subgraph].order:
        home = view.entry[subgraph, op].partition
        step = (op, None) if home is None else (None, home)
        if not steps or steps[-1] != step:
            steps.append(step)
    return steps
