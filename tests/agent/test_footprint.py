# SPDX-License-Identifier: Apache-2.0
"""What a model costs its process, measured in a child."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgedeploy_agent import footprint
from edgedeploy_partitioner.model.build import Model

EXAMPLES = Path(__file__).parents[2] / "examples"
UNET = EXAMPLES / "unet_128.int8.tflite"
KWS = EXAMPLES / "dscnn_kws.int8.tflite"


def measured(*arguments: str | Path) -> tuple[int, list[dict[str, Any]]]:
    command = [sys.executable, "-m", footprint.__name__, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


# Leaves holes of two sizes, as many as said of each, between blocks that stay. Prints their bytes before and after.
HOLED = """
import ctypes, sys
from edgedeploy_agent import footprint
c = ctypes.CDLL(None)
c.malloc.restype, c.malloc.argtypes, c.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
blocks = [c.malloc(size) for _ in range(int(sys.argv[1])) for size in (40, 100, 200, 5000)]
for block in blocks[::2]:
    c.free(block)
ask = footprint._mallinfo2()
before = footprint.holes(ask())
footprint.settle()
print(before, footprint.holes(ask()))
"""


@pytest.mark.skipif(footprint.heap_bytes() is None, reason="glibc 2.33 or newer says what malloc gave out")
def test_a_settled_process_has_no_holes_in_its_heap() -> None:
    done = subprocess.run([sys.executable, "-c", HOLED, "1000"], capture_output=True, text=True, timeout=60, check=True)
    before, after = map(int, done.stdout.split())
    assert before > 200_000
    assert after < 8_000


@pytest.mark.skipif(footprint.heap_bytes() is None, reason="glibc 2.33 or newer says what malloc gave out")
def test_each_stage_has_what_it_adds() -> None:
    status, [unet] = measured("--first", KWS, UNET)
    assert status == 0
    assert tuple(unet["stages"]) == footprint.STAGES
    assert not unet["error"]
    heap = [stage["heap_bytes"] for stage in unet["stages"].values()]
    assert 100_000 < heap[1] - heap[0] < 200_000
    assert 7_000_000 < heap[2] - heap[1] < 9_000_000
    if unet["peak_bytes"] is not None:
        grown = unet["peak_bytes"] - unet["stages"]["before"]["rss_bytes"]
        assert 7_000_000 < grown < 10_000_000


def test_a_model_that_does_not_load_does_not_stop_the_others(tmp_path: Path) -> None:
    bad = tmp_path / "bad.tflite"
    bad.write_bytes(b"no model")
    status, answers = measured(bad, KWS)
    assert status == 1
    assert [bool(answer["error"]) for answer in answers] == [True, False]
    assert "run" in answers[1]["stages"]


def test_a_model_that_never_returns_is_ended_at_its_deadline(tmp_path: Path) -> None:
    written = Model()
    g = written.subgraph()
    x = g.input((1,), "int32")
    g.outputs(g.apply("WHILE", [x], (1,), "int32", cond_subgraph_index=1, body_subgraph_index=2))
    condition = written.subgraph("forever")
    y = condition.input((1,), "int32")
    condition.outputs(condition.apply("EQUAL", [y, y], (1,), "bool"))
    body = written.subgraph("body")
    z = body.input((1,), "int32")
    body.outputs(body.apply("ABS", [z], (1,), "int32"))
    endless = tmp_path / "endless.tflite"
    endless.write_bytes(written.build())
    status, [died, kws] = measured("--deadline", "2", endless, KWS)
    assert status == 1
    assert died["error"] == "SIGALRM"
    assert not kws["error"]


def test_a_process_that_dies_after_it_answered_is_answered_for_once() -> None:
    dying = "import os; from edgedeploy_agent import footprint; os._exit = lambda _: os.abort(); footprint.main()"
    done = subprocess.run(
        [sys.executable, "-c", dying, str(KWS), str(KWS)], capture_output=True, timeout=60, check=True
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["error"] for answer in answers] == ["", ""]
