# SPDX-License-Identifier: Apache-2.0
"""The report of ``edgedeploy verify``: each output beside each reference."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from edgedeploy.measure.claims import claims
from edgedeploy.measure.compare import Comparison, Difference
from edgedeploy.measure.verify import Reference, Verified
from edgedeploy.report.page import BAD, DIM, GOOD, STRONG, WARN, Style, grid, render, text
from edgedeploy.report.subject import claims_in_words, entry_lines
from edgedeploy.text import brief_ranges, plural, shape

ROWS_WIDTH = 40


def verify_report(found: Verified, style: Style) -> str:
    return render(style, *_pieces(found, style))


def _pieces(found: Verified, style: Style) -> Iterator[RenderableType]:
    runtime = f"{found.runtime['name']} {found.runtime['version']}"
    yield text((found.subject.name, STRONG), " on ", (found.device, STRONG), (f" ({runtime})", DIM))
    if style.depth >= 0:
        yield from entry_lines(found.subject)
    if found.runtime["xnnpack_ops"] == 0:
        yield text(("XNNPACK takes none of the ops: one set of kernels is compared with itself", WARN))
    claimed = claims(found.runtime, found.subject.plan)
    if claimed is not None and (claimed.differences or style.depth >= 0):
        yield text(f"{plural(claimed.partitions, 'partition')} of the plan ").append(claims_in_words(claimed))
    for reference in found.references:
        if style.depth >= 0:
            yield text()
        yield text("as ", (reference.name, STRONG), ": ", _outcome(reference))
        if style.depth >= 0:
            yield grid(_rows(reference.outputs), ("left", 20), ("left", 18), ("left", None))
    if style.depth >= 0:
        t = found.tolerance
        words = f"allowed: {t.max_lsb} LSB for quantised outputs, {t.atol:g} + {t.rtol:g} x expected for floats"
        given = "inputs as given" if found.seed is None else f"random inputs, seed {found.seed}"
        yield text()
        yield text((f"{words}; {given}", DIM))


def _outcome(reference: Reference) -> tuple[str, str]:
    if reference.ok:
        return "within what is allowed", GOOD
    wrong = sum(not output.ok for output in reference.outputs)
    return f"{wrong} of {plural(len(reference.outputs), 'output')} not", BAD


def _rows(outputs: Sequence[Comparison]) -> Iterator[tuple[Text, Text, Text]]:
    for each in outputs:
        if each.whole is None:
            told = text((each.problem, BAD))
        else:
            told = text((_distance(each, each.whole), "" if each.ok else BAD))
        yield text(each.name), text((f"{each.dtype} {shape(each.shape)}", DIM)), told


def _distance(output: Comparison, whole: Difference) -> str:
    if not whole.max_abs:
        return "equal"
    unit = " LSB" if output.in_lsb else ""
    cosine = "" if whole.cosine is None else f", cosine {whole.cosine:.6f}"
    told = f"off by up to {_number(whole.max_abs)}{unit}, mean {_number(whole.mean_abs)}{unit}{cosine}"
    if not whole.over:
        return told
    rows = [i for i, row in enumerate(output.rows) if row.over]
    where = f" in rows {brief_ranges(rows, ROWS_WIDTH)} of {len(output.rows)}" if len(output.rows) > 1 else ""
    return f"{told}; {whole.over} of {plural(whole.elements, 'value')} too far{where}"


def _number(value: float) -> str:
    return "infinity" if math.isinf(value) else f"{value:.3g}"
