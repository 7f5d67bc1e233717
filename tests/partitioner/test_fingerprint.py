# SPDX-License-Identifier: Apache-2.0
"""Graph fingerprints, against bytes written down by hand and against what the real runtime shows a delegate."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.fingerprint import TFLITE_TYPE, fingerprints
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Subgraph, Tensor
from edgedeploy_partitioner.model.read import read_bytes, read_model

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.tflite"))


def small_graph() -> Graph:
    """CONV_2D without bias, then a custom op; tensor 5 is touched by no op."""
    tensors = (
        Tensor(0, "x", (1, 4, 4, 2), DType.INT8),
        Tensor(1, "w", (3, 1, 1, 2), DType.INT8),
        Tensor(2, "y", (1, 4, 4, 3), DType.INT8),
        Tensor(3, "half", (2,), DType.FLOAT16),
        Tensor(4, "z", (), DType.FLOAT32),
        Tensor(5, "unused", (7,), DType.INT64),
    )
    ops = (Op(0, 0, "CONV_2D", (0, 1, -1), (2,)), Op(0, 1, "CUSTOM", (2, 3), (4,), custom_code="Föö"))
    return Graph("0" * 64, 0, 3, "", (Subgraph(0, "main", tensors, ops, (0, 5), (4,)),))


def test_the_hashed_bytes_are_those_of_the_document() -> None:
    name = "Föö".encode()
    expected = b"".join(
        [
            struct.pack("<i", 2),
            struct.pack("<2i", 3, 0) + struct.pack("<4i", 3, 0, 1, -1) + struct.pack("<2i", 1, 2),
            struct.pack("<2i", 32, 5) + name + struct.pack("<3i", 2, 2, 3) + struct.pack("<2i", 1, 4),
            struct.pack("<7i", 0, 9, 4, 1, 4, 4, 2),
            struct.pack("<7i", 1, 9, 4, 3, 1, 1, 2),
            struct.pack("<7i", 2, 9, 4, 1, 4, 4, 3),
            struct.pack("<4i", 3, 10, 1, 2),
            struct.pack("<3i", 4, 1, 0),
        ]
    )
    assert fingerprints(small_graph()) == (hashlib.sha256(expected).hexdigest(),)


def edit_op(graph: Graph, op: int, **changes: Any) -> Graph:
    (subgraph,) = graph.subgraphs
    ops = list(subgraph.ops)
    ops[op] = replace(ops[op], **changes)
    return replace(graph, subgraphs=(replace(subgraph, ops=tuple(ops)),))


def edit_tensor(graph: Graph, tensor: int, **changes: Any) -> Graph:
    (subgraph,) = graph.subgraphs
    tensors = list(subgraph.tensors)
    tensors[tensor] = replace(tensors[tensor], **changes)
    return replace(graph, subgraphs=(replace(subgraph, tensors=tuple(tensors)),))


@pytest.mark.parametrize(
    "change",
    [
        lambda g: edit_op(g, 0, code="DEPTHWISE_CONV_2D"),
        lambda g: edit_op(g, 0, inputs=(0, 1)),
        lambda g: edit_op(g, 0, inputs=(1, 0, -1)),
        lambda g: edit_op(g, 1, custom_code="Fö"),
        lambda g: edit_op(g, 1, outputs=(5,)),
        lambda g: edit_tensor(g, 2, dtype=DType.UINT8),
        lambda g: edit_tensor(g, 2, shape=(1, 4, 3, 4)),
        lambda g: edit_tensor(g, 4, shape=(1,)),
    ],
)
def test_what_claims_rest_on_is_hashed(change: Callable[[Graph], Graph]) -> None:
    assert fingerprints(change(small_graph())) != fingerprints(small_graph())


@pytest.mark.parametrize(
    "change",
    [
        lambda g: edit_op(g, 0, options={"padding": "VALID"}),
        lambda g: edit_op(g, 0, version=5),
        lambda g: edit_op(g, 0, custom_code="on a builtin op the runtime drops it"),
        lambda g: edit_op(g, 1, custom_code="Föö\0cut"),
        lambda g: edit_tensor(g, 2, name="other"),
        lambda g: edit_tensor(g, 2, signature=(-1, 4, 4, 3)),
        lambda g: edit_tensor(g, 5, shape=(9,)),
    ],
)
def test_what_a_delegate_cannot_see_or_need_not_is_not_hashed(change: Callable[[Graph], Graph]) -> None:
    assert fingerprints(change(small_graph())) == fingerprints(small_graph())


def test_ops_beyond_the_schema() -> None:
    newer, unknown = (edit_op(small_graph(), 0, code=code) for code in ("BUILTIN_300", "NOTHING"))
    assert fingerprints(newer) != fingerprints(small_graph())
    with pytest.raises(InputError, match="op 0 of subgraph 0: NOTHING"):
        fingerprints(unknown)


# --- against the runtime ---------------------------------------------

_LOOK = """
import json, sys
from edgedeploy_agent import inspector
runtime = inspector._runtime()
off = runtime.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
for path in sys.argv[1:]:
    plans = inspector.executed_plans(runtime.Interpreter(path, experimental_op_resolver_type=off))
    nodes = [[(n.code, n.name, n.inputs, n.outputs) for n in p.nodes] for p in plans]
    print(json.dumps([nodes, [[(t.type, t.shape) for t in p.tensors] for p in plans]]), flush=True)
