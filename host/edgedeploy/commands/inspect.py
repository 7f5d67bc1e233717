# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Annotated

import typer

from edgedeploy import options as o


def command(
    model: o.Model,
    run: Annotated[
        bool, typer.Option("--run", help="Also run it with the runtime of this machine, in a child process.")
    ] = False,
    runtime: Annotated[
        str | None,
        typer.Option(
            "--runtime", metavar="NAME[==V]", help="Asked what it would refuse. [default: ai-edge-litert 2.3.0]"
        ),
    ] = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> int:
    """Show what is in a model file and what is odd about it."""
    from edgedeploy import api, inspection, output
    from edgedeploy.report.model import model_report
    from edgedeploy.report.page import style_for
    from edgedeploy.text import printable
    from edgedeploy.trial import try_model
    from edgedeploy_partitioner.plan import to_json

    graph = api.read_model(model)
    trial = None
    if run:
        with output.progress(f"running {model.name}", quiet=quiet):
            trial = try_model(model)
    facts = inspection.inspect(graph, printable(model.name), api.find_runtime(runtime), trial)
    output.emit(to_json(facts) if as_json else model_report(facts, style_for(quiet=quiet, verbose=verbose)))
    return 0
