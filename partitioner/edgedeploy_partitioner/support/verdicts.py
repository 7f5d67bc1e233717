# SPDX-License-Identifier: Apache-2.0
"""What a back end says about an op: supported, refused or unknown, with the rule, its reason and its source.

A support table is a claim of its source; some of its rows are compiles or measurements, which outweigh it. Nothing
here asks a compiler or a board.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import Graph, Op
from edgedeploy_partitioner.model.schema import names
from edgedeploy_partitioner.plan import Status
from edgedeploy_partitioner.support import predicates
from edgedeploy_partitioner.support.case import Case
from edgedeploy_profiles.schema import Backend, Evidence, Fusion, Requirement, Rule

NO_RULE = "no_rule"
NEON = "neon"
"""The back end of our own C kernels."""
REFUSAL = "refusal"
_BEST_FIRST: tuple[Status, ...] = ("supported", "unknown", "refused")
_WEAKEST_FIRST: tuple[Evidence, ...] = get_args(Evidence)


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on running an op with one kernel of a back end.

    ``rule`` is the predicate that decided, ``row`` when a row of the table did, ``refusal`` for ops that the table
    refuses by name, ``evidence`` where a compile or measurement put the op elsewhere than the table does, ``folded``
    for ops that only unpack constants, ``no_rule`` where the table says nothing.
    """

    kernel: str
    layout: str
    status: Status
    reason: str
    rule: str
    source: str
    sdk_version: str
    evidence: Evidence = "table"
    fusion: Fusion | None = None
    """Into which producers the op could be fused, as the row that decided says."""


def verdicts(graph: Graph, op: Op, backend: Backend, soc: str) -> tuple[Judged, ...]:
    """One verdict for each kernel of ``backend`` that has a row for ``op`` on ``soc``; at least one.

    Raises :class:`InputError` if the table has no such SoC, or uses a predicate that does not exist.
    """
    if soc not in backend.socs:
        raise InputError(f"{backend.title} has no table for {soc!r}, only for {', '.join(backend.socs)}")
    case = Case(graph, op, backend, soc)
    found = _weighed(backend, tuple(_claims(case)))
    return tuple(sorted(found.values(), key=lambda judged: backend.kernels.index(judged.kernel)))


