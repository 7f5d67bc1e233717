# SPDX-License-Identifier: Apache-2.0
"""Change single values of a plan."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.plan import Plan, from_json, to_json

# What a plan and its model do not determine, or only within bounds: names, sources, options, the parts of a sum.
FREE = re.compile(
    r"tool\.|inputs\.(model\.(name|dtype_class)|board|runtime|tables|kernels|measurements|options\.(threads|cpus))"
    r"|inputs\.options\.(memory_limit_bytes|max_partitions|assume_unknown|signature)"  # changed to what allows the plan
    r"|solver\.orders_tried\.1|predicted\.(low|high|cold|optimistic)|baselines\.|backends\.\d+\.(library|options|sdk|max_partitions)"
    r"|ops\.\d+\.(variant|bound|macs|bytes|low_us|high_us)"
    r"|ops\.\d+\.candidates\.\d+\."
    r"|transitions\.\d+\.(low_us|high_us|provenance|path)"
    r"|memory\.(kinds|bounds\.baseline|arena_exact|peak_low|peak_high|baseline|peak_op|peak_tensors|timeline\.\d+\.live_bytes)|warnings\.|advice\."
)


def every_change(plan: Plan, step: int = 1) -> Iterator[tuple[str, Plan]]:
    """What changed, and the plan that differs from ``plan`` in one value that its other parts or the model determine.

    Every ``step``-th value is changed.
    """
    raw = json.loads(to_json(plan))
    held = [leaf for leaf in _leaves(raw) if not FREE.match(leaf[0])]
    for path, container, key in held[::step]:
        value = container[key]
        for other in _others(value):
            container[key] = other
            changed = _read(raw)
            if changed is not None:
                yield f"{path}: {value!r} -> {other!r}", changed
        container[key] = value


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) inside a JSON value."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


def _read(raw: Any) -> Plan | None:
    try:
        return from_json(json.dumps(raw))
    except InputError:
        return None


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(path, container, key) of every value that is no container."""
    for key in value if isinstance(value, dict) else range(len(value)):
        where = f"{path}.{key}" if path else str(key)
        if isinstance(value[key], dict | list):
            yield from _leaves(value[key], where)
        else:
            yield where, value, key


def _others(value: Any) -> list[Any]:
    """Values of the same kind that are not ``value``."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, value - 1]
    return [0, "x"] if value is None else [value + "x", None]
