# SPDX-License-Identifier: Apache-2.0
"""What to try next. Each rule looks at a plan and says one thing, or nothing. ``RULES`` is their order."""

from __future__ import annotations

from collections.abc import Callable

from edgedeploy.planview import op_label, ops_label
from edgedeploy.report.headline import on_cpu_only
from edgedeploy.report.reasons import ended_by, fallback_ops, is_refused, npu_candidates, refused_ops, takes_for_certain
from edgedeploy.report.runs import kind
from edgedeploy.text import duration, plural, times_faster
from edgedeploy_partitioner.model.facts import oddities
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.plan import CandidateEntry, OpEntry, Plan
from edgedeploy_profiles import load_backend

LARGE_SHARE = 0.1
NEXT_TO_NOTHING = 0.02
"""Of the time, from which ops are worth a line."""
CHANGES_SHOWN = 2
OPS_SHOWN = 8
FIX = "fix it with "
"""What comes before the option where an oddity names one."""
FLOATS = ("float32", "float16", "bfloat16", "float16-weights", "dynamic-range")


def cpu_wins(plan: Plan) -> str | None:
    """Nothing goes to the NPU: say which of the two reasons it is."""
    if not plan.inputs.board.stack or not on_cpu_only(plan):
        return None
    stack = plan.inputs.board.stack
    refused, priced = len(refused_ops(plan)), len(fallback_ops(plan))
    if refused == priced:
        takes = "supports none" if all(map(is_refused, refused_ops(plan))) else "takes none for certain"
        return f"{stack} {takes} of the {plural(priced, 'op')}; the reasons are above"
    saved = [op for op in fallback_ops(plan) if any(_saves(op, c) for c in npu_candidates(op))]
    if not saved:
        return (
            f"the CPU alone is the fastest: {stack} is slower on each of the {plural(priced - refused, 'op')} it takes"
        )
    return (
        f"the CPU alone is the fastest: on the {plural(priced - refused, 'op')} that it takes, {stack} would save less "
        "than hand-overs and conversions cost"
    )


def _saves(op: OpEntry, c: CandidateEntry) -> bool:
    return c.verdict == "supported" and c.predicted_ns is not None and c.predicted_ns < op.predicted_ns


def probe_unknowns(plan: Plan) -> str | None:
    """Unknown verdicts that would change the plan."""
    probe, best = plan.predicted.ops_to_probe, plan.predicted.optimistic_ns
    if not probe or best is None:
        return None
    which = _some(plan, probe)
    return (
        f"nobody knows whether the NPU takes {plural(len(probe), 'op')} ({which}); if it does: {duration(best)}, "
        f"{times_faster(best, plan.predicted.latency_ns)}. Try --assume-unknown supported"
    )


def quantise(plan: Plan) -> str | None:
    """A float model on an NPU whose table refuses element types, where planning again found nothing."""
    kind = plan.inputs.model.dtype_class
    if any(change.code == "quantise" for change in plan.advice):
        return None
    refused = [op for op in refused_ops(plan) if any("dtype" in c.rule for c in npu_candidates(op))]
    if kind not in FLOATS or not refused:
        return None
    return (
        f"{plural(len(refused), 'op')} refused for the element type (the model is {kind}); "
        "full-integer quantisation (int8) may let the NPU take them"
    )


def partition_limit(plan: Plan) -> str | None:
    """A back end that takes a limited number of partitions, and what ended them."""
    for backend, op in ended_by(plan).items():
        if op is None:
            continue
        later = [o for o in fallback_ops(plan) if takes_for_certain(o)]
        if not later:
            continue
        most = next(b.max_partitions for b in plan.backends if b.name == backend)
        why = npu_candidates(op)
        told = f": {why[0].reason}" if why else ""
        return (
            f"{backend} allows {plural(most or 0, 'partition')} a model, ended by op "
            f"{op_label(plan, (op.subgraph, op.index))} {kind(op)}{told}; left to the CPU with it: "
            f"{plural(len(later), 'op')} that {backend} takes"
        )
    return None


