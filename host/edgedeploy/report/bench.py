# SPDX-License-Identifier: Apache-2.0
"""The report of ``edgedeploy bench``: how fast, whether that is to be trusted, and what was predicted."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from edgedeploy.measure.bench import Bench
from edgedeploy.measure.claims import claims
from edgedeploy.report.page import BAD, DIM, GOOD, STRONG, WARN, Style, grid, render, text
from edgedeploy.report.subject import claims_in_words, entry_lines
from edgedeploy.text import duration, plural, ranges, size, times_faster

MEMORY = {
    "baseline_bytes": ("baseline", "resident without the model: Python and the runtime"),
    "after_load_bytes": ("after loading", ""),
    "after_allocate_bytes": ("after allocation", ""),
    "peak_bytes": ("peak", "most that was resident"),
    "pss_bytes": ("PSS", "at the end, shared pages divided among processes"),
    "arena_bytes": ("activation arena", "of all subgraphs"),
}


def bench_report(found: Bench, style: Style) -> str:
    return render(style, *_pieces(found, style))


def _pieces(found: Bench, style: Style) -> Iterator[RenderableType]:
    runtime = f"{found.runtime['name']} {found.runtime['version']}"
    used = f"{plural(found.threads, 'thread')} on CPU{'s' if len(found.cpus) > 1 else ''} {ranges(found.cpus)}"
    yield text((found.subject.name, STRONG), " on ", (found.device, STRONG), (f" ({runtime}, {used})", DIM))
    verdict = _verdict(found)
    if style.depth < 0:
        yield text(f"{duration(round(found.summary.median))} median, ").append(verdict)
        return
    yield from entry_lines(found.subject)
    yield text()
    rows = [(text((duration(round(found.summary.median)), STRONG)), Text("\n").join([*_latency(found), verdict]))]
    if found.plan is not None:
        predicted = found.plan.predicted
        rows.append((text((duration(predicted.latency_ns), STRONG)), Text("\n").join(_prediction(found))))
    yield grid(rows, ("right", 8), ("left", None))
    yield text()
    yield grid(_facts(found), ("left", 16), ("right", 9), ("left", None))
    if style.depth > 0:
        yield text()
        yield grid(_conditions(found), ("left", 18), ("right", 10), ("left", None))


def _latency(found: Bench) -> Iterator[Text]:
    summary = found.summary
    known = "" if summary.ci95 is None else f" ({duration(summary.ci95[0])} to {duration(summary.ci95[1])} with 95%)"
    yield text((f"median of {plural(summary.count, 'warm run')}{known}", STRONG))
    p99 = "" if summary.p99 is None else f", p99 {duration(summary.p99)}"
    yield text(f"fastest {duration(summary.min)}, p95 {duration(summary.p95)}{p99}")


def _verdict(found: Bench) -> Text:
    words = found.verdict if found.verdict == "valid" else f"{found.verdict}: {'; '.join(found.reasons)}"
    return text((words, verdict_style(found.verdict)))


def verdict_style(verdict: str) -> str:
    return {"valid": GOOD, "throttled": BAD}.get(verdict, WARN)


def _prediction(found: Bench) -> Iterator[Text]:
    from edgedeploy.report.headline import provenance

    assert found.plan is not None
    predicted = found.plan.predicted
    high = "no upper bound" if predicted.high_ns is None else duration(predicted.high_ns)
    yield text((f"predicted ({duration(predicted.low_ns)} to {high})", STRONG))
    measured = round(found.summary.median)
    yield text(f"{provenance(found.plan)}; measured {times_faster(measured, predicted.latency_ns)}")


def _facts(found: Bench) -> Iterator[tuple[Text, Text, Text]]:
    yield text("load"), text(duration(found.load_ns)), text(("making the interpreter, allocating its tensors", DIM))
    yield text("first run"), text(duration(found.first_run_ns)), text()
    ops, taken = found.runtime["ops"], found.runtime["xnnpack_ops"]
    if taken is not None:
        yield text("XNNPACK"), text(str(taken)), text((f"of {plural(ops, 'op')}", DIM))
    if (claimed := claims(found.runtime, found.subject.plan)) is not None:
        yield text("plan"), text(plural(claimed.partitions, "partition")), claims_in_words(claimed)
    for key, (name, definition) in MEMORY.items() if found.memory else ():
        value = (found.memory or {})[key]
        yield text(name), text(size(value)), text((definition + _against(found, key), DIM))


def _against(found: Bench, key: str) -> str:
    """The peak's growth beside its prediction."""
    memory = found.memory or {}
    if key != "peak_bytes" or memory[key] is None or memory["baseline_bytes"] is None:
        return ""
    grown = f": {size(memory[key] - memory['baseline_bytes'])} more"
    return grown if found.plan is None else f"{grown}, predicted {size(found.plan.memory.peak_bytes)}"


def _conditions(found: Bench) -> Iterator[tuple[Text, Text, Text]]:
    for each in found.conditions:
        clocks = [
            f"{c['now_khz'] / 1e6:.2f} GHz {c['governor']} on {ranges(c['cpus'])}"
            for c in each["clusters"]
            if c["now_khz"]
        ]
        hottest = max((t["celsius"] for t in each["temperatures"]), default=None)
        warm = [] if hottest is None else [f"{hottest:.0f} C"]
        load = "" if each["load"] is None else f"load {each['load']:.2f}"
        yield text(each["when"]), text(load), text((", ".join([*clocks, *warm, *each["throttled"]]), DIM))
