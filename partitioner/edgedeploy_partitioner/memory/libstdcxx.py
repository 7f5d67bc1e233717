# SPDX-License-Identifier: Apache-2.0
"""The order in which the GNU C++ library walks a set of integers, and sorts.

TFLite's memory planner keeps tensors in a ``std::unordered_set`` and orders them with ``std::sort``, which leaves
open what comes first of equals. Where each tensor lies depends on it, so both are replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

_BUCKETS = (13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043)
_SMALL = 16


def set_order(values: Iterable[int]) -> list[int]:
    """Iteration order of a ``std::unordered_set<int>`` into which ``values`` were inserted one by one."""
    order: list[int] = []
    level = 0
    for value in dict.fromkeys(values):
        if len(order) == _BUCKETS[level] and level + 1 < len(_BUCKETS):
            level += 1
            moved, order = order, []
            for old in moved:
                _insert(order, old, _BUCKETS[level])
        _insert(order, value, _BUCKETS[level])
    return order


def _insert(order: list[int], value: int, buckets: int) -> None:
    """A new value goes in front of its bucket, a new bucket in front of all."""
    bucket = value % buckets
    order.insert(next((i for i, other in enumerate(order) if other % buckets == bucket), 0), value)


def sort(items: Iterable[T], key: Callable[[T], Any]) -> list[T]:
    """``std::sort`` by ascending ``key``: quicksort to runs of 16, then insertion sort, which is stable."""
    keyed = [(key(item), item) for item in items]
    _partition(keyed)
    return [item for _, item in sorted(keyed, key=lambda pair: pair[0])]


def _partition(a: list[tuple[Any, T]]) -> None:
    """The quicksort phase. The switch to heap sort for bad pivots is left out: it needs an adversary."""
    todo = [(0, len(a))]
    while todo:
        first, last = todo.pop()
        while last - first > _SMALL:
            _median_to_first(a, first, first + 1, (first + last) // 2, last - 1)
            cut = _split(a, first + 1, last, a[first][0])
            todo.append((cut, last))
            last = cut


def _median_to_first(a: list[tuple[Any, T]], to: int, i: int, j: int, k: int) -> None:
    low, high = (i, j) if a[i][0] < a[j][0] else (j, i)
    median = high if a[high][0] < a[k][0] else k if a[low][0] < a[k][0] else low
    a[to], a[median] = a[median], a[to]


def _split(a: list[tuple[Any, T]], left: int, right: int, pivot: Any) -> int:
    while True:
        while a[left][0] < pivot:
            left += 1
        right -= 1
        while pivot < a[right][0]:
            right -= 1
        if left >= right:
            return left
        a[left], a[right] = a[right], a[left]
        left += 1
