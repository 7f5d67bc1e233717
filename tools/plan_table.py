# SPDX-License-Identifier: Apache-2.0
"""Write docs/plans.md: every example and some well-known networks on every board and stack that ships."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from edgedeploy.text import duration
from edgedeploy_partitioner.errors import PlanningError
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_model
from edgedeploy_partitioner.plan import ON_ARM, XNNPACK, Plan
from edgedeploy_partitioner.planning import Request, partition
from edgedeploy_profiles import board_names, load_board, load_runtime

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "plans.md"
sys.path.insert(0, str(ROOT))
HEAD = """# Every model on every board

Made by `make docs`. Each row is a plan: what `edgedeploy partition` predicts for one inference, with the default
options of the board, and what it is compared with. The first twelve models are the files in `examples/`, the others are
networks of which only the shapes are known, written down in `benchmarks/cost/networks/`. **These are analytical
estimates; nothing here was run on hardware.**

- *all-CPU*: nothing on the NPU. *stock*: the delegate left to itself, taking all it supports; `fails` where it would
  not run. *partitions*: those of the NPU. *NPU share*: of the multiply-accumulates (of the ops, where there are none).
- `(open)`: the stack's table leaves verdicts open for lack of published limits; the second figure is the plan if all of
  them were a yes.
"""
COLUMNS = "| board | stack | predicted | all-CPU | stock | partitions | NPU share |\n|---|---|---|---|---|---|---|"


class Target(NamedTuple):
    board: str
    stack: str | None


def targets() -> tuple[Target, ...]:
    """Every stack of every board; ``local`` is another machine everywhere."""
    boards = {name: load_board(name) for name in board_names() if name != "local"}
    return tuple(Target(name, stack) for name, board in boards.items() for stack in board.stacks or (None,))


@cache
def models() -> Mapping[str, Graph]:
    """Name -> graph: the examples, then networks of which only the shapes are known."""
    from benchmarks.cost import networks

    files = sorted((ROOT / "examples").glob("*.tflite"))
    known = {
        "MobileNetV1 224 int8": networks.mobilenet_v1(dtype="int8"),
        "MobileNetV1 224 uint8": networks.mobilenet_v1(dtype="uint8"),
        "MobileNetV2 224 int8": networks.mobilenet_v2(),
        "MobileNetV2 224 float32": networks.mobilenet_v2(dtype="float32"),
        "ResNet50 224 int8": networks.resnet50(),
        "SSD MobileNetV1 300 uint8": networks.ssd_mobilenet_v1(dtype="uint8"),
        "YOLOv5s 640 int8": networks.yolov5("s"),
        "YOLOv8n 640 int8": networks.yolov8("n"),
        "wav2letter int8": networks.wav2letter(),
        "DS-CNN keywords int8": networks.ds_cnn_kws(),
    }
    return {file.stem: read_model(file) for file in files} | known


def row(model: str, target: Target) -> str:
    board = load_board(target.board)
    runtime, version = board.default_runtime.split("==")
    try:
        plan = partition(models()[model], board, Request(load_runtime(runtime, version), npu=target.stack), model)
    except PlanningError as error:
        return f"| {target.board} | {target.stack or '-'} | {error.message} | | | | |"
    stock, base = plan.baselines.stock_delegate, plan.baselines.all_cpu.latency_ns
    parts = str(sum(p.delegate != XNNPACK for p in plan.partitions))
    told = "-" if target.stack is None else "fails" if stock is None else duration(stock.latency_ns)
    cells = (target.board, target.stack or "-", _predicted(plan), duration(base), told, parts, _share(plan))
    return f"| {' | '.join(cells)} |"


def page() -> Iterator[str]:
    yield HEAD
    for model in models():
        yield f"## {model}\n\n{COLUMNS}"
        yield from (row(model, target) for target in targets())
        yield ""


def _predicted(plan: Plan) -> str:
    best = plan.predicted.optimistic_ns
    differs = best is not None and best < plan.predicted.latency_ns
    return duration(plan.predicted.latency_ns) + (f" (open: {duration(best)})" if differs else "")


def _share(plan: Plan) -> str:
    running = [op for op in plan.ops if not op.folded]
    weight = {id(op): op.macs or 0 for op in running}
    if not any(weight.values()):
        weight = dict.fromkeys(weight, 1)
    on_npu = sum(weight[id(op)] for op in running if op.backend not in ON_ARM)
    return f"{100 * on_npu / max(1, sum(weight.values())):.0f} %"


if __name__ == "__main__":
    text = "\n".join(page()).rstrip() + "\n"
    PAGE.write_text(text)
    print(f"wrote {PAGE.relative_to(ROOT)}: {len(models())} models on {len(targets())} targets")
