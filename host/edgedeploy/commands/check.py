# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgedeploy import options as o

FAULTY = 1
FAULTS_SHOWN = 21
"""The first says what is wrong if the plan is for another model, twenty more what follows from it."""


def command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan.json, or a bundle.", show_default=False)],
    model: o.Model,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Check a plan against its model, independently.

    Structure, execution order, sums, memory and limits are recomputed by code that the planner does not use. Of a
    bundle the files are checked too; its own model.tflite will do as MODEL.
    """
    from edgedeploy import api, output
    from edgedeploy.text import plural, printable
    from edgedeploy.verify import as_given, bundle_faults

    value = api.read_plan(plan)
    graph = as_given(api.read_model(model), value, plan)
    same = graph.sha256 == value.inputs.model.sha256
    found = [*(bundle_faults(plan, value) if plan.is_dir() else ())]
    found += api.check(value, api.planned_model(value, graph) if same else graph)
    faults = [str(fault) for fault in sorted(found, key=lambda fault: fault.code != "model")]
    if as_json:
        output.emit_json({"ok": not faults, "faults": faults})
    elif faults:
        shown = [printable(fault) for fault in faults[:FAULTS_SHOWN]]
        more = [f"and {len(faults) - len(shown)} more"] if len(faults) > len(shown) else []
        output.emit("".join(f"{line}\n" for line in (*shown, *more)))
    elif not quiet:
        output.emit("the plan is sound\n")
    if faults:
        output.say(f"{printable(str(plan))}: {plural(len(faults), 'fault')}")
    return FAULTY if faults else 0
