# SPDX-License-Identifier: Apache-2.0
"""In which order must jobs run so that the most memory alive at once is least?

What is alive after some jobs depends on which they are, not on their order. So the states are the sets of jobs that
may be done at one time, and the least peak is a bottleneck path from none to all: always go on from the state whose
way there had the least peak. Where all jobs of one part come before all of another, the parts are solved one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise

BEAM_STATES = 32
BEAM_WORK = 4000
"""States times jobs, so that the time for wide graphs stays bounded."""


@dataclass(frozen=True, slots=True)
class Item:
    """Memory that is taken as job ``writer`` starts (None: before all jobs) and given back when its last reader ends.

    ``readers`` is a bit set of jobs; without readers it is never given back.
    """

    bytes: int
    writer: int | None
    readers: int


@dataclass(frozen=True, slots=True)
class Jobs:
    """``before[i]`` is the bit set of jobs that must come before job i, all of them with lower numbers: the given order
    is a possible one. ``scratch_bytes[i]`` is needed only while job i runs."""

    before: tuple[int, ...]
    scratch_bytes: tuple[int, ...]
    items: tuple[Item, ...]

    def padded(self, unit: int) -> Jobs:
        """The same with every item rounded up to a multiple of ``unit``."""
        return replace(self, items=tuple(replace(i, bytes=i.bytes + -i.bytes % unit) for i in self.items))

    def live_bytes(self, order: Sequence[int]) -> tuple[int, ...]:
        """What is alive during each job of ``order``."""
        part = _Part.of(self, 0, len(self.before), 0)
        live, done, result = _before_all(self), 0, []
        for job in order:
            result.append(live + part.transient[job])
            done |= 1 << job
            live = part.after(job, done, live)
        return tuple(result)


@dataclass(frozen=True, slots=True)
class Found:
    """The best order found and its peak; no order has a peak below ``bound_bytes``."""

    order: tuple[int, ...]
    peak_bytes: int
    bound_bytes: int


def least_peak(jobs: Jobs, states: int) -> Found:
    """The order with the least peak; after expanding ``states`` states of one part, the best one found and a bound.

    The given order is kept wherever another has no lower peak.
    """
    count = len(jobs.before)
    parts = [_Part.of(jobs, start, end, _alive_at(jobs, start)) for start, end in _parts(jobs.before)]
    given = [part.peak_of(range(part.size)) for part in parts]
    # A part need not be better than the worst of the others.
    bound = max((part.floor() if part.size > 1 else peak for part, peak in zip(parts, given, strict=True)), default=0)
    peak = bound
    order: list[int] = []
    for part, peak_as_given in zip(parts, given, strict=True):
        local: Sequence[int] = range(part.size)
        if peak_as_given > bound:
            local, own_peak, own_bound = part.best(bound, peak_as_given, states)
            peak, bound = max(peak, own_peak), max(bound, own_bound)
        order += [part.start + i for i in local]
    assert len(order) == count, "the parts are all jobs"
    return Found(tuple(order), peak, bound)


def _parts(before: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of jobs such that all jobs of each come before all jobs of the next, whatever the order."""
    closed = _closed(before)
    shared, cuts = -1, []
    for start in range(len(before) - 1, 0, -1):
        shared &= closed[start]
        if shared & (earlier := (1 << start) - 1) == earlier:
            cuts.append(start)
    yield from pairwise([0, *reversed(cuts), len(before)] if before else [])


def _before_all(jobs: Jobs) -> int:
    return sum(item.bytes for item in jobs.items if item.writer is None)


def _alive_at(jobs: Jobs, start: int) -> int:
    """What is alive when exactly the jobs before ``start`` are done."""
    done = (1 << start) - 1
    return sum(
        item.bytes
        for item in jobs.items
        if (item.writer is None or item.writer < start) and (not item.readers or item.readers & ~done)
    )


