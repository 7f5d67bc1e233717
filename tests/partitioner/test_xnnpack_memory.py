# SPDX-License-Identifier: Apache-2.0
"""XNNPACK's memory and the interpreter's: predicted against the heap of a child process."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from edgedeploy_agent import footprint
from edgedeploy_partitioner.memory import interpreter, xnnpack
from edgedeploy_partitioner.memory.line import Line
from edgedeploy_partitioner.memory.packing import X86_64, held, tiles
from edgedeploy_partitioner.memory.xnnpack import packed
from edgedeploy_partitioner.model.build import Model, per_channel, per_tensor
from edgedeploy_partitioner.model.read import read_bytes
from support.arenas import executed_nodes, real_bytes
from support.random_model import random_dag
from support.runtime import inspect_all

EXAMPLES = sorted(p for p in (Path(__file__).parents[2] / "examples").glob("*.tflite") if "custom" not in p.name)
BUILTIN_RUN_BYTES = 4000  # what allocating and running costs on the heap without XNNPACK, beside arenas
ARENA_SLACK_BYTES = 64  # so that each can be aligned
ISA = ("avx2", "fma")


def flags() -> set[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return set(next((line.split(":")[1].split() for line in lines if line.startswith("flags")), ()))


of_glibc = pytest.mark.skipif(footprint.heap_bytes() is None, reason="the heap is asked of glibc 2.33 or newer")
measured = pytest.mark.skipif(
    "avx2" not in flags() or "avx512f" in flags() or footprint.heap_bytes() is None,
    reason="the tiles are those of x86-64 with AVX2 and without AVX-512, the heap is asked of glibc 2.33 or newer",
)


class Heap(NamedTuple):
    """Bytes of one model: of the heap on loading, and from then on without the arenas; what is predicted of them.

    ``packed`` and ``structures`` are what malloc should have given out, ``line`` what of it should take memory.
    """

    name: str
    loaded: int
    own: int
    line: Line
    packed: int
    structures: int


def heaps(models: Sequence[tuple[str, bytes]], folder: Path, *options: str, isa: Sequence[str] = ISA) -> list[Heap]:
    """Each model in one child process, one after the other."""
    paths = [folder / f"{i}.tflite" for i in range(len(models))]
    for path, (_, data) in zip(paths, models, strict=True):
        path.write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-m", footprint.__name__, *options, *map(str, paths)],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    answers = inspect_all([data for _, data in models], xnnpack=not options, run=True)
    found = []
    for (name, data), answer, line in zip(models, answers, done.stdout.splitlines(), strict=True):
        assert not json.loads(line)["error"], name
        assert answer.subgraphs is not None, answer.failure
        stages = {stage: usage["heap_bytes"] for stage, usage in json.loads(line)["stages"].items()}
        sizes = [size for plan in answer.subgraphs for size in real_bytes(plan) if size]
        graph = read_bytes(data)
        nodes = {plan["subgraph"]: executed_nodes(plan) for plan in answer.subgraphs}
        own = stages["run"] - stages["load"] - sum(sizes) - ARENA_SLACK_BYTES * len(sizes)
        loaded = stages["load"] - stages["before"]
        packed_bytes, structures = xnnpack.heap_bytes(graph, nodes, isa), interpreter.heap_bytes(graph, nodes, isa)
        found.append(Heap(name, loaded, own, packed(graph, nodes, isa), packed_bytes, structures))
    return found


# --- models of one op ----------


def conv(
    size: int, depth: int, results: int, taps: int, *, stride: int = 1, dtype: str = "float32",
    code: str = "CONV_2D", made: int = 1,
) -> bytes:  # fmt: skip
    """A convolution with padding SAME; ``dtype`` is float32, int8, dynamic (int8 weights) or float16 (weights)."""
    model = Model()
    g = model.subgraph()
    is_int8 = dtype == "int8"
    kind, quant = ("int8", per_tensor(0.05)) if is_int8 else ("float32", None)
    is_depthwise, is_up = code == "DEPTHWISE_CONV_2D", code == "TRANSPOSE_CONV"
    shape = (1, taps, taps, results) if is_depthwise else (results, taps, taps, depth)
    x = g.input((1, size, size, depth), kind, quant)
    bias = g.constant(np.zeros(results, np.int32 if is_int8 else np.float32), quant=_scales(results, 0.05, is_int8))
    if dtype in ("float32", "float16"):
        weights = g.constant(np.ones(shape, dtype))
        if dtype == "float16":
            weights = g.apply("DEQUANTIZE", [weights], shape)
    else:
        weights = g.constant(np.ones(shape, np.int8), quant=_scales(results, 1.0, True, 3 if is_depthwise else 0))
    out = size * stride if is_up else -(-size // stride)
    inputs = [g.constant(np.array([1, out, out, results], np.int32)), weights, x] if is_up else [x, weights, bias]
    more: dict[str, Any] = {"depth_multiplier": made} if is_depthwise else {}
    shape_out = (1, out, out, results)
    g.outputs(g.apply(code, inputs, shape_out, kind, quant, padding="SAME", stride_w=stride, stride_h=stride, **more))
    return model.build()


def _scales(results: int, unit: float, quantized: bool, axis: int = 0) -> Any:
    return per_channel([unit * 0.01 * (1 + i % 3) for i in range(results)], axis) if quantized else None


def dense(rows: int, depth: int, results: int, dtype: str) -> bytes:
    model = Model()
    g = model.subgraph()
    is_int8 = dtype == "int8"
    kind, quant = ("int8", per_tensor(0.05)) if is_int8 else ("float32", None)
    if dtype == "float32":
        weights = g.constant(np.ones((results, depth), np.float32))
    else:
        weights = g.constant(np.ones((results, depth), np.int8), quant=per_tensor(0.01))
    bias = g.constant(
        np.zeros(results, np.int32 if is_int8 else np.float32), quant=per_tensor(5e-4) if is_int8 else None
    )
    g.outputs(
        g.apply("FULLY_CONNECTED", [g.input((rows, depth), kind, quant), weights, bias], (rows, results), kind, quant)
    )
    return model.build()


def pool(code: str, size: int, taps: int, stride: int) -> bytes:
    model = Model()
    g = model.subgraph()
    out = -(-size // stride)
    options: dict[str, Any] = {
        "padding": "SAME",
        "stride_w": stride,
        "stride_h": stride,
        "filter_width": taps,
        "filter_height": taps,
    }
    g.outputs(g.apply(code, [g.input((1, size, size, 8))], (1, out, out, 8), **options))
    return model.build()


def resize() -> bytes:
    model = Model()
    g = model.subgraph()
    g.outputs(
        g.apply("RESIZE_BILINEAR", [g.input((1, 16, 16, 8)), g.constant(np.array([65, 65], np.int32))], (1, 65, 65, 8))
    )
    return model.build()


def chain(skip: bool) -> bytes:
    """Convolutions one after the other, so that tensors inside count; with ``skip`` one of them lives longer."""
    model = Model()
    g = model.subgraph()
    same: dict[str, Any] = {"padding": "SAME", "stride_w": 1, "stride_h": 1}

    def pointwise(x: int, results: int) -> int:
        weights = g.constant(np.ones((results, 1, 1, 8), np.float32))
        bias = g.constant(np.zeros(results, np.float32))
        return g.apply("CONV_2D", [x, weights, bias], (1, 64, 64, results), **same)

    x = g.input((1, 64, 64, 8))
    steps = []
    for _ in range(4):
        x = g.apply("ABS", [pointwise(x, 8)], (1, 64, 64, 8))
        steps.append(x)
    g.outputs(pointwise(g.apply("ADD", [x, steps[0]], (1, 64, 64, 8)) if skip else x, 4))
    return model.build()


def matmul(constant: bool) -> bytes:
    model = Model()
    g = model.subgraph()
    right = g.constant(np.ones((4, 120, 200), np.float32)) if constant else g.input((4, 120, 200))
    g.outputs(g.apply("BATCH_MATMUL", [g.input((4, 30, 120)), right], (4, 30, 200)))
    return model.build()


SINGLE: dict[str, Callable[[], bytes]] = {
    **{f"conv {t}": partial(conv, 64, 16, 100, 3, dtype=t) for t in ("float32", "int8", "dynamic", "float16")},
    "conv few results": lambda: conv(64, 16, 9, 3),
    "conv 1x1": lambda: conv(32, 300, 201, 1),
    "conv stride": lambda: conv(63, 3, 24, 5, stride=2, dtype="int8"),
    **{f"depthwise {t}": partial(conv, 64, 70, 70, 3, dtype=t, code="DEPTHWISE_CONV_2D") for t in ("float32", "int8")},
    "depthwise 5x5 stride": lambda: conv(64, 70, 70, 5, stride=2, code="DEPTHWISE_CONV_2D"),
    "depthwise 7x7": lambda: conv(32, 20, 20, 7, code="DEPTHWISE_CONV_2D"),
    "depthwise two for one": lambda: conv(64, 20, 40, 3, code="DEPTHWISE_CONV_2D", made=2),
    **{
        f"transpose conv {t}": partial(conv, 33, 16, 24, 3, stride=2, dtype=t, code="TRANSPOSE_CONV")
        for t in ("float32", "int8", "dynamic", "float16")
    },
    **{f"dense {t}": partial(dense, 8, 401, 301, t) for t in ("float32", "int8", "dynamic")},
    "max pool": lambda: pool("MAX_POOL_2D", 128, 3, 2),
    "average pool": lambda: pool("AVERAGE_POOL_2D", 128, 3, 1),
    "resize": resize,
    "matmul constant": lambda: matmul(True),
    "matmul": lambda: matmul(False),
    "chain": lambda: chain(False),
    "chain with a skip": lambda: chain(True),
}


@measured
def test_each_kind_of_op_takes_what_is_predicted(tmp_path: Path) -> None:
    """To 2 % and 10 KB: malloc gives a large block whole pages, and the structures around the buffers vary."""
    wrong = []
    for heap in heaps([(name, make()) for name, make in SINGLE.items()], tmp_path):
        own = heap.own - BUILTIN_RUN_BYTES
        if not heap.packed or abs(heap.packed - own) > 0.02 * own + 10_000:
            wrong.append((heap.name, own, heap.packed))
    assert not wrong


@measured
def test_whole_models_take_what_is_predicted(tmp_path: Path) -> None:
    models = [(p.name, p.read_bytes()) for p in EXAMPLES] + [(f"dag {i}", random_dag(i, 40)) for i in range(12)]
    found = heaps(models, tmp_path)
    taken = [h for h in found if h.line.bytes]
    assert len(taken) > len(found) // 2
    for h in taken:
        own = h.own - BUILTIN_RUN_BYTES
        assert abs(h.packed - own) <= 0.12 * own + 6_000, h
    errors = [abs(h.packed + h.structures - h.loaded - h.own) / (h.loaded + h.own) for h in found]
    assert statistics.median(errors) < 0.05
    assert max(errors) < 0.15


@of_glibc
def test_the_interpreter_and_its_kernels_take_what_is_predicted(tmp_path: Path) -> None:
    """To 12 % and 8 KB: with kernels that copy their operands, and with some that do not."""
    kinds = ("float32", "int8", "dynamic")
    shapes = ((8, 16, 16, 1, 1), (32, 18, 16, 1, 1), (16, 16, 20, 3, 1), (4, 256, 256, 1, 1), (33, 3, 24, 5, 2))
    models = [
        *((p.name, p.read_bytes()) for p in EXAMPLES),
        *((f"conv {s} {t}", conv(*s[:4], stride=s[4], dtype=t)) for s in shapes for t in kinds),
        *((f"up {s} {t}", conv(*s, stride=2, dtype=t, code="TRANSPOSE_CONV"))
          for s in ((8, 16, 16, 2), (32, 16, 8, 3), (64, 16, 16, 2)) for t in kinds),
        *((f"dense {s} {t}", dense(*s, t)) for s in ((1, 256, 256), (2, 256, 256), (64, 128, 512)) for t in kinds),
        ("matmul", matmul(False)), ("pool", pool("MAX_POOL_2D", 32, 3, 2)), ("resize", resize()),
    ]  # fmt: skip
    wrong = []
    for h in heaps(models, tmp_path, "--xnnpack", "off"):
        assert h.line == Line.none()
        taken = h.loaded + h.own
        if abs(h.structures - taken) > 0.12 * taken + 8_000:
            wrong.append((h.name, taken, h.structures))
    assert not wrong


# --- without a runtime ----------


# What a log of malloc showed for single ops in ai-edge-litert 2.3.0 on x86-64 with AVX2: weights, pointers.
LOGGED: tuple[tuple[bytes, int, int], ...] = (
    (conv(32, 16, 24, 3), 18560, 73800),
    (conv(32, 16, 24, 3, dtype="int8"), 3648, 73872),
    (conv(32, 16, 24, 3, dtype="dynamic"), 3776, 73728),
    (conv(8, 16, 12, 3), 9280, 5040),
    (conv(3, 16, 24, 3), 18560, 720),
    (conv(32, 17, 25, 1), 2304, 0),
    (conv(32, 17, 25, 1, dtype="int8"), 1024, 0),
    (conv(32, 40, 40, 3, stride=2, code="DEPTHWISE_CONV_2D"), 1920, 12672),
    (conv(32, 40, 40, 5, dtype="int8", code="DEPTHWISE_CONV_2D"), 1600, 46080),
    (conv(32, 40, 40, 7, code="DEPTHWISE_CONV_2D"), 64000, 403760),
    (conv(32, 24, 24, 4, code="DEPTHWISE_CONV_2D"), 3328, 35968),
    (conv(32, 24, 48, 3, code="DEPTHWISE_CONV_2D", made=2), 7680, 74160),
    (conv(16, 16, 24, 3, stride=2, code="TRANSPOSE_CONV"), 18944, 73728),
    (conv(16, 16, 24, 2, stride=2, dtype="int8", code="TRANSPOSE_CONV"), 2304, 32768),
    (dense(1, 200, 125, "float32"), 102912, 0),
    (dense(1, 200, 125, "int8"), 26624, 0),
    (dense(1, 200, 125, "dynamic"), 27136, 0),
    (pool("MAX_POOL_2D", 32, 3, 1), 0, 26176),
    (pool("AVERAGE_POOL_2D", 32, 3, 1), 4096, 2512),
    (pool("AVERAGE_POOL_2D", 32, 3, 2), 1024, 1648),
)


def test_buffers_are_those_that_were_allocated() -> None:
    for data, weights, pointers in LOGGED:
        graph = read_bytes(data)
        op = graph.subgraphs[0].ops[-1]
        found = held(graph, op, X86_64)
        assert (found.weights_bytes, found.pointers_bytes) == (weights, pointers), (op.code, graph.subgraphs[0].tensors)


def test_tiles_follow_the_instruction_set() -> None:
    graph = read_bytes(conv(64, 17, 40, 3, dtype="int8"))
    op = graph.subgraphs[0].ops[0]
    sizes = {isa: held(graph, op, tiles(isa)).weights_bytes for isa in ((), ("asimd",), ("asimd", "dotprod"))}
    assert sizes == {
        (): (9 * 24 + 8) * 40,
        ("asimd",): -(-(9 * 17 + 8) * 48 // 64) * 64,
        ("asimd", "dotprod"): (9 * 20 + 8) * 48,
    }
    assert tiles(("asimd", "dotprod", "i8mm")).matrix["int8"].kr == 8
    assert tiles(("avx2",)) is X86_64


def test_a_broken_op_has_no_buffers() -> None:
    model = Model()
    g = model.subgraph()
    g.outputs(g.apply("CONV_2D", [g.input((4,))], (4,)))
    graph = read_bytes(model.build())
    assert held(graph, graph.subgraphs[0].ops[0], X86_64).weights_bytes == 0


def test_lines_add_up() -> None:
    exact, open_end = Line.exact(5), Line(10, 5, None, "modelled")
    assert exact + Line(10, 8, 12, "assumed") == Line(15, 13, 17, "assumed")
    assert exact + open_end == Line(15, 10, None, "modelled")
    assert Line.total([]) == Line.none()
