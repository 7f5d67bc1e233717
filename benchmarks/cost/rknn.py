# SPDX-License-Identifier: Apache-2.0
"""Published latencies of Rockchip's own runtime against the cost model.

    python -m benchmarks.cost.rknn [-v]

A model is one segment on one NPU core: the hand-over and its ops, fused as the support table allows, without borders,
as ``rknn_run`` is timed in Rockchip's model zoo. Every other model of the zoo by name was used to choose the constants.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Hashable, Iterator, Set
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from benchmarks.cost import GROUPS
from benchmarks.cost.networks import classic, yolo, yolo_others
from benchmarks.cost.npu import Result, Row, print_groups
from edgedeploy_partitioner.cost import Cost, NpuCost, npu_cost
from edgedeploy_partitioner.model.graph import Graph, Op
from edgedeploy_partitioner.planning.fusions import hosts
from edgedeploy_partitioner.planning.request import cpu_cost
from edgedeploy_partitioner.support.verdicts import Judged, verdicts
from edgedeploy_profiles import load_backend, load_board
from edgedeploy_profiles.schema import Backend

PUBLISHED = Path(__file__).parent / "published"

OTHERS = frozenset({"mobilenet_v1"})
"""Networks that are not in Rockchip's zoo: timed by others, never fitted."""

NETWORKS: dict[str, Callable[[int, str], Graph]] = {
    "mobilenet_v1": lambda size, dtype: classic.mobilenet_v1(size, dtype=dtype),
    "mobilenetv2-12": lambda size, dtype: classic.mobilenet_v2(size, dtype=dtype),
    "resnet50-v2-7": lambda size, dtype: classic.resnet50(size, dtype, version=2),
    "RetinaFace_mobile320": classic.retinaface_mobilenet,
    "RetinaFace_resnet50_320": classic.retinaface_resnet50,
    "yolov5s_relu": lambda size, dtype: yolo.yolov5("s", size, dtype, act="RELU"),
    "yolov5n": lambda size, dtype: yolo.yolov5("n", size, dtype),
    "yolov5s": lambda size, dtype: yolo.yolov5("s", size, dtype),
    "yolov5m": lambda size, dtype: yolo.yolov5("m", size, dtype),
    "yolov5n-seg": lambda size, dtype: yolo.yolov5("n", size, dtype, masks=True),
    "yolov5s-seg": lambda size, dtype: yolo.yolov5("s", size, dtype, masks=True),
    "yolov5m-seg": lambda size, dtype: yolo.yolov5("m", size, dtype, masks=True),
    "yolov6n": lambda size, dtype: yolo_others.yolov6("n", size, dtype),
    "yolov6s": lambda size, dtype: yolo_others.yolov6("s", size, dtype),
    "yolov6m": lambda size, dtype: yolo_others.yolov6("m", size, dtype),
    "yolov7-tiny": yolo_others.yolov7_tiny,
    "yolov7": yolo_others.yolov7,
    "yolov8n": lambda size, dtype: yolo.yolov8("n", size, dtype),
    "yolov8s": lambda size, dtype: yolo.yolov8("s", size, dtype),
    "yolov8m": lambda size, dtype: yolo.yolov8("m", size, dtype),
    "yolov8n-seg": lambda size, dtype: yolo.yolov8("n", size, dtype, task="segment"),
    "yolov8s-seg": lambda size, dtype: yolo.yolov8("s", size, dtype, task="segment"),
    "yolov8m-seg": lambda size, dtype: yolo.yolov8("m", size, dtype, task="segment"),
    "yolov8n-pose": lambda size, dtype: yolo.yolov8("n", size, dtype, task="pose"),
    "yolov8n-obb": lambda size, dtype: yolo.yolov8("n", size, dtype, task="obb"),
    "yolov10n": lambda size, dtype: yolo.yolov10("n", size, dtype),
    "yolov10s": lambda size, dtype: yolo.yolov10("s", size, dtype),
    "yolo11n": lambda size, dtype: yolo.yolo11("n", size, dtype),
    "yolo11s": lambda size, dtype: yolo.yolo11("s", size, dtype),
    "yolo11m": lambda size, dtype: yolo.yolo11("m", size, dtype),
    "yolox_s": lambda size, dtype: yolo_others.yolox("s", size, dtype),
    "yolox_m": lambda size, dtype: yolo_others.yolox("m", size, dtype),
}
"""Model of a row -> its graph from input size and element type. Rows of other models are left out."""

STACK = "rknn"
OTHER_FORM = frozenset({"SPLIT", "TRANSPOSE"})
"""Ops that Rockchip's converter saw in another form, from ONNX and in NCHW: priced on the NPU, whatever the table says
of the form they have here."""


