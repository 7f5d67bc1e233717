# SPDX-License-Identifier: Apache-2.0
"""Why an op is not on the NPU: the user's wish, the verdict that said so, or the costs that did."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from edgedeploy.planview import op_label, ops_label
from edgedeploy.report.runs import kind, ops_that_run
from edgedeploy.text import duration, plural
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.plan import ON_ARM, CandidateEntry, OpEntry, Plan
from edgedeploy_partitioner.planning.placement import placement

NAMES_SHOWN = 3
LABEL = 18

Wishes = Mapping[tuple[int, int], str]
"""The ``--force`` or ``--forbid`` that keeps an op, by (subgraph, index), on the CPU."""


def npu_candidates(op: OpEntry) -> tuple[CandidateEntry, ...]:
    return tuple(c for c in op.candidates if c.backend not in ON_ARM)


def fallback_ops(plan: Plan) -> tuple[OpEntry, ...]:
    """Ops that run on the CPU's own kernels (``neon`` is not fallback)."""
    return tuple(op for op in ops_that_run(plan) if op.backend == "cpu")


def refused_ops(plan: Plan) -> tuple[OpEntry, ...]:
    """Ops on the CPU that no NPU candidate supports; unknown counts as ``--assume-unknown`` says."""
    fine = ("supported", "unknown") if plan.inputs.options.assume_unknown == "supported" else ("supported",)
    candidates = ((op, npu_candidates(op)) for op in fallback_ops(plan))
    return tuple(op for op, ways in candidates if ways and not any(c.verdict in fine for c in ways))


def ended_by(plan: Plan) -> Mapping[str, OpEntry | None]:
    """Back end that has all the partitions it allows -> the first op after them that it does not take for certain."""
    found: dict[str, OpEntry | None] = {}
    for backend in plan.backends:
        homes = {segment.partition for segment in plan.segments if segment.backend == backend.name}
        if backend.max_partitions is None or len(homes) < backend.max_partitions:
            continue
        ops = {op.index: op for op in plan.ops if op.subgraph == plan.main}
        order = next((use.order for use in plan.subgraphs if use.index == plan.main), ())
        last = max((place for place, i in enumerate(order) if ops[i].partition in homes), default=-1)
        later = (ops[i] for i in order[last + 1 :])
        found[backend.name] = next((o for o in later if not takes_for_certain(o)), None)
    return found


def takes_for_certain(op: OpEntry) -> bool:
    return any(c.verdict == "supported" for c in npu_candidates(op))


def is_refused(op: OpEntry) -> bool:
    """Is no verdict on it left open?"""
    return all(c.verdict == "refused" for c in npu_candidates(op))


def wishes(plan: Plan, graph: Graph) -> Wishes:
    """What the user's options keep on the CPU."""
    options = plan.inputs.options
    named = {text.rpartition("=")[2] for text in (*options.force, *options.forbid)}
    asked = placement(graph, plan.main, options.force, options.forbid, named)
    kept = {op: text for op, (backend, text) in asked.forced.items() if backend in ON_ARM}
    return {op: text for op, texts in asked.forbidden.items() for text in texts.values()} | kept


def reason(op: OpEntry, wished: Wishes, full: Collection[str] = ()) -> tuple[str, str, str]:
    """``full``: back ends that have all the partitions they allow.

    (kind, words, own words) for an op on the CPU that has NPU candidates.

    Ops of one kind are told together, in the words that are true of all and for one of them its own.
    """
    ways = npu_candidates(op)
    if text := wished.get((op.subgraph, op.index)):
        return text, f"kept on the CPU by {text}", ""
    priced = [c for c in ways if c.verdict == "supported"]
    if not priced:
        told = next((c for c in ways if c.verdict == "unknown"), ways[0])
        known = "" if told.verdict == "refused" else "unknown: "
        rule = f" [{told.rule}]" if told.rule else ""
        return f"{kind(op)} {told.backend} {told.rule} {told.verdict}", "", f"{known}{told.reason}{rule}"
    best = min(priced, key=lambda c: c.predicted_ns if c.predicted_ns is not None else 0)
    took = best.predicted_ns
    if took is None:
        return f"{best.backend} unpriced", f"{best.backend} takes it, but its cost is not known", ""
    prices = f"{duration(took)} on {best.backend}, {duration(op.predicted_ns)} on the CPU"
    if took >= op.predicted_ns:
        return f"{best.backend} slower", f"{best.backend} takes it, but is slower", prices
    if best.backend in full:
        return f"{best.backend} full", f"{best.backend} takes it, but no further partition of a model", prices
    return f"{best.backend} borders", f"{best.backend} takes it, but getting there and back costs more", prices


def not_on_npu(plan: Plan, graph: Graph, most: int | None) -> list[tuple[str, str]]:
    """(ops, reason) lines for every op that could have been on an NPU of the board and is not.

    Ops with like reasons share a line, the dearest first, and after ``most`` lines only their names are told; None
    tells every different reason.
    """
    whole = most is None
    wished, full = wishes(plan, graph), ended_by(plan)
    told: dict[tuple[int, str], list[OpEntry]] = {}
    for op in fallback_ops(plan):
        if npu_candidates(op):
            why = reason(op, wished, full)
            told.setdefault((op.subgraph, f"{kind(op)} {why[1:]}" if whole else why[0]), []).append(op)
    groups = sorted(told.values(), key=lambda ops: -sum(op.predicted_ns for op in ops))
    shown = groups[:most]
    lines = [_line(ops, wished, full, plan, whole) for ops in shown]
    if rest := [op for group in groups[len(shown) :] for op in group]:
        lines.append(("", f"and {plural(len(rest), 'op')} more ({names(kind(op) for op in rest)}): -v shows all"))
    return lines


def _line(ops: Sequence[OpEntry], wished: Wishes, full: Collection[str], plan: Plan, whole: bool) -> tuple[str, str]:
    dearest = max(ops, key=lambda op: op.predicted_ns)
    _, words, own = reason(dearest, wished, full)
    if len({reason(op, wished, full)[2] for op in ops}) > 1:
        own = f"e.g. op {op_label(plan, (dearest.subgraph, dearest.index))}: {own}"
    label = ops_label(plan, [(op.subgraph, op.index) for op in ops], None if whole else LABEL)
    return label, ": ".join(part for part in (names(map(kind, ops)), words, own) if part)


def names(operators: Iterable[str]) -> str:
    """``ADD, MUL, MEAN and 4 other kinds``, each once."""
    kinds = list(dict.fromkeys(operators))
    rest = len(kinds) - NAMES_SHOWN
    if rest <= 1:
        return ", ".join(kinds)
    return f"{', '.join(kinds[:NAMES_SHOWN])} and {rest} other kinds"
