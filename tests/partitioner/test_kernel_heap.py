# SPDX-License-Identifier: Apache-2.0
"""What built-in kernels take beside the arena, and what of arenas is never written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.memory.measure import Result, Setting, compare
from edgedeploy import partition
from edgedeploy_agent import footprint
from edgedeploy_partitioner.checker import check
from edgedeploy_partitioner.memory import gemmlowp, ruy
from edgedeploy_partitioner.memory.malloc import Malloc
from edgedeploy_partitioner.memory.ruy import Product, layout
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.read import read_bytes
from support.heap_models import conv, dense
from support.heaps import BUILTIN_RUN_BYTES, heaps
from support.runtimes import HERE, OTHERS, Runtime, other_or_skip

TINY = Path(__file__).parents[2] / "examples/dscnn_kws.int8.tflite"
AVX512, AVX2 = ("avx2", "fma", "avx512"), ("avx2", "fma")

# What a log of malloc showed for products of whole models in tflite-runtime 2.14.0 on x86-64 with AVX-512: the blocks.
LOGGED = (
    (Product(32, 1, 200), [7424, 128, 4224, 64]),
    (Product(1, 1, 320), [6144, 64, 6144, 64]),
    (Product(4, 1, 4000), [65024, 64, 65024, 64]),
    (Product(16, 6724, 9), [1216, 64, 81856, 26944]),
    (Product(64, 196, 32), [3072, 256, 7680, 832]),
)


def test_blocks_of_ruy_are_those_that_were_allocated() -> None:
    for product, blocks in LOGGED:
        assert list(ruy.blocks(product, layout(AVX512))) == blocks


def test_rows_that_share_lines_of_a_cache_are_moved_apart() -> None:
    """A depth of 1024 bytes takes 64 more a row; and the tile of AVX2 has half the rows."""
    assert list(ruy.blocks(Product(8, 8, 1024), layout(AVX2))) == [8 * 1088 + 1024, 64] * 2
    assert list(ruy.blocks(Product(8, 8, 1020), layout(AVX2))) == [9216, 64] * 2  # 8 * 1020 + 1024, to 64
    assert list(ruy.blocks(Product(8, 8, 1024), layout(AVX512))) == [16 * 1088 + 1024, 64] * 2


def test_what_does_not_fit_is_added_to_the_buffer() -> None:
    """As logged, but for 192 bytes that it keeps of the first: the operands of the second are added, its sums fit."""
    buffer, sizes = ruy.Buffer(Malloc(1 << 20)), []
    for product in (Product(8, 500, 80), Product(4, 1, 4000), Product(8, 500, 80)):
        buffer.multiply(product, layout(AVX512))
        sizes.append(buffer.bytes)
    assert sizes == [46400, 46400 + 2 * 65024, 46400 + 2 * 65024]


def test_the_buffer_of_gemmlowp_is_a_power_of_two_and_written_in_part() -> None:
    product = Product(8, 4096, 27)
    needed = 4096 * 32 + 4096 * 4 + 8 * 32 + 64 + 4 * 8 * 4096  # rows padded to 16 products, sums, results
    assert gemmlowp.needed_bytes(product) == needed
    assert gemmlowp.needed_bytes(Product(4096, 8, 27)) == needed
    malloc = Malloc(128 << 10)
    buffer = gemmlowp.Buffer(malloc)
    buffer.multiply(product)
    assert buffer.bytes == 1 << 19
    assert needed <= malloc.peak_bytes < needed + 4096


def products(transposed_left: bool, stored_right: bool) -> Model:
    """Of a matrix by another, both computed; ``stored_right``: as the product reads it."""
    model = Model()
    g = model.subgraph()
    left, right = (g.apply("ABS", [g.input((512, 512))], (512, 512)) for _ in range(2))
    made = g.apply("BATCH_MATMUL", [left, right], (512, 512), adj_x=transposed_left, adj_y=stored_right)
    g.outputs(made)
    return model


@pytest.mark.parametrize(("transposed_left", "stored_right", "unwritten"), [
    (False, False, 1), (False, True, 2), (True, True, 1), (True, False, 0),
])  # fmt: skip
def test_room_to_transpose_that_is_not_needed_takes_no_memory(
    transposed_left: bool, stored_right: bool, unwritten: int, tmp_path: Path
) -> None:
    """All of it is in the arena, and the peak is less."""
    path = tmp_path / "m.tflite"
    path.write_bytes(products(transposed_left, stored_right).build())
    graph = read_bytes(path.read_bytes())
    plan = partition(graph, "local", xnnpack="off")
    assert check(plan, graph) == ()
    memory, size = plan.memory, 4 * 512 * 512
    assert memory.arena_bytes == 7 * size
    assert abs(memory.unwritten_bytes - unwritten * size) <= 2 * 4096
    lines = ("arena_bytes", "persistent_bytes", "interpreter_bytes", "model_bytes")
    assert memory.peak_bytes == sum(getattr(memory, line) or 0 for line in lines) - memory.unwritten_bytes
    assert near(path, HERE, 0.06)


def grown() -> bytes:
    """A result that is sized at run time makes the arena grow by a little, which copies all of it."""
    model = Model()
    g = model.subgraph()
    big = g.apply("ABS", [g.input((1 << 19,))], (1 << 19,))
    shaped = g.apply("RESHAPE", [big, g.input((2,), "int32")], (1 << 9, 1 << 10))
    g.outputs(g.apply("ABS", [shaped], (1 << 9, 1 << 10)), big)
    return model.build()


def test_an_arena_that_grows_is_there_twice() -> None:
    """The input and what is made of it are copied; the result of the reshape is added."""
    memory = partition(read_bytes(grown()), "local", xnnpack="off").memory
    size = 4 << 19
    assert 3 * size <= memory.arena_bytes <= 4 * size + 128
    assert memory.interpreter_bytes is not None
    assert memory.arena_bytes + memory.interpreter_bytes >= 4 * size


def near(path: Path, runtime: Runtime, most: float, xnnpack: bool = False) -> bool:
    """Is the measured peak near the predicted one? True where it cannot be measured."""
    [found] = compare([path], Setting(runtime, xnnpack), TINY, 3)
    assert isinstance(found, Result)
    return found.peak is None or abs(found.peak.error) < most


# --- against runtimes ----------


@pytest.fixture(params=[None, *OTHERS], ids=lambda them: "-".join(them) if them else "here")
def runtime(request: pytest.FixtureRequest) -> Runtime:
    return HERE if request.param is None else other_or_skip(*request.param)


@pytest.mark.runtimes
@pytest.mark.skipif(footprint.heap_bytes() is None, reason="the heap is asked of glibc 2.33 or newer")
def test_the_heap_of_built_in_kernels(runtime: Runtime, tmp_path: Path) -> None:
    """To 2 % and 10 KB, as what a process keeps whatever the model differs from one environment to the next."""
    shapes = ((8, 16, 16, 1), (32, 18, 16, 1), (16, 16, 20, 3), (4, 256, 256, 1), (33, 3, 24, 5))
    models = [
        *((f"conv {s} {t}", conv(*s, dtype=t)) for s in shapes for t in ("int8", "uint8", "dynamic", "loops")),
        *((f"dense {s} {t}", dense(*s, t)) for s in ((1, 256, 256), (1, 4000, 4), (64, 128, 512), (3, 1024, 9))
          for t in ("int8", "int4", "float32")),
    ]  # fmt: skip
    wrong = []
    for h in heaps(models, tmp_path, "--xnnpack", "off", runtime=runtime):
        taken = h.loaded + h.own
        if abs(h.structures + BUILTIN_RUN_BYTES // 2 - taken) > 0.02 * taken + 10_000:
            wrong.append((h.name, taken, h.structures))
    assert not wrong


@pytest.mark.runtimes
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_the_peak_of_a_convolution(dtype: str, runtime: Runtime, tmp_path: Path) -> None:
    """Before LiteRT an int8 kernel clears room to unpack its filters, which is twice as large as they are."""
    path = tmp_path / "m.tflite"
    path.write_bytes(conv(12, 256, 256, 3, dtype=dtype))
    assert near(path, runtime, 0.05)


def residual() -> bytes:
    """Blocks that add what they make to what they read, with the activations as ops of their own."""
    model = Model()
    g = model.subgraph()
    shape = (1, 96, 96, 16)
    strides: dict[str, Any] = {"stride_w": 1, "stride_h": 1}
    weights, bias = g.constant(np.ones((16, 1, 1, 16), np.float32)), g.constant(np.zeros(16, np.float32))
    taps = g.constant(np.ones((1, 3, 3, 16), np.float32))
    x = g.apply("RELU", [g.apply("CONV_2D", [g.input(shape), weights, bias], shape, **strides)], shape)
    for _ in range(8):
        made = g.apply("DEPTHWISE_CONV_2D", [x, taps, bias], shape, padding="SAME", depth_multiplier=1, **strides)
        made = g.apply("CONV_2D", [made, weights, bias], shape, **strides)
        x = g.apply("RELU", [g.apply("ADD", [made, x], shape)], shape)
    pool: dict[str, Any] = {"filter_width": 2, "filter_height": 2, "stride_w": 2, "stride_h": 2}
    g.outputs(g.apply("MAX_POOL_2D", [x], (1, 48, 48, 16), padding="SAME", **pool))
    return model.build()


def test_xnnpack_of_2_14_makes_activations_part_of_the_op_before() -> None:
    """The workspace is the one that was logged, of ten values of 589,824 bytes; 25 if ops and activations are apart."""
    graph = read_bytes(residual())
    peaks = [
        partition(graph, "local", runtime=runtime, npu="none").memory.packed_bytes
        for runtime in ("tflite-runtime==2.14.0", "ai-edge-litert==2.1.0")
    ]
    assert peaks[0] is not None
    assert peaks[1] is not None
    assert 5_898_272 < peaks[0] < 5_898_272 + 2_100_000  # the pointers of the depthwise filters
    assert peaks[1] > 14_745_632


@pytest.mark.runtimes
def test_the_peak_of_xnnpack_with_activations_apart(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(residual())
    assert near(path, other_or_skip("tflite-runtime", "2.14.0"), 0.05, xnnpack=True)
