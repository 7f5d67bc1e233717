# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from edgedeploy import options as o

if TYPE_CHECKING:
    from edgedeploy_profiles import ProfileError
    from edgedeploy_profiles.schema import Board


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A board, or a .toml file.", show_default=False)
    ] = None,
    as_json: o.Json = False,
) -> int:
    """List the board profiles, or show one with its sources."""
    import msgspec

    from edgedeploy import output
    from edgedeploy.report.boards import board_list, board_sheet
    from edgedeploy.report.page import style_for
    from edgedeploy_profiles import board_names, load_board

    boards, broken = ([load_board(name)], []) if name else _every(board_names())
    if as_json:
        output.emit_json({"schema": "edgedeploy.boards/1", "boards": msgspec.to_builtins(boards)})
    elif name:
        output.emit(board_sheet(boards[0], style_for()))
    else:
        output.emit(board_list(boards, style_for()))
    for error in broken:
        output.say(f"error: {error}")
    return 2 if broken else 0


def _every(names: Sequence[str]) -> tuple[list[Board], list[ProfileError]]:
    """The boards that load, and what is wrong with the files of the others."""
    from edgedeploy_profiles import ProfileError, load_board

    boards: list[Board] = []
    broken: list[ProfileError] = []
    for name in names:
        try:
            boards.append(load_board(name))
        except ProfileError as error:
            broken.append(error)
    return boards, broken
