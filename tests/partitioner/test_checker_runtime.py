# SPDX-License-Identifier: Apache-2.0
"""The checker's own epoch rule and arena, against the runtime on random models."""

from __future__ import annotations

import random
from pathlib import Path

import flatbuffers
import numpy as np

from edgedeploy_partitioner.checker.arena import ArenaNode, possible_arenas
from edgedeploy_partitioner.checker.epochs import claim, node_of
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.model.schema import SCHEMA
from support import runtime
from support.handmade import measured_arena, variables
from support.random_model import random_dag

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.tflite"))


def random_claims(seed: int, graph: Graph) -> list[list[int]]:
    rng = random.Random(seed)
    left = [op.index for op in graph.subgraphs[0].ops]
    claims = []
    for _ in range(rng.randint(1, 4)):
        ops = [i for i in left if rng.random() < 0.4]
        left = [i for i in left if i not in ops]
        claims.append(ops)
    return claims


def shuffled(model: bytes, seed: int) -> bytes:
    """The same graph with its ops in any order of the file."""
    value = SCHEMA.ModelT.InitFromPackedBuf(model)
    random.Random(seed).shuffle(value.subgraphs[0].operators)
    builder = flatbuffers.Builder(1024)
    builder.Finish(value.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def test_the_epoch_rule_is_the_runtime_s() -> None:
    models = [random_dag(seed, 4 + seed % 17) for seed in range(20)]
    models += [shuffled(random_dag(seed, 8), seed) for seed in range(12)] + [variables()] * 30
    graphs = [read_bytes(model) for model in models]
    claims = [random_claims(seed, graph) for seed, graph in enumerate(graphs)]
    answers = runtime.inspect_all(models, claims=claims, xnnpack=False)
    several = 0
    for graph, calls, answer in zip(graphs, claims, answers, strict=True):
        assert answer.subgraphs is not None, answer.failure
        (subgraph,) = graph.subgraphs
        nodes = [node_of(subgraph, op.index) for op in subgraph.ops]
        for call in calls:
            replayed = claim(subgraph, nodes, frozenset(call))
            assert replayed is not None
            nodes = replayed
        seen = [tuple(n["members"] or (n["op"],)) for n in answer.subgraphs[0]["nodes"]]
        assert [node.ops for node in nodes] == seen
        several += len(seen) > 3
    assert several > 40


def elementwise(seed: int) -> bytes:
    """A random model of small kernels that may write over their inputs, with tensors of several sizes."""
    rng = random.Random(seed)
    written = Model()
    g = written.subgraph()
    sizes = [1, *rng.sample([1, 3, 16, 40, 100], 2)]
    values: list[tuple[int, tuple[int, ...]]] = [(g.input((1, n)), (1, n)) for n in sizes]
    for _ in range(rng.randint(3, 14)):
        (x, shape), (y, other) = rng.choice(values[-4:]), rng.choice(values)
        code = rng.choice(["ADD", "SUB", "MUL", "SOFTMAX", "RESHAPE", "GELU", "CONCATENATION"])
        if code in ("ADD", "SUB", "MUL"):
            fits = other[-1] in (1, shape[-1]) and len(other) == len(shape)
            operands = [x, y if fits else x]
            values.append((g.apply(code, operands[:: rng.choice([1, -1])], shape), shape))
        elif code == "RESHAPE":
            new = (1, *shape) if len(shape) == 2 else shape[1:]
            values.append((g.apply(code, [x, g.constant(np.array(new, np.int32))], new), new))
        elif code == "CONCATENATION":
            new = (*shape[:-1], 2 * shape[-1])
            values.append((g.apply(code, [x, x], new, axis=len(new) - 1), new))
        else:
            values.append((g.apply(code, [x], shape), shape))
    g.outputs(values[-1][0], rng.choice(values)[0])
    return written.build()


def test_the_arena_is_the_runtime_s() -> None:
    """As claimed by XNNPACK, by nobody, and by random claims."""
    models = [random_dag(seed, 6 + seed % 20) for seed in range(40)]
    # 107 and 560 need the runtime's odd comparison of aligned with unaligned gaps.
    models += [elementwise(seed) for seed in (*range(100), 107, 560)]
    models += [path.read_bytes() for path in EXAMPLES]
    claims = [random_claims(seed, read_bytes(model)) for seed, model in enumerate(models)]
    answers = [
        *runtime.inspect_all(models, xnnpack=True),
        *runtime.inspect_all(models, xnnpack=False),
        *runtime.inspect_all(models, xnnpack=False, claims=claims),
    ]
    names = {number: name for name, number in vars(SCHEMA.BuiltinOperator).items() if isinstance(number, int)}
    sole = 0
    for model, answer in zip(models * 3, answers, strict=True):
        if answer.subgraphs is None or answer.failure:
            continue
        subgraph = read_bytes(model).subgraphs[0]
        nodes = [
            ArenaNode(None if n["members"] else names[n["code"]], tuple(n["inputs"]), tuple(n["outputs"]))
            for n in answer.subgraphs[0]["nodes"]
        ]
        tensors = answer.subgraphs[0]["tensors"][: len(subgraph.tensors)]
        fixed = frozenset(i for i, t in enumerate(tensors) if t["allocation"] != "arena_rw") | {-1}
        sizes = possible_arenas(subgraph, nodes, fixed)
        if sizes is not None:
            assert measured_arena(answer.subgraphs[0]) in sizes
            sole += len(sizes) == 1
    assert sole > 150
