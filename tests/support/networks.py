# SPDX-License-Identifier: Apache-2.0
"""Planning problems of thousands of ops, wired like real networks, by seed.

Times and bytes are made up, of the size that boards have: an op takes 0.01-3 ms on the CPU and 3-15 times less on
the NPU, which leaves out about one op in ten, in short bursts; tensors have 4-800 KB and move at 1.5 GB/s.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from edgedeploy_partitioner.solver.problem import XNNPACK, Border, Lane, Node, Problem

NPU_LAYOUT = "NC1HWC2/16"


def residual(ops: int, rng: random.Random) -> list[list[int]]:
    """Blocks of 2 to 4 ops, most with a sum of the block's end and its start. Result: what each op reads, by op."""
    reads: list[list[int]] = [[]]
    while len(reads) < ops:
        start = len(reads) - 1
        for _ in range(rng.randint(2, 4)):
            reads.append([len(reads) - 1])
        if rng.random() < 0.6:
            reads.append([start, len(reads) - 1])
    return reads[:ops]


def inception(ops: int, rng: random.Random) -> list[list[int]]:
    """Blocks of 2 to 4 branches of 1 to 3 ops, joined."""
    reads: list[list[int]] = [[]]
    while len(reads) < ops:
        start, ends = len(reads) - 1, []
        for _ in range(rng.randint(2, 4)):
            reads.append([start])
            for _ in range(rng.randint(0, 2)):
                reads.append([len(reads) - 1])
            ends.append(len(reads) - 1)
        reads.append(ends)
    return reads[:ops]


def long_skips(ops: int, rng: random.Random) -> list[list[int]]:
    """A chain where one op in seven also reads any earlier tensor."""
    return [
        sorted({i - 1, rng.randrange(i)} if rng.random() < 0.15 else {i - 1}) if i else [] for i in range(ops)
    ]  # fmt: skip


def random_wired(ops: int, rng: random.Random) -> list[list[int]]:
    """Each op reads 1 to 3 tensors from a little way back."""
    return [
        sorted({max(0, i - 1 - int(rng.expovariate(1 / 3))) for _ in range(rng.choice([1, 2, 2, 3]))}) if i else []
        for i in range(ops)
    ]  # fmt: skip


NETWORKS: dict[str, Callable[[int, random.Random], list[list[int]]]] = {
    "residual": residual,
    "inception": inception,
    "long skips": long_skips,
    "random-wired": random_wired,
}


def network_problem(kind: str, ops: int, seed: int, *, labels: int = 3, handover_us: int = 400) -> Problem:
    """Labels: 3 are the two CPU kernels and an NPU; 5 add NEON kernels (NHWC, in the NPU's partitions) and another
    delegate."""
    rng = random.Random(f"{kind} {ops} {seed}")
    reads = NETWORKS[kind](ops, rng)
    lanes = (
        Lane(None, "cpu", "NHWC"),
        Lane(XNNPACK, "cpu", "NHWC", 2_000),
        Lane("edgedeploy", "npu", NPU_LAYOUT, handover_us * 1000, 15_000),
        Lane("edgedeploy", "neon", "NHWC", handover_us * 1000, 1_000),
        Lane("teflon", "npu", "NHWC", handover_us * 500, 0),
    )[:labels]
    size: list[int] = []
    nodes: list[Node] = []
    gap = 0
    for i, read in enumerate(reads):
        before = size[read[0]] if read else 200_000
        size.append(min(800_000, max(4_000, int(before * rng.choice([1, 1, 1, 1, 0.5, 2, 0.25, 1.5])))))
        work = int(min(3_000_000, max(10_000, 1000 * rng.lognormvariate(5, 1.3))))
        if gap or rng.random() < 0.06:
            gap = (gap or rng.randint(1, 4)) - 1
            npu = None
        else:
            npu = int(work / rng.uniform(3, 15)) + 10_000
        costs: list[int | None] = [
            work,
            None if rng.random() < 0.15 else int(work / rng.uniform(1, 4)),
            npu,
            None if rng.random() < 0.35 else int(work / rng.uniform(2, 5)) + 1_000,
            None if rng.random() < 0.3 else int(work / rng.uniform(2, 10)) + 20_000,
        ]
        nodes.append(Node(i, tuple(j + 1 for j in read) or (0,), (i + 1,), tuple(costs[:labels])))
    borders = {t: _border(size[max(0, t - 1)], labels) for t in range(ops + 1)}
    read_again = {t for node in nodes for t in node.inputs}
    return Problem(lanes, tuple(nodes), borders, frozenset(t for t in range(1, ops + 1) if t not in read_again))


def _border(size: int, labels: int) -> Border:
    """60 us and 1.5 GB/s to and from the NPU's layout, 8 GB/s inside; the arena's own layout is free or nearly so."""
    convert, inside = 60_000 + size * 1000 // 1500, 2_000 + size // 8
    enter = (0, 0, convert, 0, 2_000 + size // 8)[:labels]
    internal = tuple(tuple(inside if {a, b} == {2, 3} else 0 for b in range(labels)) for a in range(labels))
    return Border(enter, enter, internal)
