# SPDX-License-Identifier: Apache-2.0
"""The plan in the order it runs, cut into stretches, and long stretches collapsed into rows that fit a screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from edgedeploy.planview import is_claimed
from edgedeploy.text import plural
from edgedeploy_partitioner.plan import OpEntry, Partition, Plan, Segment, SubgraphUse, Transition

LONGEST_PATTERN = 6
KINDS_SHOWN = 6
MOVES_SHOWN = 2
"""Tensors that cross one border and are still named one by one."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the op table: ``pattern`` ops, repeated; 0: not a pattern, only counted."""

    ops: tuple[OpEntry, ...]
    pattern: int

    @property
    def title(self) -> str:
        names = [kind(op) for op in self.ops]
        if not self.pattern:
            kinds = [f"{n} {name}" for name, n in Counter(names).most_common()]
            rest = kinds[KINDS_SHOWN:]
            return ", ".join([*kinds[:KINDS_SHOWN], *([f"{len(rest)} other kinds"] if rest else [])])
        once = ", ".join(names[: self.pattern])
        repeats = len(names) // self.pattern
        return once if repeats == 1 else f"{repeats} x {once}" if self.pattern == 1 else f"{repeats} x ({once})"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive ops in one partition, or on the CPU: then ``partitions`` are XNNPACK's, if any."""

    use: SubgraphUse
    partitions: tuple[Partition, ...]
    segments: tuple[Segment, ...]
    transitions: tuple[Transition, ...]
    ops: tuple[OpEntry, ...]

    @property
    def on_cpu(self) -> bool:
        return not any(is_claimed(p) for p in self.partitions)

    @property
    def handover_ns(self) -> int:
        return sum(s.handover_ns for s in self.segments) + sum(p.handover_ns for p in self.partitions)

    @property
    def total_ns(self) -> int:
        """One run of the stretch: ops, transitions and hand-overs."""
        work = sum(o.predicted_ns for o in self.ops) + sum(t.predicted_ns for t in self.transitions)
        return work + self.handover_ns

    def moved(self, way: str) -> tuple[Transition, ...]:
        return tuple(t for t in self.transitions if t.kind == way)

    @property
    def title(self) -> str:
        """Who runs it, in words."""
        ops = plural(len(self.ops), "op")
        if not self.on_cpu:
            backends = " + ".join(dict.fromkeys(s.backend for s in self.segments))
            return f"partition {self.partitions[0].id}: {backends} by {self.partitions[0].delegate} ({ops})"
        built_in = sum(op.partition is None for op in self.ops)
        if built_in == len(self.ops):
            return f"CPU, built-in kernels ({ops})"
        if not built_in and len(self.partitions) == 1:
            return f"partition {self.partitions[0].id}: CPU by xnnpack ({ops})"
        parts = plural(len(self.partitions), "XNNPACK partition")
        return f"CPU ({ops}: {len(self.ops) - built_in} in {parts}, {built_in} built-in)"


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch and how it is shown."""

    stretch: Stretch
    rows: tuple[Row, ...]

    @property
    def lines(self) -> int:
        borders = [len(self.stretch.moved(way)) for way in ("enter", "internal", "leave")]
        moves = sum(n if n <= MOVES_SHOWN else 1 for n in borders)
        wraps = sum(len(row.title) > 30 for row in self.rows)
        return 1 + len(self.rows) + wraps + moves + (not self.stretch.on_cpu)


def kind(op: OpEntry) -> str:
    return op.custom_code or op.op


def may_run(use: SubgraphUse) -> bool:
    """Also the branch that is not counted, and what runs once before the first inference."""
    return use.times > 0 or use.role in ("branch", "call_once")


def ops_that_run(plan: Plan) -> tuple[OpEntry, ...]:
    """Without folded ops, and those of subgraphs that nothing calls."""
    used = {use.index for use in plan.subgraphs if may_run(use)}
    return tuple(op for op in plan.ops if op.subgraph in used and not op.folded)


def stretches(plan: Plan) -> tuple[Stretch, ...]:
    """Every op that runs, subgraph by subgraph in execution order."""
    ops = {(o.subgraph, o.index): o for o in plan.ops}

    def of(use: SubgraphUse) -> Iterator[Stretch]:
        running = [ops[use.index, i] for i in use.order if not ops[use.index, i].folded]
        for part, group in groupby(running, key=lambda o: o.partition):
            yield Stretch(
                use,
                tuple(p for p in plan.partitions if p.id == part),
                tuple(s for s in plan.segments if s.partition == part),
                tuple(t for t in plan.transitions if t.partition == part),
                tuple(group),
            )

    return tuple(stretch for use in plan.subgraphs if may_run(use) for stretch in of(use))


def blocks(plan: Plan, lines: int | None) -> tuple[Block, ...]:
    """The most detailed way to show ``plan`` that takes at most ``lines`` lines, or the least detailed one."""
    parts = stretches(plan)
    joined = tuple(_joined(parts))
    ways = ((parts, one_by_one), (parts, patterns), (joined, patterns), (joined, by_kind), (joined, counted))
    for stretched, cut in ways:
        shown = tuple(Block(part, tuple(cut(part.ops))) for part in stretched)
        if lines is None or sum(block.lines for block in shown) <= lines:
            break
    return shown


def _joined(parts: Iterable[Stretch]) -> Iterator[Stretch]:
    """Neighbours that both run on the CPU as one stretch."""
    for (_, on_cpu), group in groupby(parts, key=lambda part: (part.use.index, part.on_cpu)):
        several = tuple(group)
        if not on_cpu:
            yield from several
            continue
        yield Stretch(
            several[0].use,
            tuple(p for part in several for p in part.partitions),
            tuple(s for part in several for s in part.segments),
            tuple(t for part in several for t in part.transitions),
            tuple(op for part in several for op in part.ops),
        )


# --- ways to cut a stretch into rows ----------


def one_by_one(ops: Sequence[OpEntry]) -> Iterator[Row]:
    return (Row((op,), 1) for op in ops)


def patterns(ops: Sequence[OpEntry]) -> Iterator[Row]:
    """Repeats of a few ops in one row each."""
    names = [(kind(op), op.backend, op.kernel) for op in ops]
    start = 0
    while start < len(ops):
        length, repeats = _longest_repeat(names, start)
        yield Row(tuple(ops[start : start + length * repeats]), length)
        start += length * repeats


def by_kind(ops: Sequence[OpEntry]) -> Iterator[Row]:
    """One row for each kind of op, the dearest first; the cheap ones together."""
    found: dict[str, list[OpEntry]] = {}
    for op in ops:
        found.setdefault(kind(op), []).append(op)
    groups = sorted(found.values(), key=lambda group: -sum(op.predicted_ns for op in group))
    yield from (Row(tuple(group), 1) for group in groups[:KINDS_SHOWN])
    if rest := [op for group in groups[KINDS_SHOWN:] for op in group]:
        yield Row(tuple(rest), 0)


def counted(ops: Sequence[OpEntry]) -> Iterator[Row]:
    """All in one row."""
    return iter((Row(tuple(ops), 0),) if ops else ())


def _longest_repeat(names: Sequence[object], start: int) -> tuple[int, int]:
    """The (pattern length, repeats) at ``start`` that covers most ops; the shorter pattern if equal."""
    best = (1, 1)
    for length in range(1, LONGEST_PATTERN + 1):
        repeats = 1
        while names[start : start + length] == names[start + length * repeats : start + length * (repeats + 1)]:
            repeats += 1
        if repeats > 1 and length * repeats > best[0] * best[1]:
            best = (length, repeats)
    return best
