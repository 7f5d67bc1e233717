# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgedeploy import options as o


def command(
    plan_a: Annotated[Path, typer.Argument(metavar="PLAN_A", help="A plan.json, or a bundle.", show_default=False)],
    plan_b: Annotated[Path, typer.Argument(metavar="PLAN_B", help="The plan to compare it with.", show_default=False)],
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> int:
    """Show what moved between two plans, and why."""
    from edgedeploy import api, output
    from edgedeploy.report.diff import diff_json, diff_report
    from edgedeploy.report.page import style_for

    before, after = api.read_plan(plan_a), api.read_plan(plan_b)
    found = api.diff(before, after)
    if as_json:
        output.emit_json(diff_json(found))
    else:
        output.emit(diff_report(found, before, after, style_for(quiet=quiet, verbose=verbose)))
    return 0
