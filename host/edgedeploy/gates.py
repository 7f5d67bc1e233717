# SPDX-License-Identifier: Apache-2.0
"""``--fail-on``: what a plan must not do, and whether it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgedeploy.planview import claimed_partitions, ops_label
from edgedeploy.report.reasons import fallback_ops, refused_ops
from edgedeploy.text import plural
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.plan import OpEntry, Plan

Gate = Callable[[Plan], str | None]
"""Says in words how a plan fails it, or None."""


def parse(text: str) -> Gate:
    """The gate that ``fallback``, ``refused`` or ``partitions:N`` names. Raises InputError."""
    word, _, number = text.partition(":")
    if text == "fallback":
        return _fallback
    if text == "refused":
        return _refused
    if word == "partitions" and number.isdecimal() and number.isascii() and len(number) <= 9:
        return lambda plan: _partitions(plan, int(number))
    raise InputError(f"--fail-on {text[:80]}: expected fallback, refused or partitions:N")


def failures(plan: Plan, gates: Sequence[Gate]) -> list[str]:
    """What ``plan`` does that it must not."""
    return [words for gate in gates if (words := gate(plan))]


def _fallback(plan: Plan) -> str | None:
    ops = fallback_ops(plan)
    return f"{plural(len(ops), 'op')} on the CPU (op {_which(plan, ops)})" if ops else None


def _refused(plan: Plan) -> str | None:
    ops = refused_ops(plan)
    return f"{plural(len(ops), 'op')} that the NPU does not take (op {_which(plan, ops)})" if ops else None


def _partitions(plan: Plan, limit: int) -> str | None:
    count = len(claimed_partitions(plan))
    return f"{plural(count, 'partition')}, more than {limit}" if count > limit else None


def _which(plan: Plan, ops: Sequence[OpEntry]) -> str:
    return ops_label(plan, [(op.subgraph, op.index) for op in ops])