"""


def seen_by_a_delegate(*paths: Path) -> list[tuple[str, ...]]:
    """The fingerprints computed from live contexts before anything is prepared, in a child process."""
    done = subprocess.run(
        [sys.executable, "-c", _LOOK, *map(str, paths)],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return [tuple(_context_hash(*subgraph) for subgraph in zip(*answer, strict=True)) for answer in answers]


def _context_hash(nodes: list[Any], tensors: list[Any]) -> str:
    words: list[bytes] = [len(nodes).to_bytes(4, "little")]
    touched = set()
    for code, name, inputs, outputs in nodes:
        words += [struct.pack("<ii", code, len(name.encode())), name.encode()]
        words += [struct.pack(f"<{1 + len(ids)}i", len(ids), *ids) for ids in (inputs, outputs)]
        touched |= {*inputs, *outputs} - {-1}
    for i in sorted(touched):
        kind, shape = tensors[i]
        words.append(struct.pack(f"<{3 + len(shape)}i", i, kind, len(shape), *shape))
    return hashlib.sha256(b"".join(words)).hexdigest()


def test_every_example_has_the_fingerprint_that_the_runtime_shows() -> None:
    assert EXAMPLES
    assert seen_by_a_delegate(*EXAMPLES) == [fingerprints(read_model(path)) for path in EXAMPLES]


def test_every_element_type_has_the_number_of_the_runtime(tmp_path: Path) -> None:
    written = Model()
    g = written.subgraph()
    typed = [g.input((2,), dtype.value) for dtype in DType]
    g.op("CUSTOM", typed, [g.tensor((1,))], custom_code="Everything")
    path = tmp_path / "types.tflite"
    path.write_bytes(written.build())
    [seen] = seen_by_a_delegate(path)
    assert seen == fingerprints(read_model(path))
    assert set(TFLITE_TYPE) == set(DType)


def test_odd_graphs(tmp_path: Path) -> None:
    """Absent inputs, a scalar, sizes that are not fixed, a custom name with a zero byte, control flow, composites."""
    written = Model()
    g, then, otherwise, inside = (written.subgraph(name) for name in ("main", "then", "else", "inside"))
    flag = g.input((), "bool")
    x = g.input((1, 4), signature=(-1, 4))
    a = g.apply("FULLY_CONNECTED", [x, g.constant(np.ones((3, 4), np.float32)), -1], (1, 3))
    b = g.apply("IF", [flag, a], (1, 3), then_subgraph_index=1, else_subgraph_index=2)
    c = g.tensor((1, 3))
    g.op("CUSTOM", [b, -1], [c], custom_code="My\0Op")
    whole = {"name": "f", "decomposition_subgraph_index": 3, "composite_attributes": flexbuffers.Dumps({})}
    g.outputs(g.apply("STABLEHLO_COMPOSITE", [c], (1, 3), **whole))
    for branch in (then, otherwise, inside):
        branch.outputs(branch.apply("NEG", [branch.input((1, 3))], (1, 3)))
    path = tmp_path / "odd.tflite"
    path.write_bytes(written.build())
    [seen] = seen_by_a_delegate(path)
    assert len(set(seen)) == 2
    assert seen == fingerprints(read_bytes(path.read_bytes()))
