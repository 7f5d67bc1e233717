# SPDX-License-Identifier: Apache-2.0
"""Random planning problems by seed, and two exact methods that share nothing with the solver."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

from edgedeploy_partitioner.solver.problem import XNNPACK, Border, Lane, Node, Problem

LAYOUT = "NC1HWC2/16"


def random_problem(
    seed: int, ops: int, *, two_layouts: bool = False, max_partitions: int | None = None, reach: int = 4
) -> Problem:
    """Up to three inputs per op from the last ``reach`` tensors, so borders, skips and multiple readers all occur."""
    rng = random.Random(seed)
    partition_ns = rng.choice([0, 3_000, 20_000])
    lanes = [
        Lane(None, "cpu", "NHWC"),
        Lane(XNNPACK, "cpu", "NHWC", rng.choice([0, 500])),
        Lane("edgedeploy", "npu", LAYOUT, partition_ns, rng.choice([0, 700])),
    ]
    if two_layouts:
        lanes.append(Lane("edgedeploy", "neon", rng.choice([LAYOUT, "NHWC"]), partition_ns, rng.choice([0, 300])))
    nodes: list[Node] = []
    tensors = 1
    for index in range(ops):
        inputs = sorted({rng.randrange(max(0, tensors - reach), tensors) for _ in range(rng.choice([1, 1, 2, 3]))})
        count = 2 if rng.random() < 0.15 else 1
        outputs = tuple(range(tensors, tensors + count))
        tensors += count
        costs: list[int | None] = [rng.randrange(1_000, 50_000) for _ in lanes]
        costs[rng.random() < 0.4] = None
        for lane in range(2, len(lanes)):
            if rng.random() < 0.3:
                costs[lane] = None
        nodes.append(Node(index, tuple(inputs), outputs, tuple(costs)))
    read = {t for node in nodes for t in node.inputs}
    outputs_set = frozenset(t for t in range(1, tensors) if t not in read or rng.random() < 0.1)
    borders = {t: _border(rng, lanes) for t in range(tensors)}
    return Problem(tuple(lanes), tuple(nodes), borders, outputs_set, max_partitions)


def _border(rng: random.Random, lanes: Sequence[Lane]) -> Border:
    enter = {LAYOUT: rng.randrange(9_000), "NHWC": rng.choice([0, 100])}
    leave, convert = rng.randrange(9_000), rng.randrange(5_000)
    chosen = lanes[2:]
    return Border(
        enter_ns=(0, 0, *(enter[lane.layout] for lane in chosen)),
        leave_ns=(0, 0, leave, *(rng.choice([0, leave]) for _ in chosen[1:])),
        internal_ns=tuple(tuple(0 if a.layout == b.layout else convert for b in lanes) for a in lanes),
    )


def assignments(problem: Problem) -> Iterator[tuple[int, ...]]:
    """Every assignment of lanes to nodes."""
    return itertools.product(
        *([lane for lane, cost in enumerate(node.costs) if cost is not None] for node in problem.nodes)
    )


def cost_in_order(problem: Problem, lanes: Sequence[int]) -> tuple[int, int]:
    """(total, partitions) of running the nodes in file order, written out op by op from the contract's words."""
    total = partitions = 0
    inside: str | None = None
    present: set[tuple[int, str]] = set()
    born: dict[int, int] = {}
    owner: dict[int, int] = {}
    where: list[int] = []
    number = -1
    for i, node in enumerate(problem.nodes):
        lane = problem.lanes[lanes[i]]
        if lane.delegate is None or lane.delegate != inside:
            number += 1
            present, born = set(), {}
            total += lane.partition_ns if lane.delegate else 0
            partitions += lane.delegate not in (None, XNNPACK)
            inside = lane.delegate
            total += lane.segment_ns if lane.delegate else 0
        elif lanes[i] != lanes[i - 1]:
            total += lane.segment_ns
        where.append(number)
        cost = node.costs[lanes[i]]
        assert cost is not None
        total += cost
        if lane.delegate is None:
            for t in node.outputs:
                owner[t] = i
            continue
        for t in node.inputs:
            if (t, lane.layout) not in present:
                present.add((t, lane.layout))
                border = problem.borders[t]
                total += border.internal_ns[born[t]][lanes[i]] if t in born else border.enter_ns[lanes[i]]
        for t in node.outputs:
            born[t] = lanes[i]
            owner[t] = i
            present.add((t, lane.layout))
    for t, maker in owner.items():
        read_elsewhere = any(t in n.inputs and where[k] != where[maker] for k, n in enumerate(problem.nodes))
        if problem.lanes[lanes[maker]].delegate and (read_elsewhere or t in problem.outputs):
            total += problem.borders[t].leave_ns[lanes[maker]]
    return total, partitions


def brute_force(problem: Problem) -> int | None:
    """The cheapest total over all assignments in file order; None if none is allowed."""
    best: int | None = None
    for lanes in assignments(problem):
        total, partitions = cost_in_order(problem, lanes)
        if problem.max_partitions is not None and partitions > problem.max_partitions:
            continue
        best = total if best is None else min(best, total)
    return best


def frontier_dp(problem: Problem) -> int:
    """The cheapest total in file order by dynamic programming over what later ops can still see.

    Only for problems with one layout per delegate and no limit. State: the delegate and lane of the last op, and per
    live tensor whether it lies in the running partition and whether its leaving is already paid.
    """
    last_read: dict[int, int] = {}
    for i, node in enumerate(problem.nodes):
        for t in node.inputs:
            last_read[t] = i
    State = tuple[int, frozenset[int], frozenset[tuple[int, int]]]  # noqa: N806
    states: dict[State, int] = {(-1, frozenset(), frozenset()): 0}
    for i, node in enumerate(problem.nodes):
        following: dict[State, int] = {}
        for (before, present, unpaid), value in states.items():
            for lane_number, cost in enumerate(node.costs):
                if cost is None:
                    continue
                lane = problem.lanes[lane_number]
                total, here, owed = value + cost, present, dict(unpaid)
                same = before >= 0 and lane.delegate is not None and problem.lanes[before].delegate == lane.delegate
                if not same:
                    here = frozenset()
                    total += lane.partition_ns if lane.delegate else 0
                if lane.delegate and (not same or before != lane_number):
                    total += lane.segment_ns
                for t in node.inputs:
                    if t not in here:
                        if t in owed:
                            total += problem.borders[t].leave_ns[owed.pop(t)]
                        if lane.delegate:
                            total += problem.borders[t].enter_ns[lane_number]
                            here |= {t}
                for t in node.outputs:
                    if lane.delegate:
                        here |= {t}
                        owed[t] = lane_number
                        if t in problem.outputs:
                            total += problem.borders[t].leave_ns[owed.pop(t)]
                live = {t for t, last in last_read.items() if last > i}
                state = (lane_number, here & live, frozenset((t, n) for t, n in owed.items() if t in live))
                following[state] = min(following.get(state, total), total)
        states = following
    return min(states.values())