OUTLIERS = frozenset({("RetinaFace_mobile320", "rk3588")})
"""Not fitted: twice what the RK3576 takes, and more than the RK3562, whose core is half as large."""
LOGGED = frozenset({("yolov5s_relu", "rk3588")})
"""Not fitted, but the layers of its log are, and so is what profiling adds to them."""


@dataclass(frozen=True)
class Placed:
    """An op, how the table has it run, and whether inside another one."""

    op: Op
    kernel: str
    layout: str
    is_fused: bool


def rows(file: Path = PUBLISHED / "rknn.csv") -> Iterator[Row]:
    fitted = set(sorted(NETWORKS.keys() - OTHERS)[::2])
    with file.open(newline="") as lines:
        for raw in csv.DictReader(lines):
            if raw["model"] in NETWORKS:
                yield Row(
                    **{key: raw[key] for key in ("model", "dtype", "board", "stack", "kind", "source")},
                    input=int(raw["input"]), ms=float(raw["ms"]),
                    fitted=_used(raw["model"], raw["board"], fitted),
                )  # fmt: skip


def _used(model: str, board: str, fitted: Set[str]) -> str:
    if (model, board) in LOGGED:
        return "bounds"
    return "yes" if model in fitted and (model, board) not in OUTLIERS else "no"


def placed(graph: Graph, soc: str) -> Iterator[Placed]:
    """Every op of the main subgraph as one segment has it."""
    best = {op.index: _best(graph, op, soc) for op in graph.subgraphs[0].ops}
    for op in graph.subgraphs[0].ops:
        found = best[op.index]
        beside = hosts(graph, op, found.fusion) if found.fusion else ()
        inside = any(best[host.index].kernel == found.kernel for host in beside)
        yield Placed(op, found.kernel, found.layout, inside)


def price(graph: Graph, one: Placed, npu: NpuCost) -> Cost:
    """What the product asks for it: the planner fuses where that is cheaper."""
    alone = npu.op(graph, one.op, one.kernel, one.layout)
    if not one.is_fused:
        return alone
    return min(alone, npu.fused(graph, one.op, one.kernel, one.layout), key=lambda cost: cost.ns)


def predict(row: Row) -> Result:
    graph, npu = network(row.model, row.input, row.dtype), npu_of(row.board)
    costs = [npu.segment_handover(), *(price(graph, one, npu) for one in placed(graph, npu.stack.soc))]
    ms, low, high = (sum(getattr(cost, name) or 0 for cost in costs) / 1e6 for name in ("ns", "low_ns", "high_ns"))
    return Result(row, ms, low, high, 0)


@cache
def network(model: str, size: int, dtype: str) -> Graph:
    return NETWORKS[model](size, dtype)


@cache
def npu_of(board: str) -> NpuCost:
    profile = load_board(board)
    return npu_cost(_table().cost_model, profile.stacks[STACK], cpu_cost(profile, None, 1)[0])


@cache
def _table() -> Backend:
    return load_backend(STACK)


_KNOWN: dict[Hashable, Judged] = {}


def _best(graph: Graph, op: Op, soc: str) -> Judged:
    """The first verdict that is no refusal, of the NPU's if the op had another form. Ops that look alike are judged
    once: networks of shapes repeat their blocks, and differ in nothing else."""
    tensors = (graph.tensor(0, t) for t in (*op.inputs, *op.outputs) if t >= 0)
    key = (soc, op.code, tuple(sorted(op.options.items())), tuple((t.shape, t.dtype) for t in tensors))
    if key not in _KNOWN:
        found = verdicts(graph, op, _table(), soc)
        allowed = [j for j in found if j.status != "refused" and not (op.code in OTHER_FORM and j.kernel != "npu")]
        _KNOWN[key] = allowed[0] if allowed else replace(found[0], kernel="npu")
    return _KNOWN[key]


def main() -> None:
    results = [predict(row) for row in rows()]
    if "-v" in sys.argv[1:]:
        for result in results:
            row = result.row
            print(
                f"{row.board:7} {row.model:24} {row.ms:7.2f} ms  predicted {result.ms:7.2f} ({result.low:.2f} to"
                f" {result.high:.2f}) {result.error:+5.0%} {'' if result.is_inside else 'OUTSIDE'}"
                f" {GROUPS[row.fitted]}"
            )
    print_groups([(f"{STACK} {r.row.board}", r.row.fitted, r) for r in results], f"{STACK} all")


if __name__ == "__main__":
    main()
