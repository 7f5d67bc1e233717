# SPDX-License-Identifier: Apache-2.0
"""Planning problems drawn by hypothesis, so that a failing one shrinks."""

from __future__ import annotations

from hypothesis import strategies as st

from edgedeploy_partitioner.solver.problem import XNNPACK, Arena, Border, Fusion, Lane, Node, Problem

NHWC, NATIVE = "NHWC", "NC1HWC2/16"
LANES = (
    Lane(None, "cpu", NHWC),
    Lane(XNNPACK, "cpu", NHWC, 300),
    Lane("edgedeploy", "npu", NATIVE, 9_000, 500),
    Lane("edgedeploy", "neon", NHWC, 9_000, 200),
    Lane("teflon", "npu", NHWC, 5_000),
)
_TIMES = st.integers(0, 30_000)


@st.composite
def problems(draw: st.DrawFn, most_ops: int = 8) -> Problem:
    """One to ``most_ops`` ops in five lanes; every op has a CPU kernel, and no limit is set."""
    nodes: list[Node] = []
    tensors = 1
    for index in range(draw(st.integers(1, most_ops))):
        inputs = draw(st.sets(st.integers(max(0, tensors - 5), tensors - 1), min_size=1, max_size=3))
        outputs = tuple(range(tensors, tensors + draw(st.sampled_from([1, 1, 1, 2]))))
        tensors += len(outputs)
        kernels = draw(st.sampled_from([(True, False), (False, True), (True, True)]))
        supports = (*kernels, *(draw(st.booleans()) for _ in LANES[2:]))
        costs = tuple(draw(_TIMES) if takes else None for takes in supports)
        nodes.append(Node(index, tuple(sorted(inputs)), outputs, costs))
    read = {t for node in nodes for t in node.inputs}
    outputs_set = frozenset(t for t in range(1, tensors) if t not in read or draw(st.booleans()))
    borders = {t: _border(draw) for t in range(tensors)}
    return Problem(LANES, tuple(nodes), borders, outputs_set, fusions=_fusions(draw, nodes))


def _border(draw: st.DrawFn) -> Border:
    enter, leave, inside = draw(st.tuples(*[st.integers(0, 8_000)] * 3))
    internal = tuple(tuple(inside if {a, b} == {2, 3} else 0 for b in range(len(LANES))) for a in range(len(LANES)))
    return Border((0, 0, enter, 0, 100), (0, 0, leave, 0, 100), internal)


def _fusions(draw: st.DrawFn, nodes: list[Node]) -> tuple[Fusion, ...]:
    found = []
    for i in draw(st.sets(st.integers(0, len(nodes) - 1), max_size=3)):
        lane = draw(st.integers(2, len(LANES) - 1))
        cost = nodes[i].costs[lane]
        hosts = tuple(sorted(draw(st.sets(st.integers(max(0, i - 3), max(0, i - 1)), max_size=2)) - {i}))
        if cost is not None:
            found.append(Fusion(i, lane, hosts, draw(st.integers(0, cost)), draw(st.booleans())))
    return tuple(found)


@st.composite
def arenas(draw: st.DrawFn, problem: Problem) -> Arena:
    sizes = {t: draw(st.integers(0, 50)) for t in sorted(problem.borders)}
    return Arena(draw(st.integers(0, sum(sizes.values()))), sizes, frozenset({0}))
