# SPDX-License-Identifier: Apache-2.0
"""What libedgedeploy.so claimed on a device, beside the plan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from edgedeploy.bundle import OWN_LIBRARY
from edgedeploy.text import ranges
from edgedeploy_partitioner import edp
from edgedeploy_partitioner.plan import Plan


@dataclass(frozen=True, slots=True)
class Claims:
    """``differences`` has a line for each of the plan's ``partitions`` that did not become one node of its ops."""

    partitions: int
    differences: tuple[str, ...]


def claims(runtime: dict[str, Any], plan: Plan | None) -> Claims | None:
    """Of a runtime that was used, as the device told of it; None where the model ran without the library."""
    if not runtime.get("report") or plan is None:
        return None
    planned = edp.select(plan)
    made = {entry["id"]: entry["delegate_nodes"] for entry in json.loads(runtime["report"])["partitions"]}
    differences = tuple(_differences(planned, made))
    return Claims(len(planned.partitions), differences)


def _differences(planned: edp.Edp, made: dict[int, list[list[int]]]) -> Iterator[str]:
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
