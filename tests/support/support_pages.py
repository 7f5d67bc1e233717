# SPDX-License-Identifier: Apache-2.0
"""``docs/support/``: the support tables as pages. ``python -m support.support_pages`` writes them again."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import edgedeploy_profiles as profiles
from edgedeploy_partitioner.support.predicates import find
from edgedeploy_profiles.schema import Backend, Board, Refusal, Requirement, Rule, TransposeBound

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "support"
PROFILES = ROOT / "profiles" / "edgedeploy_profiles"
INDEX = "README.md"
_LEGEND = """\
| mark | meaning |
|---|---|
| yes | runs on the NPU, as long as what holds for every op does |
| if | runs on the NPU within the limits on the stack's page |
| lane | runs in the vendor's runtime, but on the ARM cores |
| ? | listed without limits that decide it: planned as refused until `--assume-unknown supported` |
| - | refused, or not in the table |
"""
_MARKS = ("yes", "if", "lane", "?", "-")


def names(kind: str) -> list[str]:
    """The files of the package of one kind, e.g. ``backends``; a user's own do not count."""
    return sorted(path.stem for path in (PROFILES / kind).glob("*.toml"))


def tables() -> list[Backend]:
    return [profiles.load_backend(name) for name in names("backends")]


def boards_with(table: Backend) -> list[Board]:
    boards = map(profiles.load_board, names("boards"))
    return [board for board in boards if any(stack.backend == table.name for stack in board.stacks.values())]


def pages() -> dict[str, str]:
    """File name -> text of every page."""
    made = {f"{table.name}.md": page(table) for table in tables()}
    return {INDEX: index(tables()), **made}


# --- one stack ----------


def page(table: Backend) -> str:
    sections = [
        _head(table), _every_op(table), _ops(table), _transposes(table), _fusions(table), _refused(table),
        _sources(table),
    ]  # fmt: skip
    return "\n".join(section for section in sections if section)


def _head(table: Backend) -> str:
    boards = ", ".join(f"`{board.name}`" for board in boards_with(table)) or "none"
    facts = [
        ("table of", table.sdk_version),
        ("SoCs", _words(table.socs)),
        ("boards", boards),
        ("who claims the ops", _claimer(table)),
        ("kernels", _words(table.kernels) if len(table.kernels) > 1 else ""),
        ("computed types", ", ".join(f"{given} as {computed}" for given, computed in table.computes_as.items())),
        *_layouts(table),
        ("axes of the rules", table.vendor_axes),
        ("partitions in a model", f"at most {table.max_partitions}" if table.max_partitions else "no limit known"),
        ("compiled to", f"`{table.artifact}` files" if table.artifact else ""),
    ]
    intro = _comment(PROFILES / "backends" / f"{table.name}.toml")
    made = f"Made by `make docs` from `profiles/edgedeploy_profiles/backends/{table.name}.toml`."
    lines = [f"# {table.title} (`{table.name}`)", "", f"{intro} {made}", ""]
    return "\n".join([*lines, *_table(("", ""), ((name, text) for name, text in facts if text))])


def _comment(path: Path) -> str:
    """The comment under the licence line."""
    head = itertools.takewhile(lambda line: line.startswith("#"), path.read_text().splitlines()[1:])
    return _cell(" ".join(line.removeprefix("#").strip() for line in head))


def _claimer(table: Backend) -> str:
    if table.delegate == "edgedeploy":
        return f"edgedeploy's own delegate, over `{table.library}`"
    return f"the stock delegate {table.delegate}, `{table.library}`"


def _layouts(table: Backend) -> Iterator[tuple[str, str]]:
    for of, layouts in (
        ("", table.layouts),
        *((f" on {soc}", table.layouts_by_soc[soc]) for soc in table.layouts_by_soc),
    ):
        yield f"native layout{of}", ", ".join(f"{dtype} {layout}" for dtype, layout in layouts.items()) or "NHWC"


def _every_op(table: Backend) -> str:
    rows = [
        (find(name).needs(parameter), row.otherwise, _where(row), _source(row.source))
        for row in table.every_op
        for name, parameter in row.require.items()
    ]
    if not rows:
        return ""
    return "\n".join(["", "## What every op needs", "", *_table(("needs", "otherwise", "only for", "source"), rows)])


def _where(row: Requirement) -> str:
    others = (f"all but {op}" for op in row.except_ops)
    return _words(filter(None, (*row.kernels, *row.socs, *row.ops, *others, row.sdk_version)))


def _ops(table: Backend) -> str:
    head = ("op", "becomes", "kernel", "needs", "verdict", "SoCs", "seen in", "source")
    found = sorted(
        ((code, number, rule) for number, rule in enumerate(table.rules) for code in rule.maps_to),
        key=lambda entry: entry[:2],
    )
    text = "Rows of one op are alternatives: the best that fits counts."
    return "\n".join(["", "## Ops", "", text, "", *_table(head, (_op(code, rule, table) for code, _, rule in found))])


