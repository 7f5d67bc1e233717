# SPDX-License-Identifier: Apache-2.0
"""XNNPACK's memory and the interpreter's: predicted against the heap of a child process."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from edgedeploy_agent import footprint
from edgedeploy_partitioner.memory.line import Line
from edgedeploy_partitioner.memory.packing import held
from edgedeploy_partitioner.memory.tiles import X86_64, tiles
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.read import read_bytes
from support.heap_models import SINGLE, conv, dense, matmul, pool, resize
from support.heaps import BUILTIN_RUN_BYTES, heaps
from support.random_model import random_dag
from support.userland import core_of

EXAMPLES = sorted(p for p in (Path(__file__).parents[2] / "examples").glob("*.tflite") if "custom" not in p.name)


def flags() -> set[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return set(next((line.split(":")[1].split() for line in lines if line.startswith("flags")), ()))


of_glibc = pytest.mark.skipif(footprint.heap_bytes() is None, reason="the heap is asked of glibc 2.33 or newer")
measured = pytest.mark.skipif(
    "avx2" not in flags() or "avx512f" in flags() or footprint.heap_bytes() is None,
    reason="the tiles are those of x86-64 with AVX2 and without AVX-512, the heap is asked of glibc 2.33 or newer",
)


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


ARM = ("cortex-a53", "cortex-a55", "cortex-a72", "cortex-a76", "cortex-a710")
# The same on these cores in emulation: the weights on each, the pointers on each.
LOGGED_ON_ARM: tuple[tuple[bytes, tuple[int, ...], tuple[int, ...]], ...] = (
    (conv(7, 17, 21, 3), (14784, 14784, 14784, 14784, 14784), (3888, 3888, 3744, 3888, 3888)),
    (conv(7, 17, 5, 3), (3696, 3696, 3696, 3696, 3696), (3744, 3744, 3744, 3744, 3744)),
    (conv(7, 17, 21, 3, dtype="int8"), (5152, 6016, 5376, 6016, 7168), (3744, 3744, 3600, 3744, 3744)),
    (conv(7, 17, 21, 3, dtype="dynamic"), (5280, 6144, 5472, 6144, 7296), (3744, 3744, 3600, 3744, 3744)),
    (conv(7, 36, 36, 3, code="DEPTHWISE_CONV_2D"), (1440, 1440, 1600, 1600, 1600), (1520, 1520, 1520, 1520, 1520)),
    (
        conv(7, 36, 36, 3, dtype="int8", code="DEPTHWISE_CONV_2D"),
        (816, 816, 816, 816, 816),
        (1520, 1520, 1520, 1520, 1520),
    ),
    (
        conv(7, 17, 5, 3, stride=2, code="TRANSPOSE_CONV"),
        (3776, 3776, 3776, 3776, 3776),
        (16128, 16128, 16128, 16128, 16128),
    ),
    (dense(9, 50, 45, "float32"), (9392, 9392, 9392, 9392, 9392), (0, 0, 0, 0, 0)),
    (dense(9, 50, 45, "dynamic"), (2976, 3648, 3264, 3648, 3648), (0, 0, 0, 0, 0)),
)


def test_buffers_are_those_that_were_allocated_on_emulated_arm() -> None:
    for data, weights, pointers in LOGGED_ON_ARM:
        graph = read_bytes(data)
        op = graph.subgraphs[0].ops[-1]
        found = [held(graph, op, tiles(core_of(name))) for name in ARM]
        assert tuple(h.weights_bytes for h in found) == weights, op.code
        assert tuple(h.pointers_bytes for h in found) == pointers, op.code


def test_a_core_without_neon_has_the_tiles_of_x86_64() -> None:
    assert tiles(None) is tiles(core_of("generic-x86-64")) is X86_64


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
