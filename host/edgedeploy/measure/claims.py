# SPDX-License-Identifier: Apache-2.0
"""What libedgedeploy.so claimed on a device, beside the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from edgedeploy.bundle import OWN_LIBRARY
from edgedeploy.text import ranges
from edgedeploy_partitioner import edp
from edgedeploy_partitioner.plan import Plan


class _Partition(msgspec.Struct, frozen=True):
    id: int
    delegate_nodes: tuple[tuple[int, ...], ...]


class _Report(msgspec.Struct, frozen=True):
    schema: Literal["edgedeploy.report/1"]
    partitions: tuple[_Partition, ...]


Nodes = Mapping[int, Sequence[Sequence[int]]]
"""The ops of each delegate node that the runtime made of a partition, by the partition's id."""


def read_report(text: str) -> Nodes:
    """``edgedeploy.report/1``. Raises ValueError for anything else."""
    try:
        return {entry.id: entry.delegate_nodes for entry in msgspec.json.decode(text, type=_Report).partitions}
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
    differences = tuple(_differences(planned, made))
    return Claims(len(planned.partitions), differences)


def _differences(planned: edp.Edp, made: Nodes) -> Iterator[str]:
    for partition in planned.partitions:
        ops = sorted(op.index for op in planned.ops if op.partition == partition.id)
        nodes = [sorted(node) for node in made.get(partition.id, [])]
        if nodes != [ops]:
            got = " and ".join(map(ranges, nodes)) or "nothing"
            yield f"partition {partition.id}: planned ops {ranges(ops)} in one node, the runtime has {got}"


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
