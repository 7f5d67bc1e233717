# SPDX-License-Identifier: Apache-2.0
"""``edgedeploy --help`` starts fast: it imports nothing that only a command needs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "startup.py"
HEAVY = (
    "ai_edge_litert",
    "edgedeploy.api",
    "edgedeploy_profiles",
    "flatbuffers",
    "highspy",
    "msgspec",
    "numpy",
    "rich",
)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from edgedeploy.__main__ import main; main(['--help']); "
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.strip() == "[]"


def test_help_takes_less_than_three_times_as_long_as_importing_numpy() -> None:
    spec = importlib.util.spec_from_file_location("startup", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    startup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(startup)
    numpy_s, help_s = (min(times) for times in startup.measure(5).values())
    assert help_s < 3 * numpy_s
