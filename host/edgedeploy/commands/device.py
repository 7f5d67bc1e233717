# SPDX-License-Identifier: Apache-2.0
"""The commands ``device ...``: the machines that the user has named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgedeploy import options as o

if TYPE_CHECKING:
    from edgedeploy.devices.probe import Facts
    from edgedeploy.devices.registry import Device

NOT_USABLE = 4

group = typer.Typer(help="Name machines, and put on them what running there needs.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A device.", show_default=False)]
AcceptNew = Annotated[bool, typer.Option("--accept-new", help="Trust host keys that are not known yet.")]
RemoteDir = Annotated[
    str | None,
    typer.Option("--remote-dir", metavar="DIR", help="Folder on the device for files. [default: the first with room]"),
]


@group.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it.", show_default=False)],
    host: Annotated[
        str,
        typer.Argument(
            metavar="[USER@]HOST[:PORT]", help="Where it is; HOST may be a name of ~/.ssh/config.", show_default=False
        ),
    ],
    board: Annotated[
        str | None,
        typer.Option("--board", metavar="B", help="Its board profile. [default: by its device tree, if one fits]"),
    ] = None,
    remote_dir: RemoteDir = None,
    accept_new: AcceptNew = False,
    as_json: o.Json = False,
) -> int:
    """Name a machine, reached over SSH.

    It is asked what it is; one that is not reached, or cannot be used, is not added. A name that is taken is given to
    the new machine.
    """
    import shlex

    from edgedeploy.devices.boards import board_of
    from edgedeploy.devices.probe import Unusable, probe
    from edgedeploy.devices.reach import linked
    from edgedeploy.devices.registry import Device, check_name, user_registry
    from edgedeploy.link.ssh_config import parse_target
    from edgedeploy_profiles import load_board

    try:
        check_name(name)
        parse_target(host)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if board is not None:
        load_board(board)
    registry = user_registry()
    old = registry.devices().get(name)
    words = ["edgedeploy", "device", "add", name, host, *(("--board", board) if board else ())]
    words += ("--remote-dir", remote_dir) if remote_dir else ()
    device = Device(host, board, remote_dir, old.setup if old and old.target == host else None)
    with linked(registry, name, device, fix=shlex.join([*words, "--accept-new"]), accept_new=accept_new) as link:
        facts = probe(link, remote_dir)
    if facts.problem:
        raise Unusable(f"{name}: {facts.problem}")
    if board is None:
        device = Device(host, board_of(facts.compatible), remote_dir, device.setup)
    registry.put(name, device)
    _show(name, device, facts, as_json)
    return 0


@group.command("list")
def list_(as_json: o.Json = False) -> int:
    """List the devices."""
    import msgspec

    from edgedeploy import output
    from edgedeploy.devices.registry import LOCAL, user_registry
    from edgedeploy.report.devices import device_list
    from edgedeploy.report.page import style_for

    devices = user_registry().devices()
    if as_json:
        listed: list[dict[str, Any]] = [{"name": LOCAL}]
        listed += [{"name": name, **msgspec.to_builtins(device)} for name, device in devices.items()]
        output.emit_json({"schema": "edgedeploy.devices/1", "devices": listed})
    else:
        output.emit(device_list(devices, style_for()))
    return 0


@group.command()
def show(name: Name, as_json: o.Json = False) -> int:
    """Show what is known of a device, without asking it."""
    from edgedeploy.devices.registry import user_registry

    _show(name, user_registry().get(name), None, as_json)
    return 0


@group.command()
def probe(name: Name, accept_new: AcceptNew = False, as_json: o.Json = False) -> int:
    """Ask a device what it is.

    A shell is enough for the first of it. One that is set up also tells of its clocks, memory and NPUs, and where it
    has that from.
    """
    from edgedeploy.devices.details import details
    from edgedeploy.devices.probe import probe as ask
    from edgedeploy.devices.reach import LOCAL_COMMAND, linked
    from edgedeploy.devices.registry import LOCAL, user_registry
    from edgedeploy.devices.setup import renewed
    from edgedeploy.link import LinkError
    from edgedeploy.link.local import LocalLink

    registry = user_registry()
    device = registry.get(name)
    more, problem = None, ""
    if name == LOCAL:
        facts = ask(LocalLink())
        more = details(LocalLink(), LOCAL_COMMAND)
    else:
        with linked(registry, name, device, accept_new=accept_new) as link:
            facts = ask(link, device.remote_dir)
            if device.setup:
                try:
                    more = details(link, renewed(link, registry, name, device).command)
                except LinkError as error:
                    problem = str(error)
    _show(name, device, facts, as_json, more, problem)
    return NOT_USABLE if facts.problem or problem else 0


@group.command()
def setup(
    name: Name,
    runtime: Annotated[
        str | None,
        typer.Option("--runtime", metavar="NAME[==V]", help="TFLite runtime. [default: the newest that fits]"),
    ] = None,
    wheels: Annotated[
        Path | None,
        typer.Option(
            "--wheels",
            metavar="DIR",
            help="Take the wheels from this folder, and ask no package index.",
            exists=True,
            file_okay=False,
            show_default=False,
        ),
    ] = None,
    remote_dir: RemoteDir = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Put the agent and a TFLite runtime on a device.

    pip gets the wheels on this machine; the device needs Python 3.9 or later, but no pip, no internet and no root.
    Nothing is installed there: all lies in one folder. What is there already is not sent again.
    """
    import msgspec

    from edgedeploy import output
    from edgedeploy.devices.reach import linked
    from edgedeploy.devices.registry import LOCAL, user_registry
    from edgedeploy.devices.setup import Wishes, set_up
    from edgedeploy.report.devices import setup_report
    from edgedeploy.report.page import style_for
    from edgedeploy.text import size

    if name == LOCAL:
        raise typer.BadParameter(f"{LOCAL!r} is this machine and needs no setup")
    registry = user_registry()
    device = registry.get(name)
    with (
        output.stoppable(),
        linked(registry, name, device) as link,
        output.progress(f"setting up {name}", quiet=quiet),
    ):
        done = set_up(
            link,
            device,
            Wishes(runtime, wheels, remote_dir),
            lambda tree: None if quiet else output.say(f"{name}: sending {tree.title}, {size(tree.unpacked_bytes)}"),
        )
    if device.setup and device.setup.folder != done.setup.folder:
        output.say(f"{name}: {device.setup.folder} is not used any more, and still there")
    device = msgspec.structs.replace(device, setup=done.setup, remote_dir=remote_dir or device.remote_dir)
    registry.put(name, device)
    if as_json:
        sent = [{"title": t.title, "sha256": t.sha256, "bytes": t.unpacked_bytes} for t in done.sent]
        output.emit_json({**_as_json(name, device, None), "sent": sent})
    else:
        output.emit(setup_report(name, done, style_for(quiet=quiet)))
    return 0


