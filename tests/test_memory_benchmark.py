# SPDX-License-Identifier: Apache-2.0
"""What the benchmark of memory says of the models in ``examples/``."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from benchmarks.memory.measure import Result, Setting, Skipped, compare
from support.runtimes import HERE

EXAMPLES = Path(__file__).parents[1] / "examples"
CUSTOM = EXAMPLES / "custom_erf.int8.tflite"  # an op that no runtime has


@pytest.mark.parametrize("xnnpack", [True, False])
def test_arenas_are_exact_and_peaks_are_near(xnnpack: bool) -> None:
    models = sorted(EXAMPLES.glob("*.tflite"))
    # A single process was seen eight pages below all others, so of three the one with the median peak counts.
    found = list(compare(models, Setting(HERE, xnnpack), EXAMPLES / "dscnn_kws.int8.tflite", repeats=3))
    assert [f.model for f in found] == models
    assert [f.model for f in found if isinstance(f, Skipped)] == [CUSTOM]
    results = [f for f in found if isinstance(f, Result)]
    assert [r for r in results if r.is_exact and r.arena.error] == []
    assert [r for r in results if r.arena.predicted < r.arena.measured] == []
    if all(r.peak is None for r in results):
        pytest.skip("the kernel does not let a process reset its peak")
    assert [r for r in results if not r.is_inside] == []
    assert statistics.median(abs(r.peak.error) for r in results if r.peak is not None) < 0.08
