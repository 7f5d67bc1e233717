# SPDX-License-Identifier: Apache-2.0
"""The integer program of one execution order: its columns and rows.

Columns by position k in the order, all between 0 and 1; only x has to be whole, the rest then are by themselves:

    x[k,l]      op k runs in lane l
    D[k,d]      = sum of x[k,l] over the lanes l of delegate d (an expression)
    p[k,d]      a partition of d starts at k:       p >= D[k,d] - D[k-1,d]
    s[k,l]      a segment of l starts at k:         s >= x[k,l] - x[k-1,l]
    e[t,k]      tensor t enters for k:              e >= D[k,d] - D[j,d] for every j from t's previous use up to k
    v[t]        t, made by i, leaves:               v >= D[i,d] - D[j,d] for every j from its producer to its last use
    u[k,l]      k runs unfused in l:                u >= x[k,l] - x[j,l] for every j from its last host before k
    w[t,d]      t stays inside one partition of d:  w <= D[j,d] for every j from its producer to its last use

A partition is a run of one delegate, so "in the same partition" is "every op between is in the delegate too": those
are the rows with j. Where an op between cannot be in the delegate at all, what they say is known beforehand. Of the
others, long ones would be many; they are added where a solution breaks them, until none does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgedeploy_partitioner.solver.layouts import Layouts
from edgedeploy_partitioner.solver.problem import XNNPACK, Problem
from edgedeploy_partitioner.solver.sheet import Lanes, Sheet, Values, summed

_BROKEN, _BROKEN_BYTES = 1e-6, 0.5


class Program(Sheet):
    """All columns and rows for one order."""

    def __init__(self, problem: Problem, order: Sequence[int]) -> None:
        super().__init__(problem, order)
        self.uses: dict[int, list[int]] = {}
        for k, i in enumerate(order):
            for t in dict.fromkeys(problem.nodes[i].inputs):
                self.uses.setdefault(t, []).append(k)
        self._fuse()
        for terms in self.x:
            self.rows.add(1, 1, dict.fromkeys(terms.values(), 1.0))
        self._starts()
        self._touch()
        self._arena()

    # --- partitions, segments, fusions ---

    def _starts(self) -> None:
        problem, limited = self.problem, dict[int, float]()
        for delegate, lanes in self.delegates.items():
            fixed = problem.lanes[lanes[0]].partition_ns
            shared = problem.max_partitions is not None and delegate != XNNPACK
            # What enters in one layout and is converted to another is told apart by where partitions start.
            exact = len({problem.lanes[n].layout for n in lanes}) > 1
            found: list[int | None] = []
            for k in range(len(self.order)):
                now, before = self.inside(k, lanes), self.inside(k - 1, lanes) if k else {}
                counts = fixed or shared or delegate in problem.limits or exact
                start = self.add_start(now, before, fixed) if counts else None
                found.append(start)
                if exact and start is not None:
                    self.rows.add(-np.inf, 0, summed({start: 1.0}, (now, -1)))
                    if before:
                        self.rows.add(-np.inf, 1, summed({start: 1.0}, (before, 1)))
                for n in lanes:
                    if problem.lanes[n].segment_ns:
                        self.add_start(
                            self.inside(k, (n,)), self.inside(k - 1, (n,)) if k else {}, problem.lanes[n].segment_ns
                        )
            self.starts[delegate] = found
            mine = {start: 1.0 for start in found if start is not None}
            if delegate in problem.limits:
                self.rows.add(-np.inf, problem.limits[delegate], mine)
            if shared:
                limited |= mine
        if problem.max_partitions is not None:
            self.rows.add(-np.inf, problem.max_partitions, limited)

    def _fuse(self) -> None:
        """Only the last host before the node counts: an earlier one shares the segment only together with it.

        A lane in which a node cannot find its host is closed to it here, before any row is made.
        """
        pending = []
        for fusion in self.problem.fusions:
            k, lanes = self.at[fusion.node], (fusion.lane,)
            before = [self.at[h] for h in fusion.hosts if self.at[h] < k]
            base = self.inside(k, lanes)
            if not base:
                continue
            last = max((self.at[i] for i in fusion.also), default=k - 1)
            between = range(max(before, default=0), max(last + 1, k))
            if before and self.can_stay(lanes, between):
                self.charge(base, -fusion.saves_ns)
                pending.append((fusion, base, between))
            elif fusion.required:
                del self.x[k][fusion.lane]
                self._gaps.clear()
        for fusion, base, between in pending:
            if fusion.required:
                self.add_apart({}, base, (fusion.lane,), between)
            else:
                self.pay_apart(fusion.saves_ns, base, (fusion.lane,), between)

    # --- borders ---

    def _touch(self) -> None:
        for t in sorted(self.problem.borders):
            made = self.at.get(self.problem.producer.get(t, -1))
            uses = self.uses.get(t, [])
            touched = uses if made is None else [made, *uses]
            for delegate, lanes in self.delegates.items():
                leaves = {} if made is None else self._leave(t, made, uses, lanes)
                by_layout: dict[str, Lanes] = {}
                for n in lanes:
                    if any(n in self.x[k] for k in touched):
                        layout = self.problem.lanes[n].layout
                        by_layout[layout] = (*by_layout.get(layout, ()), n)
                if len(by_layout) == 1:
                    self._enter(t, made, uses, lanes)
                elif by_layout:
                    Layouts(self, t, made, delegate, by_layout, leaves).enter(uses)

    def _leave(self, t: int, made: int, uses: Sequence[int], lanes: Lanes) -> dict[Lanes, int]:
        """The columns v by the lanes, of one layout and cost, that t leaves from."""
        alike: dict[tuple[str, int], Lanes] = {}
        for n in lanes:
            kind = (self.problem.lanes[n].layout, self.problem.borders[t].leave_ns[n])
            alike[kind] = (*alike.get(kind, ()), n)
        found: dict[Lanes, int] = {}
        for (_, cost), some in alike.items():
            base = self.inside(made, some)
            if t in self.problem.outputs:
                self.charge(base, cost)
            elif uses and uses[-1] > made:
                column = self.pay_apart(cost, base, lanes, range(made + 1, uses[-1] + 1))
                if column is not None:
                    found[some] = column
        return found

    def _enter(self, t: int, made: int | None, uses: Sequence[int], lanes: Lanes) -> None:
        touched = made
        for k in uses:
            arrives = self.inside(k, lanes)
            cost = self.problem.borders[t].enter_ns[next((n for n in lanes if n in self.x[k]), lanes[0])]
            if touched is None:
                self.charge(arrives, cost)
            else:
                self.pay_apart(cost, arrives, lanes, range(touched, k))
            touched = k

    # --- memory ---

    def _arena(self) -> None:
        """w of every tensor that could matter; the rows of the limit themselves are added where one is broken."""
        self.internal: dict[int, dict[int, float]] = {}
        self.alive: dict[int, list[int]] = {}
        self.limited: set[int] = set()
        arena = self.problem.arena
        if arena is None:
            return
        lives = {t: self.problem.life(t, self.at) for t in sorted(arena.bytes) if arena.bytes[t]}
        alive: list[list[int]] = [[] for _ in self.order]
        for t, life in lives.items():
            for k in life:
                alive[k].append(t)
        tight = [k for k, ts in enumerate(alive) if sum(arena.bytes[t] for t in ts) > arena.limit_bytes]
        self.alive = {k: alive[k] for k in tight}
        for t in dict.fromkeys(t for k in tight for t in alive[k]):
            if self.problem.can_be_internal(t):
                self.internal[t] = {}
                for lanes in self.delegates.values():
                    if self.can_stay(lanes, lives[t]):
                        column = self.column(0)
                        self.internal[t][column] = 1.0
                        self.add_apart({}, {column: 1.0}, lanes, lives[t])

    def _break_arena(self, values: Values) -> bool:
        arena, grew = self.problem.arena, False
        for k, tensors in self.alive.items():
            assert arena is not None
            if k in self.limited:
                continue
            kept = {c: arena.bytes[t] for t in tensors for c in self.internal.get(t, ())}
            most = sum(arena.bytes[t] for t in tensors)
            if most - sum(size * values[c] for c, size in kept.items()) > arena.limit_bytes + _BROKEN_BYTES:
                self.limited.add(k)
                scale = max(1, most)
                needed = (most - arena.limit_bytes) / scale
                self.rows.add(needed, np.inf, {c: size / scale for c, size in kept.items()})
                grew = True
        return grew

    # --- solving ---

    def add_broken(self, values: Values) -> bool:
        """Add the rows that the solution ``values`` breaks; False if it breaks none."""
        inside: dict[Lanes, Values] = {}
        grew = self._break_arena(values)
        for row in self.apart:
            if len(row.added) == len(row.between):
                continue
            owed = sum(values[c] * v for c, v in row.base.items()) - sum(values[c] for c in row.pay)
            if owed <= _BROKEN:
                continue
            if row.lanes not in inside:
                parts = [sum(values[c] for c in self.inside(k, row.lanes)) for k in range(len(self.x))]
                inside[row.lanes] = np.array(parts)
            here = inside[row.lanes][row.between.start : row.between.stop]
            j = row.between.start + int(here.argmin())
            if j not in row.added and owed - here.min() > _BROKEN:
                self.pay(row, (j,))
                grew = True
        return grew

    def lanes(self, values: Values) -> tuple[int, ...]:
        """By position in ``Problem.nodes``: the lane with most of each op, of equals the first."""
        found = [0] * len(self.problem.nodes)
        for k, i in enumerate(self.order):
            found[i] = -max((round(values[column], 6), -n) for n, column in self.x[k].items())[1]
        return tuple(found)
