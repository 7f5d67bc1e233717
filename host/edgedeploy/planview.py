# SPDX-License-Identifier: Apache-2.0
"""What every report asks of a plan: which subgraph is meant, which partitions count, how an op is called."""

from __future__ import annotations

from collections.abc import Sequence

from edgedeploy.text import brief_ranges
from edgedeploy_partitioner.plan import XNNPACK, Partition, Plan

MORE = " (+{} more)"
OpKey = tuple[int, int]
"""(subgraph, index) in the file as given."""


def is_claimed(partition: Partition) -> bool:
    """Whether a delegate of the plan claims it, and not XNNPACK, which takes what is left."""
    return partition.delegate != XNNPACK


def claimed_partitions(plan: Plan) -> tuple[Partition, ...]:
    """The partitions that gates and limits count."""
    return tuple(p for p in plan.partitions if is_claimed(p))


UNRUNNABLE = ("no_runtime_kernel", "runtime_rejects")
"""Warnings of a plan whose model the runtime will not load."""


def unrunnable(plan: Plan) -> tuple[str, ...]:
    """Why the runtime will not run the model, each reason once; empty if nothing is known against it."""
    return tuple(dict.fromkeys(w.message.partition(";")[0] for w in plan.warnings if w.code in UNRUNNABLE))


def op_label(plan: Plan, op: OpKey) -> str:
    """``12``, or ``1:12`` in another subgraph than the main one, as ``--op`` and ``--force`` take it."""
    return ops_label(plan, [op])


def ops_label(plan: Plan, ops: Sequence[OpKey], width: int | None = None) -> str:
    """``0-3, 7, 1:4-5``; a subgraph's ops that are wider than ``width`` are cut and counted, ``3, 5 (+9 more)``."""
    main = plan.main
    lists = {subgraph: [i for s, i in ops if s == subgraph] for subgraph, _ in ops}
    return ", ".join(brief_ranges(found, width, "" if s == main else f"{s}:", MORE) for s, found in lists.items())