@dataclass(frozen=True)
class _Part:
    """Jobs ``start`` to ``start + size - 1``, numbered from 0. ``entering`` bytes are alive before the first.

    ``transient`` is what a job adds while it runs, ``kept`` of it what stays; ``reads`` are (bytes, readers) of what
    the part gives back, by job.
    """

    start: int
    size: int
    entering: int
    before: tuple[int, ...]
    transient: tuple[int, ...]
    kept: tuple[int, ...]
    reads: tuple[tuple[tuple[int, int], ...], ...]
    items: tuple[Item, ...] = field(repr=False)

    @staticmethod
    def of(jobs: Jobs, start: int, end: int, entering: int) -> _Part:
        size = end - start
        kept = [0] * size
        reads: list[list[tuple[int, int]]] = [[] for _ in range(size)]
        own = []
        for item in jobs.items:
            if item.writer is not None and item.writer >= end:
                continue
            here = None if item.writer is None or item.writer < start else item.writer - start
            left = item.readers >> start
            if here is None and item.readers and not left:
                continue
            if here is not None:
                kept[here] += item.bytes
            if left and not left >> size:
                for job in _bits(left):
                    reads[job].append((item.bytes, left))
            own.append(Item(item.bytes, here, left))
        return _Part(
            start=start,
            size=size,
            entering=entering,
            before=tuple(mask >> start for mask in jobs.before[start:end]),
            transient=tuple(k + s for k, s in zip(kept, jobs.scratch_bytes[start:end], strict=True)),
            kept=tuple(kept),
            reads=tuple(map(tuple, reads)),
            items=tuple(own),
        )

    def after(self, job: int, done: int, live: int) -> int:
        """What is alive after ``job``, the last of ``done``, when ``live`` was before it."""
        return live + self.kept[job] - sum(size for size, readers in self.reads[job] if not readers & ~done)

    def peak_of(self, order: Sequence[int]) -> int:
        live, done, peak = self.entering, 0, 0
        for job in order:
            peak = max(peak, live + self.transient[job])
            done |= 1 << job
            live = self.after(job, done, live)
        return peak

    def floor(self) -> int:
        """The most that must be alive at one job in every order: what comes from before it and is needed after."""
        above, below = _closed(self.before), [0] * self.size
        for job in range(self.size):
            for other in _bits(above[job]):
                below[other] |= 1 << job
        most = 0
        for job in range(self.size):
            bit = 1 << job
            made, needed = above[job] | bit, below[job] | bit | -1 << self.size
            here = self.transient[job] - self.kept[job]
            for item in self.items:
                is_made = item.writer is None or made >> item.writer & 1
                if is_made and (not item.readers or item.readers & needed):
                    here += item.bytes
            most = max(most, here)
        return most

    def best(self, least: int, peak_as_given: int, states: int) -> tuple[Sequence[int], int, int]:
        """Order, peak and bound. A peak of ``least`` is good enough."""
        order: Sequence[int] = range(self.size)
        most = peak_as_given
        beam = self._beam()
        if (beam_peak := self.peak_of(beam)) < most:
            order, most = beam, beam_peak
        if most <= least:
            return order, most, least
        found, bound = self._bottleneck_path(least, most, states)
        return (order, most, bound) if found is None else (found, bound, bound)

    def _beam(self) -> list[int]:
        """A good order: of the sets with equally many jobs only the best few are followed."""
        width = max(1, min(BEAM_STATES, BEAM_WORK // self.size))
        states = {0: (0, self.entering, self._ready())}
        way: dict[int, tuple[int, int]] = {}
        for _ in range(self.size):
            following: dict[int, tuple[int, int, int]] = {}
            for done, (peak, live, ready) in states.items():
                for then, job, higher, after in self._steps(done, live, ready, peak):
                    if then not in following or higher < following[then][0]:
                        following[then] = higher, after, self._opened(ready, job, then)
                        way[then] = done, job
            states = dict(sorted(following.items(), key=lambda entry: entry[1][:2])[:width])
        return _unwound(way, (1 << self.size) - 1)

    def _bottleneck_path(self, least: int, most: int, states: int) -> tuple[list[int] | None, int]:
        """An order with a peak below ``most``, the least (or ``least``), and its peak; None and a bound if there is no
        such order, or too many states."""
        everything = (1 << self.size) - 1
        heap = [(least, 0, self.entering, 0, self._ready())]
        best = {0: least}
        way: dict[int, tuple[int, int]] = {}
        while heap:
            peak, _, live, done, ready = heappop(heap)
            if peak > best[done]:
                continue
            if done == everything:
                return _unwound(way, everything), peak
            steps = self._steps(done, live, ready, peak)
            states -= len(steps)
            if states < 0:
                return None, peak
            for then, job, higher, after in steps:
                if higher < best.get(then, most):
                    best[then] = higher
                    way[then] = done, job
                    heappush(heap, (higher, -then.bit_count(), after, then, self._opened(ready, job, then)))
        return None, most

    def _steps(self, done: int, live: int, ready: int, peak: int) -> list[tuple[int, int, int, int]]:
        """What may come next. A job that neither raises the peak nor leaves more alive may as well come at once: in any
        order that has it later, moving it here makes no later job see more."""
        found = []
        for job in _bits(ready):
            then = done | 1 << job
            higher, after = max(peak, live + self.transient[job]), self.after(job, then, live)
            if higher == peak and after <= live:
                return [(then, job, higher, after)]
            found.append((then, job, higher, after))
        return found

    def _ready(self) -> int:
        """The jobs that may come first."""
        return sum(1 << job for job, mask in enumerate(self.before) if not mask)

    def _opened(self, ready: int, job: int, done: int) -> int:
        """What is ready after ``job``, the last of ``done``, when ``ready`` was before it."""
        opened = ready & ~(1 << job)
        for other in self._followers[job]:
            if not self.before[other] & ~done:
                opened |= 1 << other
        return opened

    @cached_property
    def _followers(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in range(self.size)]
        for job, mask in enumerate(self.before):
            for other in _bits(mask):
                found[other].append(job)
        return found


def _closed(before: Sequence[int]) -> list[int]:
    """For each job all that come before it, however far."""
    closed: list[int] = []
    for direct in before:
        above, rest = 0, direct
        while rest:
            nearest = rest.bit_length() - 1
            above |= closed[nearest] | 1 << nearest
            rest &= ~above
        closed.append(above)
    return closed


def _unwound(way: dict[int, tuple[int, int]], state: int) -> list[int]:
    order = []
    while state:
        state, job = way[state]
        order.append(job)
    return order[::-1]


def _bits(mask: int) -> Iterator[int]:
    """The set bits, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
