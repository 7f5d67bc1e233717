# SPDX-License-Identifier: Apache-2.0
"""docs/plans.md is what the planner says: goldens of 20 models on every board and stack, a sample planned again."""

from __future__ import annotations

import random
import re

import pytest

import plan_table

TEXT = plan_table.PAGE.read_text()
SECTIONS = dict(re.findall(r"^## (.+)\n\n.+\n.+\n((?:\|.*\n?)+)", TEXT, re.MULTILINE))
TARGETS = plan_table.targets()


def test_every_model_and_every_target_is_there() -> None:
    assert list(SECTIONS) == list(plan_table.models())
    for rows in SECTIONS.values():
        names = [tuple(cell.strip() for cell in line.split("|")[1:3]) for line in rows.splitlines()]
        assert names == [(t.board, t.stack or "-") for t in TARGETS]


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t.board} {t.stack or ''}".strip())
def test_a_row_is_what_is_planned_now(target: plan_table.Target) -> None:
    """Two models on each target, which ones by its name."""
    for model in random.Random(f"{target.board} {target.stack}").sample(list(SECTIONS), 2):
        assert plan_table.row(model, target) in SECTIONS[model].splitlines(), f"{model}: say make docs"
