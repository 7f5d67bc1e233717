# SPDX-License-Identifier: Apache-2.0
"""The report of ``edgedeploy memory``: every line, when the arena peaks and on what, and what would lower it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from edgedeploy.arenaview import ArenaView
from edgedeploy.lowering import LINES, Lowering, Way, this_plan
from edgedeploy.report.headline import MEMORY_LINES
from edgedeploy.report.page import BAD, DIM, GOOD, STRONG, WARN, Style, grid, heading, render, text
from edgedeploy.report.plot import plot
from edgedeploy.text import duration, plural, shape, size, times_faster
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.plan import Kind, Memory, Plan, TimelineStep

TENSORS_SHOWN = 8
NAMES: Mapping[str, str] = {
    **MEMORY_LINES,
    "interpreter_bytes": "interpreter",
    "baseline_bytes": "process baseline",
}
"""All lines, the one that is not in the peak last."""
DEFINITIONS: Mapping[str, str] = {
    "arena_bytes": "activations and kernels' scratch in TFLite's one buffer",
    "persistent_bytes": "variables, constants unpacked by kernels",
    "packed_bytes": "packed and unpacked weights, workspace",
    "delegate_internal_bytes": "tensors inside partitions of delegates",
    "npu_pool_bytes": "weights, scratch, borders of the driver",
    "handover_bytes": "conversions at partition borders",
    "model_bytes": "the file, mapped whole",
    "interpreter_bytes": "what the runtime keeps for each tensor and op",
    "baseline_bytes": "runtime without model; not in the peak",
}
"""What each line is; ``docs/memory.md`` has it at length."""
ARENA_WARNINGS = ("arena_lower_bound", "arena_as_stored", "arena_bound")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table. ``bytes`` None: not modelled. ``low`` and ``high`` None: no bound is known."""

    name: str
    definition: str
    bytes: int | None
    low: int | None
    high: int | None
    kind: str


@dataclass(frozen=True, slots=True)
class Gate:
    """``--limit``, and whether the peak keeps it: the predicted one, or its upper bound (None: there is none)."""

    limit_bytes: int
    peak_bytes: int | None
    is_bound: bool = False

    @property
    def is_over(self) -> bool:
        return not self.keeps(self.peak_bytes)

    def keeps(self, peak_bytes: int | None) -> bool:
        return peak_bytes is not None and peak_bytes <= self.limit_bytes

    @property
    def words(self) -> str:
        subject = "upper bound " if self.is_bound else ""
        if self.peak_bytes is None:
            return f"no upper bound: a run may take more than the limit of {size(self.limit_bytes)}"
        apart = abs(self.peak_bytes - self.limit_bytes)
        if self.is_over:
            return f"{subject}{size(apart)} ({apart} bytes) over the limit of {size(self.limit_bytes)}"
        return f"{subject}within the limit of {size(self.limit_bytes)}, {size(apart)} to spare"


def gate_on(memory: Memory, limit_bytes: int, *, high: bool) -> Gate:
    """``limit_bytes`` for the peak of ``memory`` that is predicted, or for its upper bound."""
    return Gate(limit_bytes, memory.peak_high_bytes if high else memory.peak_bytes, high)


def lines(memory: Memory) -> Iterator[Line]:
    """Every line of ``memory``, those of the peak first and the baseline last."""
    for key, name in NAMES.items():
        value: int | None = getattr(memory, key)
        kind = "unknown" if value is None else memory.kinds.get(key) or _kind(memory, key, value)
        low, high = memory.bounds.get(key) or _bounds(memory, key, value, kind)
        if key == "baseline_bytes" and memory.unwritten_bytes:
            n = -memory.unwritten_bytes
            yield Line("never written", "of the arenas: takes no memory, off the peak", n, n, n, "modelled")
        yield Line(name, DEFINITIONS[key], value, low, high, kind)


def _kind(memory: Memory, key: str, value: int) -> Kind:
    """Of a plan that does not say."""
    replayed = key in ("arena_bytes", "persistent_bytes")
    exact = memory.arena_exact if replayed else key == "model_bytes" or not value
    return "exact" if exact else "modelled"


def _bounds(memory: Memory, key: str, value: int | None, kind: str) -> tuple[int | None, int | None]:
    """Of an exact line itself; of an arena that is not, from what is alive at its peak."""
    if kind == "exact":
        return value, value
    return (memory.lowest_arena_bytes, None) if key == "arena_bytes" else (None, None)


def missing_lines(memory: Memory) -> list[str]:
    """Lines of the peak that are not modelled."""
    return [NAMES[key] for key in LINES if getattr(memory, key) is None]


def memory_report(plan: Plan, graph: Graph, gate: Gate | None, lowered: Lowering | None, style: Style) -> str:
    """The whole report; ``graph`` is the planned model. Without ``lowered`` nothing is said on how to lower it."""
    return render(style, *_pieces(plan, graph, gate, lowered, style))


