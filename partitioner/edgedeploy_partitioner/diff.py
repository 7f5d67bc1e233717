# SPDX-License-Identifier: Apache-2.0
"""What differs between two plans, and why ops moved. Values only; the host renders them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from edgedeploy_partitioner.checker.wishes import names, parse_wish
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.plan import CandidateEntry, OpEntry, Plan, Value, builtins

Cause = Literal["option", "verdict", "cost", "elsewhere"]


@dataclass(frozen=True, slots=True)
class Change:
    """A value that differs. ``key`` is its path in plan.json; None where one plan does not have it."""

    key: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Place:
    backend: str
    kernel: str
    layout: str


@dataclass(frozen=True, slots=True)
class Move:
    """An op that runs elsewhere. ``detail`` is one line that names what changed for it.

    ``cause``: ``option``, a --force or --forbid about the op was added or taken away; ``verdict``, that on its old or
    new place; ``cost``, that of its old or new place; ``elsewhere``, nothing about the op itself: its neighbours, the
    board's hand-over or another limit moved it.
    """

    subgraph: int
    index: int
    op: str
    before: Place
    after: Place
    cause: Cause
    detail: str


@dataclass(frozen=True)
class PlanDiff:
    """``same``: the plans are equal in everything. Times are microseconds, as in plan.json."""

    same: bool
    inputs: tuple[Change, ...]
    moved: tuple[Move, ...]
    latency: tuple[Change, ...]
    memory: tuple[Change, ...]
    partitions: tuple[Change, ...]
    """Count of partitions by delegate, keys ``partitions.<delegate>``."""
    only_before: tuple[tuple[int, int, str], ...]
    """(subgraph, index, operator) of ops that the other plan does not have."""
    only_after: tuple[tuple[int, int, str], ...]


def diff(before: Plan, after: Plan) -> PlanDiff:
    """Compare two plans, of one model or of two. Ops are matched by subgraph, index and operator name."""
    old, new = _by_identity(before), _by_identity(after)
    return PlanDiff(
        same=before == after,
        inputs=tuple(_changes("inputs", builtins(before.inputs), builtins(after.inputs))),
        moved=tuple(
            _move(before, after, old[key], new[key])
            for key in old
            if key in new and _place(old[key]) != _place(new[key])
        ),
        latency=_numbers("predicted", before.predicted, after.predicted, ("latency_us", "low_us", "high_us")),
        memory=_numbers("memory", before.memory, after.memory, ("_bytes",)),
        partitions=tuple(_changes("partitions", _partition_counts(before), _partition_counts(after))),
        only_before=tuple(key for key in old if key not in new),
        only_after=tuple(key for key in new if key not in old),
    )


def _by_identity(plan: Plan) -> dict[tuple[int, int, str], OpEntry]:
    return {(op.subgraph, op.index, op.custom_code or op.op): op for op in plan.ops}


def _place(op: OpEntry) -> Place:
    return Place(op.backend, op.kernel, op.layout)


# --- why an op moved -------------------------------------------------


def _move(before: Plan, after: Plan, old: OpEntry, new: OpEntry) -> Move:
    cause, detail = next(_reasons(before, after, old, new))
    return Move(old.subgraph, old.index, old.custom_code or old.op, _place(old), _place(new), cause, detail)


def _reasons(before: Plan, after: Plan, old: OpEntry, new: OpEntry) -> Iterator[tuple[Cause, str]]:
    """What changed for the op, the strongest first: a wish decides, then a verdict, then costs."""
    for option in ("force", "forbid"):
        texts = getattr(before.inputs.options, option), getattr(after.inputs.options, option)
        for word, gone, kept in (("no longer", *texts), ("now", *reversed(texts))):
            for text in gone:
                if text not in kept and _is_about(before, text, old):
                    yield "option", f"{word} --{option} {text}"
    pairs = [(place, _candidate(old, place), _candidate(new, place)) for place in (_place(new), _place(old))]
    for place, a, b in pairs:
        verdicts = (a.verdict if a else "not offered", b.verdict if b else "not offered")
        if verdicts[0] != verdicts[1]:
            reason = b.reason if b else ""  # that of a verdict which is gone explains nothing
            yield "verdict", f"{_words(place)}: {verdicts[0]}, now {verdicts[1]}" + (f": {reason}" if reason else "")
    costs = [
        f"{_words(place)} {(b.predicted_ns - a.predicted_ns) / 1000:+.3f} us"
        for place, a, b in pairs
        if a and b and a.predicted_ns is not None and b.predicted_ns is not None and a.predicted_ns != b.predicted_ns
    ]
    if costs:
        yield "cost", ", ".join(costs)
    yield "elsewhere", "nothing about this op changed; its neighbours, hand-overs or a limit moved it"


def _is_about(plan: Plan, text: str, op: OpEntry) -> bool:
    """Is ``text`` (WHAT=BACKEND) about the op? A plan does not know tensors by name: those may be about any op."""
    try:
        wish = parse_wish(text)
    except InputError:
        return False
    return wish.tensor is not None or names(wish, op.subgraph, op.index, op.custom_code or op.op, plan.main)


def _candidate(op: OpEntry, place: Place) -> CandidateEntry | None:
    return next((c for c in op.candidates if Place(c.backend, c.kernel, c.layout) == place), None)


def _words(place: Place) -> str:
    return f"{place.backend}/{place.kernel} {place.layout}"


# --- what changed in numbers -----------------------------------------


def _numbers(path: str, before: Value, after: Value, ends: tuple[str, ...]) -> tuple[Change, ...]:
    """The changed members of two values whose JSON keys end in one of ``ends``."""
    old, new = ({k: v for k, v in builtins(value).items() if k.endswith(ends)} for value in (before, after))
    return tuple(_changes(path, old, new))


def _partition_counts(plan: Plan) -> dict[str, int]:
    counts: dict[str, int] = {}
    for partition in plan.partitions:
        counts[partition.delegate] = counts.get(partition.delegate, 0) + 1
    return counts


def _changes(path: str, before: Any, after: Any) -> Iterator[Change]:
    """The leaves that differ, by path; lists are leaves."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*before, *after)):
            yield from _changes(f"{path}.{key}", before.get(key), after.get(key))
    elif before != after:
        yield Change(path, before, after)
