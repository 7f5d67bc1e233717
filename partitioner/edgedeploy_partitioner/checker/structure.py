# SPDX-License-Identifier: Apache-2.0
"""Partitions and segments: one delegate each, cut where the lane changes, with the right borders."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from edgedeploy_partitioner.checker.view import ARENA_LAYOUT, XNNPACK, Fault, Scope, View
from edgedeploy_partitioner.plan import Partition, Segment

OWN_DELEGATE = "edgedeploy"
"""The only delegate that mixes back ends and layouts inside a partition."""


def check_structure(view: View) -> Iterator[Fault]:
    for scope in view.scopes:
        for partition in scope.partitions:
            segments = [view.segment[id_] for id_ in partition.segments]
            yield from _delegate(partition, segments)
            yield from _lanes(scope, partition, segments)
            for segment in segments:
                yield from _borders(scope, segment)
        yield from _cpu_kernels(scope)
    yield from _one_delegate_per_backend(view)
    yield from _limit(view)


def _delegate(partition: Partition, segments: list[Segment]) -> Iterator[Fault]:
    backends = {s.backend for s in segments}
    name = f"partition {partition.id} of {partition.delegate}"
    if partition.delegate == XNNPACK:
        if backends != {"cpu"} or len(segments) != 1:
            yield Fault("delegate", f"{name} is not one segment of cpu")
    elif "cpu" in backends:
        yield Fault("delegate", f"{name} has a segment of cpu")
    elif partition.delegate != OWN_DELEGATE and len(backends) != 1:
        yield Fault("delegate", f"{name} mixes the back ends {', '.join(sorted(backends))}")


def _lanes(scope: Scope, partition: Partition, segments: list[Segment]) -> Iterator[Fault]:
    if list(partition.segments) != sorted(partition.segments):
        yield Fault("segment-order", f"segments of partition {partition.id} are not in ascending order")
    for before, after in pairwise(segments):
        if (before.backend, before.layout) == (after.backend, after.layout):
            yield Fault("segment-cut", f"segments {before.id} and {after.id} are one: same back end, same layout")
    for segment in segments:
        for op in segment.ops:
            entry = scope.entry(op)
            if not entry.folded and (entry.backend, entry.layout) != (segment.backend, segment.layout):
                yield Fault(
                    "segment-lane",
                    f"{scope.name(op)} is on {entry.backend}/{entry.layout}, "
                    f"its segment {segment.id} on {segment.backend}/{segment.layout}",
                )


def _borders(scope: Scope, segment: Segment) -> Iterator[Fault]:
    ops = frozenset(op for op in segment.ops if op not in scope.subgraph.folded)
    made = {t for op in ops for t in scope.writes(op)}
    read = {t for op in ops for t in scope.reads(op)} - made
    left = {t for t in made if scope.needed_outside(t, ops)}
    for word, given, expected in (("inputs", segment.inputs, read), ("outputs", segment.outputs, left)):
        if sorted(given) != sorted(expected):
            yield Fault("segment-borders", f"segment {segment.id} has {word} {sorted(expected)}, not {sorted(given)}")


def _cpu_kernels(scope: Scope) -> Iterator[Fault]:
    """On the CPU, the kernel says whether XNNPACK claims the op."""
    for op in scope.running:
        entry = scope.entry(op)
        delegate = None if entry.partition is None else scope.view.partition[entry.partition].delegate
        if entry.backend == "cpu":
            expected = {"xnnpack": XNNPACK, "builtin": None}.get(entry.kernel, "?")
            if delegate != expected or entry.layout != ARENA_LAYOUT:
                yield Fault("kernel", f"{scope.name(op)} has kernel {entry.kernel} and delegate {delegate}")
        elif delegate in (None, XNNPACK):
            yield Fault("kernel", f"{scope.name(op)} is on {entry.backend} and in no partition of its delegate")


def _one_delegate_per_backend(view: View) -> Iterator[Fault]:
    delegates: dict[str, set[str]] = {}
    for segment in view.plan.segments:
        delegates.setdefault(segment.backend, set()).add(view.partition[segment.partition].delegate)
    for backend, names in sorted(delegates.items()):
        if len(names) > 1:
            yield Fault("delegate", f"{backend} belongs to several delegates: {', '.join(sorted(names))}")


def _limit(view: View) -> Iterator[Fault]:
    limit = view.plan.inputs.options.max_partitions
    count = sum(p.delegate != XNNPACK for p in view.plan.partitions)
    if limit is not None and count > limit:
        yield Fault("max-partitions", f"{count} partitions, the limit is {limit}")
    for backend in view.plan.backends:
        homes = {s.partition for s in view.plan.segments if s.backend == backend.name}
        if backend.max_partitions is not None and len(homes) > backend.max_partitions:
            limit = backend.max_partitions
            yield Fault("max-partitions", f"{len(homes)} partitions of {backend.name}, which allows {limit}")
