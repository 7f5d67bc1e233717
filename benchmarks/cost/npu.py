# SPDX-License-Identifier: Apache-2.0
"""Published latencies of NPUs other than Rockchip's with its own runtime, against the cost models.

    python -m benchmarks.cost.npu [-v]

As a stock delegate does it: every op that the support table does not refuse runs on the NPU (not those that are unknown
because versions differ: the published figures are of older software), the others on the CPU with XNNPACK, and tensors
are handed over where the two meet. Prices are those of the product's own models. ``kind`` of a row is ``delegate`` for
one invoke through the TFLite delegate, ``runtime`` for the vendor's own program.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from benchmarks.cost import GROUPS
from benchmarks.cost.networks import classic, light, mlperf_tiny, plain, small, yolo
from edgedeploy_partitioner.cost import Cost, CpuCost, NpuCost, npu_cost
from edgedeploy_partitioner.model.graph import Graph, Op, Subgraph
from edgedeploy_partitioner.support.verdicts import Judged, verdicts
from edgedeploy_profiles import load_backend, load_board, load_core, load_kernel_costs
from edgedeploy_profiles.schema import Backend, Board

NETWORKS: dict[str, Callable[[int, str], Graph]] = {
    "mobilenet_v1": lambda size, dtype: classic.mobilenet_v1(size, dtype=dtype),
    "mobilenet_v1_0.25": lambda size, dtype: classic.mobilenet_v1(size, 0.25, dtype),
    "mobilenet_v2": lambda size, dtype: classic.mobilenet_v2(size, dtype=dtype),
    "mobilenet_v2_0.5": lambda size, dtype: classic.mobilenet_v2(size, 0.5, dtype),
    "resnet18": light.resnet18,
    "resnet50": classic.resnet50,
    "resnet50_v2": lambda size, dtype: classic.resnet50(size, dtype, version=2),
    "deeplab_v3_mobilenet_v2_0.5": lambda size, dtype: classic.deeplab_v3_mobilenet_v2(size, dtype, 0.5),
    "ssd_mobilenet_v1": classic.ssd_mobilenet_v1,
    "ssdlite_mobilenet_v2": plain.ssdlite_mobilenet_v2,
    "inception_v1": plain.inception_v1,
    "inception_v3": plain.inception_v3,
    "inception_v4": plain.inception_v4,
    "squeezenet": plain.squeezenet,
    "squeezenet_1_1": light.squeezenet_1_1,
    "vgg16": lambda _, dtype: plain.vgg(16, dtype),
    "vgg19": lambda _, dtype: plain.vgg(19, dtype),
    "yolov8n": lambda size, dtype: yolo.yolov8("n", size, dtype),
    "wav2letter": small.wav2letter,
    "ds_cnn_kws": lambda _, dtype: small.ds_cnn_kws(dtype),
    "vww": lambda _, dtype: mlperf_tiny.visual_wake_words(dtype),
    "tiny_resnet": lambda _, dtype: mlperf_tiny.tiny_resnet(dtype),
    "deep_autoencoder": lambda _, dtype: mlperf_tiny.deep_autoencoder(dtype),
    "mnist_mlp": lambda _, dtype: mlperf_tiny.mnist_mlp(dtype),
}
"""Model of a row -> its graph from input size and element type."""


@dataclass(frozen=True)
class Row:
    """One published latency. ``fitted``: see ``GROUPS``."""

    model: str
    input: int
    dtype: str
    board: str
    stack: str
    ms: float
    kind: str
    source: str
    fitted: str


@dataclass(frozen=True)
class Result:
    row: Row
    ms: float
    low: float
    high: float
    left: int
    """Ops that the CPU runs."""

    @property
    def error(self) -> float:
        """Relative: 0.1 is a prediction 10 % too slow."""
        return self.ms / self.row.ms - 1

    @property
    def is_inside(self) -> bool:
        return self.low <= self.row.ms <= self.high


def rows(file: Path = Path(__file__).parent / "published/npu.csv") -> Iterator[Row]:
    with file.open(newline="") as lines:
        for raw in csv.DictReader(lines):
            yield Row(
                **{key: raw[key] for key in ("model", "dtype", "board", "stack", "kind", "source")},
                input=int(raw["input"]), ms=float(raw["ms"]), fitted=raw["fitted"],
            )  # fmt: skip


def predict(row: Row) -> Result:
    graph, npu = graph_of(row.model, row.input, row.dtype), npu_of(row.board, row.stack)
    judged = {op.index: found for op in graph.subgraphs[0].ops if (found := _judge(graph, op, row.board, row.stack))}
    costs = list(_priced(graph, npu, judged))
    ms = [sum(getattr(cost, name) or 0 for cost in costs) / 1e6 for name in ("ns", "low_ns", "high_ns")]
    overhead = npu.cpu.board.overhead_us
    low, high = ms[1] + overhead.lowest / 1e3, ms[2] + overhead.highest / 1e3
    return Result(row, ms[0] + overhead.value / 1e3, low, high, len(graph.subgraphs[0].ops) - len(judged))


def cpu_ms(row: Row) -> float:
    """The same network with XNNPACK on all cores of the fastest cluster."""
    graph, cpu = graph_of(row.model, row.input, row.dtype), npu_of(row.board, row.stack).cpu
    return sum(cpu.op(graph, op, "xnnpack").ns for op in graph.subgraphs[0].ops) / 1e6


def _priced(graph: Graph, npu: NpuCost, judged: dict[int, Judged]) -> Iterator[Cost]:
    main = graph.subgraphs[0]
    for op in main.ops:
        found = judged.get(op.index)
        if found is None:
            yield npu.cpu.op(graph, op, "xnnpack")
        elif found.fusion and found.fusion.required:
            yield npu.fused(graph, op, found.kernel, found.layout)
        else:
            yield npu.op(graph, op, found.kernel, found.layout)
    for inside, run in groupby(main.ops, key=lambda op: op.index in judged):
        if inside:
            yield from _borders(main, npu, list(run))


def _borders(main: Subgraph, npu: NpuCost, run: list[Op]) -> Iterator[Cost]:
    """One partition: the hand-over and what crosses its border."""
    yield npu.partition_handover()
    members = {op.index for op in run}
    made = {t for op in run for t in op.outputs}
    read = {t for op in run for t in op.inputs if t >= 0 and t not in made and not main.tensors[t].is_constant}
    for t in sorted(read):
        yield npu.enter(main.tensors[t], "NHWC")
    for t in sorted(made):
        if t in main.outputs or not members.issuperset(main.consumers.get(t, ())):
            yield npu.leave(main.tensors[t], "NHWC")


def _judge(graph: Graph, op: Op, board: str, stack: str) -> Judged | None:
    """The first verdict that is no refusal. What only a newer version than the board's takes is left to the CPU."""
    table, soc = _backend(board, stack), _board(board).stacks[stack].soc
    for found in verdicts(graph, op, table, soc):
        if found.status == "supported" or (found.status == "unknown" and found.sdk_version == table.sdk_version):
            return found
    return None


