# SPDX-License-Identifier: Apache-2.0
"""Columns and rows of the integer program as they are written, and the expressions they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgedeploy_partitioner.solver.problem import Problem

Terms = Mapping[int, float]
Values = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int32]
Lanes = tuple[int, ...]

_DENSE_SPAN = 12


@dataclass
class Apart:
    """``pay >= base - D[j]`` for positions j in ``between``: pay unless all of them are in ``lanes``."""

    pay: Terms
    base: Terms
    lanes: Lanes
    between: range
    added: set[int] = field(default_factory=set)


@dataclass
class Rows:
    """``lower <= terms <= upper``, row after row."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    index: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    def add(self, lower: float, upper: float, terms: Terms) -> None:
        self.lower.append(lower)
        self.upper.append(upper)
        self.start.append(len(self.index))
        self.index.extend(terms)
        self.value.extend(terms.values())

    def arrays(self, first: int = 0) -> tuple[Values, Values, Indices, Indices, Values]:
        """Lower, upper, start, index and value of the rows from ``first`` on."""
        at = self.start[first] if first < len(self.start) else len(self.index)
        return (
            np.array(self.lower[first:], np.float64),
            np.array(self.upper[first:], np.float64),
            np.array(self.start[first:], np.int32) - at,
            np.array(self.index[at:], np.int32),
            np.array(self.value[at:], np.float64),
        )


class Sheet:
    """Costs are in microseconds, so that HiGHS's tolerances are far below 1 ns."""

    def __init__(self, problem: Problem, order: Sequence[int]) -> None:
        self.problem, self.order = problem, order
        self.at = {i: k for k, i in enumerate(order)}
        self.cost: list[float] = []
        self.rows = Rows()
        self.apart: list[Apart] = []
        self.delegates: dict[str, Lanes] = {}
        for n, lane in enumerate(problem.lanes):
            if lane.delegate is not None:
                self.delegates[lane.delegate] = (*self.delegates.get(lane.delegate, ()), n)
        self.x: list[dict[int, int]] = []
        for i in order:
            costs = problem.nodes[i].costs
            self.x.append({n: self.column(c) for n, c in enumerate(costs) if c is not None})
        self.whole = len(self.cost)
        """Columns below this one have to be whole."""
        self.starts: dict[str, list[int | None]] = {}
        """p by delegate and position, where it is needed."""
        self._gaps: dict[Lanes, list[int]] = {}

    def column(self, cost_ns: int) -> int:
        self.cost.append(cost_ns / 1000)
        return len(self.cost) - 1

    def inside(self, k: int, lanes: Lanes) -> dict[int, float]:
        """D[k], or the part of it that runs in ``lanes``."""
        x = self.x[k]
        return {x[n]: 1.0 for n in lanes if n in x}

    def can_stay(self, lanes: Lanes, between: range) -> bool:
        """Whether every op ``between`` can be in one of ``lanes``."""
        if lanes not in self._gaps:
            away = [lanes_k.keys().isdisjoint(lanes) for lanes_k in self.x]
            self._gaps[lanes] = [0, *np.cumsum(away).tolist()]
        gaps = self._gaps[lanes]
        return not between or gaps[between.stop] == gaps[between.start]

    def charge(self, terms: Iterable[int], cost_ns: int) -> None:
        for column in terms:
            self.cost[column] += cost_ns / 1000

    def add_apart(self, pay: Terms, base: Terms, lanes: Lanes, between: range) -> None:
        """Rows of an :class:`Apart`: all if it is short, else the two ends for a start."""
        if not base or not between:
            return
        row = Apart(pay, base, lanes, between)
        self.apart.append(row)
        ends = (between[0], between[-1])
        self.pay(row, between if len(between) <= _DENSE_SPAN else dict.fromkeys(ends))

    def pay(self, row: Apart, positions: Iterable[int]) -> None:
        for j in positions:
            row.added.add(j)
            self.rows.add(0, np.inf, summed(row.pay, (row.base, -1), (self.inside(j, row.lanes), 1)))

    def pay_apart(self, cost_ns: int, base: Terms, lanes: Lanes, between: range) -> int | None:
        """``cost_ns`` if ``base`` is 1 and an op ``between`` is elsewhere. The column, if that is open."""
        if not cost_ns or not base or not between:
            return None
        if not self.can_stay(lanes, between):
            self.charge(base, cost_ns)
            return None
        column = self.column(cost_ns)
        self.add_apart({column: 1.0}, base, lanes, between)
        return column

    def add_start(self, now: Terms, before: Terms, cost_ns: int) -> int | None:
        if not now:
            return None
        column = self.column(cost_ns)
        self.rows.add(0, np.inf, summed({column: 1.0}, (now, -1), (before, 1)))
        return column


def summed(terms: Terms, *more: tuple[Terms, float]) -> dict[int, float]:
    result = dict(terms)
    for other, sign in more:
        for column, value in other.items():
            result[column] = result.get(column, 0.0) + sign * value
    return {column: value for column, value in result.items() if value}
