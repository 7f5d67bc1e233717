# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgedeploy import options as o

if TYPE_CHECKING:
    from edgedeploy.gates import Gate
    from edgedeploy.report.page import Style
    from edgedeploy_partitioner.errors import PlanningError
    from edgedeploy_partitioner.model.graph import Graph
    from edgedeploy_partitioner.plan import Plan
    from edgedeploy_profiles import ProfileError

    Results = dict[str, Plan | PlanningError | ProfileError]

GATE_FAILED = 1


def command(
    model: o.Model,
    boards: Annotated[
        str, typer.Option("--board", metavar="B[,B2|all]", help="Board profiles to plan for, or .toml files.")
    ],
    npu: o.Npu = None,
    runtime: o.RuntimeName = None,
    xnnpack: o.XnnpackMode = o.Xnnpack.default,
    threads: o.Threads = None,
    cpus: o.Cpus = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            "--memory-limit",
            metavar="64MiB",
            help="Most memory at the peak, of what is modelled: the report lists what is not.",
        ),
    ] = None,
    max_partitions: o.MaxPartitions = None,
    force: o.Force = None,
    forbid: o.Forbid = None,
    assume_unknown: o.AssumeUnknown = o.Unknown.refused,
    signature: o.SignatureKey = None,
    input_shape: o.InputShapes = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="fallback|refused|partitions:N",
            help="Exit 1, and write no bundle, if an op runs on the CPU, if the NPU takes one not, or if there are "
            "more than N partitions. Repeatable.",
        ),
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="BUNDLE", help="Write a folder to ship.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Let -o replace another bundle.")] = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> int:
    """Decide where every op runs on a board, and what it costs."""
    from edgedeploy import api, gates, output
    from edgedeploy.report.page import style_for

    checks = [gates.parse(gate) for gate in fail_on or ()]
    options: dict[str, Any] = {
        "runtime": runtime,
        "xnnpack": xnnpack.value,
        "threads": threads,
        "cpus": cpus,
        "memory_limit_bytes": o.parse_limit(memory_limit, "--memory-limit"),
        "max_partitions": max_partitions,
        "force": tuple(force or ()),
        "forbid": tuple(forbid or ()),
        "assume_unknown": assume_unknown.value,
        "signature": signature,
        "input_shapes": o.parse_shapes(input_shape or ()),
    }
    targets = o.targets(boards, npu)
    if bundle and len(targets) > 1:
        raise typer.BadParameter("-o takes one --board")
    graph = api.read_model(model)
    results: Results = {}
    for label, (board, stack) in targets.items():
        with output.progress(f"planning {model.name} for {label}", quiet=quiet):
            results[label] = api.attempt(graph, board, name=model.name, npu=stack, **options)
    plan = next(iter(results.values()))
    if len(results) == 1 and isinstance(plan, Exception):
        raise plan
    if as_json:
        output.emit(_json(results))
    else:
        output.emit(_report(results, graph, style_for(quiet=quiet, verbose=verbose)))
    code = _gate(results, checks)
    if bundle and code == 0 and not isinstance(plan, Exception):
        _write(plan, graph, bundle, overwrite, quiet)
    return code


def _json(results: Results) -> bytes:
    """The plan; of several boards a list, where a board that failed says why."""
    from edgedeploy.output import json_bytes
    from edgedeploy_partitioner.plan import builtins

    entries = [
        {"schema": "edgedeploy.error/1", "board": name, "exit_code": result.exit_code, "error": result.message}
        if isinstance(result, Exception)
        else builtins(result)
        for name, result in results.items()
    ]
    return json_bytes(entries[0] if len(entries) == 1 else entries)


def _report(results: Results, graph: Graph, style: Style) -> str:
    from edgedeploy.api import planned_model
    from edgedeploy.report.boards import comparison
    from edgedeploy.report.plan import plan_report

    plans = [result for result in results.values() if not isinstance(result, Exception)]
    reports = [plan_report(plan, planned_model(plan, graph), style) for plan in plans]
    if len(results) == 1:
        return reports[0]
    return "\n".join([comparison(results, style), *(reports if style.depth > 0 else ())])


def _gate(results: Results, checks: list[Gate]) -> int:
    """Say what failed. The exit code: that of a board that cannot be planned for goes before that of a gate."""
    from edgedeploy import gates, output

    codes = {0}
    for name, result in results.items():
        if isinstance(result, Exception):
            output.say(f"error: {name}: {result}")
            codes.add(result.exit_code)
        elif failed := gates.failures(result, checks):
            output.say(f"gate failed on {name}: {'; '.join(failed)}")
            codes.add(GATE_FAILED)
    return max(codes)


def _write(plan: Plan, graph: Graph, folder: Path, overwrite: bool, quiet: bool) -> None:
    from edgedeploy import output
    from edgedeploy.api import shipped_model
    from edgedeploy.bundle import lacking, write_bundle

    with output.stoppable():
        written = write_bundle(plan, shipped_model(plan, graph), folder, overwrite=overwrite)
    missing = lacking(written.manifest)
    if missing or not quiet:
        state = "wrote" if written.changed else "already there:"
        output.say(f"{state} {folder}" + (f"; still missing: {missing}" if missing else ""))
