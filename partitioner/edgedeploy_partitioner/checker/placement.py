# SPDX-License-Identifier: Apache-2.0
"""Is every op on something that may run it, as the user asked?"""

from __future__ import annotations

from collections.abc import Iterator

from edgedeploy_partitioner.checker.view import ARENA_LAYOUT, XNNPACK, Fault, Scope, View
from edgedeploy_partitioner.checker.wishes import Wish, parse_wish, selected
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.plan import CandidateEntry, OpEntry


def check_placement(view: View) -> Iterator[Fault]:
    options = view.plan.inputs.options
    forced, broken = _wishes(view, options.force)
    forbidden, broken_too = _wishes(view, options.forbid)
    yield from (*broken, *broken_too)
    for scope in view.scopes:
        for op in scope.running:
            entry = scope.entry(op)
            yield from _candidate(view, scope, entry, backends := forced.get((scope.index, op), ()))
            if backends and entry.backend not in backends:
                yield Fault("force", f"{scope.name(op)} runs on {entry.backend}, forced to {backends[-1]}")
            if entry.backend in forbidden.get((scope.index, op), ()):
                yield Fault("forbid", f"{scope.name(op)} runs on {entry.backend}, which is forbidden")
        yield from _folded(scope)
    yield from _backends(view)
    yield from _probes(view)


def _wishes(view: View, texts: tuple[str, ...]) -> tuple[dict[tuple[int, int], tuple[str, ...]], list[Fault]]:
    """(subgraph, op) -> the back ends that ``texts`` name for it; and a fault for each text that says nothing."""
    found: dict[tuple[int, int], tuple[str, ...]] = {}
    faults = []
    for text in texts:
        try:
            wish: Wish = parse_wish(text)
        except InputError as error:
            faults.append(Fault("option", error.message))
            continue
        for op in selected(wish, view.graph, view.main):
            found[op] = (*found.get(op, ()), wish.backend)
    return found, faults


def _candidate(view: View, scope: Scope, entry: OpEntry, forced: tuple[str, ...]) -> Iterator[Fault]:
    """The op's place is one of its candidates, allowed, and priced alike."""
    place = (entry.backend, entry.kernel, entry.layout)
    candidate = next((c for c in entry.candidates if (c.backend, c.kernel, c.layout) == place), None)
    where = "/".join(place)
    if candidate is None:
        yield Fault("candidate", f"{scope.name(entry.index)} runs on {where}, not one of its candidates")
        return
    takes_unknown = view.plan.inputs.options.assume_unknown == "supported" or entry.backend in forced
    allowed = {"supported", "unknown"} if takes_unknown else {"supported"}
    if candidate.verdict not in allowed and not _without_kernel(view, entry):
        yield Fault("verdict", f"{scope.name(entry.index)} runs on {where}, which is {candidate.verdict}")
    if entry.fused_into is not None or candidate.fusion_required:
        yield from _fused(scope, entry, candidate)
        return
    price = (candidate.predicted_ns, candidate.low_ns, candidate.high_ns, candidate.provenance)
    if candidate.predicted_ns is not None and price != (
        entry.predicted_ns,
        entry.low_ns,
        entry.high_ns,
        entry.provenance,
    ):
        yield Fault("candidate-cost", f"{scope.name(entry.index)} does not cost what its candidate {where} costs")


def _fused(scope: Scope, entry: OpEntry, candidate: CandidateEntry) -> Iterator[Fault]:
    """Inside an earlier op of its segment, which makes an operand that nobody outside the segment reads."""
    name, host = scope.name(entry.index), entry.fused_into
    if host is None:
        yield Fault("fusion", f"{name} runs by itself, which {entry.backend} cannot")
        return
    price = (candidate.fused_ns, candidate.fused_low_ns, candidate.fused_high_ns, candidate.provenance)
    if price != (entry.predicted_ns, entry.low_ns, entry.high_ns, entry.provenance):
        yield Fault("candidate-cost", f"{name} does not cost what its candidate costs inside another op")
    beside = () if entry.segment is None else scope.view.segment[entry.segment].ops
    if entry.index not in beside or host not in beside[: beside.index(entry.index)]:
        yield Fault("fusion", f"{name} is fused into op {host}, which does not run before it in its segment")
        return
    if not any(_is_between(scope, t, entry.index) for t in set(scope.writes(host)) & set(scope.reads(entry.index))):
        yield Fault("fusion", f"{name} is fused into op {host}, and reads nothing of it that nobody else reads")


def _is_between(scope: Scope, tensor: int, op: int) -> bool:
    """Nobody reads ``tensor`` but ``op`` and what runs inside ``op``, e.g. the MUL of ``x * LOGISTIC(x)``."""
    inside = {e.index for e in scope.view.plan.ops if e.subgraph == scope.index and e.fused_into == op}
    return not scope.needed_outside(tensor, frozenset({op, *inside}))


def _without_kernel(view: View, entry: OpEntry) -> bool:
    """The plan says that nothing here runs the op."""
    return entry.backend == "cpu" and any(
        w.code == "no_runtime_kernel" and w.op == (entry.subgraph, entry.index) for w in view.plan.warnings
    )


def _folded(scope: Scope) -> Iterator[Fault]:
    for op in scope.subgraph.ops:
        entry, folded = scope.entry(op.index), op.index in scope.subgraph.folded
        if entry.folded != folded:
            yield Fault("folded", f"{scope.name(op.index)} {'only unpacks constants' if folded else 'is not folded'}")
        elif folded:
            if (entry.predicted_ns, entry.low_ns, entry.high_ns, entry.fused_into) != (0, 0, 0, None):
                yield Fault("folded-cost", f"{scope.name(op.index)} is folded, and costs time or is fused")
            yield from _home(scope, entry)


def _home(scope: Scope, folded: OpEntry) -> Iterator[Fault]:
    """With all its readers; XNNPACK only asks that it has them, in whichever nodes. (Alone: see execution.)"""
    homes, home = scope.homes_of_readers(folded.index), folded.partition
    own = {p.id for p in scope.partitions if p.delegate == XNNPACK}
    if home is not None and homes != {home} and not (home in own and homes <= own | {None}):
        readers = ", ".join(sorted(map(str, homes))) or "none"
        yield Fault("folded-partition", f"{scope.name(folded.index)} is in partition {home}, its readers in {readers}")
    hosts = () if home is None else (scope.entry(op) for op in scope.members[home] - scope.subgraph.folded)
    places = {(host.backend, host.kernel, host.layout) for host in hosts} or {("cpu", "builtin", ARENA_LAYOUT)}
    if (folded.backend, folded.kernel, folded.layout) not in places:
        yield Fault("folded-partition", f"{scope.name(folded.index)} is on {folded.backend}, no op of its partition is")


def _backends(view: View) -> Iterator[Fault]:
    listed, used = {b.name for b in view.plan.backends}, {op.backend for op in view.plan.ops}
    for name in sorted(used - listed - {"cpu"}):
        yield Fault("backend", f"ops run on {name}, which the plan's back ends do not list")
    for name in sorted(listed - used):
        yield Fault("backend", f"the plan's back ends list {name}, where no op runs")


def _probes(view: View) -> Iterator[Fault]:
    for op in view.plan.predicted.ops_to_probe:
        if all(c.verdict != "unknown" for c in view.entry[op].candidates):
            yield Fault("ops-to-probe", f"op {op} is to be probed and no verdict on it is unknown")
