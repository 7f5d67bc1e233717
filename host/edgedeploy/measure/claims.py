# SPDX-License-Identifier: Apache-2.0
"""What libedgedeploy.so claimed on a device, beside the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from edgedeploy.bundle import OWN_LIBRARY
from edgedeploy.text import ranges
from edgedeploy_partitioner import edp
from edgedeploy_partitioner.plan import XNNPACK, Plan

Nodes = tuple[tuple[int, ...], ...]
"""The ops of delegate nodes that the runtime made."""


class _Partition(msgspec.Struct, frozen=True):
    id: int
    delegate_nodes: Nodes


class _Taken(msgspec.Struct, frozen=True):
    subgraph: int
    delegate_nodes: Nodes


class Report(msgspec.Struct, frozen=True):
    """``edgedeploy.report/1``: what came of each claim, and what XNNPACK took if the plan switched it on."""

    schema: Literal["edgedeploy.report/1"]
    partitions: tuple[_Partition, ...]
    xnnpack: tuple[_Taken, ...] = ()


def read_report(text: str) -> Report:
    """``edgedeploy.report/1``. Raises ValueError for anything else."""
    try:
        return msgspec.json.decode(text, type=Report)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None


@dataclass(frozen=True, slots=True)
class Claims:
    """``differences`` has a line for each of the plan's ``partitions`` that did not become one node of its ops."""

    partitions: int
    differences: tuple[str, ...]


def claims(runtime: dict[str, Any], plan: Plan | None) -> Claims | None:
    """Of a runtime that was used, with the ``report`` that the device gave; None where there was no library."""
    made = runtime.get("report")
    if made is None or plan is None:
        return None
    planned = edp.select(plan)
    differences = (*_differences(planned, made), *_differences_of_xnnpack(plan, made))
    return Claims(len(planned.partitions), differences)


def _differences(planned: edp.Edp, made: Report) -> Iterator[str]:
    nodes_of = {entry.id: entry.delegate_nodes for entry in made.partitions}
    for partition in planned.partitions:
        ops = sorted(op.index for op in planned.ops if op.partition == partition.id)
        nodes = [sorted(node) for node in nodes_of.get(partition.id, ())]
        if nodes != [ops]:
            yield f"partition {partition.id}: planned ops {ranges(ops)} in one node, the runtime has {_list(nodes)}"


def _differences_of_xnnpack(plan: Plan, made: Report) -> Iterator[str]:
    """Of the subgraphs that the plan switches it on in. What only unpacks a constant may be in any node or in none."""
    folded = {(op.subgraph, op.index) for op in plan.ops if op.folded}
    for taken in made.xnnpack:
        planned = sorted(
            sorted(op.index for op in plan.ops if op.partition == part.id and not op.folded)
            for part in plan.partitions
            if part.delegate == XNNPACK and part.subgraph == taken.subgraph
        )
        running = (sorted(op for op in node if (taken.subgraph, op) not in folded) for node in taken.delegate_nodes)
        nodes = sorted(node for node in running if node)
        if nodes != planned:
            where = f" of subgraph {taken.subgraph}" if taken.subgraph else ""
            yield f"XNNPACK: planned nodes of ops {_list(planned)}{where}, the runtime has {_list(nodes)}"


def _list(nodes: Iterable[Sequence[int]]) -> str:
    return " and ".join(map(ranges, nodes)) or "nothing"


def runtime_json(runtime: dict[str, Any], plan: Plan | None) -> dict[str, Any]:
    """The runtime in ``edgedeploy.bench/1`` and ``edgedeploy.verify/1``, with the delegates that were used."""
    found = claims(runtime, plan)
    plain = {key: value for key, value in runtime.items() if key != "report"}
    if found is None:
        return {**plain, "delegates": []}
    return {
        **plain,
        "delegates": [
            {
                "library": OWN_LIBRARY,
                "partitions": found.partitions,
                "as_planned": not found.differences,
                "differences": list(found.differences),
            }
        ],
    }
