# SPDX-License-Identifier: Apache-2.0
"""The verbs of the command line for Python: each returns the frozen values that the command prints.

>>> from edgedeploy import partition
>>> plan = partition("model.tflite", "rk3588", max_partitions=1)
>>> plan.predicted.latency_ns
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from edgedeploy.text import printable
from edgedeploy_partitioner import planning
from edgedeploy_partitioner.checker import check as check
from edgedeploy_partitioner.diff import diff as diff
from edgedeploy_partitioner.errors import InputError, PlanningError
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.patch import with_shapes_written
from edgedeploy_partitioner.model.read import read_model as read_model
from edgedeploy_partitioner.model.shapes import with_input_shapes as with_input_shapes
from edgedeploy_partitioner.plan import Plan, from_json
from edgedeploy_profiles import ProfileError, load_runtime, runtime_names
from edgedeploy_profiles import load_board as load_board
from edgedeploy_profiles.schema import Board, Runtime

DEFAULT_RUNTIME = "ai-edge-litert==2.3.0"
BIGGEST_PLAN_BYTES = 1 << 28


def partition(
    model: str | os.PathLike[str] | Graph,
    board: str | Board,
    *,
    name: str | None = None,
    runtime: str | Runtime | None = None,
    **options: Any,
) -> Plan:
    """Plan ``model`` (a path or a Graph) for ``board`` (a name, a ``.toml`` path or a Board).

    ``runtime`` is a Runtime or ``NAME[==VERSION]``, by default the board's; ``name`` is what the plan calls the model.
    ``options`` are the other fields of :class:`edgedeploy_partitioner.planning.Request`, named as on the command line.
    Raises PlanningError, ProfileError.
    """
    graph = model if isinstance(model, Graph) else read_model(model)
    label = name or ("model" if isinstance(model, Graph) else Path(model).name)
    profile = board if isinstance(board, Board) else load_board(board)
    census = runtime if isinstance(runtime, Runtime) else find_runtime(runtime, profile.default_runtime)
    request = planning.Request(runtime=census, **options)
    return planning.partition(graph, profile, request, printable(label))


def planned_model(plan: Plan, model: Graph) -> Graph:
    """``model`` with the input shapes that the plan's options fixed, which is what was planned."""
    options = plan.inputs.options
    return with_input_shapes(model, options.input_shapes, options.signature) if options.input_shapes else model


def shipped_model(plan: Plan, model: Graph) -> bytes | memoryview:
    """The bytes of the file to ship: ``model``'s own, or with the input shapes of the plan written in."""
    if not plan.inputs.options.input_shapes:
        return model.source
    return with_shapes_written(model.source, planned_model(plan, model))


def attempt(model: Graph, board: str, **options: Any) -> Plan | PlanningError | ProfileError:
    """:func:`partition`, with a board that is wrong or cannot take the model as a value: plan for the others."""
    try:
        return partition(model, board, **options)
    except (PlanningError, ProfileError) as error:
        return error


def find_runtime(wanted: str | None, default: str = DEFAULT_RUNTIME) -> Runtime:
    """The census of ``NAME[==VERSION]``; ``default``, or its version, where nothing is said."""
    own_name, _, own_version = default.partition("==")
    name, _, version = (wanted or default).partition("==")
    if not version and name != own_name:
        raise InputError(f"--runtime {name}: say which version, of {', '.join(runtime_names())}")
    return load_runtime(name, version or own_version)


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """A plan.json, or the plan of a bundle folder. Raises InputError, OSError."""
    file = Path(path)
    file = file / "plan.json" if file.is_dir() else file
    where = printable(str(path))
    if not file.is_file():
        raise InputError(f"{where}: no such plan file or bundle folder")
    if file.stat().st_size > BIGGEST_PLAN_BYTES:
        raise InputError(f"{where}: {file.stat().st_size} bytes is too large for a plan")
    return from_json(file.read_bytes(), where)
