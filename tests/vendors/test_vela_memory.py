# SPDX-License-Identifier: Apache-2.0
"""The memory of Ethos-U models against what Arm's own compiler plans, on files of its own making.

Needs ``pip install -e '.[ethosu]'``.
"""

from __future__ import annotations

import pytest

from benchmarks.cost.networks import mlperf_tiny, plain
from benchmarks.cost.vela import to_bytes
from benchmarks.memory.npu import PARTS, whole
from edgedeploy_partitioner.memory.npu_stacks import npu_memory
from edgedeploy_profiles import load_backend, load_board
from support import vela

pytestmark = pytest.mark.skipif(
    vela.version() is None, reason="ethos-u-vela is not installed: pip install -e '.[ethosu]'"
)


def test_the_dram_that_vela_plans_is_within_the_bounds() -> None:
    stack = load_board("imx93").stacks["ethosu"]
    graphs = [mlperf_tiny.visual_wake_words("int8"), plain.squeezenet(224, "int8"), mlperf_tiny.tiny_resnet("int8")]
    for graph, compiled in zip(graphs, vela.compile_all(map(to_bytes, graphs)), strict=True):
        assert not compiled.failure
        npu = npu_memory(load_backend(stack.backend), stack, graph)
        amounts = npu.amounts(graph.subgraphs[0], whole(graph))
        line = npu.line({name: amounts[name] for name in PARTS["dram"]})
        assert line.high_bytes is not None
        assert line.low_bytes <= compiled.peak_bytes["Dram"] <= line.high_bytes, graph.subgraphs[0].name
        assert compiled.peak_bytes["Sram"] <= stack.memory["fixed_bytes"].highest