@group.command()
def clean(name: Name, as_json: o.Json = False) -> int:
    """Remove from a device all that was put on it."""
    import msgspec

    from edgedeploy import output
    from edgedeploy.devices.reach import linked
    from edgedeploy.devices.registry import user_registry
    from edgedeploy.devices.store import Store

    registry = user_registry()
    device = registry.get(name)
    folder = device.setup.folder if device.setup else None
    if folder is not None:
        with linked(registry, name, device) as link:
            Store(link, folder).clean()
        registry.put(name, msgspec.structs.replace(device, setup=None))
    if as_json:
        output.emit_json({"schema": "edgedeploy.clean/1", "name": name, "removed": folder})
    else:
        output.emit(f"{name}: removed {folder}\n" if folder else f"{name}: nothing was put on it\n")
    return 0


@group.command()
def remove(name: Name, as_json: o.Json = False) -> int:
    """Forget a device. What was put on it stays there: 'clean' first."""
    from edgedeploy import output
    from edgedeploy.devices.registry import LOCAL, user_registry

    if name == LOCAL:
        raise typer.BadParameter(f"{LOCAL!r} is this machine and always there")
    registry = user_registry()
    device = registry.get(name)
    registry.remove(name)
    if device.setup:
        output.say(f"{name}: {device.setup.folder} is still there")
    if as_json:
        output.emit_json({"schema": "edgedeploy.remove/1", "name": name})
    else:
        output.emit(f"{name}: forgotten\n")
    return 0


def _show(
    name: str,
    device: Device,
    facts: Facts | None,
    as_json: bool,
    more: dict[str, Any] | None = None,
    problem: str = "",
) -> None:
    """``more`` is what the agent tells, ``problem`` why it does not."""
    from edgedeploy import output
    from edgedeploy.report.devices import device_sheet
    from edgedeploy.report.page import style_for

    if as_json:
        asked = {} if facts is None else {"agent": more, "agent_problem": problem or None}
        output.emit_json({**_as_json(name, device, facts), **asked})
    else:
        output.emit(device_sheet(name, device, facts, style_for(), more, problem))


def _as_json(name: str, device: Device, facts: Facts | None) -> dict[str, Any]:
    import msgspec

    described = {"schema": "edgedeploy.device/1", "name": name, **msgspec.to_builtins(device)}
    if facts is None:
        return described
    usable = {"problem": facts.problem or None, "missing": list(facts.missing)}
    return {**described, "facts": {**msgspec.to_builtins(facts), **usable}}
