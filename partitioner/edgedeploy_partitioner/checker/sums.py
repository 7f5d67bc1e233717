# SPDX-License-Identifier: Apache-2.0
"""Do the times add up, and is the plan as good as it says?"""

from __future__ import annotations

from collections.abc import Iterator

from edgedeploy_partitioner.checker.view import Fault, View
from edgedeploy_partitioner.plan import Baseline, OpEntry, Transition


def check_sums(view: View) -> Iterator[Fault]:
    yield from _objective(view)
    yield from _bounds(view)
    yield from _solver(view)
    yield from _baselines(view)


def _objective(view: View) -> Iterator[Fault]:
    """Every time counts as often as its subgraph runs in one inference."""
    plan = view.plan
    times = {use.index: use.times for use in plan.subgraphs}
    subgraph_of = {p.id: p.subgraph for p in plan.partitions}
    total = (
        plan.overhead_ns
        + sum(times[op.subgraph] * op.predicted_ns for op in plan.ops)
        + sum(times[t.subgraph] * t.predicted_ns for t in plan.transitions)
        + sum(times[p.subgraph] * p.handover_ns for p in plan.partitions)
        + sum(times[subgraph_of[s.partition]] * s.handover_ns for s in plan.segments)
    )
    if total != plan.solver.objective_ns:
        yield Fault("objective", f"the parts sum to {total} ns, the objective is {plan.solver.objective_ns} ns")
    if plan.predicted.latency_ns != plan.solver.objective_ns:
        yield Fault("latency", f"latency {plan.predicted.latency_ns} ns is not the objective")


def _bounds(view: View) -> Iterator[Fault]:
    """low <= predicted <= high for every time; nothing is negative."""
    plan = view.plan
    ranges = [(f"op {op.subgraph}:{op.index}", op.low_ns, op.predicted_ns, op.high_ns) for op in plan.ops]
    ranges += [
        (f"candidate {c.backend}/{c.kernel} of op {op.subgraph}:{op.index}", c.low_ns or 0, c.predicted_ns, c.high_ns)
        for op in plan.ops
        for c in op.candidates
        if c.predicted_ns is not None
    ]
    ranges += [
        (f"{t.kind} of tensor {t.subgraph}:{t.tensor}", t.low_ns, t.predicted_ns, t.high_ns) for t in plan.transitions
    ]
    ranges += [("the plan", plan.predicted.low_ns, plan.predicted.latency_ns, plan.predicted.high_ns)]
    yield from _together(view)
    for what, low, predicted, high in ranges:
        if not 0 <= low <= predicted or (high is not None and high < predicted):
            yield Fault("bounds", f"{what}: not 0 <= low <= predicted <= high: {low}, {predicted}, {high} ns")
    counts = [n for op in plan.ops for n in (op.macs, op.bytes)] + [t.bytes for t in plan.transitions]
    handovers = [p.handover_ns for p in plan.partitions] + [s.handover_ns for s in plan.segments]
    if any(n < 0 for n in (*counts, *handovers, plan.overhead_ns, *(use.times for use in plan.subgraphs))):
        yield Fault("negative", "a count, a hand-over or the overhead is negative")
    cold, optimistic = plan.predicted.cold_start_ns, plan.predicted.optimistic_ns
    if cold is not None and cold < plan.predicted.latency_ns:
        yield Fault("bounds", f"the cold start takes {cold} ns, less than a warm run")
    if optimistic is not None and not 0 <= optimistic <= plan.predicted.latency_ns:
        yield Fault("bounds", f"the optimistic plan takes {optimistic} ns, more than this one")


def _together(view: View) -> Iterator[Fault]:
    """The plan's bounds agree with those of its ops and transitions, where no control flow chooses among them.

    The bounds of the overhead and the hand-overs are not in the plan; only that their times lie within them is known.
    """
    if any(op.callees or op.code == "WHILE" for op in view.graph.subgraphs[view.main].ops):
        return
    given, times = view.plan.predicted, view.use[view.main].times
    every: tuple[OpEntry | Transition, ...] = (*view.plan.ops, *view.plan.transitions)
    parts = [part for part in every if part.subgraph == view.main]
    low = times * sum(e.low_ns for e in parts)
    high = times * sum(e.predicted_ns if e.high_ns is None else e.high_ns for e in parts)
    others = given.latency_ns - times * sum(e.predicted_ns for e in parts)
    if not low <= given.low_ns <= low + others:
        yield Fault("bounds", f"the plan's low is {given.low_ns} ns, its parts' together {low} to {low + others} ns")
    if given.high_ns is None or given.high_ns < high + others:
        yield Fault("bounds", f"the plan's high is {given.high_ns} ns, its parts' together at least {high + others} ns")


def _solver(view: View) -> Iterator[Fault]:
    solver = view.plan.solver
    if solver.lower_bound_ns > solver.objective_ns:
        yield Fault("solver", f"the lower bound {solver.lower_bound_ns} ns is over the objective")
    if (solver.status == "optimal") != (solver.lower_bound_ns == solver.objective_ns):
        yield Fault("solver", f"status {solver.status} with a bound of {solver.lower_bound_ns} ns")
    if solver.order not in solver.orders_tried:
        yield Fault("solver", f"order {solver.order} is not among those tried")


def _baselines(view: View) -> Iterator[Fault]:
    """A baseline that the user's options allow is a plan; the chosen one is at least as good."""
    baselines = view.plan.baselines
    options = view.plan.inputs.options
    free = baselines.without_limit
    if (free is None) != (options.memory_limit_bytes is None):
        yield Fault("baseline", "there is a plan without the memory limit where there is a limit, and only there")
    elif free is not None and free.latency_ns > view.plan.predicted.latency_ns:
        yield Fault("baseline", f"without the memory limit it takes {free.latency_ns} ns, more than with it")
    if options.force or options.forbid:
        return
    for name, baseline in (("all_cpu", baselines.all_cpu), ("stock_delegate", baselines.stock_delegate)):
        if baseline is not None and _allowed(view, baseline) and baseline.latency_ns < view.plan.predicted.latency_ns:
            yield Fault("baseline", f"{name} takes {baseline.latency_ns} ns, less than the plan")


def _allowed(view: View, baseline: Baseline) -> bool:
    options = view.plan.inputs.options
    if options.max_partitions is not None and baseline.partitions > options.max_partitions:
        return False
    limit = options.memory_limit_bytes
    return limit is None or (baseline.peak_bytes is not None and baseline.peak_bytes <= limit)
