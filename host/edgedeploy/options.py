# SPDX-License-Identifier: Apache-2.0
"""The options that several commands share, said once."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from edgedeploy.text import parse_size

MOST_S = 86_400
"""Of an option that is a time: a day."""
MOST_DIGITS = 10
"""Of a dimension, an int32 in the file."""


class Xnnpack(StrEnum):
    default = "default"
    off = "off"
    switch = "switch"


class LimitOn(StrEnum):
    peak = "peak"
    high = "high"


class Unknown(StrEnum):
    refused = "refused"
    supported = "supported"


def board_list(text: str) -> list[str]:
    """``B``, ``B,B2`` or ``all``; each once."""
    if text == "all":
        from edgedeploy_profiles import board_names

        return list(board_names())
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise typer.BadParameter(f"--board {text!r} has an empty name")
    if "all" in names:
        raise typer.BadParameter(f"--board {text!r}: 'all' stands alone")
    return list(dict.fromkeys(names))


def targets(boards: str, npu: str | None) -> dict[str, tuple[str, str | None]]:
    """Label -> (board, stack): what ``--board`` and ``--npu`` name; for ``all`` every stack of every board."""
    from edgedeploy_profiles import ProfileError, load_board

    found: dict[str, tuple[str, str | None]] = {}
    for name in board_list(boards):
        stacks: list[str] = []
        if boards == "all" and npu is None:
            with contextlib.suppress(ProfileError):  # is told when the board is planned for
                stacks = list(load_board(name).stacks)
        if len(stacks) > 1:
            found.update((f"{name} {stack}", (name, stack)) for stack in stacks)
        else:
            found[name] = name, npu
    return found


def device_list(text: str) -> list[str]:
    """``D`` or ``D,D2``; each once."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise typer.BadParameter(f"--on {text!r} has an empty name")
    return list(dict.fromkeys(names))


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """``NAME=1,224,224,3`` entries by name; the name may contain ``=``."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, _, dims = text.rpartition("=")
        if not name or not all(map(_is_dimension, dims.split(","))):
            raise typer.BadParameter(f"{_short(text)!r} is not NAME=1,224,224,3")
        if name in shapes:
            raise typer.BadParameter(f"input {name!r} is given two shapes")
        shapes[name] = tuple(int(d) for d in dims.split(","))
    return shapes


def _is_dimension(text: str) -> bool:
    digits = text.strip()
    return digits.isdecimal() and digits.isascii() and len(digits) <= MOST_DIGITS


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}..."


def parse_limit(text: str | None, option: str) -> int | None:
    """The bytes that ``option`` was given, as its name is written on the command line."""
    try:
        return None if text is None else parse_size(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A .tflite file.", show_default=False)]
Runnable = Annotated[
    Path, typer.Argument(metavar="MODEL|BUNDLE", help="A .tflite file, or a bundle's folder.", show_default=False)
]
Devices = Annotated[str, typer.Option("--on", metavar="D[,D2]", help="Devices; 'local' is this machine.")]
Deadline = Annotated[
    float,
    typer.Option(
        "--deadline", min=1, max=MOST_S, metavar="S", help="Without a sign of life for so long, the model hangs."
    ),
]
MemoryCap = Annotated[
    str | None,
    typer.Option("--memory-cap", metavar="64MiB", help="Most memory the model may map. [default: what is free]"),
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait while another client measures on the device.")]
BoardName = Annotated[
    str, typer.Option("--board", metavar="B", help="A board profile ('edgedeploy boards' lists them) or a .toml file.")
]
Npu = Annotated[
    str | None, typer.Option("--npu", metavar="STACK", help="NPU software stack, or 'none'. [default: the board's]")
]
RuntimeName = Annotated[
    str | None, typer.Option("--runtime", metavar="NAME[==V]", help="TFLite runtime. [default: the board's]")
]
XnnpackMode = Annotated[
    Xnnpack,
    typer.Option(
        "--xnnpack",
        help="XNNPACK as the runtime uses it by itself, never, or turned on where the runtime does not by itself.",
    ),
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, max=1024, metavar="N", help="[default: the size of --cpus]")
]
Cpus = Annotated[
    str | None,
    typer.Option("--cpus", metavar="big|little|LIST", help="CPU cores to use. [default: the fastest cluster]"),
]
MaxPartitions = Annotated[
    int | None, typer.Option("--max-partitions", min=0, metavar="N", help="Most partitions, XNNPACK's not counted.")
]
Force = Annotated[
    list[str] | None,
    typer.Option(
        "--force",
        metavar="WHAT=BACKEND",
        help="Run these ops there: an index, a range 3-9, subgraph:index, an operator name or tensor:NAME. Repeatable.",
    ),
]
Forbid = Annotated[
    list[str] | None,
    typer.Option("--forbid", metavar="WHAT=BACKEND", help="Never run these ops there. Repeatable."),
]
AssumeUnknown = Annotated[
    Unknown, typer.Option("--assume-unknown", help="What an op counts as when nobody knows whether the NPU takes it.")
]
SignatureKey = Annotated[str | None, typer.Option("--signature", metavar="KEY", help="Entry point to plan for.")]
SignatureToRun = Annotated[
    str | None,
    typer.Option("--signature", metavar="KEY", help="Entry point to run. [default: the only one]"),
]
InputShapes = Annotated[
    list[str] | None,
    typer.Option("--input-shape", metavar="NAME=1,224,224,3", help="Fix the shape of an input. Repeatable."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON with a versioned schema.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the headline; no progress.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Everything, nothing collapsed.")]