def _pieces(
    plan: Plan, graph: Graph, gate: Gate | None, lowered: Lowering | None, style: Style
) -> Iterator[RenderableType]:
    yield from _top(plan, gate, style)
    if style.depth < 0:
        return
    yield text()
    yield from _table(plan.memory)
    view = ArenaView(plan, graph)
    yield from _timeline(view, style)
    yield from _at_peak(view, style)
    if lowered is not None:
        yield from _ways(plan, lowered, gate)
    if notes := [warn.message for warn in plan.warnings if warn.code in ARENA_WARNINGS]:
        yield text()
        yield grid([(text(("!", WARN)), text(note)) for note in notes], ("left", 1), ("left", None))


# --- the peak and its lines ----------


def _top(plan: Plan, gate: Gate | None, style: Style) -> Iterator[RenderableType]:
    inputs = plan.inputs
    stack = f" ({inputs.board.stack})" if inputs.board.stack else ""
    software = f"{inputs.runtime.name} {inputs.runtime.version}, {plural(inputs.options.threads, 'thread')}"
    yield text((inputs.model.name, STRONG), " on ", (f"{inputs.board.name}{stack}", STRONG), (f", {software}", DIM))
    if style.depth < 0:
        yield text(f"peak memory {_peak(plan.memory)}{f', {gate.words}' if gate else ''}")
        return
    yield text()
    said = [text((f"peak memory{_range(plan.memory)}", STRONG))]
    if missing := missing_lines(plan.memory):
        said.append(text((f"at least: not modelled are {', '.join(missing)}", WARN)))
    said.append(text(("predicted, not run on hardware", DIM)))
    if gate is not None:
        said.append(text((gate.words, BAD if gate.is_over else GOOD)))
        high = plan.memory.peak_high_bytes
        if not gate.is_over and high is not None and high > gate.limit_bytes:
            said.append(text((f"its upper bound {size(high)} is over the limit; --limit-on high fails", WARN)))
        if not gate.is_over and high is None:
            said.append(text(("it has no upper bound: a run may take more", WARN)))
    yield grid([(text((size(plan.memory.peak_bytes), STRONG)), Text("\n").join(said))], ("right", 8), ("left", None))


def _peak(memory: Memory) -> str:
    return f"{'at least ' if missing_lines(memory) else ''}{size(memory.peak_bytes)}{_range(memory)}"


def _range(memory: Memory) -> str:
    low, high = memory.peak_low_bytes, memory.peak_high_bytes
    if low == high:
        return ""
    if high is None:
        return "" if low == memory.peak_bytes else f" (from {size(low)}, no upper bound)"
    return f" ({size(low)} to {size(high)})"


def _table(memory: Memory) -> Iterator[RenderableType]:
    header = [text((word, DIM)) for word in ("line", "bytes", "kind", "what it is")]
    rows = [
        [text(line.name), text(size(line.bytes)), text((line.kind, _mood(line))), text((_told(line), DIM))]
        for line in lines(memory)
    ]
    yield grid([header, *rows], ("left", 18), ("right", 8), ("left", 8), ("left", None))


def _mood(line: Line) -> str:
    return {"exact": GOOD, "modelled": "", "assumed": WARN}.get(line.kind, WARN)


def _told(line: Line) -> str:
    """The definition, and bounds where they say more than the value."""
    return f"{line.definition}{f' ({bounds_in_words(line)})' if line.low != line.high else ''}"


def bounds_in_words(line: Line) -> str:
    if line.low is None:
        return "" if line.high is None else f"at most {size(line.high)}"
    return f"from {size(line.low)}, no upper bound" if line.high is None else f"{size(line.low)} to {size(line.high)}"


# --- when it peaks, and on what ----------


def _timeline(view: ArenaView, style: Style) -> Iterator[RenderableType]:
    memory, top = view.plan.memory, view.peak
    steps = memory.timeline
    if top is None:
        return
    yield text()
    made_of = f"arena {size(memory.arena_bytes)}, {size(top.live_bytes)} alive at the peak"
    if memory.arena_exact:
        gaps = memory.arena_bytes - top.live_bytes
        made_of = f"arena {size(memory.arena_bytes)} = {size(top.live_bytes)} alive + {size(gaps)} gaps"
    yield heading(style, f"Alive over {plural(len(steps), 'step')}", made_of)
    if len(steps) == 1:
        yield text(f"  one step, {view.step(top)}, runs everything")
        return
    scale = memory.arena_bytes if memory.arena_exact else top.live_bytes
    yield from plot([step.live_bytes for step in steps], scale, style, _marks(view, top))
    if style.depth > 0:
        yield text()
        yield grid([_step(view, step, top, style) for step in steps], ("left", None), ("right", 8), ("left", 16))


