# SPDX-License-Identifier: Apache-2.0
"""From observations of single ops to the rows of a census, and the proof that no observation is lost.

Of the ops that were taken, each feature had some values. Together they span a box: an op inside it is taken. Then
every side of the box is left out that no observation needs. Where no single box holds all that were taken and nothing
else, several do, each grown from one observation. What was claimed and failed has boxes that keep only out what was not
claimed: a row before them says what runs, so what lies between is claimed, and fails.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, cast

from edgedeploy_partitioner.runtime.census import fits, inside
from edgedeploy_partitioner.runtime.census_key import Key
from edgedeploy_partitioner.runtime.census_view import Feature
from edgedeploy_profiles.schema import Allowed, CensusRow

Claim = Literal["unpacks", "takes", "fails", "undoes"]
Verdict = Claim | Literal["leaves"]
Features = Mapping[str, Feature]
Box = dict[str, Allowed]
_GENERAL = ("out.rank", "out.empty", "in1.empty", "in0.empty", "inputs", "outputs", "in1.rank", "in0.rank", "scale_min")
_CHANGES_WITH_ALL = "result_fits"  # models are varied without regard to what shape then follows
_ORDER: tuple[Claim, ...] = ("unpacks", "takes", "fails", "undoes")


class Observation(NamedTuple):
    """One single-op model: its key, what XNNPACK did, words that say what the model was, and whether it ended the
    process."""

    key: Key
    verdict: Verdict
    label: str
    died: bool = False


def learn(observations: Iterable[Observation]) -> tuple[CensusRow, ...]:
    """Rows that give back ``observations``, op by op in alphabetical order."""
    by_op: dict[str, dict[str, list[Observation]]] = defaultdict(lambda: defaultdict(list))
    for seen in observations:
        by_op[seen.key.op][seen.key.types].append(seen)
    return tuple(row for op, by_types in sorted(by_op.items()) for row in _rows(op, by_types))


def verdict_of(key: Key, rows: Iterable[CensusRow]) -> Verdict:
    """What ``rows`` say: the first that fits, or ``leaves``."""
    return next((row.verdict for row in rows if fits(row, key)), "leaves")


def _rows(op: str, by_types: Mapping[str, Sequence[Observation]]) -> Iterator[CensusRow]:
    boxes: dict[tuple[Claim, str], tuple[Box, list[str]]] = {}
    for types, seen in sorted(by_types.items()):
        for verdict, box in _boxes(seen):
            boxes.setdefault((verdict, repr(sorted(box.items()))), (box, []))[1].append(types)
    for verdict in _ORDER:
        for (of, _), (box, types_of_box) in boxes.items():
            if of == verdict:
                yield CensusRow(op, verdict, tuple(types_of_box), box)


def _boxes(seen: Sequence[Observation]) -> Iterator[tuple[Claim, Box]]:
    rest = list(seen)
    claimed: list[Features] = []  # what rows before say: it may lie inside the boxes of rows after them
    for verdict in _ORDER:
        wanted = [s.key.features for s in rest if s.verdict == verdict]
        rest = [s for s in rest if s.verdict != verdict]
        claimed += wanted
        for box in _cover(wanted, [s.key.features for s in rest], claimed if verdict != "takes" else wanted):
            yield verdict, box


def _cover(wanted: Sequence[Features], others: Sequence[Features], free: Sequence[Features]) -> Iterator[Box]:
    """Boxes that hold all of ``wanted``, none of ``others``, and as much as they can of ``free``: one if that is
    possible, else one after the other."""
    if not wanted:
        return
    for inner in (free, wanted):
        hull = _hull(inner)
        if not any(inside(features, hull) for features in others):
            yield _simplest(hull, others)
            return
    missing = list(wanted)
    while missing:
        exact = _hull(missing[:1])
        box = _widest(_simplest(exact, others), free, others)
        yield box
        missing = [features for features in missing[1:] if not inside(features, box)]


def _hull(inner: Sequence[Features]) -> Box:
    box: Box = {}
    for name in sorted({name for features in inner for name in features}):
        values = {features[name] for features in inner if name in features}
        if any(isinstance(v, bool | str) for v in values):
            box[name] = tuple(sorted(cast("set[bool | str]", values), key=str))
        else:
            numbers = cast("set[float]", values)
            box[name] = {"min": min(numbers), "max": max(numbers)}
    return box


def _simplest(box: Box, others: Sequence[Features]) -> Box:
    """``box`` without the sides that keep none of ``others`` out. What most variations change, too, stands for none of
    the other sides: it keeps out what they cannot."""
    last = {_CHANGES_WITH_ALL: box[_CHANGES_WITH_ALL]} if _CHANGES_WITH_ALL in box else {}
    whole, box = box, {name: allowed for name, allowed in box.items() if name not in last}
    kept_out = [features for features in others if not inside(features, box)]
    is_needed = any(inside(features, box) and not inside(features, whole) for features in others)
    for name, _ in sorted(box.items(), key=_order):
        for smaller in _without(box, name):
            if not any(inside(features, smaller) for features in kept_out):
                box = smaller
                break
    return {**box, **last} if is_needed else box


def _widest(box: Box, wanted: Sequence[Features], others: Sequence[Features]) -> Box:
    """``box`` with its sides moved out as far as ``wanted`` goes and ``others`` lets it."""
    for name in box:
        free = {n: allowed for n, allowed in box.items() if n != name}
        values = {f[name] for f in wanted if name in f and inside(f, free)}
        for value in sorted(values, key=str):
            wider = {**box, name: _joined(box[name], value)}
            if not any(inside(features, wider) for features in others):
                box = wider
    return box


def _joined(allowed: Allowed, value: Feature) -> Allowed:
    if isinstance(allowed, tuple):
        return tuple(sorted({*allowed, cast("bool | int | str", value)}, key=str))
    number = cast("float", value)
    ends = {"min": min, "max": max}
    return {end: ends[end](number, bound) for end, bound in allowed.items()}


def _order(side: tuple[str, Allowed]) -> tuple[bool, int, str]:
    """Numbers first, as far out as they can go while the words are still exact; general features before special."""
    name, allowed = side
    rank = _GENERAL.index(name) if name in _GENERAL else len(_GENERAL)
    return not isinstance(allowed, dict), rank, name


def _without(box: Box, name: str) -> Iterator[Box]:
    rest = {n: allowed for n, allowed in box.items() if n != name}
    yield rest
    allowed = box[name]
    if isinstance(allowed, dict) and len(allowed) > 1:
        yield from ({**rest, name: {end: bound}} for end, bound in allowed.items())


def conflicts(observations: Iterable[Observation], rows: Sequence[CensusRow]) -> list[Observation]:
    """Observations that ``rows`` do not give back."""
    by_op: dict[str, list[CensusRow]] = defaultdict(list)
    for row in rows:
        by_op[row.op].append(row)
    return [seen for seen in observations if verdict_of(seen.key, by_op[seen.key.op]) != seen.verdict]


# --- writing ---------------------------------------------------------


def toml_rows(rows: Iterable[CensusRow]) -> str:
    """The ``[[census]]`` part of a runtime's file."""
    return "\n".join(_toml_row(row) for row in rows)


def _toml_row(row: CensusRow) -> str:
    lines = ["[[census]]", f'op = "{row.op}"', f'verdict = "{row.verdict}"']
    if row.types:
        lines.append(f"types = {toml_list(row.types)}")
    if row.when:
        lines.append("[census.when]")
        lines += [f"{_toml_key(name)} = {_toml_allowed(allowed)}" for name, allowed in row.when.items()]
    return "\n".join(lines) + "\n"


def _toml_key(name: str) -> str:
    return f'"{name}"' if "." in name else name


def _toml_allowed(allowed: Allowed) -> str:
    if isinstance(allowed, tuple):
        return toml_list(allowed)
    return "{ " + ", ".join(f"{end} = {value!r}" for end, value in allowed.items()) + " }"


def toml_list(values: Iterable[bool | int | str]) -> str:
    """``values`` in TOML."""
    words = (f'"{v}"' if isinstance(v, str) else str(v).lower() for v in values)
    return f"[{', '.join(words)}]"
