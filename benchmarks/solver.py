# SPDX-License-Identifier: Apache-2.0
"""How long the cheapest plan of one execution order takes to find and to prove, next to two peers.

    python benchmarks/solver.py [--seeds N] [--settle] [--quick]

The networks and their costs are made up (tests/support/networks.py). Peers, on the same problems in the same run:
``whole``: the same columns with every row written at once, given to HiGHS as one integer program with its default
search (up to 1,000 ops); ``frontier``: exact dynamic programming over what later ops can still see (200 ops). All run
on one thread, so that CPU seconds are what an idle machine takes; targets are held against them. A peer that comes to
another optimum ends the run. ``--settle`` adds the whole search over start orders, ``--quick`` leaves out 3,000 ops.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import highspy
import numpy as np
from highspy._core import _Highs

from edgedeploy_partitioner.runtime.replay import Step
from edgedeploy_partitioner.solver.problem import Problem
from edgedeploy_partitioner.solver.program import Program
from edgedeploy_partitioner.solver.settle import Stage, settle
from edgedeploy_partitioner.solver.solve import solve

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.networks import NETWORKS, network_problem
from support.problems import frontier_dp

T = TypeVar("T")

SIZES = ((200, 3), (1_000, 3), (1_000, 5), (3_000, 3), (3_000, 5))
HANDOVERS_US = (40, 400, 1_500)
TARGETS_S = {(1_000, 3): 1.5, (1_000, 5): 3.0, (3_000, 3): 5.0}
WHOLE_UP_TO, FRONTIER_AT = 1_000, 200
FRONTIER_OF = ("residual", "inception")  # with a long skip or random wiring the frontier takes minutes


def timed(call: Callable[[], T]) -> tuple[T, float, float]:
    """The result with its wall-clock and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def whole(problem: Problem) -> int:
    """The optimum in nanoseconds, by one integer program with all rows."""
    program = Program(problem, range(len(problem.nodes)))
    for row in program.apart:
        program.pay(row, [j for j in row.between if j not in row.added])
    lower, upper, start, index, value = program.rows.arrays()
    count = len(program.cost)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = count, len(lower)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = np.array(program.cost), np.zeros(count), np.ones(count)
    lp.row_lower_, lp.row_upper_ = lower, upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = np.append(start, len(index)), index, value
    kinds = highspy.HighsVarType
    lp.integrality_ = [kinds.kInteger if c < program.whole else kinds.kContinuous for c in range(count)]
    highs = _Highs()
    for option, setting in (("output_flag", False), ("threads", 1), ("mip_rel_gap", 0.0), ("mip_abs_gap", 1e-4)):
        highs.setOptionValue(option, setting)
    highs.passModel(lp)
    highs.run()
    return round(highs.getInfo().objective_function_value * 1000)


def stage_of(problem: Problem) -> tuple[Stage, tuple[int, ...], tuple[int, ...]]:
    """The problem with its CPU kernels derived (XNNPACK where it can), and the lanes of both baselines."""
    takes = frozenset(n.op for n in problem.nodes if n.costs[1] is not None)
    nodes = tuple(
        dataclasses.replace(n, costs=(None if n.op in takes else n.costs[0], *n.costs[1:])) for n in problem.nodes
    )
    steps = tuple(Step(n.op, (n.op,), n.inputs, n.outputs) for n in problem.nodes)
    stage = Stage(
        dataclasses.replace(problem, nodes=nodes), problem, steps, {}, lambda left: left & takes, 0, 1
    )  # fmt: skip
    cpu = tuple(int(n.op in takes) for n in problem.nodes)
    return stage, tuple(2 if n.costs[2] is not None else cpu[i] for i, n in enumerate(nodes)), cpu


def peers(kind: str, problem: Problem, ops: int, value: int) -> str:
    """Their wall-clock and CPU seconds, as a piece of the table."""
    found = ""
    for name, peer, runs in (
        ("whole", whole, ops <= WHOLE_UP_TO),
        ("frontier", frontier_dp, ops == FRONTIER_AT and kind in FRONTIER_OF),
    ):
        if not runs:
            found += f"{'-':>16}"
            continue
        other, wall, cpu = timed(lambda peer=peer: peer(problem))  # type: ignore[misc]
        if abs(other - value) > 1:
            raise SystemExit(f"{name} on {kind}, {ops} ops: {other} ns, where solve() has {value} ns")
        found += f"{wall:>8.2f}{cpu:>8.2f}"
    return found


def line(kind: str, ops: int, labels: int, handover_us: int, seed: int) -> tuple[str, float]:
    problem = network_problem(kind, ops, seed, labels=labels, handover_us=handover_us)
    program = Program(problem, range(ops))
    found, wall, cpu = timed(lambda: solve(problem, range(ops)))
    assert found is not None, "every op has a CPU kernel"
    gap = "proved" if found.is_proved else f"{1 - found.bound_ns / found.value_ns:.4%}"
    text = f"{kind:<14}{ops:>6}{labels:>3}{handover_us:>6}{seed:>3}{wall:>8.2f}{cpu:>7.2f} {gap:>8}"
    text += f"{len(program.cost):>8}{len(program.rows.lower):>8}{peers(kind, problem, ops, found.value_ns)}"
    return text, cpu


def settled_line(kind: str, ops: int) -> str:
    stage, stock_lanes, cpu_lanes = stage_of(network_problem(kind, ops, 0))
    found, wall, cpu = timed(lambda: settle(stage, stock_lanes, cpu_lanes))
    assert found is not None, "every op has a CPU kernel"
    gap = "optimal" if found.is_optimal else f"{1 - found.bound_ns / found.schedule.price.total_ns:.4%}"
    return f"{kind:<14}{ops:>6}{wall:>8.2f}{cpu:>7.2f} {gap:>8}  {found.order} of {', '.join(found.orders_tried)}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--settle", action="store_true")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    sizes = [size for size in SIZES if not asked.quick or size[0] <= WHOLE_UP_TO]
    print("hand-over in us; times in seconds, wall-clock and CPU; columns and rows of the program before any is added")
    print(
        f"{'network':<14}{'ops':>6}{'lab':>3}{'h-o':>6}{'sd':>3}{'wall':>8}{'CPU':>7} {'gap':>8}"
        f"{'columns':>8}{'rows':>8}{'whole':>8}{'CPU':>8}{'frontier':>9}{'CPU':>7}"
    )
    for ops, labels in sizes:
        slowest = 0.0
        for kind in NETWORKS:
            for handover_us in HANDOVERS_US:
                for seed in range(asked.seeds):
                    text, cpu = line(kind, ops, labels, handover_us, seed)
                    slowest = max(slowest, cpu)
                    print(text, flush=True)
        target = TARGETS_S.get((ops, labels))
        said = "no target" if target is None else f"target {target:.1f} s: {'met' if slowest <= target else 'missed'}"
        print(f"  {ops} ops, {labels} labels: slowest {slowest:.2f} s of CPU; {said}")
    if asked.settle:
        print("all start orders to a fixed point, 3 labels, hand-over 400 us")
        for ops in sorted({ops for ops, _ in sizes}):
            for kind in NETWORKS:
                print(settled_line(kind, ops), flush=True)


if __name__ == "__main__":
    main()