def _marks(view: ArenaView, top: TimelineStep) -> list[tuple[int, str]]:
    """The peak; and where there are several subgraphs, where each begins."""
    steps = view.plan.memory.timeline
    marks = [(steps.index(top), f"{size(top.live_bytes)} at {view.step(top)}")]
    used = list(dict.fromkeys(step.subgraph for step in steps))
    if len(used) > 1:
        roles = {use.index: use.role for use in view.plan.subgraphs}
        begins = {i: next(n for n, step in enumerate(steps) if step.subgraph == i) for i in used}
        marks += [(at, f"subgraph {i} ({roles.get(i, '?')})") for i, at in list(begins.items())[:TENSORS_SHOWN]]
    return marks


def _step(view: ArenaView, step: TimelineStep, top: TimelineStep, style: Style) -> list[Text]:
    bar = style.bar(step.live_bytes / max(1, top.live_bytes), 16)
    return [text(view.step(step)), text(size(step.live_bytes)), text((bar, WARN if step is top else ""))]


def _at_peak(view: ArenaView, style: Style) -> Iterator[RenderableType]:
    top = view.peak
    if top is None:
        return
    tensors = [view.graph.tensor(top.subgraph, t) for t in view.plan.memory.peak_tensors]
    shown = tensors if style.depth > 0 else tensors[:TENSORS_SHOWN]
    yield text()
    yield text(("At the peak of the arena: ", STRONG), view.step(top))
    rows = [
        [
            text(size(t.nbytes)),
            text(f"{shape(t.shape)} {t.dtype.value}"),
            text((view.kept(top.subgraph, t.id), DIM)),
            text(_short(view.name(top.subgraph, t.id), style)),
        ]
        for t in shown
    ]
    if hidden := tensors[len(shown) :]:
        total = size(sum(t.nbytes for t in hidden))
        rows.append([text(total), text(plural(len(hidden), "more tensor")), text(("-v shows all", DIM)), text()])
    if rest := top.live_bytes - sum(t.nbytes for t in tensors):
        rows.append([text(size(rest)), text(), text(), text((view.rest(top), DIM))])
    yield grid(rows, ("right", 8), ("left", 22), ("left", 18), ("left", None))


def _short(name: str, style: Style) -> str:
    """The end of a name, which tells most of it, unless all is wanted."""
    room = max(12, style.width - 58)
    return name if len(name) <= room or style.depth > 0 else f"..{name[2 - room :].lstrip('/')}"


# --- what would lower it ----------


def _ways(plan: Plan, lowered: Lowering, gate: Gate | None) -> Iterator[RenderableType]:
    yield text()
    yield text(("What would lower it", STRONG))
    if lowered.ways:
        header = [text((word, DIM)) for word in ("peak", "at most", "arena", "latency", "", "how")]
        rows = [header, *(_way(way, plan) for way in (this_plan(plan), *lowered.ways))]
        yield grid(rows, ("right", 8), ("right", 8), ("right", 8), ("right", 7), ("left", 12), ("left", None))
    notes = [f"no less with {way.title.partition(':')[0]}: {size(way.peak_bytes)}" for way in lowered.useless]
    if lowered.infeasible_bytes is not None:
        is_near = size(lowered.infeasible_bytes) == size(plan.memory.peak_bytes)
        bound = "less" if is_near else f"at most {size(lowered.infeasible_bytes)}"
        notes.append(f"no placement was found that takes {bound}")
    if notes:
        yield grid([[text((note, DIM))] for note in notes], ("left", None))
    if gate is not None and gate.is_over:
        yield text((_kept(plan, lowered, gate), WARN))


def _way(way: Way, plan: Plan) -> list[Text]:
    peak = f"{'' if way.is_whole else '>= '}{size(way.peak_bytes)}"
    high = "no bound" if way.high_bytes is None else size(way.high_bytes)
    latency = "" if way.latency_ns is None else duration(way.latency_ns)
    compared = "" if way.latency_ns is None else times_faster(way.latency_ns, plan.predicted.latency_ns)
    return [
        text((peak, GOOD)), text(high), text(size(way.arena_bytes)), text(latency), text(compared), text(way.title)
    ]  # fmt: skip


def _kept(plan: Plan, lowered: Lowering, gate: Gate) -> str:
    """What the limit costs in latency."""
    held = {way: way.high_bytes if gate.is_bound else way.peak_bytes for way in lowered.ways}
    fitting = [way for way, peak in held.items() if gate.keeps(peak) and way.latency_ns is not None]
    best = min(fitting, key=lambda way: way.latency_ns or 0, default=None)
    if best is None or best.latency_ns is None:
        return f"no plan found keeps the limit of {size(gate.limit_bytes)} on this board"
    cost = times_faster(best.latency_ns, plan.predicted.latency_ns)
    option = best.title.partition(":")[0]
    return f"the limit is kept with {option}: {duration(best.latency_ns)}, {cost}"