@cache
def graph_of(model: str, size: int, dtype: str) -> Graph:
    return NETWORKS[model](size, dtype)


@cache
def _board(name: str) -> Board:
    return load_board(name)


@cache
def _backend(board: str, stack: str) -> Backend:
    return load_backend(_board(board).stacks[stack].backend)


@cache
def npu_of(name: str, stack: str) -> NpuCost:
    board = _board(name)
    cluster = board.clusters[0]
    threads = len(cluster.cpus)
    cpu = CpuCost(board, cluster, load_core(cluster.core), load_kernel_costs(), threads, threads)
    return npu_cost(_backend(name, stack).cost_model, board.stacks[stack], cpu)


def summary(results: Iterable[Result]) -> str:
    results = list(results)
    errors = sorted(abs(result.error) for result in results)
    p90 = errors[min(len(errors) - 1, int(0.9 * len(errors)))]
    inside = sum(result.is_inside for result in results)
    near = sum(error <= 0.2 for error in errors)
    width = statistics.median(result.high / result.low for result in results)
    return (
        f"{len(results):3} rows, |error| median {statistics.median(errors):.0%}, p90 {p90:.0%}, {near} within 20 %;"
        f" {inside} inside [low, high], high/low {width:.1f}"
    )


def print_groups(placed: Sequence[tuple[str, str, Result]], every: str) -> None:
    """A line for each place and group of rows, and one for each group of ``every`` place."""
    for place in dict.fromkeys([*(place for place, _, _ in placed), every]):
        for word, name in GROUPS.items():
            those = [result for at, fitted, result in placed if place in (at, every) and fitted == word]
            if those:
                print(f"{place:22} {name:9} {summary(those)}")


def main() -> None:
    results = [predict(row) for row in rows()]
    if "-v" in sys.argv[1:]:
        for result in results:
            row = result.row
            print(
                f"{row.board:9} {row.stack:14} {row.model:27} {row.input:3} {row.dtype:5} {row.ms:8.2f} ms  predicted"
                f" {result.ms:8.2f} ({result.low:.2f} to {result.high:.2f}) {result.error:+5.0%},"
                f" CPU {cpu_ms(row):7.2f} {f'{result.left} ops on the CPU' if result.left else ''}"
                f" {'' if result.is_inside else 'OUTSIDE'} {GROUPS[row.fitted]}"
            )
    print_groups([(f"{r.row.stack} {r.row.board}", r.row.fitted, r) for r in results], "all")


if __name__ == "__main__":
    main()
