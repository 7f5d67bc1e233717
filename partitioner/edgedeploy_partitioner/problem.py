# SPDX-License-Identifier: Apache-2.0
"""The planning problem of one subgraph as numbers: what each op costs in each lane, what each border costs.

Nothing here knows models, boards or names of ops. Solver, replay and the cross-checks in the tests all work on
these values. Times are integer nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

XNNPACK = "xnnpack"


@dataclass(frozen=True, slots=True)
class Lane:
    """A place where ops can run. ``delegate`` is who claims them in TFLite: None for built-in kernels."""

    delegate: str | None
    backend: str
    layout: str
    partition_ns: int = 0
    """Paid once per partition of ``delegate`` (equal in all its lanes)."""
    segment_ns: int = 0
    """Paid once per segment, a run of ops in this lane inside a partition."""


@dataclass(frozen=True, slots=True)
class Node:
    """One op: its index in the file, non-constant inputs and outputs (tensor ids), and its cost per lane."""

    op: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    costs: tuple[int | None, ...]
    """Nanoseconds by lane; None where the op cannot run."""
    has_side_effect: bool = False


@dataclass(frozen=True, slots=True)
class Border:
    """What it costs to move one tensor across borders, by lane (of the partition or segment it enters or leaves)."""

    enter_ns: tuple[int, ...]
    leave_ns: tuple[int, ...]
    internal_ns: tuple[tuple[int, ...], ...] = ()
    """``internal_ns[a][b]``: from the layout of lane a to that of lane b inside one partition. Empty: all zero."""


@dataclass(frozen=True)
class Problem:
    """``nodes`` are in file order. ``borders`` has every tensor that a node reads or writes."""

    lanes: tuple[Lane, ...]
    nodes: tuple[Node, ...]
    borders: dict[int, Border]
    outputs: frozenset[int]
    """Tensors that must lie in the NHWC arena at the end."""
    max_partitions: int | None = None
    """Limit on partitions of delegates other than XNNPACK."""
