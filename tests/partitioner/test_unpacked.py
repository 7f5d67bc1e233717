# SPDX-License-Identifier: Apache-2.0
"""Constants that ops of the model unpack, in random graphs: claims, arenas and warnings against the runtimes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from edgedeploy import partition
from edgedeploy_partitioner.memory.arena import arena
from edgedeploy_partitioner.memory.reordering import stock_nodes
from edgedeploy_partitioner.model.build import Model, Subgraph, per_tensor
from edgedeploy_partitioner.model.facts import runtime_refusals
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_profiles.load import load_runtime
from support.arenas import real_bytes
from support.runtime import inspect_all
from support.runtimes import EVERY, HERE, Runtime, any_or_skip
from support.trials import run_all
from support.unpacked_model import unpacked_dag

MODELS = 150
PLANNED = 50
OPS = 8
XNNPACK_FAILS = frozenset({"xnnpack_fails", "xnnpack_unwritten"})


@pytest.fixture(params=EVERY, ids="-".join)
def runtime(request: pytest.FixtureRequest) -> Runtime:
    runtime = any_or_skip(*request.param)
    if runtime is HERE and runtime.version != "2.3.0":
        pytest.skip(f"there is no census of {runtime.title}")
    return runtime


@pytest.mark.parametrize("xnnpack", [True, False])
def test_claims_and_arenas(xnnpack: bool, runtime: Runtime) -> None:
    """Predicted from the file alone. What the runtime does not run with XNNPACK is said."""
    census = load_runtime(runtime.name, runtime.version)
    models = [unpacked_dag(seed, OPS) for seed in range(MODELS)]
    seen: Counter[str] = Counter()
    for seed, answer in enumerate(inspect_all(models, xnnpack=xnnpack, run=True, runtime=runtime)):
        graph = read_bytes(models[seed])
        if answer.failure:
            assert xnnpack, (seed, answer.failure)
            assert XNNPACK_FAILS & {f.code for f in runtime_refusals(graph, census)}, (seed, answer.failure)
            continue
        nodes = stock_nodes(graph, 0, census, xnnpack=xnnpack)
        claimed = {m for node in nodes if node.op is None for m in node.members}
        assert claimed == answer.claimed(), seed
        predicted = arena(graph, graph.subgraphs[0], nodes, 1, runtime.release)
        assert predicted.exact
        assert answer.subgraphs is not None
        assert (predicted.bytes, predicted.persistent_bytes) == real_bytes(answer.subgraphs[0]), seed
        seen["ran"] += 1
        seen.update(f"{graph.subgraphs[0].ops[i].code} is {'taken' if i in claimed else 'left'}"
                    for i in graph.subgraphs[0].folded)  # fmt: skip
    assert seen["ran"] > MODELS / 2
    taken = ["DENSIFY is taken", "DEQUANTIZE is taken"] if xnnpack else []
    assert min(seen[what] for what in [*taken, "DENSIFY is left", "DEQUANTIZE is left"]) > 5


def test_the_arena_of_a_plan(runtime: Runtime) -> None:
    models = [unpacked_dag(seed, OPS) for seed in range(1000, 1000 + PLANNED)]
    exact = 0
    for model, answer in zip(models, inspect_all(models, run=True, runtime=runtime), strict=True):
        plan = partition(read_bytes(model), "rpi5", runtime=f"{runtime.name}=={runtime.version}", threads=1)
        if plan.memory.arena_exact and not answer.failure:
            exact += 1
            assert answer.subgraphs is not None
            assert (plan.memory.arena_bytes, plan.memory.persistent_bytes) == real_bytes(answer.subgraphs[0])
    assert exact > PLANNED / 2


def half(g: Subgraph) -> int:
    return g.apply("DEQUANTIZE", [g.constant(np.ones((4, 6), np.float16))], (4, 6))


def eight(g: Subgraph) -> int:
    stored = g.constant(np.full((4, 6), 3, np.int8), quant=per_tensor(0.5))
    return g.apply("DEQUANTIZE", [stored], (4, 6))


def sparse(g: Subgraph) -> int:
    return g.apply("DENSIFY", [g.sparse_constant(np.eye(4, 6, dtype=np.float32))], (4, 6))


def chain(g: Subgraph) -> int:
    dense = g.apply("DENSIFY", [g.sparse_constant(np.eye(4, 6, dtype=np.float16))], (4, 6), "float16")
    return g.apply("DEQUANTIZE", [dense], (4, 6))


@pytest.mark.parametrize("reader", ["nobody", "caller", "ADD", "ADD and caller", "REVERSE_V2"])
@pytest.mark.parametrize("unpacked", [half, eight, sparse, chain])
def test_a_constant_that_xnnpack_does_not_write_is_said(unpacked: object, reader: str, tmp_path: Path) -> None:
    """It is wrong, or the run fails, exactly where somebody else than XNNPACK reads what an op unpacks for it."""
    model = Model()
    g = model.subgraph()
    assert callable(unpacked)
    x, t = g.apply("ABS", [g.input((4, 6))], (4, 6)), unpacked(g)
    g.outputs(x)
    if "ADD" in reader:
        g.outputs(g.apply("ADD", [x, t], (4, 6)))
    if reader == "REVERSE_V2":
        g.outputs(g.apply("REVERSE_V2", [t, g.constant(np.zeros(1, np.int32))], (4, 6)))
    if "caller" in reader:
        g.outputs(t)
    data = model.build()
    found = runtime_refusals(read_bytes(data), load_runtime("ai-edge-litert", "2.3.0"))
    said = "xnnpack_unwritten" in {f.code for f in found}
    digests = [run_all(tmp_path, [data], arguments=[["--digests", "1"]], xnnpack=on)[0] for on in (True, False)]
    assert digests[1]["stage"] == "done"
    assert said == (digests[0].get("digests") != digests[1]["digests"])
    assert said == ("caller" in reader or (reader == "REVERSE_V2" and unpacked is chain))
