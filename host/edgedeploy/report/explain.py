# SPDX-License-Identifier: Apache-2.0
"""Every verdict on every op, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from edgedeploy.planview import op_label
from edgedeploy.report.page import BAD, DIM, GOOD, STRONG, WARN, Style, grid, render, text
from edgedeploy.text import duration, shape
from edgedeploy_partitioner.checker.wishes import names, parse_wish
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.plan import CandidateEntry, OpEntry, Plan

COLORS = {"supported": GOOD, "refused": BAD, "unknown": WARN}


def select(plan: Plan, wanted: str | None) -> tuple[OpEntry, ...]:
    """All ops, or those that an index, ``3-9``, ``subgraph:index`` or an operator name names. Raises InputError."""
    if wanted is None:
        return plan.ops
    main = plan.main
    wish = parse_wish(f"{wanted or '-'}=cpu")
    found = tuple(op for op in plan.ops if names(wish, op.subgraph, op.index, op.custom_code or op.op, main))
    if not found:
        counts = ", ".join(f"{_highest(plan, use.index)} in subgraph {use.index}" for use in plan.subgraphs)
        raise InputError(f"--op {wanted}: no such op; the highest index is {counts}")
    return found


def _highest(plan: Plan, subgraph: int) -> int:
    return max((op.index for op in plan.ops if op.subgraph == subgraph), default=-1)


def explanation(plan: Plan, ops: Sequence[OpEntry], graph: Graph, style: Style) -> str:
    return render(style, *_pieces(plan, ops, graph, style))


def _pieces(plan: Plan, ops: Sequence[OpEntry], graph: Graph, style: Style) -> Iterator[RenderableType]:
    where = plan.inputs.board.name + (f" ({plan.inputs.board.stack})" if plan.inputs.board.stack else "")
    yield text((plan.inputs.model.name, STRONG), " on ", (where, STRONG))
    yield text(("costs are analytical estimates unless said otherwise; not run on hardware", DIM))
    sources = {source: i for i, source in enumerate(dict.fromkeys(_source(c) for op in ops for c in op.candidates), 1)}
    width = max((len(f"{c.backend}/{c.kernel}") for op in ops for c in op.candidates), default=1)
    for op in ops:
        yield text()
        yield _title(plan, op)
        yield Padding(text((_types(op, graph, style), DIM)), (0, 0, 0, 2))
        rows = [_candidate(c, sources[_source(c)]) for c in op.candidates]
        yield grid(rows, ("left", min(width, 20)), ("left", 9), ("right", 7), ("left", None))
    if sources:
        yield text()
        yield text(("Sources", STRONG))
        yield grid([(text(f"[{i}]"), text(source)) for source, i in sources.items()], ("left", 4), ("left", None))


def _title(plan: Plan, op: OpEntry) -> RenderableType:
    label = op_label(plan, (op.subgraph, op.index))
    chosen = "folded into constants" if op.folded else f"{op.backend}/{op.kernel}, {duration(op.predicted_ns)}"
    inside = "" if op.fused_into is None else f" inside op {op_label(plan, (op.subgraph, op.fused_into))}"
    return text((f"op {label} {op.custom_code or op.op}: {chosen}{inside}", STRONG))


def _types(op: OpEntry, graph: Graph, style: Style) -> str:
    ins, outs = (" ".join(_tensor(graph, op.subgraph, t) for t in side) for side in (op.inputs, op.outputs))
    return f"{ins} {style.arrow} {outs}"


def _tensor(graph: Graph, subgraph: int, id_: int) -> str:
    if id_ < 0:
        return "-"
    tensor = graph.tensor(subgraph, id_)
    return f"{tensor.dtype.value}[{shape(tensor.shape)}]"


def _candidate(c: CandidateEntry, source: int) -> list[Text]:
    how = f" ({c.provenance})" if c.provenance and c.provenance != "analytical" else ""
    return [
        text(f"{c.backend}/{c.kernel}"),
        text((c.verdict, COLORS[c.verdict])),
        text(duration(c.predicted_ns) if c.predicted_ns is not None else ""),
        text(f"{c.reason}{how}{' ' * bool(c.reason)}", (f"(rule {c.rule}) [{source}]", DIM)),
    ]


def _source(c: CandidateEntry) -> str:
    source = c.source or f"the support table of {c.backend}"
    return f"{source}, SDK {c.sdk_version}" if c.sdk_version else source