def _op(code: str, rule: Rule, table: Backend) -> tuple[str, ...]:
    needs = "; ".join(find(name).needs(parameter) for name, parameter in rule.require.items())
    verdict = f"{rule.verdict}: {rule.note}" if rule.verdict == "unknown" and rule.note else rule.verdict
    aside = f" ({rule.note})" if rule.verdict == "supported" and rule.note else ""
    where = (_words(rule.socs or ("all",)), _seen(rule, table), _source(rule.source))
    return (code, rule.maps_to[code], rule.kernel, needs + aside, verdict, *where)


def _transposes(table: Backend) -> str:
    if not table.transposes:
        return ""
    by_perm: dict[tuple[tuple[int, ...], tuple[str, ...]], list[TransposeBound]] = {}
    for row in table.transposes:
        by_perm.setdefault((row.perm, row.socs), []).append(row)
    rows = [
        (" ".join(map(str, perm)), "; ".join(filter(None, map(_bound, bounds))) or "always", _words(socs or ("all",)))
        for (perm, socs), bounds in sorted(by_perm.items())
    ]
    text = f"By permutation, in the axes {table.vendor_axes}; one that is not here is refused."
    return "\n".join(["", "## Transpositions", "", text, "", *_table(("permutation", "needs", "SoCs"), rows)])


def _bound(row: TransposeBound) -> str:
    below = f"below {row.less_than}" if row.less_than is not None else ""
    multiple = f"a multiple of {row.multiple_of}" if row.multiple_of else ""
    told = " and ".join(filter(None, (below, multiple)))
    return f"{'*'.join(row.product)} {told}{f' ({row.dtype})' if row.dtype else ''}" if told else ""


def _fusions(table: Backend) -> str:
    rows = []
    for rule in table.rules:
        if rule.fusion:
            how = "in no other way" if rule.fusion.required else "or by itself"
            operand = _words(f"input {i}" for i in rule.fusion.inputs) or "any input"
            rows.append((_words(rule.maps_to), _words(rule.fusion.into), operand, how, _source(rule.source)))
    head = ("ops", "inside", "which makes", "runs", "source")
    return "\n".join(["", "## Fusions", "", *_table(head, rows)]) if rows else ""


def _refused(table: Backend) -> str:
    rows = [
        (_words(row.ops), row.reason, _words(row.socs or ("all",)), _seen(row, table), _source(row.source))
        for row in table.refusals
    ]
    head = ("ops", "why", "SoCs", "seen in", "source")
    return "\n".join(["", "## Refused by name", "", *_table(head, rows)]) if rows else ""


def _seen(row: Rule | Refusal, table: Backend) -> str:
    return f"{row.evidence}, {row.sdk_version or table.sdk_version}"


def _sources(table: Backend) -> str:
    return "\n".join(["", "## Sources", "", *(f"- `{key}`: {_cell(text)}" for key, text in table.sources.items()), ""])


# --- the index ----------


def index(found: Sequence[Backend]) -> str:
    stacks = [
        (f"[{table.title}]({table.name}.md)", f"`{table.name}`", table.sdk_version, _words(table.socs),
         _words(board.name for board in boards_with(table)))
        for table in found
    ]  # fmt: skip
    ops = sorted({code for table in found for rule in table.rules for code in rule.maps_to})
    matrix = [(op, *(mark(table, op) for table in found)) for op in ops]
    text = (
        "What each NPU stack takes of TFLite's ops, as far as its sources say; made by `make docs` from the tables in "
        "`profiles/edgedeploy_profiles/backends/`. A table is a claim, see [how to read one](../adding-an-npu.md). "
        "None of it was run on hardware."
    )
    return "\n".join(
        [
            "# Support", "", text, "", *_table(("stack", "name", "table of", "SoCs", "boards"), stacks), "",
            "Where SoCs or kernels differ, the best counts.", "", _LEGEND,
            *_table(("op", *(f"[{table.name}]({table.name}.md)" for table in found)), matrix), "",
        ]
    )  # fmt: skip


def mark(table: Backend, op: str) -> str:
    """The best that the table says of an op, as a mark of the legend."""
    marks = [_mark(table, rule) for rule in table.rules if op in rule.maps_to]
    return min(marks, key=_MARKS.index, default="-")


def _mark(table: Backend, rule: Rule) -> str:
    if rule.verdict == "unknown":
        return "?"
    if rule.kernel != table.kernels[0]:
        return "lane"
    return "if" if rule.require or (rule.fusion and rule.fusion.required) else "yes"


# --- Markdown ----------


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    yield _row(head)
    yield "|" + "---|" * len(head)
    yield from map(_row, rows)


def _row(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(_cell(str(cell)) for cell in cells)} |"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _words(items: Iterable[str]) -> str:
    return ", ".join(items)


def _source(source: str) -> str:
    return source if source.startswith("assumed:") else f"`{source}`"


if __name__ == "__main__":
    os.environ["XDG_CONFIG_HOME"] = os.devnull  # a user's own tables do not count
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
