# SPDX-License-Identifier: Apache-2.0
"""XNNPACK's memory and the interpreter's on arm64, against the heap of a process on the emulated board."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from support.heap_models import SINGLE
from support.heaps import BUILTIN_RUN_BYTES, heaps
from support.random_model import random_dag
from support.userland import Userland, core_of

pytestmark = pytest.mark.board

EXAMPLES = sorted(p for p in (Path(__file__).parents[2] / "examples").glob("*.tflite") if "custom" not in p.name)
CORES = ("cortex-a53", "cortex-a72", "cortex-a76", "cortex-a710")  # each with tiles of its own


@pytest.mark.parametrize("name", CORES)
def test_each_kind_of_op_takes_what_is_predicted(board: Userland, name: str, tmp_path: Path) -> None:
    """To 1 % and 10 KB: malloc gives a large block whole pages, and the structures around the buffers vary."""
    core, wrong = core_of(name), []
    models = [(op, make()) for op, make in SINGLE.items()]
    for heap in heaps(models, tmp_path, core=core, runtime=board.runtime(core)):
        own = heap.own - BUILTIN_RUN_BYTES
        if not heap.packed or abs(heap.packed - own) > 0.01 * own + 10_000:
            wrong.append((heap.name, own, heap.packed))
    assert not wrong


def test_whole_models_take_what_is_predicted(board: Userland, tmp_path: Path) -> None:
    core = core_of("cortex-a53")  # which unpacks weights in half precision
    models = [(p.name, p.read_bytes()) for p in EXAMPLES] + [(f"dag {i}", random_dag(i, 40)) for i in range(4)]
    found = heaps(models, tmp_path, core=core, runtime=board.runtime(core))
    taken = [h for h in found if h.packed]
    assert len(taken) > len(found) // 2
    for h in taken:
        own = h.own - BUILTIN_RUN_BYTES
        assert abs(h.packed - own) <= 0.15 * own + 12_000, h
    errors = [abs(h.packed + h.structures - h.loaded - h.own) / (h.loaded + h.own) for h in found]
    assert statistics.median(errors) < 0.05
    assert max(errors) < 0.12