def check_table(backend: Backend) -> None:
    """Raises :class:`InputError` naming the row if an op or a predicate does not exist, or the predicate does not take
    its parameter."""
    known, file = set(names("BuiltinOperator").values()), "kernels.toml" if backend.name == NEON else ""
    file = file or f"backends/{backend.name}.toml"
    for i, rule in enumerate(backend.rules):
        for op in rule.maps_to:
            if op.removeprefix("CUSTOM:") == op and op not in known:
                near = difflib.get_close_matches(op, known, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                where = f"kernel {rule.kernel}" if backend.name == NEON else f"rules[{i}].maps_to"
                raise InputError(f"{file}: {where}: TFLite has no op {op!r}{hint}")
    rows: list[tuple[str, Requirement | Rule]] = [(f"every_op[{i}]", r) for i, r in enumerate(backend.every_op)]
    rows += [(f"rules[{i}]", rule) for i, rule in enumerate(backend.rules)]
    for where, row in rows:
        for name, parameter in row.require.items():
            try:
                predicates.find(name).read(parameter)
            except InputError as error:
                raise InputError(f"{file}: {where}.require: {error.message}") from None


# --- what each row says ----------


def _claims(case: Case) -> Iterator[Judged]:
    """Of every row for the op, refusals by name first, then in the table's order."""
    backend, op, soc = case.backend, case.op, case.soc
    npu = backend.kernels[0]
    refusals = [row for row in backend.refusals if op.code in row.ops and soc in (row.socs or backend.socs)]
    for row in refusals:
        yield _judged(case, npu, "refused", row.reason, REFUSAL, row.source, row.sdk_version, row.evidence)
    if not refusals and op.index in case.graph.subgraphs[op.subgraph].folded:
        reason = "unpacks a constant once, before the model runs"
        yield _judged(case, npu, "supported", reason, "folded", "assumed: by construction")
        return
    rules = [rule for rule in backend.rules if op.kind in rule.maps_to and soc in (rule.socs or backend.socs)]
    yield from (_by_rule(case, rule) for rule in rules)
    if not rules and not refusals:
        reason = f"the {backend.title} {backend.sdk_version} table has no row for {op.code}"
        yield _judged(case, npu, "refused", reason, NO_RULE, "")


def _by_rule(case: Case, rule: Rule) -> Judged:
    """The first requirement that refuses decides, else the first that leaves it open, else the row itself."""
    doubts = []
    for judged in _violations(case, rule):
        if judged.status == "refused":
            return judged
        doubts.append(judged)
    return doubts[0] if doubts else _by_row(case, rule)


def _violations(case: Case, rule: Rule) -> Iterator[Judged]:
    for row in case.backend.every_op:
        if _concerns(row, case, rule):
            for name, found, needed in _broken(case, row):
                reason = f"{found}; {_asked(case.backend, row, needed)}"
                told = _judged(case, rule.kernel, row.otherwise, reason, name, row.source, row.sdk_version)
                yield replace(told, evidence=rule.evidence, fusion=rule.fusion)
    for name, found, needed in _broken(case, rule):
        reason = f"{found}; {rule.maps_to[case.op.kind]} needs {needed}{_aside(rule)}"
        yield _judged(case, rule.kernel, "refused", reason, name, rule.source, rule.sdk_version, rule.evidence)


def _concerns(row: Requirement, case: Case, rule: Rule) -> bool:
    here = rule.kernel in (row.kernels or case.backend.kernels) and case.soc in (row.socs or case.backend.socs)
    return here and case.op.code in (row.ops or (case.op.code,)) and case.op.code not in row.except_ops


def _asked(backend: Backend, row: Requirement, needed: str) -> str:
    who = backend.title
    if row.sdk_version:
        return f"{who} {row.sdk_version} needs {needed}, {backend.sdk_version} does not"
    return f"{who} needs {needed}" if row.otherwise == "refused" else f"unknown whether {who} takes that"


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
    if case.backend.name == NEON:
        where = "the ARM cores"
    cast = f", computed in {computed}" if data and computed != data.dtype.value else ""
    aside = _aside(rule) if rule.verdict != "supported" else ""
    reason = f"{becomes} {rule.maps_to[case.op.kind]} on {where}{cast}{aside}"
    return _judged(
        case, rule.kernel, rule.verdict, reason, "row", rule.source, rule.sdk_version, rule.evidence, rule.fusion
    )


def _aside(rule: Rule) -> str:
    return f" ({rule.note})" if rule.note else ""


def _judged(
    case: Case, kernel: str, status: Status, reason: str, rule: str, source: str, sdk_version: str = "",
    evidence: Evidence = "table", fusion: Fusion | None = None,
) -> Judged:  # fmt: skip
    backend = case.backend
    layout = backend.native_layouts(case.soc).get(case.computed_type(), "NHWC")
    told = backend.sources.get(source, source)
    return Judged(kernel, layout, status, reason, rule, told, sdk_version or backend.sdk_version, evidence, fusion)


# --- which of them counts ----------


def _weighed(backend: Backend, claims: Sequence[Judged]) -> Mapping[str, Judged]:
    """The best claim of each kernel. The strongest evidence that settles where the op runs overrules weaker claims."""
    levels = [[c for c in claims if c.evidence == word] for word in reversed(_WEAKEST_FIRST)]
    strong: dict[str, Judged] = {}
    for number, level in enumerate(levels):
        settled = next((c for c in level if _settles(c)), None)
        if settled is not None:  # where a stronger row did not fit the op, it says nothing
            strong = {kernel: c for kernel, c in strong.items() if c.status != "refused"}
        strong = _best((*strong.values(), *_until_settled(level)))
        if settled is not None:
            said = _best(c for weaker in levels[number + 1 :] for c in _until_settled(weaker))
            return _overruled(backend, settled, strong, said)
    return strong


def _until_settled(level: Iterable[Judged]) -> Iterator[Judged]:
    for claim in level:
        yield claim
        if _settles(claim):
            return


def _settles(claim: Judged) -> bool:
    return claim.status == "supported" or claim.rule == REFUSAL


def _best(claims: Iterable[Judged]) -> dict[str, Judged]:
    best: dict[str, Judged] = {}
    for claim in claims:
        known = best.setdefault(claim.kernel, claim)
        best[claim.kernel] = min(known, claim, key=lambda c: _BEST_FIRST.index(c.status))
    return best


def _overruled(
    backend: Backend, settled: Judged, strong: Mapping[str, Judged], said: Mapping[str, Judged]
) -> Mapping[str, Judged]:
    """``said`` by weaker evidence: kept where it agrees, told as a conflict where it does not."""
    here = settled.kernel if settled.status == "supported" else ""
    conflicts = [c for c in said.values() if (c.status == "refused") == (c.kernel == here)]
    if conflicts:
        told = f"{_who(backend, settled)}: {settled.reason}; {_who(backend, conflicts[0])}: {conflicts[0].reason}"
        settled = replace(settled, reason=told)
        elsewhere = {c.kernel: replace(settled, kernel=c.kernel, status="refused", rule="evidence") for c in conflicts}
        said = {**said, **elsewhere}
    if settled.rule == REFUSAL:
        return {settled.kernel: settled}
    return {**_best((*strong.values(), *said.values())), settled.kernel: settled}


def _who(backend: Backend, claim: Judged) -> str:
    what = f"{backend.title} {claim.sdk_version}"
    return f"the {what} table" if claim.evidence == "table" else f"a {claim.evidence} with {what}"
