# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgedeploy import options as o

if TYPE_CHECKING:
    from edgedeploy_partitioner.plan import Plan

GATE_FAILED = 1


def command(
    model: o.Model,
    board: o.BoardName,
    limit: Annotated[
        str | None,
        typer.Option("--limit", metavar="64MiB", help="Exit 1 if the peak, of what is modelled, is over it."),
    ] = None,
    limit_on: Annotated[
        o.LimitOn, typer.Option("--limit-on", help="What the limit holds for: the peak, or its upper bound.")
    ] = o.LimitOn.peak,
    npu: o.Npu = None,
    runtime: o.RuntimeName = None,
    xnnpack: o.XnnpackMode = o.Xnnpack.default,
    threads: o.Threads = None,
    cpus: o.Cpus = None,
    max_partitions: o.MaxPartitions = None,
    force: o.Force = None,
    forbid: o.Forbid = None,
    assume_unknown: o.AssumeUnknown = o.Unknown.refused,
    signature: o.SignatureKey = None,
    input_shape: o.InputShapes = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write the report as one HTML file.")
    ] = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> int:
    """Show what memory a plan needs, and what would lower it.

    The plan is the fastest, as 'partition' without --memory-limit makes it.
    """
    from edgedeploy import api, output
    from edgedeploy.arenaview import as_sized
    from edgedeploy.lowering import lowering
    from edgedeploy.report.memory import gate_on, memory_report
    from edgedeploy.report.memory_html import check_place, memory_page, write_page
    from edgedeploy.report.page import style_for
    from edgedeploy.text import size
    from edgedeploy_partitioner.plan import builtins

    options: dict[str, Any] = {
        "npu": npu,
        "runtime": runtime,
        "xnnpack": xnnpack.value,
        "threads": threads,
        "cpus": cpus,
        "max_partitions": max_partitions,
        "force": tuple(force or ()),
        "forbid": tuple(forbid or ()),
        "assume_unknown": assume_unknown.value,
        "signature": signature,
        "input_shapes": o.parse_shapes(input_shape or ()),
    }
    limit_bytes = o.parse_limit(limit, "--limit")
    if html is not None:
        check_place(html)
    graph = api.read_model(model)

    def planned(**changes: Any) -> Plan:
        return api.partition(graph, board, name=model.name, **{**options, **changes})

    with output.progress(f"planning {model.name} for {board}", quiet=quiet):
        plan = planned()
        shown = as_sized(plan, api.planned_model(plan, graph))
        told = html is not None or not (quiet or as_json)
        lowered = lowering(plan, shown, planned, limit_bytes) if told else None
    gate = None if limit_bytes is None else gate_on(plan.memory, limit_bytes, high=limit_on is o.LimitOn.high)
    over = gate is not None and gate.is_over
    if html is not None:
        write_page(html, memory_page(plan, shown, gate, lowered))
    if as_json:
        inputs, memory = builtins(plan.inputs), builtins(plan.memory)
        output.emit_json(
            {
                "schema": "edgedeploy.memory/1",
                "inputs": inputs,
                "memory": memory,
                "limit_bytes": limit_bytes,
                "limit_on": limit_on.value,
                "over": over,
            }
        )
    else:
        output.emit(memory_report(plan, shown, gate, lowered, style_for(quiet=quiet, verbose=verbose)))
    if gate is not None and over:
        peak = plan.memory.peak_bytes
        output.say(f"gate failed on {board}: peak {size(peak)} ({peak} bytes), {gate.words}")
    return GATE_FAILED if over else 0
