# SPDX-License-Identifier: Apache-2.0
"""The worker under each runtime that it can meet; `make runtimes` installs the others."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.runtimes import HERE, OTHERS, Runtime, other_or_skip

UNET = Path(__file__).parents[2] / "examples/unet_128.int8.tflite"
TAKEN = {"ai-edge-litert": 20, "tflite-runtime": 0}
"""Ops of 21 that XNNPACK takes by itself: none of a quantised model in tflite-runtime."""


def said(runtime: Runtime, mode: str) -> list[dict[str, Any]]:
    """The events of a worker; its chunks' bytes are left out."""
    task = {
        "mode": mode, "model": str(UNET), "inputs": "", "threads": 1, "cpus": sorted(os.sched_getaffinity(0)),
        "xnnpack": True, "deadline_s": 60, "memory_bytes": 1 << 31, "warmup": 1, "most_runs": 3, "most_s": 0,
        "batch_s": 0.1, "first": "", "root": "/", "parent": os.getpid(),
    }  # fmt: skip
    command, environment = runtime.start("-m", "edgedeploy_agent.worker")
    done = subprocess.run(
        command, input=json.dumps(task).encode() + b"\n", env=environment, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-300:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b'{"')]


@pytest.mark.runtimes
@pytest.mark.parametrize("version", [None, *OTHERS], ids=lambda v: "here" if v is None else f"{v[0]}-{v[1]}")
def test_a_worker_says_the_same_of_a_model_under_every_runtime(version: tuple[str, str] | None) -> None:
    runtime = HERE if version is None else other_or_skip(*version)
    events = {key: value for each in said(runtime, "examine") for key, value in each.items()}
    assert events["runtime"] == {
        "name": runtime.name, "version": runtime.version, "xnnpack_ops": TAKEN[runtime.name], "ops": 21,
    }  # fmt: skip
    samples = [sample for each in said(runtime, "measure") if "batch" in each for sample in each["batch"]["samples_ns"]]
    assert len(samples) == 3
    [chunk] = [each for each in said(runtime, "run") if "chunk" in each]
    assert (chunk["chunk"]["tensor"]["shape"], chunk["bytes"]) == ([1, 128, 128, 4], 128 * 128 * 4)
