# SPDX-License-Identifier: Apache-2.0
"""Random planning problems by seed, and two exact methods that share nothing with the solver."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from edgedeploy_partitioner.solver.problem import XNNPACK, Arena, Border, Fusion, Lane, Node, Problem

LAYOUT = "NC1HWC2/16"


def random_problem(
    seed: int,
    ops: int,
    *,
    two_layouts: bool = False,
    third_layout: bool = False,
    other_delegate: bool = False,
    max_partitions: int | None = None,
    limits: Mapping[str, int] | None = None,
    fusions: bool = False,
    ahead: float = 0.0,
    reach: int = 4,
) -> Problem:
    """Up to three inputs per op from the last ``reach`` tensors, so borders, skips and multiple readers all occur.

    ``two_layouts`` and ``third_layout`` add lanes of the same delegate, ``other_delegate`` one of another, whose NHWC
    borders cost nothing or little.
    """
    rng = random.Random(seed)
    partition_ns = rng.choice([0, 3_000, 20_000])
    lanes = [
        Lane(None, "cpu", "NHWC"),
        Lane(XNNPACK, "cpu", "NHWC", rng.choice([0, 500])),
        Lane("edgedeploy", "npu", LAYOUT, partition_ns, rng.choice([0, 700])),
    ]
    if two_layouts:
        lanes.append(Lane("edgedeploy", "neon", rng.choice([LAYOUT, "NHWC"]), partition_ns, rng.choice([0, 300])))
    if third_layout:
        lanes.append(Lane("edgedeploy", "npu", "NC1HWC2/8", partition_ns))
    if other_delegate:
        lanes.append(Lane("teflon", "npu", "NHWC", rng.choice([0, 4_000]), rng.choice([0, 200])))
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
    fused = _fusions(rng, nodes, lanes, ahead) if fusions else ()
    return Problem(tuple(lanes), tuple(nodes), borders, outputs_set, max_partitions, limits or {}, fused)


def _fusions(rng: random.Random, nodes: Sequence[Node], lanes: Sequence[Lane], ahead: float) -> tuple[Fusion, ...]:
    """Half of the delegated lanes of half of the ops, into up to three others, of which some come after. A share of
    ``ahead`` also needs one of the next two ops."""
    found = []
    for i, node in enumerate(nodes):
        for lane in range(2, len(lanes)):
            cost = node.costs[lane]
            if cost is not None and rng.random() < 0.5:
                near = [h for h in range(max(0, i - 4), min(len(nodes), i + 2)) if h != i]
                hosts = tuple(rng.sample(near, min(len(near), rng.randrange(4))))
                later = range(i + 1, min(len(nodes), i + 3))
                also = tuple(rng.sample(later, 1)) if later and rng.random() < ahead else ()
                found.append(Fusion(i, lane, hosts, rng.randrange(cost), rng.random() < 0.5, also))
    return tuple(found)


def with_arena(problem: Problem, seed: int, share: float) -> Problem:
    """``problem`` with a limit between the least any assignment could need (share 0) and the most (share 1)."""
    rng = random.Random(seed)
    tensors = sorted(problem.borders)
    sizes = {t: rng.randrange(1, 100) for t in tensors if rng.random() < 0.9}
    pinned = frozenset({0}) | {t for t in tensors if rng.random() < 0.05}
    free = dataclasses.replace(problem, arena=Arena(0, sizes, pinned))
    order = range(len(problem.nodes))
    most = live_bytes(free, order, [0] * len(problem.nodes))
    one_run = dataclasses.replace(free, lanes=(Lane("all", "all", "NHWC"),) * len(problem.lanes))
    least = live_bytes(one_run, order, [0] * len(problem.nodes))
    return dataclasses.replace(problem, arena=Arena(round(least + share * (most - least)), sizes, pinned))


def _border(rng: random.Random, lanes: Sequence[Lane]) -> Border:
    enter = {LAYOUT: rng.randrange(9_000), "NHWC": rng.choice([0, 100])}
    leave, convert = rng.randrange(9_000), rng.randrange(5_000)
    third = {}
    if any(lane.layout not in enter for lane in lanes):
        enter |= {lane.layout: rng.randrange(9_000) for lane in lanes if lane.layout not in enter}
        third = {pair: rng.randrange(9_000) for pair in itertools.product(sorted(enter), repeat=2)}
    chosen = lanes[2:]
    return Border(
        enter_ns=(0, 0, *(enter[lane.layout] for lane in chosen)),
        leave_ns=(0, 0, leave, *(rng.choice([0, leave]) for _ in chosen[1:])),
        internal_ns=tuple(
            tuple(0 if a.layout == b.layout else third.get((a.layout, b.layout), convert) for b in lanes) for a in lanes
        ),
    )


def in_file_order(problem: Problem, order: Sequence[int]) -> Problem:
    """The same problem with its nodes in ``order`` in the file."""
    place = {i: k for k, i in enumerate(order)}
    fusions = tuple(
        dataclasses.replace(f, node=place[f.node], hosts=tuple(place[h] for h in f.hosts)) for f in problem.fusions
    )
    return dataclasses.replace(problem, nodes=tuple(problem.nodes[i] for i in order), fusions=fusions)


def assignments(problem: Problem) -> Iterator[tuple[int, ...]]:
    """Every assignment of lanes to nodes."""
    return itertools.product(
        *([lane for lane, cost in enumerate(node.costs) if cost is not None] for node in problem.nodes)
    )


def live_bytes(problem: Problem, order: Sequence[int], lanes: Sequence[int]) -> int:
    """The lower bound on the arena, op by op: what is alive and not shut in one run of a delegate."""
    assert problem.arena is not None
    run, number = list[int](), 0
    for k, i in enumerate(order):
        who = problem.lanes[lanes[i]].delegate
        number += k > 0 and (who is None or who != problem.lanes[lanes[order[k - 1]]].delegate)
        run.append(number)
    peak = 0
    for now in range(len(order)):
        live = 0
        for t, size in problem.arena.bytes.items():
            made = [k for k, i in enumerate(order) if t in problem.nodes[i].outputs]
            read = [k for k, i in enumerate(order) if t in problem.nodes[i].inputs]
            if t in problem.arena.pinned:
                live += size
                continue
            if not made + read or min(made + read) > now:
                continue
            if max(made + read) < now and t not in problem.outputs:
                continue
            delegated = bool(made) and problem.lanes[lanes[order[made[0]]]].delegate is not None
            if delegated and t not in problem.outputs and len({run[k] for k in made + read}) == 1:
                continue
            live += size
        peak = max(peak, live)
    return peak


def fused_in_order(problem: Problem, lanes: Sequence[int]) -> tuple[int, bool]:
    """(what fusions save, whether every op that needs a host has one) in file order: walk back through the segment."""
    saved, all_housed = 0, True
    for fusion in problem.fusions:
        if lanes[fusion.node] != fusion.lane:
            continue
        back = fusion.node - 1
        while back >= 0 and lanes[back] == fusion.lane and back not in fusion.hosts:
            back -= 1
        end = max((*fusion.also, fusion.node))
        if back >= 0 and all(lane == fusion.lane for lane in lanes[back : end + 1]):
            saved += fusion.saves_ns
        elif fusion.required:
            all_housed = False
    return saved, all_housed


def partitions_in_order(problem: Problem, lanes: Sequence[int]) -> Mapping[str, int]:
    """How often each delegate is entered in file order."""
    who = [problem.lanes[lane].delegate for lane in lanes]
    return Counter(d for d, before in zip(who, [None, *who], strict=False) if d is not None and d != before)


def is_allowed(problem: Problem, lanes: Sequence[int]) -> bool:
    """Whether the assignment keeps every limit of the problem in file order."""
    counts = partitions_in_order(problem, lanes)
    if not fused_in_order(problem, lanes)[1] or any(counts[d] > most for d, most in problem.limits.items()):
        return False
    chosen = sum(count for d, count in counts.items() if d != XNNPACK)
    if problem.max_partitions is not None and chosen > problem.max_partitions:
        return False
    arena = problem.arena
    return arena is None or live_bytes(problem, range(len(lanes)), lanes) <= arena.limit_bytes


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
    return total - fused_in_order(problem, lanes)[0], partitions


def brute_force(problem: Problem) -> int | None:
    """The cheapest total over all assignments in file order; None if none is allowed."""
    best: int | None = None
    for lanes in assignments(problem):
        if not is_allowed(problem, lanes):
            continue
        total, _ = cost_in_order(problem, lanes)
        best = total if best is None else min(best, total)
    return best


def frontier_dp(problem: Problem) -> int:
    """The cheapest total in file order by dynamic programming over what later ops can still see.

    Only for problems with one layout per delegate and no limit. State: the lane of the last op, how many ops its
    segment has (up to the farthest host), and per live tensor whether it lies in the running partition and whether its
    leaving is already paid.
    """
    fusions = {(f.node, f.lane): f for f in problem.fusions}
    farthest = max((f.node - h for f in problem.fusions for h in f.hosts), default=0)
    last_read: dict[int, int] = {}
    for i, node in enumerate(problem.nodes):
        for t in node.inputs:
            last_read[t] = i
    State = tuple[int, int, frozenset[int], frozenset[tuple[int, int]]]  # noqa: N806
    states: dict[State, int] = {(-1, 0, frozenset(), frozenset()): 0}
    for i, node in enumerate(problem.nodes):
        following: dict[State, int] = {}
        for (before, length, present, unpaid), value in states.items():
            for lane_number, cost in enumerate(node.costs):
                if cost is None:
                    continue
                lane = problem.lanes[lane_number]
                behind = length if before == lane_number else 0
                fusion = fusions.get((i, lane_number))
                housed = fusion is not None and any(0 < i - h <= behind for h in fusion.hosts)
                if fusion is not None and fusion.required and not housed:
                    continue
                saved = fusion.saves_ns if fusion is not None and housed else 0
                total, here, owed = value + cost - saved, present, dict(unpaid)
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
                known = min(behind + 1, farthest)
                state = (lane_number, known, here & live, frozenset((t, n) for t, n in owed.items() if t in live))
                following[state] = min(following.get(state, total), total)
        states = following
    return min(states.values())
