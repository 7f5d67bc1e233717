# SPDX-License-Identifier: Apache-2.0
"""The agent beside the other runtimes: what they execute is read in the same way."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.runtime import inspect_all
from support.runtimes import OTHERS, other_or_skip

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.runtimes
@pytest.mark.parametrize(("name", "version"), OTHERS)
def test_another_runtime_says_what_it_executes(name: str, version: str) -> None:
    runtime = other_or_skip(name, version)
    unet, kws = (EXAMPLES / f for f in ("unet_128.int8.tflite", "dscnn_kws.int8.tflite"))
    for model in (unet, kws):
        [answer] = inspect_all([model.read_bytes()], run=True, runtime=runtime)
        assert not answer.failure
        # tflite-runtime 2.14 has XNNPACK for floats only, unless it is asked.
        assert bool(answer.claimed()) == (name == "ai-edge-litert")
