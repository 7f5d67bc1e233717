# SPDX-License-Identifier: Apache-2.0
"""The integer program: the cheapest lanes for one execution order, proved by HiGHS.

Variables by position k in the order:

    x[k,l]      op k runs in lane l                                                     binary
    D[k,d]      = sum of x[k,l] over the lanes l of delegate d (an expression)
    p[k,d]      a partition of d starts at k:       p >= D[k,d] - D[k-1,d]
    s[k,l]      a segment of l starts at k:         s >= x[k,l] - x[k-1,l]
    e[t,L,k]    tensor t enters for k in layout L:  e >= G[k,L] - D[j,d] for every j from t's previous use up to k
    v[t,l]      t, made in lane l, leaves:          v >= x[i,l] - D[j,d] for every j from its producer to its last use

A partition is a run of one delegate, so "in the same partition" is "every op between is in the delegate too": those
are the rows with j. Long skips would need many of them; they are added where a solution breaks them, until none does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import highspy
import numpy as np
from highspy._core import _Highs  # the Python subclass prints a banner on stdout as it enables its callbacks

from edgedeploy_partitioner.solver.problem import XNNPACK, Problem, price, runs

NODE_LIMIT = 20_000
_DENSE_SPAN = 12
_TOLERANCE_NS, _TOLERANCE = 0.01, 1e-9  # what HiGHS's own tolerances, set below, may cost


@dataclass(frozen=True)
class Solution:
    """``lanes`` by position in ``Problem.nodes``; ``bound_ns`` is proved for this order."""

    lanes: tuple[int, ...]
    value_ns: int
    bound_ns: int

    @property
    def is_proved(self) -> bool:
        return self.bound_ns == self.value_ns


def solve(problem: Problem, order: Sequence[int], node_limit: int = NODE_LIMIT) -> Solution | None:
    """The cheapest lanes for ``order`` (positions in ``problem.nodes``); None if no assignment is allowed.

    Bounded by branch-and-bound nodes, never by time, on one thread: the same problem gives the same answer.
    """
    if not order:
        return Solution((), 0, 0)
    program = _Program(problem, order)
    while True:
        found = program.run(node_limit)
        if found is None:
            return None
        lanes, bound = found
        if not program.add_broken(lanes):
            break
    value = price(problem, runs(problem, order, lanes), lanes).total_ns
    # Costs are whole nanoseconds, so a bound between two of them is as good as the upper one.
    return Solution(lanes, value, min(value, int(np.ceil(bound - _TOLERANCE_NS - _TOLERANCE * value))))


@dataclass
class _Columns:
    cost: list[float] = field(default_factory=list)
    integral: list[bool] = field(default_factory=list)

    def add(self, cost: float, integral: bool = False) -> int:
        self.cost.append(cost)
        self.integral.append(integral)
        return len(self.cost) - 1


Terms = dict[int, float]


@dataclass
class _Same:
    """``column >= base - D[j]`` for positions j in ``between``: pay unless all of them are in the delegate."""

    column: int
    base: Terms
    delegate: str
    between: range
    added: set[int] = field(default_factory=set)


class _Program:
    """Columns and rows for one order. Rows are ``lower <= terms <= upper``."""

    def __init__(self, problem: Problem, order: Sequence[int]) -> None:
        self.problem, self.order = problem, order
        self.at = {i: k for k, i in enumerate(order)}
        self.columns = _Columns()
        self.rows: list[tuple[float, float, Terms]] = []
        self.same: list[_Same] = []
        self.delegates: dict[str, list[int]] = {}
        for number, lane in enumerate(problem.lanes):
            if lane.delegate is not None:
                self.delegates.setdefault(lane.delegate, []).append(number)
        self._place()
        self._starts()
        self._touch()
        for row in self.same:
            dense = len(row.between) <= _DENSE_SPAN
            self._pay(row, row.between if dense else (row.between[0], row.between[-1]))

    # --- columns and rows ---

    def _place(self) -> None:
        self.x: list[dict[int, int]] = []
        for i in self.order:
            costs = self.problem.nodes[i].costs
            self.x.append({n: self.columns.add(c / 1000, True) for n, c in enumerate(costs) if c is not None})
            self.rows.append((1, 1, dict.fromkeys(self.x[-1].values(), 1.0)))

    def _in(self, k: int, delegate: str, layout: str | None = None) -> Terms:
        """D[k,d], or with ``layout`` the part of it that works in that layout."""
        lanes = self.problem.lanes
        return {
            self.x[k][n]: 1.0
            for n in self.delegates[delegate]
            if n in self.x[k] and layout in (None, lanes[n].layout)
        }

    def _starts(self) -> None:
        limited: Terms = {}
        for delegate, lanes in self.delegates.items():
            counts = self.problem.max_partitions is not None and delegate != XNNPACK
            fixed = self.problem.lanes[lanes[0]].partition_ns
            for k in range(len(self.order)):
                if fixed or counts:
                    start = self._start(self._in(k, delegate), self._in(k - 1, delegate) if k else {}, fixed)
                    if counts and start is not None:
                        limited[start] = 1.0
                for n in lanes:
                    if self.problem.lanes[n].segment_ns and n in self.x[k]:
                        before = {self.x[k - 1][n]: 1.0} if k and n in self.x[k - 1] else {}
                        self._start({self.x[k][n]: 1.0}, before, self.problem.lanes[n].segment_ns)
        if self.problem.max_partitions is not None:
            self.rows.append((-np.inf, float(self.problem.max_partitions), limited))

    def _start(self, now: Terms, before: Terms, cost_ns: int) -> int | None:
        if not now:
            return None
        column = self.columns.add(cost_ns / 1000)
        self.rows.append((0, np.inf, _sum({column: 1.0}, (now, -1), (before, 1))))
        return column

    def _touch(self) -> None:
        uses: dict[int, list[int]] = {}
        for k, i in enumerate(self.order):
            for t in dict.fromkeys(self.problem.nodes[i].inputs):
                uses.setdefault(t, []).append(k)
        for t in sorted(self.problem.borders):
            made = self.at.get(self.problem.producer.get(t, -1))
            for delegate in self.delegates:
                if made is not None:
                    self._leave(t, made, uses.get(t, []), delegate)
                touched = uses.get(t, []) if made is None else [made, *uses.get(t, [])]
                layouts = self._layouts(touched, delegate)
                for layout in layouts:
                    if len(layouts) == 1:
                        self._enter(t, made, uses.get(t, []), delegate, layout)
                    else:
                        self._enter_layout(t, made, uses.get(t, []), delegate, layout)

    def _layouts(self, touched: Sequence[int], delegate: str) -> list[str]:
        """The layouts in which ``delegate`` may hold a tensor that the ops at these positions touch."""
        return sorted({
            self.problem.lanes[n].layout for k in touched for n in self.delegates[delegate] if n in self.x[k]
        })  # fmt: skip

    def _leave(self, t: int, made: int, uses: list[int], delegate: str) -> None:
        for n in self.delegates[delegate]:
            cost = self.problem.borders[t].leave_ns[n]
            if not cost or n not in self.x[made]:
                continue
            if t in self.problem.outputs:
                self.columns.cost[self.x[made][n]] += cost / 1000
            elif uses and uses[-1] > made:
                column = self.columns.add(cost / 1000)
                self.same.append(_Same(column, {self.x[made][n]: 1.0}, delegate, range(made + 1, uses[-1] + 1)))

    def _enter(self, t: int, made: int | None, uses: list[int], delegate: str, layout: str) -> None:
        lane = next(n for n in self.delegates[delegate] if self.problem.lanes[n].layout == layout)
        cost = self.problem.borders[t].enter_ns[lane]
        if not cost:
            return
        touched = made
        for k in uses:
            arrives = self._in(k, delegate)
            if arrives:
                if touched is None or not self._in(touched, delegate):
                    for column in arrives:
                        self.columns.cost[column] += cost / 1000
                else:
                    self.same.append(_Same(self.columns.add(cost / 1000), arrives, delegate, range(touched, k)))
            touched = k

    def _enter_layout(self, t: int, made: int | None, uses: list[int], delegate: str, layout: str) -> None:
        """As ``_enter`` for one of several layouts. Columns: ``have`` (t lies in the partition in this layout before
        k), ``home`` (its producer is in the partition), ``enter``, and one conversion per lane of the producer."""
        border = self.problem.borders[t]
        mine = [n for n in self.delegates[delegate] if self.problem.lanes[n].layout == layout]
        touched, have_before = made, None
        for k in uses:
            arrives = self._in(k, delegate, layout)
            have = self.columns.add(0.0)
            if touched is None:
                self.rows.append((-np.inf, 0, {have: 1.0}))
            else:
                was = self._in(touched, delegate, layout)
                if have_before is not None:
                    was = _sum(was, ({have_before: 1.0}, 1))
                self.rows.append((-np.inf, 0, _sum({have: 1.0}, (was, -1))))
                self._only_together(have, delegate, range(touched, k))
            if arrives:
                home: Terms = {}
                if made is not None:
                    home = {self._together(made, k, delegate): 1.0}
                    for a in self.delegates[delegate]:
                        cost = border.internal(a, mine[0])
                        if cost and a in self.x[made] and self.problem.lanes[a].layout != layout:
                            convert = _sum({self.columns.add(cost / 1000): 1.0}, (arrives, -1), ({have: 1.0}, 1))
                            self.rows.append((-2, np.inf, _sum(convert, (home, -1), ({self.x[made][a]: 1.0}, -1))))
                enter = {self.columns.add(border.enter_ns[mine[0]] / 1000): 1.0}
                self.rows.append((0, np.inf, _sum(enter, (arrives, -1), ({have: 1.0}, 1), (home, 1))))
            touched, have_before = k, have

    def _together(self, first: int, last: int, delegate: str) -> int:
        """A column that is 1 exactly when every op from ``first`` to ``last`` is in ``delegate``."""
        column = self.columns.add(0.0)
        self._only_together(column, delegate, range(first, last + 1))
        inside = _sum({}, *((self._in(k, delegate), 1) for k in range(first, last + 1)))
        self.rows.append((1.0 - (last + 1 - first), np.inf, _sum({column: 1.0}, (inside, -1))))
        return column

    def _only_together(self, column: int, delegate: str, between: range) -> None:
        for k in between:
            self.rows.append((-np.inf, 0, _sum({column: 1.0}, (self._in(k, delegate), -1))))

    def _pay(self, row: _Same, positions: Sequence[int]) -> None:
        for k in positions:
            if k not in row.added:
                row.added.add(k)
                self.rows.append((0, np.inf, _sum({row.column: 1.0}, (row.base, -1), (self._in(k, row.delegate), 1))))

    # --- solving ---

    def add_broken(self, lanes: Sequence[int]) -> bool:
        """Add the rows that the assignment ``lanes`` breaks; False if it breaks none."""
        chosen = {self.x[k][lanes[i]] for k, i in enumerate(self.order)}
        grew = False
        for row in self.same:
            if len(row.added) == len(row.between) or chosen.isdisjoint(row.base):
                continue
            away = [k for k in row.between if chosen.isdisjoint(self._in(k, row.delegate))]
            if away and row.added.isdisjoint(away):
                self._pay(row, away)
                grew = True
        return grew

    def run(self, node_limit: int) -> tuple[tuple[int, ...], float] | None:
        """(lanes, lower bound in ns), or None if the program is infeasible."""
        highs = _Highs()
        for option, value in _OPTIONS.items():
            highs.setOptionValue(option, value)
        highs.setOptionValue("mip_max_nodes", node_limit)
        highs.passModel(self._model())
        highs.run()
        info = highs.getInfo()
        if highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            return None
        if info.primal_solution_status != _feasible():
            return self._anything(), 0.0
        values = highs.getSolution().col_value
        lanes = [0] * len(self.problem.nodes)
        for k, i in enumerate(self.order):
            _, lanes[i] = max((round(values[column]), -n) for n, column in self.x[k].items())
            lanes[i] = -lanes[i]
        return tuple(lanes), info.mip_dual_bound * 1000

    def _anything(self) -> tuple[int, ...]:
        """What is left when the node limit comes before the first solution: each op outside delegates if it can be."""
        lanes = [0] * len(self.problem.nodes)
        for k, i in enumerate(self.order):
            lanes[i] = min(self.x[k], key=lambda n: (self.problem.lanes[n].delegate not in (None, XNNPACK), n))
        return tuple(lanes)

    def _model(self) -> highspy.HighsLp:
        count = len(self.columns.cost)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = count, len(self.rows)
        lp.col_cost_ = np.array(self.columns.cost)
        lp.col_lower_, lp.col_upper_ = np.zeros(count), np.ones(count)
        lp.row_lower_ = np.array([low for low, _, _ in self.rows], dtype=float)
        lp.row_upper_ = np.array([high for _, high, _ in self.rows], dtype=float)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0, *(len(terms) for _, _, terms in self.rows)])
        lp.a_matrix_.index_ = np.array([c for _, _, terms in self.rows for c in terms], dtype=np.int32)
        lp.a_matrix_.value_ = np.array([v for _, _, terms in self.rows for v in terms.values()], dtype=float)
        lp.integrality_ = [
            highspy.HighsVarType.kInteger if whole else highspy.HighsVarType.kContinuous
            for whole in self.columns.integral
        ]
        return lp


_OPTIONS: Mapping[str, bool | int | float] = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 1e-7,
    "mip_feasibility_tolerance": 1e-9,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}


@cache
def _feasible() -> int:
    return int(highspy.SolutionStatus.kSolutionStatusFeasible)


def _sum(terms: Terms, *more: tuple[Terms, float]) -> Terms:
    result = dict(terms)
    for other, sign in more:
        for column, value in other.items():
            result[column] = result.get(column, 0.0) + sign * value
    return {column: value for column, value in result.items() if value}
