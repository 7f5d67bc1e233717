# SPDX-License-Identifier: Apache-2.0
"""Memory of NPUs that boards and compilers report, against the product's own model of it.

    python -m benchmarks.memory.npu [-v]

``published/npu.csv`` has ``kind`` ``board`` for what the runtime of a board says (``eval_memory``), ``compiler`` for
what the vendor's compiler says of the networks of ``benchmarks/cost/networks``, with random weights. ``part`` is
``weight``, ``internal`` (activations), ``total``, or ``dram``: weights, commands and activations, as Vela counts.

All rows were looked at when the model and its bounds were chosen: they hold it in place more than they test it.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.cost import npu as latency
from benchmarks.cost import rknn
from edgedeploy_partitioner.memory.line import Line
from edgedeploy_partitioner.memory.npu_stacks import NpuMemory, RknnMemory, npu_memory
from edgedeploy_partitioner.model.graph import Graph, Subgraph
from edgedeploy_partitioner.plan import Segment
from edgedeploy_profiles import load_backend, load_board

PUBLISHED = Path(__file__).parent / "published/npu.csv"
PARTS = {
    "weight": ("weight_factor",),
    "internal": ("live_factor", "tensor_factor"),
    "dram": ("weight_factor", "live_factor", "tensor_factor", "op_bytes"),
}
"""What of the pool a row is; ``total`` is all."""


@dataclass(frozen=True)
class Row:
    model: str
    input: int
    board: str
    stack: str
    kind: str
    part: str
    bytes: int
    source: str


@dataclass(frozen=True)
class Result:
    row: Row
    line: Line

    @property
    def error(self) -> float:
        return self.line.bytes / self.row.bytes - 1

    @property
    def is_inside(self) -> bool:
        high = self.line.high_bytes
        return self.line.low_bytes <= self.row.bytes and (high is None or self.row.bytes <= high)


class FromOnnx(RknnMemory):
    """Converted from ONNX or Caffe, as published models are: results keep their order and are not transposed."""

    def after(self, subgraph: Subgraph, segment: Segment) -> Iterator[tuple[int, int, int]]:  # noqa: ARG002
        return iter(())


def rows(file: Path = PUBLISHED) -> Iterator[Row]:
    with file.open(newline="") as lines:
        for raw in csv.DictReader(lines):
            texts = {key: raw[key] for key in ("model", "board", "stack", "kind", "part", "source")}
            yield Row(**texts, input=int(raw["input"]), bytes=int(raw["bytes"]))


def predict(row: Row) -> Result:
    graph, npu = graph_of(row.model, row.input), _memory(row)
    amounts = npu.amounts(graph.subgraphs[0], whole(graph))
    parts = PARTS.get(row.part, tuple(amounts))
    return Result(row, npu.line({name: amounts[name] for name in parts}))


def _memory(row: Row) -> NpuMemory:
    stack = load_board(row.board).stacks[row.stack]
    npu = npu_memory(load_backend(stack.backend), stack, graph_of(row.model, row.input))
    return FromOnnx(npu.stack, npu.graph, npu.block) if row.stack == "rknn" and row.kind == "board" else npu


def whole(graph: Graph) -> Segment:
    """All of the model in one piece."""
    main = graph.subgraphs[0]
    ops = tuple(op.index for op in main.ops)
    return Segment(
        id=0, partition=0, backend="", layout="", ops=ops, inputs=main.inputs, outputs=main.outputs, handover_ns=0
    )


@cache
def graph_of(model: str, size: int) -> Graph:
    return (rknn.NETWORKS.get(model) or latency.NETWORKS[model])(size, "int8")


def summary(results: list[Result]) -> str:
    errors = sorted(abs(result.error) for result in results)
    p90 = errors[min(len(errors) - 1, int(0.9 * len(errors)))]
    inside = sum(result.is_inside for result in results)
    exact = sum(result.error == 0 for result in results)
    return (
        f"{len(results):3} rows, |error| median {statistics.median(errors):.1%}, p90 {p90:.0%};"
        f" {exact} exact, {inside} inside [low, high]"
    )


def main() -> None:
    results = [predict(row) for row in rows()]
    if "-v" in sys.argv[1:]:
        for result in results:
            row, line = result.row, result.line
            print(
                f"{row.board:7} {row.stack:7} {row.kind:8} {row.model:28} {row.part:8} {row.bytes:10}"
                f"  predicted {line.bytes:10} ({line.low_bytes} to {line.high_bytes}) {result.error:+6.1%}"
                f" {'' if result.is_inside else 'OUTSIDE'}"
            )
    for key in dict.fromkeys((r.row.stack, r.row.kind, r.row.part) for r in results):
        those = [r for r in results if (r.row.stack, r.row.kind, r.row.part) == key]
        print(f"{' '.join(key):24} {summary(those)}")


if __name__ == "__main__":
    main()
