# SPDX-License-Identifier: Apache-2.0
"""What ``edgedeploy boards`` shows: every board with its CPUs and stacks, one board with the source of every number."""

from __future__ import annotations

import pytest

from edgedeploy.report.boards import board_list, board_sheet
from edgedeploy.report.page import Style
from edgedeploy_profiles import board_names, load_board, load_core

BOARDS = [load_board(name) for name in board_names()]
HARDWARE = [board for board in BOARDS if board.name != "local"]


def test_the_list_has_one_line_a_board_with_its_cpus_and_stacks() -> None:
    lines = board_list(BOARDS, Style(200)).splitlines()
    assert [line.split()[0] for line in lines] == [board.name for board in BOARDS]
    for line, board in zip(lines, BOARDS, strict=True):
        assert board.title in line
        assert all(name in line for name in board.stacks or ["no NPU"])
    by_name = {line.split()[0]: line for line in lines}
    assert "4x a73 + 2x a53" in by_name["a311d"]
    assert "4x a78 + 4x a55" in by_name["qcs6490"]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_list_keeps_to_the_width(width: int) -> None:
    assert all(len(line) <= width for line in board_list(BOARDS, Style(width)).splitlines())


@pytest.mark.parametrize("name", [board.name for board in HARDWARE])
def test_a_sheet_shows_every_source_and_note(name: str) -> None:
    board = load_board(name)
    shown = " ".join(board_sheet(board, Style(2000)).split())
    for key, source in board.sources.items():
        assert f"{key} {' '.join(source.split())}" in shown
    assert all(" ".join(note.split()) in shown for note in board.notes)
    assert "not run on this hardware" in shown


def test_a_sheet_shows_extensions_caches_and_stack_constants() -> None:
    board = load_board("rk3588")
    shown = board_sheet(board, Style(200))
    for cluster in board.clusters:
        assert f"{load_core(cluster.core).title}, asimd, fp16, dotprod" in shown
    assert "3.00 MiB" in shown
    constant = board.stacks["rknn"].costs["npu_clock_ghz"]
    rows = [line.split() for line in shown.splitlines() if "npu_clock_ghz" in line]
    assert ["npu_clock_ghz", f"{constant.value:g}", constant.source] in rows
    limit = board.stacks["rknn"].memory["pool_limit_bytes"]
    rows = [line.split() for line in shown.splitlines() if "pool_limit_bytes" in line]
    assert ["pool_limit_bytes", f"{limit.value:g}", limit.source] in rows
