# SPDX-License-Identifier: Apache-2.0
"""Every support table has a page, a test and a board; every predicate has cases, a table and a line on a page.

Nothing is listed here: tables, predicates, boards, pages and tests are found by looking.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import edgedeploy_kernels
import edgedeploy_profiles as profiles
from edgedeploy_partitioner.support.kernels import kernel_table
from edgedeploy_partitioner.support.predicates import PREDICATES, find
from edgedeploy_partitioner.support.verdicts import verdicts
from edgedeploy_profiles.schema import Backend, Requirement, Rule
from support import boundaries
from support.examples import example
from support.support_pages import FOLDER, boards_with, mark, names, pages, tables

TABLES = {table.name: table for table in tables()}
PAGES = pages()
OPS = sorted({op for table in TABLES.values() for rule in table.rules for op in rule.maps_to})


def requirements(table: Backend) -> Iterator[tuple[str, Any]]:
    """(predicate, parameter) of every row."""
    rows: tuple[Requirement | Rule, ...] = (*table.every_op, *table.rules)
    for row in rows:
        yield from row.require.items()


# --- pages ----------


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_the_tables_say(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name], "run `make docs`"


def test_no_page_is_left_over() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {"README.md", *(f"{name}.md" for name in names("backends"))}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", PAGES[name])
    assert not [link for link in links if not (FOLDER / link).exists()]


@pytest.mark.parametrize("name", PAGES)
def test_every_line_of_a_table_has_the_columns_of_its_head(name: str) -> None:
    columns = 0
    for line in PAGES[name].splitlines():
        found = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not columns or found in (0, columns), line
        columns = found


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_page_has_a_line_for_every_op_and_source(table: Backend) -> None:
    lines = PAGES[f"{table.name}.md"].splitlines()
    for rule in table.rules:
        for op, becomes in rule.maps_to.items():
            assert [line for line in lines if line.startswith(f"| {op} | {becomes} | {rule.kernel} |")]
    for refusal in table.refusals:
        assert [line for line in lines if line.startswith(f"| {', '.join(refusal.ops)} | ")]
    assert {key for key in table.sources if any(line.startswith(f"- `{key}`: ") for line in lines)} == {*table.sources}


def test_the_index_has_a_line_for_every_op_and_a_column_for_every_stack() -> None:
    lines = PAGES["README.md"].splitlines()
    for op in OPS:
        assert f"| {op} | {' | '.join(mark(table, op) for table in TABLES.values())} |" in lines


@pytest.mark.parametrize(
    ("stack", "op", "expected"),
    [
        ("vx", "CONV_2D", "if"),
        ("vx", "RELU", "yes"),
        ("vx", "TILE", "-"),
        ("qnn", "CONV_2D", "?"),
        ("rknn", "CAST", "lane"),
    ],
)
def test_marks(stack: str, op: str, expected: str) -> None:
    assert mark(TABLES[stack], op) == expected


# --- predicates ----------


def test_every_predicate_has_a_case_where_it_holds_and_one_where_it_breaks() -> None:
    modules = list(boundaries.modules())
    missing = set(PREDICATES) - boundaries.declared(modules) - boundaries.shown(modules, TABLES.values())
    assert not missing, "list them as BOUNDARIES of a tests/partitioner/test_support_*.py"


def test_every_predicate_is_used_by_a_table() -> None:
    kernels = kernel_table(profiles.load_kernels(edgedeploy_kernels.manifest()))
    assert set(PREDICATES) <= {name for table in (*TABLES.values(), kernels) for name, _ in requirements(table)}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_requirement_is_on_its_page_in_words(table: Backend) -> None:
    text = PAGES[f"{table.name}.md"]
    for name, parameter in requirements(table):
        assert find(name).needs(parameter).replace("|", "\\|") in text


# --- tables ----------


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_a_test(name: str) -> None:
    tests = [*boundaries.FOLDER.glob("test_support_*.py"), *boundaries.SHARED.glob("*.py")]
    assert [path for path in tests if f'load_backend("{name}")' in path.read_text()]


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_on_a_board(name: str) -> None:
    assert boards_with(TABLES[name])


@pytest.mark.parametrize("name", names("boards"))
def test_every_stack_of_a_board_has_a_table_with_its_soc(name: str) -> None:
    for stack in profiles.load_board(name).stacks.values():
        assert stack.soc in TABLES[stack.backend].socs


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_table_has_an_answer_for_every_op_of_all_tables(table: Backend) -> None:
    for soc in table.socs:
        for op in OPS:
            for dtype in ("int8", "float32"):
                found = verdicts(*example(op, dtype), table, soc)
                assert found
                assert all(judged.reason.isprintable() and judged.reason for judged in found)
