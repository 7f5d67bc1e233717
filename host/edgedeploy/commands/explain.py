# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Annotated

import typer

from edgedeploy import options as o


def command(
    model: o.Model,
    board: o.BoardName,
    op: Annotated[
        str | None,
        typer.Option(
            "--op", metavar="WHAT", help="Only these ops: an index, a range 3-9, subgraph:index or an operator name."
        ),
    ] = None,
    npu: o.Npu = None,
    runtime: o.RuntimeName = None,
    xnnpack: o.XnnpackMode = o.Xnnpack.default,
    threads: o.Threads = None,
    cpus: o.Cpus = None,
    assume_unknown: o.AssumeUnknown = o.Unknown.refused,
    signature: o.SignatureKey = None,
    input_shape: o.InputShapes = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Show every verdict on every op, with its source.

    The costs are those of the ops by themselves. Where an op goes also depends on its neighbours: 'partition' shows the
    choice and, for what stays on the CPU, why.
    """
    from edgedeploy import api, output
    from edgedeploy.report.explain import explanation, select
    from edgedeploy.report.page import style_for
    from edgedeploy_partitioner.plan import builtins

    graph = api.read_model(model)
    with output.progress(f"planning {model.name} for {board}", quiet=quiet):
        plan = api.partition(
            graph,
            board,
            name=model.name,
            npu=npu,
            runtime=runtime,
            xnnpack=xnnpack.value,
            threads=threads,
            cpus=cpus,
            assume_unknown=assume_unknown.value,
            signature=signature,
            input_shapes=o.parse_shapes(input_shape or ()),
        )
    ops = select(plan, op)
    if as_json:
        inputs = builtins(plan.inputs)
        output.emit_json({"schema": "edgedeploy.explain/1", "inputs": inputs, "ops": [builtins(op) for op in ops]})
    else:
        output.emit(explanation(plan, ops, api.planned_model(plan, graph), style_for(quiet=quiet)))
    return 0
