# SPDX-License-Identifier: Apache-2.0
"""Published CPU latencies against the cost model.

    python -m benchmarks.cost.cpu [-v]

Every op runs on the kernels that the row names; prices are those of the product's own ``CpuCost``.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.cost import GROUPS
from benchmarks.cost.networks import classic, plain, small, yolo
from edgedeploy_partitioner.cost.cpu import CpuCost
from edgedeploy_partitioner.cost.ranges import Range
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_profiles import load_board, load_core, load_kernel_costs
from edgedeploy_profiles.schema import Board

HERE = Path(__file__).parent

NETWORKS: dict[str, Callable[[int, str], Graph]] = {
    "mobilenet_v1": lambda size, dtype: classic.mobilenet_v1(size, dtype=dtype),
    "mobilenet_v1_0.25": lambda size, dtype: classic.mobilenet_v1(size, 0.25, dtype),
    "vww": lambda size, dtype: classic.mobilenet_v1(size, 0.25, dtype, classes=2),
    "mobilenet_v2": lambda size, dtype: classic.mobilenet_v2(size, dtype=dtype),
    "efficientnet_lite0": classic.efficientnet_lite0,
    "resnet50": classic.resnet50,
    "deeplab_v3_mobilenet_v2_0.5": lambda size, dtype: classic.deeplab_v3_mobilenet_v2(size, dtype, 0.5),
    "ssd_mobilenet_v1": classic.ssd_mobilenet_v1,
    "ssdlite_mobilenet_v2": plain.ssdlite_mobilenet_v2,
    "inception_v1": plain.inception_v1,
    "inception_v3": plain.inception_v3,
    "inception_v4": plain.inception_v4,
    "squeezenet": plain.squeezenet,
    "vgg16": lambda _, dtype: plain.vgg(16, dtype),
    "vgg19": lambda _, dtype: plain.vgg(19, dtype),
    "yolov4_tiny": plain.yolov4_tiny,
    "yolov8n": lambda size, dtype: yolo.yolov8("n", size, dtype),
    "yolo11n": lambda size, dtype: yolo.yolo11("n", size, dtype),
    "wav2letter": small.wav2letter,
    "ds_cnn_kws": lambda _, dtype: small.ds_cnn_kws(dtype),
}
"""Model of a row -> its graph from input size and element type."""


@dataclass(frozen=True)
class Row:
    """One published latency. ``runtime`` is ``xnnpack`` or ``builtin``; ``fitted``: see ``GROUPS``."""

    model: str
    input: int
    dtype: str
    board: str
    cluster: str
    threads: int
    runtime: str
    version: str
    ms: float
    fitted: str
    source: str


@dataclass(frozen=True)
class Result:
    row: Row
    ms: Range

    @property
    def error(self) -> float:
        """Relative: 0.1 is a prediction 10 % too slow."""
        return self.ms.value / self.row.ms - 1

    @property
    def is_inside(self) -> bool:
        return self.ms.low <= self.row.ms <= self.ms.high


def rows(file: Path = HERE / "published/cpu.csv") -> Iterator[Row]:
    with file.open(newline="") as lines:
        for raw in csv.DictReader(lines):
            yield Row(
                **{key: raw[key] for key in ("model", "dtype", "board", "cluster", "runtime", "version", "source")},
                input=int(raw["input"]), threads=int(raw["threads"]), ms=float(raw["ms"]),
                fitted=raw["fitted"],
            )  # fmt: skip


def predict(row: Row) -> Result:
    """The cost model's latency of ``row``: one invoke and every op, one after the other."""
    graph, board = _graph(row.model, row.input, row.dtype), _board(row.board)
    cost = _cpu(board, row.cluster, row.threads)
    total = Range.of(board.overhead_us).times(1e-3)
    for op in graph.subgraphs[0].ops:
        price = cost.op(graph, op, row.runtime)
        high = price.ns if price.high_ns is None else price.high_ns
        total = total.plus(Range(price.ns / 1e6, price.low_ns / 1e6, high / 1e6))
    return Result(row, total)


@cache
def _graph(model: str, size: int, dtype: str) -> Graph:
    return NETWORKS[model](size, dtype)


@cache
def _board(name: str) -> Board:
    extra = HERE / f"boards/{name}.toml"
    return load_board(extra if extra.is_file() else name)


def _cpu(board: Board, name: str, threads: int) -> CpuCost:
    """``name`` is a cluster, or CPUs of several: the slowest cluster then sets the pace, as in the planner."""
    named = [cluster for cluster in board.clusters if cluster.name == name]
    cluster = named[0] if named else board.clusters[-1]
    return CpuCost(board, cluster, load_core(cluster.core), load_kernel_costs(), threads, threads)


def summary(results: list[Result]) -> str:
    errors = sorted(abs(result.error) for result in results)
    median, p90 = statistics.median(errors), errors[min(len(errors) - 1, int(0.9 * len(errors)))]
    inside = sum(result.is_inside for result in results)
    width = statistics.median(result.ms.high / result.ms.low for result in results)
    count = f"{len(results):3} rows, |error| median {median:.0%}, p90 {p90:.0%}"
    return f"{count}; {inside} inside [low, high], high/low {width:.1f}"


def main() -> None:
    results = [predict(row) for row in rows()]
    if "-v" in sys.argv[1:]:
        for result in results:
            row, ms = result.row, result.ms
            print(
                f"{row.board:9} {row.model:28} {row.input:3} {row.dtype:7} {row.runtime:7} x{row.threads}"
                f" {row.ms:8.2f} ms  predicted {ms.value:8.2f} ({ms.low:.2f} to {ms.high:.2f}) {result.error:+5.0%}"
                f" {'' if result.is_inside else 'OUTSIDE'} {GROUPS[row.fitted]}"
            )
    for board in dict.fromkeys(result.row.board for result in results):
        print(f"{board:9}  {summary([result for result in results if result.row.board == board])}")
    for word, name in GROUPS.items():
        print(f"{name:9}  {summary([r for r in results if r.row.fitted == word])}")


if __name__ == "__main__":
    main()
