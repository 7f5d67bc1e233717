# SPDX-License-Identifier: Apache-2.0
"""What the tests of ``edgedeploy memory`` share."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from edgedeploy import api
from edgedeploy.__main__ import main
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.plan import Plan

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.tflite"))
UNET = ROOT / "examples" / "unet_128.int8.tflite"
TINY = ROOT / "examples" / "dscnn_kws.int8.tflite"
HOSTILE = '"><script>alert(1)</script><img src=http://x onerror=y>\x1b[31m\u202e\n\x00&amp;'
"""A name that must stay text in a page and on a terminal."""


@cache
def plan_of(path: Path, board: str = "rk3588", **options: str) -> tuple[Plan, Graph]:
    graph = api.read_model(path)
    return api.partition(graph, board, name=path.name, **options), graph


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """``edgedeploy memory``: the exit code, stdout and stderr."""
    code = main(["memory", *map(str, arguments)])
    shown = capsys.readouterr()
    return code, shown.out, shown.err
