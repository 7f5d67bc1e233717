# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Annotated

import typer

from edgedeploy import options as o


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

    boards = [load_board(each) for each in ([name] if name else board_names())]
    if as_json:
        output.emit_json({"schema": "edgedeploy.boards/1", "boards": msgspec.to_builtins(boards)})
    elif name:
        output.emit(board_sheet(boards[0], style_for()))
    else:
        output.emit(board_list(boards, style_for()))
    return 0
