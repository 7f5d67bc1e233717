# SPDX-License-Identifier: Apache-2.0
"""The worker under each runtime that it can meet; `make runtimes` installs the others."""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.entries import DEPTH, FACTORS, two_signatures
from support.runtimes import HERE, OTHERS, Runtime, other_or_skip

UNET = Path(__file__).parents[2] / "examples/unet_128.int8.tflite"
TAKEN = {"ai-edge-litert": 20, "tflite-runtime": 0}
"""Ops of 21 that XNNPACK takes by itself: none of a quantised model in tflite-runtime."""


def said(runtime: Runtime, mode: str, *values: Any, **more: Any) -> list[dict[str, Any]]:
    """The events of a worker, which is sent ``values``; its chunks' bytes are added to them."""
    task = {
        "mode": mode, "model": str(UNET), "inputs": "", "threads": 1, "cpus": sorted(os.sched_getaffinity(0)),
        "xnnpack": True, "deadline_s": 60, "memory_bytes": 1 << 31, "warmup": 1, "most_runs": 3, "most_s": 0,
        "batch_s": 0.1, "first": "", "root": "/", "parent": os.getpid(), "signature": "", "shapes": [],
        "delegate": "", "plan": "", **more,
    }  # fmt: skip
    data = b"".join(value.tobytes() for value in values)
    command, environment = runtime.start("-m", "edgedeploy_agent.worker")
    done = subprocess.run(
        command,
        input=json.dumps(task).encode() + b"\n" + data,
        env=environment,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-300:]
    events, answer = [], io.BytesIO(done.stdout)
    for line in iter(answer.readline, b""):
        events.append(json.loads(line))
        if "chunk" in events[-1]:
            events[-1]["data"] = answer.read(events[-1]["bytes"])
    return events


def each_runtime(version: tuple[str, str] | None) -> Runtime:
    return HERE if version is None else other_or_skip(*version)


VERSIONS = pytest.mark.parametrize("version", [None, *OTHERS], ids=lambda v: "here" if v is None else f"{v[0]}-{v[1]}")


@pytest.mark.runtimes
@VERSIONS
def test_a_worker_says_the_same_of_a_model_under_every_runtime(version: tuple[str, str] | None) -> None:
    runtime = each_runtime(version)
    events = {key: value for each in said(runtime, "examine") for key, value in each.items()}
    assert events["runtime"] == {
        "name": runtime.name, "version": runtime.version, "xnnpack_ops": TAKEN[runtime.name], "ops": 21,
    }  # fmt: skip
    samples = [sample for each in said(runtime, "measure") if "batch" in each for sample in each["batch"]["samples_ns"]]
    assert len(samples) == 3
    [chunk] = [each for each in said(runtime, "run") if "chunk" in each]
    assert (chunk["chunk"]["tensor"]["shape"], chunk["bytes"]) == ([1, 128, 128, 4], 128 * 128 * 4)


@pytest.mark.runtimes
@VERSIONS
@pytest.mark.parametrize(("key", "factor"), FACTORS.items())
@pytest.mark.parametrize("rows", [None, 5])
def test_a_signature_runs_in_the_shape_asked_for(
    version: tuple[str, str] | None, key: str, factor: float, rows: int | None, tmp_path: Path
) -> None:
    runtime = each_runtime(version)
    (tmp_path / "m.tflite").write_bytes(two_signatures().build())
    asked: dict[str, Any] = {"model": str(tmp_path / "m.tflite"), "signature": key}
    shape = (rows or list(FACTORS).index(key) + 1, DEPTH)
    if rows:
        asked["shapes"] = [[0, shape]]
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    tensors = [{"name": f"{key}_x", "dtype": "<f4", "shape": list(shape)}]
    [chunk] = [each for each in said(runtime, "run", x, tensors=tensors, **asked) if "chunk" in each]
    found = np.frombuffer(chunk["data"], np.float32).reshape(chunk["chunk"]["tensor"]["shape"])
    np.testing.assert_allclose(found, factor * x, rtol=1e-6)
    events = {name: value for each in said(runtime, "examine", **asked) for name, value in each.items()}
    assert (events["runtime"]["xnnpack_ops"], events["runtime"]["ops"]) == (2, 2)
    samples = [each for each in said(runtime, "measure", **asked) if "batch" in each]
    assert sum(len(each["batch"]["samples_ns"]) for each in samples) == 3
