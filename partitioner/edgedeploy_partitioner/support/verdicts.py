# SPDX-License-Identifier: Apache-2.0
"""What a back end says about an op: supported, refused or unknown, with the rule, its reason and its source.

A support table is a claim of its source. Nothing here asks a compiler or a board.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import Graph, Op
from edgedeploy_partitioner.plan import Status
from edgedeploy_partitioner.support import predicates
from edgedeploy_partitioner.support.case import Case
from edgedeploy_profiles.schema import Backend, Requirement, Rule

NO_RULE = "no_rule"
_BEST_FIRST: tuple[Status, ...] = ("supported", "unknown", "refused")


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on running an op with one kernel of a back end.

    ``rule`` is the predicate that decided, ``row`` when a row of the table did, ``refusal`` for ops that the table
    refuses by name, ``folded`` for ops that only unpack constants, ``no_rule`` where the table says nothing.
    """

    kernel: str
    layout: str
    status: Status
    reason: str
    rule: str
    source: str
    sdk_version: str


def verdicts(graph: Graph, op: Op, backend: Backend, soc: str) -> tuple[Judged, ...]:
    """One verdict for each kernel of ``backend`` that has a row for ``op`` on ``soc``; at least one.

    Raises :class:`InputError` if the table has no such SoC, or uses a predicate that does not exist.
    """
    if soc not in backend.socs:
        raise InputError(f"{backend.title} has no table for {soc!r}, only for {', '.join(backend.socs)}")
    case = Case(graph, op, backend)
    best: dict[str, Judged] = {}
    for judged in _judgements(case, soc):
        known = best.setdefault(judged.kernel, judged)
        best[judged.kernel] = min(known, judged, key=lambda j: _BEST_FIRST.index(j.status))
    return tuple(best.values())


def check_table(backend: Backend) -> None:
    """Raises :class:`InputError` naming the row if a predicate does not exist or does not take its parameter."""
    rows: list[tuple[str, Requirement | Rule]] = [(f"every_op[{i}]", r) for i, r in enumerate(backend.every_op)]
    rows += [(f"rules[{i}]", rule) for i, rule in enumerate(backend.rules)]
    for where, row in rows:
        for name, parameter in row.require.items():
            try:
                predicates.find(name).read(parameter)
            except InputError as error:
                raise InputError(f"backends/{backend.name}.toml: {where}.require: {error.message}") from None


def _judgements(case: Case, soc: str) -> Iterator[Judged]:
    """In the table's order, until one is supported."""
    backend, op = case.backend, case.op
    npu = backend.kernels[0]
    for refusal in backend.refusals:
        if op.code in refusal.ops and soc in (refusal.socs or backend.socs):
            yield _judged(case, npu, "refused", refusal.reason, "refusal", refusal.source, refusal.sdk_version)
            return
    if op.index in case.graph.subgraphs[op.subgraph].folded:
        reason = "unpacks a constant once, before the model runs"
        yield _judged(case, npu, "supported", reason, "folded", "assumed: by construction")
        return
    rules = [rule for rule in backend.rules if op.code in rule.maps_to and soc in (rule.socs or backend.socs)]
    if not rules:
        reason = f"the {backend.title} {backend.sdk_version} table has no row for {op.code}"
        yield _judged(case, npu, "refused", reason, NO_RULE, "")
    for rule in rules:
        judged = _by_rule(case, rule)
        yield judged
        if judged.status == "supported":
            return


def _by_rule(case: Case, rule: Rule) -> Judged:
    """The first requirement that refuses decides, else the first that leaves it open, else the row itself."""
    doubts = []
    for judged in _violations(case, rule):
        if judged.status == "refused":
            return judged
        doubts.append(judged)
    return doubts[0] if doubts else _by_row(case, rule)


def _violations(case: Case, rule: Rule) -> Iterator[Judged]:
    who = case.backend.title
    for row in case.backend.every_op:
        if rule.kernel in (row.kernels or case.backend.kernels):
            for name, found, needed in _broken(case, row):
                needs = f"{who} needs {needed}" if row.otherwise == "refused" else f"unknown whether {who} takes that"
                yield _judged(case, rule.kernel, row.otherwise, f"{found}; {needs}", name, row.source)
    for name, found, needed in _broken(case, rule):
        reason = f"{found}; {rule.maps_to[case.op.code]} needs {needed}{_aside(rule)}"
        yield _judged(case, rule.kernel, "refused", reason, name, rule.source, rule.sdk_version)


def _broken(case: Case, row: Requirement | Rule) -> Iterator[tuple[str, str, str]]:
    """Of each predicate that does not hold: its name, what was found, and what it asks for."""
    for name, parameter in row.require.items():
        predicate = predicates.find(name)
        found = predicate.violation(case, parameter)
        if found is not None:
            yield name, found, predicate.needs(parameter)


def _by_row(case: Case, rule: Rule) -> Judged:
    title, data, computed = case.backend.title, case.data(), case.computed_type()
    becomes = "becomes" if rule.verdict == "supported" else "may become"
    where = "the NPU" if rule.kernel == case.backend.kernels[0] else f"{title}'s {rule.kernel.replace('_', ' ')}"
    cast = f", computed in {computed}" if data and computed != data.dtype.value else ""
    aside = _aside(rule) if rule.verdict != "supported" else ""
    reason = f"{becomes} {rule.maps_to[case.op.code]} on {where}{cast}{aside}"
    return _judged(case, rule.kernel, rule.verdict, reason, "row", rule.source, rule.sdk_version)


def _aside(rule: Rule) -> str:
    return f" ({rule.note})" if rule.note else ""


def _judged(
    case: Case, kernel: str, status: Status, reason: str, rule: str, source: str, sdk_version: str = ""
) -> Judged:
    backend = case.backend
    layout = backend.layouts.get(case.computed_type(), "NHWC")
    told = backend.sources.get(source, source)
    return Judged(kernel, layout, status, reason, rule, told, sdk_version or backend.sdk_version)