def static_shape(plan: Plan, graph: Graph) -> str | None:
    """Which options fix the shapes for which ops are refused."""
    refused = [op for op in refused_ops(plan) if any("static" in c.rule for c in npu_candidates(op))]
    if not refused:
        return None
    found = (each.message.partition(FIX)[2] for each in oddities(graph) if each.code == "open_dimension")
    fix = " ".join(dict.fromkeys(found))
    what = "refused" if all(map(is_refused, refused)) else "not taken"
    told = f"{plural(len(refused), 'op')} {what} for shapes that are not fixed"
    return f"{told}; fix them, for example with {fix}" if fix else told


def dearest_fallback(plan: Plan) -> str | None:
    """Ops of one kind that take a large part of the time on the CPU: those that the NPU refuses, or any if all do."""
    times = {use.index: max(1, use.times) for use in plan.subgraphs}
    refused = tuple(filter(is_refused, refused_ops(plan)))
    alike: dict[tuple[int, str], list[OpEntry]] = {}
    for op in refused or (fallback_ops(plan) if plan.inputs.board.stack and on_cpu_only(plan) else ()):
        alike.setdefault((op.subgraph, kind(op)), []).append(op)
    costs = {key: times[key[0]] * sum(op.predicted_ns for op in ops) for key, ops in alike.items()}
    dearest = max(costs, key=lambda key: costs[key], default=None)
    if dearest is None or costs[dearest] < LARGE_SHARE * plan.predicted.latency_ns:
        return None
    ops = alike[dearest]
    first = max(ops, key=lambda op: op.predicted_ns)
    many = f" and {len(ops) - 1} alike take" if len(ops) > 1 else " takes"
    took = f"{duration(costs[dearest])} of {duration(plan.predicted.latency_ns)}"
    told = f"op {op_label(plan, (first.subgraph, first.index))} {dearest[1]}{many} {took} on the CPU"
    them = "them" if len(ops) > 1 else "it"
    if any(change.code == "quantise" for change in plan.advice):
        return told  # what to do about it is said there
    why = f"; the NPU refuses {them}, for the reason above: change or replace {them} in the model"
    return told + (why if refused else ", the most of any kind")


def compile_segments(plan: Plan) -> str | None:
    """What makes the files that a bundle of this plan lacks."""
    tables = {name: load_backend(name) for name in plan.inputs.tables}
    used = [s.backend for s in plan.segments if s.backend in tables]
    made = [name for name in used if tables[name].artifact]
    if used and not made:
        stock = " and ".join(dict.fromkeys(tables[name].library for name in used))
        return f"following this plan needs libedgedeploy.so, which holds {stock} to its ops; -o puts it into a bundle"
    if not made:
        return None
    tools = ", ".join(tables[name].compiler or f"the compiler of {name}" for name in dict.fromkeys(made))
    return f"{plural(len(made), 'NPU segment')} still to be compiled by {tools}; running them is not built yet"


def barely_worth(plan: Plan) -> str | None:
    """An NPU that saves next to nothing."""
    latency, cpu = plan.predicted.latency_ns, plan.baselines.all_cpu.latency_ns
    if not plan.inputs.board.stack or on_cpu_only(plan) or latency < (1 - NEXT_TO_NOTHING) * cpu or latency > cpu:
        return None
    return f"the NPU saves {duration(cpu - latency)} of {duration(cpu)}: --npu none is as good, and simpler"


RULES: tuple[Callable[[Plan], str | None], ...] = (
    cpu_wins,
    barely_worth,
    partition_limit,
    quantise,
    dearest_fallback,
    probe_unknowns,
    compile_segments,
)


def advice(plan: Plan, graph: Graph) -> list[tuple[str, str]]:
    """``graph`` is the planned model."""
    told = [static_shape(plan, graph), *(rule(plan) for rule in RULES), *_worth(plan)]
    return [("*", words) for words in told if words]


def _some(plan: Plan, ops: tuple[tuple[int, int], ...]) -> str:
    more = len(ops) - OPS_SHOWN
    return ops_label(plan, ops[:OPS_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _worth(plan: Plan) -> list[str]:
    """The changes that planning again found to be worth it; of two ways to quantise the better."""
    best = {change.code: change for change in reversed(plan.advice)}
    told = [c for c in plan.advice if c.code != "quantise" or c is best["quantise"]]
    return [
        f"{change.message}: {duration(change.latency_ns)}, {times_faster(change.latency_ns, plan.predicted.latency_ns)}"
        + (f" ({_some(plan, change.ops)})" if len(change.ops) > 1 else "")
        for change in told[:CHANGES_SHOWN]
    ]
