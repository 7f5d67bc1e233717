# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Annotated

import typer

from edgedeploy import options as o

NOT_USABLE = 4


def command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Devices to look at too.", show_default=False)
    ] = None,
    as_json: o.Json = False,
) -> int:
    """Say what is missing, here or on devices, and how to get it."""
    from edgedeploy import output
    from edgedeploy.devices import doctor
    from edgedeploy.devices.registry import LOCAL, user_registry
    from edgedeploy.report.devices import doctor_report
    from edgedeploy.report.page import style_for

    registry = user_registry()
    registered = {name: registry.get(name) for name in dict.fromkeys(names or ()) if name != LOCAL}
    found = {"host": list(doctor.host(registry))}
    for name, device in registered.items():
        with output.progress(f"looking at {name}", quiet=as_json):
            found[name] = list(doctor.device(registry, name, device))
    if as_json:
        checks = {name: [check._asdict() for check in checks] for name, checks in found.items()}
        output.emit_json({"schema": "edgedeploy.doctor/1", "checks": checks})
    else:
        output.emit(doctor_report(found, style_for()))
    return NOT_USABLE if any(check.ok is False for checks in found.values() for check in checks) else 0
