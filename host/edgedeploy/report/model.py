# SPDX-License-Identifier: Apache-2.0
"""What is in a model file, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from rich.console import RenderableType
from rich.text import Text

from edgedeploy.inspection import ModelFacts, OpFacts, SubgraphFacts, TensorFacts
from edgedeploy.report.page import BAD, DIM, GOOD, STRONG, WARN, Style, grid, render, text
from edgedeploy.text import brief_ranges, count, plural, shape, size
from edgedeploy.trial import Trial
from edgedeploy_partitioner.model.facts import Finding

OPS_SHOWN = 60
OP_COLUMNS: tuple[tuple[Literal["left", "right"], int | None], ...] = (
    ("left", 4), ("left", 17), ("left", None), ("right", 6), ("right", 8), ("right", 5), ("left", 7),
)  # fmt: skip


def model_report(facts: ModelFacts, style: Style) -> str:
    return render(style, *_pieces(facts, style))


def _pieces(facts: ModelFacts, style: Style) -> Iterator[RenderableType]:
    ops = sum(len(sub.ops) for sub in facts.subgraphs)
    yield text((facts.name, STRONG), f", {size(facts.bytes)}, {facts.dtype_class}")
    yield text(f"{plural(ops, 'op')}, {count(facts.macs)} MACs, {size(facts.constant_bytes)} of constants")
    if facts.compiled_for:
        yield text((f"already compiled for {facts.compiled_for}: nothing to partition", WARN))
    if style.depth < 0:
        if facts.trial:
            yield _trial(facts.trial)
        return
    yield text((f"sha256 {facts.sha256}", DIM))
    if facts.description:
        yield text((facts.description, DIM))
    for signature in facts.signatures:
        names = f"{', '.join(signature.inputs)} {style.arrow} {', '.join(signature.outputs)}"
        yield text(f"signature {signature.key} (subgraph {signature.subgraph}): {names}")
    for sub in facts.subgraphs:
        yield from _subgraph(sub, len(facts.subgraphs) > 1, style)
    yield from _findings("Oddities", facts.oddities, WARN)
    runtime = f"{facts.refused.runtime} {facts.refused.version}"
    yield from _findings(f"What {runtime} will refuse", facts.refused.findings, BAD)
    if not facts.refused.findings:
        yield text()
        yield text((f"nothing is known that {runtime} would refuse", DIM))
    if facts.trial:
        yield text()
        yield _trial(facts.trial)


def _trial(trial: Trial) -> Text:
    where = f"{trial.runtime or 'the runtime'} on this machine"
    if trial.ok:
        delegated = (
            f"{plural(trial.xnnpack_partitions, 'XNNPACK partition')}" if trial.xnnpack_partitions else "no XNNPACK"
        )
        return text(("it runs", GOOD), f" in {where}, {delegated}")
    return text((f"{trial.outcome} at {trial.stage}", BAD), f" in {where}: {trial.message}")


def _findings(title: str, found: Sequence[Finding], color: str) -> Iterator[RenderableType]:
    if found:
        yield text()
        yield text((title, STRONG))
        yield grid([(text(("!", color)), text(str(each))) for each in found], ("left", 1), ("left", None))


def _subgraph(sub: SubgraphFacts, several: bool, style: Style) -> Iterator[RenderableType]:
    yield text()
    if several:
        yield text((f"subgraph {sub.index} {sub.name}", STRONG))
    borders = [("in", t) for t in sub.inputs] + [("out", t) for t in sub.outputs]
    yield grid(
        [(text((side, DIM)), text(f"{t.name or f'tensor {t.id}'} {_tensor(t)}{_scale(t)}")) for side, t in borders],
        ("left", 3),
        ("left", None),
    )
    rows = [_op(op) for op in sub.ops if not op.folded]
    shown = rows if style.depth > 0 else rows[:OPS_SHOWN]
    header = [text((word, DIM)) for word in ("op", "", "output", "MACs", "bytes", "MAC/B", "weights")]
    yield grid([header, *_folded(sub), *shown], *OP_COLUMNS)
    if len(shown) < len(rows):
        yield text((f"  and {plural(len(rows) - len(shown), 'op')} more: -v shows all", DIM))


def _folded(sub: SubgraphFacts) -> Iterator[list[Text]]:
    """One row for all ops that only unpack constants."""
    if found := [op for op in sub.ops if op.folded]:
        names = ", ".join(dict.fromkeys(op.op for op in found))
        label = brief_ranges([op.index for op in found], OP_COLUMNS[0][1])
        yield [
            text((label, DIM)),
            text((names, DIM)),
            text(("folded constants", DIM)),
            *(text() for _ in OP_COLUMNS[3:]),
        ]


def _op(op: OpFacts) -> list[Text]:
    out = next((t for t in op.outputs if t), None)
    return [
        text(str(op.index)),
        text(op.custom_code or op.op),
        text((_tensor(out) if out else "", DIM)),
        text(count(op.macs) if op.macs else ""),
        text(size(op.read_bytes + op.written_bytes)),
        text(f"{op.intensity:.1f}" if op.macs else ""),
        text((_weights(op) if op.macs else "", DIM)),
    ]


def _weights(op: OpFacts) -> str:
    """Type in the file of the largest constant input, and how it is scaled: per channel or per block."""
    constants = [t for t in op.inputs if t and t.constant]
    if not constants:
        return ""
    largest = max(constants, key=lambda t: t.bytes)
    q = largest.quantization
    scaled = "" if q is None else "/bl" if q.block_size else "/ch" if q.scales > 1 else ""
    return largest.stored_dtype + scaled + (" sparse" if largest.sparse else "")


def _tensor(t: TensorFacts) -> str:
    return f"{shape(t.signature or t.shape)} {t.dtype}"


def _scale(t: TensorFacts) -> str:
    q = t.quantization
    if q is None or q.scale is None:
        return ""
    return f", scale {q.scale:.4g}, zero point {q.zero_point}" if q.scales == 1 else f", {q.scales} scales"
