# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import platform
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from edgedeploy import options as o


class Switch(StrEnum):
    on = "on"
    off = "off"


def command(
    model: o.Model,
    out: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="Where to write the new .tflite file.")],
    runtime: Annotated[
        str | None,
        typer.Option(
            "--runtime", metavar="NAME[==V]", help="Whose arena to make smaller. [default: ai-edge-litert 2.3.0]"
        ),
    ] = None,
    xnnpack: Annotated[Switch, typer.Option("--xnnpack", help="Does the program use XNNPACK?")] = Switch.on,
    threads: Annotated[int, typer.Option("--threads", min=1, metavar="N", help="Threads of the runtime.")] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Let -o replace a file.")] = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Write the model in an op order that takes a smaller arena.

    Only where the stock runtime's own memory planner needs less for it, and after both models gave the same outputs to
    the bit with the runtime of this machine, in child processes. Where there is nothing to gain no file is written;
    the exit code is 0 all the same.
    """
    from edgedeploy import api, output, reorder
    from edgedeploy.report.page import style_for
    from edgedeploy_partitioner.memory.reordering import reordering
    from edgedeploy_partitioner.plan import Machine

    reorder.check_free(out, overwrite=overwrite)
    graph, how = api.read_model(model), reorder.How(api.find_runtime(runtime), xnnpack is Switch.on, threads)
    with output.progress(f"ordering {model.name}", quiet=quiet):
        machine: Machine = "aarch64" if platform.machine() == "aarch64" else "x86_64"
        found = reordering(graph, how.runtime, xnnpack=how.xnnpack, threads=threads, machine=machine)
    proof = written = None
    if found.orders:
        with output.progress(f"running both orders of {model.name}", quiet=quiet), output.stoppable():
            proof, written = reorder.write_reordered(model, graph, found, out, how)
    if as_json:
        output.emit_json(reorder.as_json(model.name, graph, how, found, proof, written))
    else:
        output.emit(reorder.as_text(model.name, how, found, proof, written, style_for(quiet=quiet)))
    return 0
