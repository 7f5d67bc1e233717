# SPDX-License-Identifier: Apache-2.0
"""The cheapest lanes for one execution order, proved by HiGHS.

First the program's linear relaxation, to which the rows that its solution breaks are added until it breaks none. That
is whole more often than not, and then optimal. Otherwise its reduced costs say which columns an answer within some
distance of the bound can use at all: the integer program is solved on those. An answer inside that distance is optimal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import highspy
import numpy as np
from highspy._core import _Highs  # the Python subclass prints a banner on stdout as it enables its callbacks

from edgedeploy_partitioner.solver.problem import XNNPACK, Problem, allowed, price, runs
from edgedeploy_partitioner.solver.program import Program
from edgedeploy_partitioner.solver.sheet import Values

NODE_LIMIT = 20_000
# Of the bound, and of the distance before: guesses, on which only time depends.
_FIRST_DISTANCE, _WIDER, _NEARLY = 1e-4, 4.0, 2.0
_DUAL_TOLERANCE_US = 1e-9  # may make HiGHS's bound too high, by this for each column
_SLACK_NS, _ROUNDING = 0.01, 1e-12  # what sums of doubles may cost


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
    """The cheapest lanes for ``order`` (positions in ``problem.nodes``); None if no assignment is allowed, or if none
    was found within the limit.

    Bounded by branch-and-bound nodes, never by time, on one thread: the same problem gives the same answer.
    """
    if not order:
        return Solution((), 0, 0)
    return _Search(problem, order, node_limit).run()


@dataclass
class _Relaxed:
    """An optimum of the relaxation. ``bound`` is that of its duals, in microseconds, and holds whatever they are."""

    values: Values
    bound: float
    reduced: Values


class _Search:
    def __init__(self, problem: Problem, order: Sequence[int], node_limit: int) -> None:
        self.problem, self.order, self.node_limit = problem, order, node_limit
        self.program = Program(problem, order)
        self.best: Solution | None = None

    def run(self) -> Solution | None:
        relaxed = self._relax()
        if relaxed is None:
            return None
        self._offer(self.program.lanes(relaxed.values))
        self._offer(self._outside())
        bound = self._whole_ns(relaxed.bound)
        distance = _FIRST_DISTANCE * (1 + abs(relaxed.bound))
        while self.best is None or bound < self.best.value_ns:
            if self.best is not None:
                # Rounding bounds up is slack that a gap of 0 still has to cover, or nothing would ever be proved.
                slack = 2 * (_SLACK_NS + _ROUNDING * abs(relaxed.bound * 1000)) / 1000
                gap = max(0.0, self.best.value_ns / 1000 - relaxed.bound) + slack
                distance = gap if gap < _NEARLY * distance else distance
            within, is_complete = self._branch(relaxed, distance)
            # Whatever the columns left out could do costs this much.
            beyond = self._whole_ns(relaxed.bound + distance)
            bound = max(bound, min(within, beyond))
            if not is_complete or within <= beyond or np.isinf(distance):
                break
            distance = _WIDER * distance if distance < relaxed.bound else np.inf
        if self.best is None:
            return None
        return replace(self.best, bound_ns=int(min(bound, self.best.value_ns)))

    def _offer(self, lanes: tuple[int, ...]) -> None:
        groups = runs(self.problem, self.order, lanes)
        priced = price(self.problem, groups, lanes)
        if allowed(self.problem, groups, priced) and (self.best is None or priced.total_ns < self.best.value_ns):
            self.best = Solution(lanes, priced.total_ns, 0)

    def _outside(self) -> tuple[int, ...]:
        """Each op outside delegates if it can be: an answer where nothing forbids it."""
        lanes = [0] * len(self.problem.nodes)
        for k, i in enumerate(self.order):
            lanes[i] = min(self.program.x[k], key=lambda n: (self.problem.lanes[n].delegate not in (None, XNNPACK), n))
        return tuple(lanes)

    # --- HiGHS ---

    def _relax(self) -> _Relaxed | None:
        """The relaxation with every row that its optimum would break; None if it is infeasible."""
        program, highs = self.program, _highs()
        highs.passModel(self._model())
        while True:
            highs.run()
            if highs.getModelStatus() in _infeasible():
                return None
            solution = highs.getSolution()
            values, known = np.array(solution.col_value), len(program.rows.lower)
            if not program.add_broken(values):
                return self._bound(values, np.array(solution.row_dual))
            lower, upper, start, index, value = program.rows.arrays(known)
            highs.addRows(len(lower), lower, upper, len(index), start, index, value)

    def _bound(self, values: Values, duals: Values) -> _Relaxed:
        """By weak duality: all columns are between 0 and 1, so any duals of the right sign prove a bound."""
        lower, upper, start, index, value = self.program.rows.arrays()
        duals = np.where(np.where(duals > 0, np.isinf(lower), np.isinf(upper)), 0.0, duals)
        lengths = np.diff(start, append=len(index))
        cost = np.array(self.program.cost)
        reduced: Values = cost - np.bincount(index, value * np.repeat(duals, lengths), len(cost)).astype(np.float64)
        sides = np.where(duals > 0, lower, upper)[duals != 0] * duals[duals != 0]
        return _Relaxed(values, float(sides.sum() + np.minimum(reduced, 0).sum()), reduced)

    def _branch(self, relaxed: _Relaxed, distance: float) -> tuple[float, bool]:
        """(a bound in ns on answers that use no column dearer than ``distance``, whether it is their optimum)."""
        program = self.program
        while True:
            lp = self._model()
            upper, lower = np.array(lp.col_upper_), np.array(lp.col_lower_)
            upper[relaxed.reduced > distance] = 0
            lower[-relaxed.reduced > distance] = 1
            lp.col_upper_, lp.col_lower_ = upper, lower
            lp.integrality_ = [highspy.HighsVarType.kInteger] * program.whole + [highspy.HighsVarType.kContinuous] * (
                len(program.cost) - program.whole
            )
            highs = _highs()
            highs.setOptionValue("mip_max_nodes", self.node_limit)
            highs.passModel(lp)
            highs.run()
            info, status = highs.getInfo(), highs.getModelStatus()
            if status in _infeasible():
                return np.inf, True
            is_optimal = status == highspy.HighsModelStatus.kOptimal
            bound = self._whole_ns(info.mip_dual_bound - _DUAL_TOLERANCE_US * len(program.cost))
            if info.primal_solution_status != _feasible():
                return bound, False
            values = np.array(highs.getSolution().col_value)
            if not program.add_broken(values):
                self._offer(program.lanes(values))
                return bound, is_optimal

    def _whole_ns(self, bound_us: float) -> float:
        """Costs are whole nanoseconds, so a bound between two of them is as good as the upper one."""
        bound_ns = bound_us * 1000
        return float(np.ceil(bound_ns - _SLACK_NS - _ROUNDING * abs(bound_ns))) if np.isfinite(bound_ns) else bound_ns

    def _model(self) -> highspy.HighsLp:
        count = len(self.program.cost)
        lower, upper, start, index, value = self.program.rows.arrays()
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = count, len(lower)
        lp.col_cost_ = np.array(self.program.cost)
        lp.col_lower_, lp.col_upper_ = np.zeros(count), np.ones(count)
        lp.row_lower_, lp.row_upper_ = lower, upper
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.append(start, len(index))
        lp.a_matrix_.index_, lp.a_matrix_.value_ = index, value
        return lp


_OPTIONS: Mapping[str, bool | int | float] = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 1e-7,
    # Of these only the last could make a bound too high; the others make it too low, or an answer dearer than it says,
    # and what an answer costs is counted anew.
    "mip_feasibility_tolerance": 1e-6,
    "primal_feasibility_tolerance": 1e-7,
    "dual_feasibility_tolerance": _DUAL_TOLERANCE_US,
}


def _highs() -> _Highs:
    highs = _Highs()
    for option, value in _OPTIONS.items():
        highs.setOptionValue(option, value)
    return highs


@cache
def _feasible() -> int:
    return int(highspy.SolutionStatus.kSolutionStatusFeasible)


@cache
def _infeasible() -> tuple[highspy.HighsModelStatus, ...]:
    """All columns have bounds, so that the second can only mean the first."""
    return highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible
