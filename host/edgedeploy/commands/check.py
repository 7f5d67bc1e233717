# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgedeploy import options as o

FAULTY = 1


def command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan.json, or a bundle.", show_default=False)],
    model: o.Model,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Check a plan against its model, independently.

    Structure, execution order, sums, memory and gates are recomputed by code that the planner does not use.
    """
    from edgedeploy import api, output
    from edgedeploy.text import plural, printable

    value = api.read_plan(plan)
    faults = [str(fault) for fault in api.check(value, api.planned_model(value, api.read_model(model)))]
    if as_json:
        output.emit_json({"ok": not faults, "faults": faults})
    elif faults:
        output.emit("".join(f"{printable(fault)}\n" for fault in faults))
    elif not quiet:
        output.emit("the plan is sound\n")
    if faults:
        output.say(f"{printable(str(plan))}: {plural(len(faults), 'fault')}")
    return FAULTY if faults else 0
