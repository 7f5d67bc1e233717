# SPDX-License-Identifier: Apache-2.0
"""The columns and rows of a tensor that one delegate may hold in several layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgedeploy_partitioner.solver.sheet import Lanes, Sheet, Terms, summed


@dataclass
class Layouts:
    """Arrivals of a tensor in a delegate that may hold it in several layouts.

    For the use at k: ``enter[L]`` and ``convert[L]`` (from the layout its producer in the partition has it in), with

        G[k,L] >= enter[L] + convert[L] >= G[k,L] - have[L]     (G: the part of D that works in L)
        sum of enter >= D[k] - D[j]                     for every j from the previous use up to k
        sum of enter <= sum of p[j]                     for every j after the producer up to k

        v[a] + sum of convert[L] + have[L] >= x[i,a] - G[k,a]   for every a, over the other L (i: the producer)

    The last says where what is made in layout a goes; whole answers keep it anyway. ``have[L]``: t lies in the
    partition in L. Of a producer that is x; what arrived for readers before counts too, and the column of ``_still``
    says that no partition has ended since.
    """

    sheet: Sheet
    tensor: int
    made: int | None
    delegate: str
    by_layout: Mapping[str, Lanes]
    leaves: Mapping[Lanes, int]
    """The columns v, by the producer's lanes."""

    def enter(self, uses: Sequence[int]) -> None:
        sheet, lanes = self.sheet, self.sheet.delegates[self.delegate]
        touched = self.made
        have: Mapping[str, Terms] = {}
        home: Terms | None = None  # D of the producer, while its partition may still run
        if touched is not None:
            have = {layout: sheet.inside(touched, some) for layout, some in self.by_layout.items()}
            home = sheet.inside(touched, lanes)
        for number, k in enumerate(uses):
            arrives = {layout: sheet.inside(k, some) for layout, some in self.by_layout.items()}
            if touched is None or not sheet.can_stay(lanes, range(touched, k + 1)):
                # Nothing of t can be left in a partition at k.
                for layout, terms in arrives.items():
                    sheet.charge(terms, self._enter_ns(layout))
                have, home = arrives, None
            else:
                arrived = self._arrive(range(touched, k), arrives, have, home)
                if number + 1 < len(uses):
                    first = touched + 1 if touched == self.made else touched
                    have = {
                        layout: summed(terms, (self._still(have[layout], range(first, k)), 1))
                        for layout, terms in arrived.items()
                    }
                    home = self._still(home, range(first, k)) if home else None
            touched = k

    def _enter_ns(self, layout: str) -> int:
        return self.sheet.problem.borders[self.tensor].enter_ns[self.by_layout[layout][0]]

    def _arrive(
        self, between: range, arrives: Mapping[str, Terms], have: Mapping[str, Terms], home: Terms | None
    ) -> dict[str, Terms]:
        """The columns of the use at ``between.stop``, by layout."""
        sheet, lanes = self.sheet, self.sheet.delegates[self.delegate]
        enters: dict[int, float] = {}
        arrived: dict[str, Terms] = {layout: {} for layout in arrives}
        converts: dict[str, Terms] = {layout: {} for layout in arrives}
        hurried = False
        for layout, terms in arrives.items():
            if not terms:
                continue
            enter_ns = self._enter_ns(layout)
            enter = sheet.column(enter_ns)
            enters[enter] = 1.0
            arrival = {enter: 1.0}
            if home:
                sources = self._sources(layout)
                for cost, some in sources.items():
                    convert = sheet.column(cost)
                    arrival[convert] = 1.0
                    hurried = hurried or cost > enter_ns
                    if len(sources) > 1:
                        assert self.made is not None
                        sheet.rows.add(-np.inf, 0, summed({convert: 1.0}, (sheet.inside(self.made, some), -1)))
                    if cost < enter_ns and between.start != self.made:
                        sheet.rows.add(-np.inf, 0, summed({convert: 1.0}, (home, -1)))
            arrived[layout] = arrival
            converts[layout] = {column: 1.0 for column in arrival if column != enter}
            sheet.rows.add(-np.inf, 0, summed(arrival, (terms, -1)))
            sheet.rows.add(0, np.inf, summed(arrival, (terms, -1), (have[layout], 1)))
        sheet.add_apart(enters, sheet.inside(between.stop, lanes), lanes, between)
        if hurried:
            assert self.made is not None
            starts = sheet.starts[self.delegate][self.made + 1 : between.stop + 1]
            begun = {start: 1.0 for start in starts if start is not None}
            sheet.rows.add(-np.inf, 0, summed(enters, (begun, -1)))
        for some, column in self.leaves.items():
            assert self.made is not None
            layout = sheet.problem.lanes[some[0]].layout
            goes: dict[int, float] = {column: 1.0}
            for other in arrives:
                kept = (arrives[other],) if other == layout else (converts[other], have[other])
                goes = summed(goes, *((terms, 1) for terms in kept))
            sheet.rows.add(0, np.inf, summed(goes, (sheet.inside(self.made, some), -1)))
        return arrived

    def _sources(self, layout: str) -> dict[int, Lanes]:
        """Lanes that the producer may run in with another layout, by what converting from theirs costs."""
        sheet, found = self.sheet, dict[int, Lanes]()
        assert self.made is not None
        for other, lanes in self.by_layout.items():
            for n in lanes if other != layout else ():
                if n in sheet.x[self.made]:
                    cost = sheet.problem.borders[self.tensor].internal(n, self.by_layout[layout][0])
                    found[cost] = (*found.get(cost, ()), n)
        return found

    def _still(self, what: Terms, between: range) -> Terms:
        """``what`` as long as every op ``between`` is in the delegate: itself if there is none."""
        if not between or not what:
            return what
        column = self.sheet.column(0)
        self.sheet.rows.add(-np.inf, 0, summed({column: 1.0}, (what, -1)))
        self.sheet.add_apart({}, {column: 1.0}, self.sheet.delegates[self.delegate], between)
        return {column: 1.0}
