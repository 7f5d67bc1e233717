# SPDX-License-Identifier: Apache-2.0
"""Where a predicate just holds and where it just breaks.

A module ``tests/partitioner/test_support_*.py`` lists those of its predicates as ``BOUNDARIES``, or ops that a table's
rows take and refuse: :func:`declared` and :func:`shown` find both.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from edgedeploy_partitioner.model.graph import Graph, Op
from edgedeploy_partitioner.support.case import Case
from edgedeploy_partitioner.support.predicates import find
from edgedeploy_profiles.schema import Backend, Requirement, Rule
from support.single_op import Made

SHARED = Path(__file__).resolve().parent
FOLDER = SHARED.parent / "partitioner"
BACKEND = Backend(
    schema="edgedeploy.backend/1", name="toy", title="Toy", sdk_version="1", sources={}, delegate="toy", library="",
    cost_model="", kernels=("npu",), layouts={}, socs=("a",), rules=(), computes_as={"float32": "float16"},
)  # fmt: skip
"""A back end that computes float32 in float16 and writes its rules in TFLite's axes."""


class Boundary(NamedTuple):
    name: str
    parameter: Any
    holds: Made
    breaks: Made
    found: str
    """What the predicate says of ``breaks``."""


def check(row: Boundary, backend: Backend = BACKEND) -> None:
    predicate = find(row.name)
    assert predicate.violation(Case(*row.holds, backend), row.parameter) is None
    assert predicate.violation(Case(*row.breaks, backend), row.parameter) == row.found


def modules() -> Iterator[ModuleType]:
    """Every test module of support tables."""
    for path in sorted(FOLDER.glob("test_support_*.py")):
        spec = importlib.util.spec_from_file_location(f"seen_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def declared(found: Iterable[ModuleType]) -> set[str]:
    """The predicates in the ``BOUNDARIES`` of these modules."""
    return {row.name for module in found for row in getattr(module, "BOUNDARIES", ())}


def shown(found: Iterable[ModuleType], tables: Iterable[Backend]) -> set[str]:
    """The predicates of these tables that hold for one op of these modules' lists and break for another, of those that
    the row is about."""
    cases = [made for module in found for value in vars(module).values() for made in _ops(value)]
    return {name for table in tables for name in _shown(table, cases)}


def _shown(table: Backend, cases: list[Made]) -> Iterator[str]:
    rows: tuple[Requirement | Rule, ...] = (*table.every_op, *table.rules)
    for row in rows:
        own = [made for made in cases if not isinstance(row, Rule) or made[1].code in row.maps_to]
        soc = (row.socs or table.socs)[0]
        for name, parameter in row.require.items():
            if len({find(name).violation(Case(*made, table, soc), parameter) is None for made in own}) > 1:
                yield name


def _ops(value: object) -> Iterator[Made]:
    """The ops of a list, in whatever tuples they are."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], Graph) and isinstance(value[1], Op):
        yield value[0], value[1]
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _ops(item)
    elif isinstance(value, dict):
        yield from _ops(list(value.values()))
