# SPDX-License-Identifier: Apache-2.0
"""What to try next. Each rule looks at a plan and says one thing, or nothing. ``RULES`` is their order."""

from __future__ import annotations

from collections.abc import Callable

from edgedeploy.planview import op_label, ops_label
from edgedeploy.report.headline import on_cpu_only
from edgedeploy.report.reasons import fallback_ops, npu_candidates, refused_ops
from edgedeploy.text import duration, plural, times_faster
from edgedeploy_partitioner.plan import Plan

FLOATS = ("float32", "float16", "bfloat16", "float16-weights", "dynamic-range")


def cpu_wins(plan: Plan) -> str | None:
    """Nothing goes to the NPU: say which of the two reasons it is."""
    if not plan.inputs.board.stack or not on_cpu_only(plan):
        return None
    stack = plan.inputs.board.stack
    refused, priced = len(refused_ops(plan)), len(fallback_ops(plan))
    if refused == priced:
        return f"{stack} supports none of the {plural(priced, 'op')}; the reasons are above"
    return (
        f"the CPU alone is the fastest: on the {plural(priced - refused, 'op')} that it takes, {stack} would save less "
        "than hand-overs and conversions cost"
    )


def probe_unknowns(plan: Plan) -> str | None:
    """Unknown verdicts that would change the plan."""
    probe, best = plan.predicted.ops_to_probe, plan.predicted.optimistic_ns
    if not probe or best is None:
        return None
    which = ops_label(plan, probe[:8]) + ("..." if len(probe) > 8 else "")
    return (
        f"nobody knows whether the NPU takes {plural(len(probe), 'op')} ({which}); if it does: {duration(best)}, "
        f"{times_faster(best, plan.predicted.latency_ns)}. Try --assume-unknown supported"
    )


def quantise(plan: Plan) -> str | None:
    """A float model on an NPU whose table refuses element types."""
    kind = plan.inputs.model.dtype_class
    refused = [op for op in refused_ops(plan) if any("dtype" in c.rule for c in npu_candidates(op))]
    if kind not in FLOATS or not refused:
        return None
    return (
        f"{plural(len(refused), 'op')} refused for the element type (the model is {kind}); "
        "full-integer quantisation (int8) may let the NPU take them"
    )


def static_shape(plan: Plan) -> str | None:
    refused = [op for op in refused_ops(plan) if any("static" in c.rule for c in npu_candidates(op))]
    if not refused:
        return None
    return f"{plural(len(refused), 'op')} refused for shapes that are not fixed; fix them with --input-shape NAME=1,..."


def dearest_fallback(plan: Plan) -> str | None:
    """One refused op that takes a large part of the time."""
    refused = refused_ops(plan)
    if not refused or on_cpu_only(plan):
        return None
    op = max(refused, key=lambda op: op.predicted_ns)
    share = op.predicted_ns / max(1, plan.predicted.latency_ns)
    if share < 0.1:
        return None
    named = f"op {op_label(plan, (op.subgraph, op.index))} {op.custom_code or op.op}"
    return f"{named} alone is {share:.0%} of the time on the CPU; replacing it in the model gains most"


RULES: tuple[Callable[[Plan], str | None], ...] = (cpu_wins, quantise, static_shape, dearest_fallback, probe_unknowns)


def advice(plan: Plan) -> list[tuple[str, str]]:
    return [("*", words) for rule in RULES if (words := rule(plan))]
