# SPDX-License-Identifier: Apache-2.0
"""Board profiles, and plans for several boards side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from rich.console import RenderableType
from rich.text import Text

from edgedeploy.planview import claimed_partitions, unrunnable
from edgedeploy.report.page import BAD, DIM, NPU, STRONG, Style, grid, render, text
from edgedeploy.text import duration, plural, ranges, size, times_faster
from edgedeploy_partitioner.errors import PlanningError
from edgedeploy_partitioner.plan import Plan
from edgedeploy_profiles import ProfileError, load_backend, load_core
from edgedeploy_profiles.schema import Board, Cluster, Quantity, Stack

COMPARED: tuple[tuple[Literal["left", "right"], int | None], ...] = (
    ("left", 22), ("right", 7), ("right", 7), ("right", 7), ("right", 8), ("right", 3), ("left", None),
)  # fmt: skip


def comparison(results: Mapping[str, Plan | PlanningError | ProfileError], style: Style) -> str:
    """One line a board, the fastest first, boards that cannot take the model last."""
    plans = {name: result for name, result in results.items() if isinstance(result, Plan)}
    failed = {name: result for name, result in results.items() if not isinstance(result, Plan)}
    rows = [[text((word, DIM)) for word in ("board", "latency", "from", "to", "peak", "NPU", "against the CPU")]]
    rows += [_compared(name, plan) for name, plan in sorted(plans.items(), key=lambda p: p[1].predicted.latency_ns)]
    return render(
        style,
        grid(rows, *COMPARED, indent=0),
        grid([(text((name, BAD)), text(str(error))) for name, error in failed.items()], *COMPARED[::6], indent=0),
        *_unrunnable(plans),
        text(("NPU and C-kernel partitions; analytical estimates, not run on hardware; -v: all", DIM)),
    )


def _unrunnable(plans: Mapping[str, Plan]) -> Iterator[Text]:
    """Why the model will not run, each reason once with its boards."""
    boards: dict[str, list[str]] = {}
    for name, plan in plans.items():
        for why in unrunnable(plan):
            boards.setdefault(why, []).append(name)
    return (text((f"not runnable on {', '.join(names)}: {why}", BAD)) for why, names in boards.items())


def _compared(name: str, plan: Plan) -> list[Text]:
    predicted = plan.predicted
    cpu = times_faster(predicted.latency_ns, plan.baselines.all_cpu.latency_ns)
    cpu_words = "all on it" if cpu == "the same" else cpu
    return [
        text((name, STRONG)),
        text((duration(predicted.latency_ns), STRONG)),
        text(duration(predicted.low_ns)),
        text(duration(predicted.high_ns)),
        text(size(plan.memory.peak_bytes)),
        text(str(len(claimed_partitions(plan)))),
        text(cpu_words),
    ]


def board_list(boards: Sequence[Board], style: Style) -> str:
    rows = [
        (
            text((b.name, STRONG)),
            text((", ".join(b.stacks) or "no NPU", NPU if b.stacks else DIM)),
            text(_cpus(b)),
            text(b.title),
        )
        for b in boards
    ]
    widths = [min(24, max((len(row[i].plain) for row in rows), default=4)) for i in range(3)]
    return render(style, grid(rows, *(("left", width) for width in widths), ("left", None), indent=0))


def _cpus(board: Board) -> str:
    """``4x a76 + 4x a55``; clusters of one core type count together."""
    cores: dict[str, int] = {}
    for cluster in board.clusters:
        name = cluster.core.removeprefix("cortex-")
        cores[name] = cores.get(name, 0) + len(cluster.cpus)
    return " + ".join(f"{count}x {name}" for name, count in cores.items())


def board_sheet(board: Board, style: Style) -> str:
    """Everything a profile says, every number with its source."""
    return render(style, *_sheet(board))


def _sheet(board: Board) -> Iterator[RenderableType]:
    yield text((board.title, STRONG), f" ({board.name}, SoC {board.soc})")
    yield text(("profile numbers, not run on this hardware by this project", DIM))
    if board.software:
        yield _section("Software", [(key, value, "") for key, value in board.software.items()])
    for cluster in board.clusters:
        yield _section(f"CPU cluster {cluster.name}: cpus {ranges(cluster.cpus)}, {cluster.core}", _cluster(cluster))
    machine = [
        ("RAM", *_said(board.ram.bandwidth_gb_s, "GB/s")),
        ("one invoke", *_said(board.overhead_us, "us")),
        ("delegate call", *_said(board.partition_handover_us, "us")),
        ("runtime", board.default_runtime, ""),
    ]
    yield _section("Machine", machine)
    for name, stack in board.stacks.items():
        yield _section(f"NPU stack {name}", _stack(stack))
        yield _section(f"NPU costs {name}", [(key, *_said(quantity, "")) for key, quantity in stack.costs.items()])
        if stack.memory:
            yield _section(
                f"NPU memory {name}", [(key, *_said(quantity, "")) for key, quantity in stack.memory.items()]
            )
    yield _section("Sources", [(key, value, "") for key, value in board.sources.items()])
    if board.notes:
        yield _section("Notes", [("-", note, "") for note in board.notes])


def _cluster(cluster: Cluster) -> list[tuple[str, str, str]]:
    caches = [("L1d", cluster.l1d_bytes), ("L2", cluster.l2_bytes), ("L3", cluster.l3_bytes)]
    core = load_core(cluster.core)
    return [
        ("core", f"{core.title}, {', '.join(core.isa)}" if core.isa else core.title, ""),
        ("clock", *_said(cluster.clock_ghz, "GHz")),
        ("bandwidth", *_said(cluster.bandwidth_gb_s, "GB/s, one core")),
        *((name, size(count), "") for name, count in caches if count is not None),
    ]


def _stack(stack: Stack) -> list[tuple[str, str, str]]:
    backend = load_backend(stack.backend)
    rules = plural(len(backend.rules), "rule")
    return [
        ("table", f"{backend.title}, SDK {backend.sdk_version}, {rules}, section {stack.soc}", ""),
        ("library", backend.library, ""),
        ("device", ", ".join(stack.device_nodes), ""),
    ]


def _said(quantity: Quantity, unit: str) -> tuple[str, str]:
    bounds = "" if quantity.low is None and quantity.high is None else f" ({quantity.lowest:g} to {quantity.highest:g})"
    return f"{quantity.value:g}{bounds} {unit}".strip(), quantity.source


def _section(title: str, rows: Sequence[tuple[str, str, str]]) -> RenderableType:
    from rich.console import Group

    width = min(30, max((len(name) for name, _, _ in rows), default=4))
    sourced = any(source for _, _, source in rows)
    columns: list[tuple[str, int | None]] = [("left", width), ("left", None)] + ([("left", 30)] if sourced else [])
    cells = [[text((a, DIM)), text(b), *([text((c, DIM))] if sourced else [])] for a, b, c in rows]
    return Group(text(), text((title, STRONG)), grid(cells, *columns))  # type: ignore[arg-type]
