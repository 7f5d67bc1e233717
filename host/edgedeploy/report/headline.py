# SPDX-License-Identifier: Apache-2.0
"""The first lines of a plan's report: how fast, against what, how much memory, how many partitions."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from edgedeploy.planview import claimed_partitions, unrunnable
from edgedeploy.report.page import BAD, DIM, GOOD, STRONG, WARN, Style, grid, text
from edgedeploy.report.runs import ops_that_run
from edgedeploy.text import duration, plural, size, times_faster
from edgedeploy_partitioner.plan import Memory, Plan
from edgedeploy_partitioner.support.kernels import NEON

STOCK = "stock TFLite partitioning"
"""The baseline of a delegate that takes all it supports, which is what TFLite does without a plan."""
MEMORY_LINES = {
    "arena_bytes": "activation arena", "persistent_bytes": "persistent tensors", "packed_bytes": "XNNPACK's own",
    "delegate_internal_bytes": "delegate's own", "npu_pool_bytes": "NPU pool", "handover_bytes": "hand-over buffers",
    "interpreter_bytes": "interpreter", "model_bytes": "model file",
}  # fmt: skip


def headline(plan: Plan, style: Style) -> Iterator[RenderableType]:
    """Title and the three big numbers, each with where it comes from."""
    inputs = plan.inputs
    versions = [f"{b.name} {b.sdk_version}" for b in plan.backends if b.sdk_version]
    if not versions and inputs.board.stack:
        versions = [f"{name} {table.sdk_version}" for name, table in inputs.tables.items()]
    software = ", ".join([*versions, f"{inputs.runtime.name} {inputs.runtime.version}"])
    yield text((inputs.model.name, STRONG), " on ", (inputs.board.name, STRONG), (f" ({software})", DIM))
    if style.depth < 0:
        yield text(f"{duration(plan.predicted.latency_ns)} predicted, {_against(plan)[0]}")
        yield from _unrunnable(plan)
        return
    yield from _unrunnable(plan)
    numbers = (_latency(plan, style), _memory(plan.memory), _partitions(plan))
    yield text()
    yield grid(
        [(text((number, STRONG)), Text("\n").join(lines)) for number, lines in numbers], ("right", 8), ("left", None)
    )


def _unrunnable(plan: Plan) -> Iterator[RenderableType]:
    yield from (text((f"not runnable: {why}", BAD)) for why in unrunnable(plan))


def _latency(plan: Plan, style: Style) -> tuple[str, list[Text]]:
    predicted = plan.predicted
    high = "no upper bound" if predicted.high_ns is None else duration(predicted.high_ns)
    bounds = f"predicted latency ({duration(predicted.low_ns)} to {high})"
    lines = [text((bounds, STRONG)), text((provenance(plan), WARN if not _measured(plan) else GOOD))]
    lines += [text((words, _mood(words))) for words in (*_against(plan), *_against_limit(plan))]
    if predicted.cold_start_ns is not None:
        lines.append(text((f"the first run with loading and compiling: {duration(predicted.cold_start_ns)}", DIM)))
    if style.depth > 0 and plan.baselines.stock_delegate is not None:
        lines.append(text((f"{STOCK}: a delegate that takes all it supports", DIM)))
    return duration(predicted.latency_ns), lines


def _measured(plan: Plan) -> bool:
    return all(op.provenance == "measured" for op in ops_that_run(plan))


def provenance(plan: Plan) -> str:
    """Where the times come from: how many ops were measured, and that the rest was not."""
    kinds = [op.provenance for op in ops_that_run(plan)]
    known = [f"{kinds.count(kind)} {kind}" for kind in ("measured", "calibrated") if kind in kinds]
    if not known:
        return "analytical estimate, not run on hardware"
    rest = kinds.count("analytical")
    return f"of {plural(len(kinds), 'op')}: {', '.join(known)}" + (f", {rest} analytical (not run)" if rest else "")


def _against(plan: Plan) -> list[str]:
    """The plan against its baselines, in words."""
    latency, cpu, stock = plan.predicted.latency_ns, plan.baselines.all_cpu, plan.baselines.stock_delegate
    if on_cpu_only(plan):
        lines = ["everything stays on the CPU" if plan.inputs.board.stack else "all on the CPU: no NPU is planned for"]
        if stock is not None and stock.partitions:
            compared = times_faster(stock.latency_ns, latency)
            lines.append(f"{STOCK}: {compared} ({_stock(stock.latency_ns, stock.partitions)})")
        return lines
    lines = [f"{times_faster(latency, cpu.latency_ns)} than all on the CPU ({duration(cpu.latency_ns)})"]
    if stock is not None:
        what = _stock(stock.latency_ns, stock.partitions)
        compared = times_faster(latency, stock.latency_ns)
        lines.append(f"the same as {STOCK} ({what})" if compared == "the same" else f"{compared} than {STOCK} ({what})")
    return lines


def _against_limit(plan: Plan) -> list[str]:
    """What the memory limit costs."""
    free, limit = plan.baselines.without_limit, plan.inputs.options.memory_limit_bytes
    if free is None or limit is None:
        return []
    kept = f"--memory-limit {size(limit)}"
    if free.latency_ns == plan.predicted.latency_ns:
        return [f"{kept} costs nothing"]
    compared = times_faster(plan.predicted.latency_ns, free.latency_ns)
    peak = "" if free.peak_bytes is None else f", peak {size(free.peak_bytes)}"
    return [f"{compared} than without {kept} ({duration(free.latency_ns)}{peak})"]


def _stock(latency_ns: int, partitions: int) -> str:
    return f"{duration(latency_ns)}, {plural(partitions, 'partition')}"


def _mood(words: str) -> str:
    return GOOD if "faster than" in words else BAD if "slower than" in words else ""


def on_cpu_only(plan: Plan) -> bool:
    return all(op.backend == "cpu" for op in ops_that_run(plan))


def _memory(memory: Memory) -> tuple[str, list[Text]]:
    known = [(getattr(memory, key), words) for key, words in MEMORY_LINES.items()]
    missing = [words for value, words in known if value is None]
    low, top = memory.peak_low_bytes, memory.peak_high_bytes
    high = (
        f" (from {size(low)}, no upper bound)" if top is None else f" ({size(low)} to {size(top)})" if low < top else ""
    )
    first = text((f"peak memory{', at least' if missing else ''}{high}", STRONG))
    exact = "exact" if memory.arena_exact else "modelled"
    parts = [
        f"{words} {size(value)}{f' ({exact})' if words == 'activation arena' else ''}"
        for value, words in known
        if value
    ]
    less = f" - never written {size(memory.unwritten_bytes)}" if memory.unwritten_bytes else ""
    lines = [first, text(" + ".join(parts) + less)]
    if missing:
        lines.append(text((f"not modelled: {', '.join(missing)}", WARN)))
    return size(memory.peak_bytes), lines


def _partitions(plan: Plan) -> tuple[str, list[Text]]:
    ours = claimed_partitions(plan)
    ops = ops_that_run(plan)
    backends = {b: sum(op.backend == b for op in ops) for b in dict.fromkeys(op.backend for op in ops)}
    spread = ", ".join(f"{n} on {'the CPU' if b == 'cpu' else b}" for b, n in backends.items())
    folded = sum(op.folded for op in plan.ops)
    constant = f", {folded} folded into constants" if folded else ""
    proof = (
        "proved optimal for this execution order"
        if plan.solver.status == "optimal"
        else f"at most {_gap(plan)} from optimal for this execution order"
    )
    claimed = {p.id for p in ours}
    kinds = sorted({"C-kernel" if s.backend == NEON else "NPU" for s in plan.segments if s.partition in claimed})
    noun = f"{' and '.join(reversed(kinds)) or 'NPU'} partition{'' if len(ours) == 1 else 's'}"
    return str(len(ours)), [text((f"{noun}; of {plural(len(ops), 'op')} {spread}{constant}", STRONG)), text(proof)]


def _gap(plan: Plan) -> str:
    bound = plan.solver.lower_bound_ns
    return f"{100 * (plan.solver.objective_ns - bound) / bound:.1f}%" if bound > 0 else "an unknown amount"
