# SPDX-License-Identifier: Apache-2.0
"""New shapes in the bytes of a model: read back exactly, run by the stock runtime, and nothing else changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import flatbuffers
import numpy as np
import pytest

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.patch import with_shapes_written
from edgedeploy_partitioner.model.read import read_bytes, read_model
from edgedeploy_partitioner.model.schema import SCHEMA
from edgedeploy_partitioner.model.shapes import with_input_shapes
from support.trials import run_all

EXAMPLES = Path(__file__).parents[2] / "examples"


def shapes(graph: Graph) -> list[list[tuple[int, ...]]]:
    return [[t.shape for t in sub.tensors] for sub in graph.subgraphs]


def constants(graph: Graph) -> list[bytes]:
    return [bytes(graph.bytes_of(t.data)) for sub in graph.subgraphs for t in sub.tensors if t.data]


def check(data: bytes, graph: Graph, folder: Path) -> bytes:
    """Write ``graph``'s shapes, and compare what comes back with it, here and in the runtime."""
    new = with_shapes_written(data, graph)
    back = read_bytes(new)
    assert shapes(back) == shapes(graph)
    assert constants(back) == constants(graph)
    assert [sub.ops for sub in back.subgraphs] == [sub.ops for sub in graph.subgraphs]
    [answer] = run_all(folder, [new], arguments=[["--tensors"]], xnnpack=False)
    assert answer["error"] is None
    for tensor in graph.subgraphs[0].tensors:
        assert tuple(answer["tensors"][str(tensor.id)]) == tensor.shape
    return new


@pytest.mark.parametrize(("name", "size"), [("int8", (3, 98, 20)), ("fp16", (2, 60, 12)), ("dyn", (1, 33, 9))])
def test_a_shape_of_the_same_rank_is_written_over_the_old_one(name: str, size: tuple[int, ...], tmp_path: Path) -> None:
    data = (EXAMPLES / f"dscnn_kws.{name}.tflite").read_bytes()
    new = check(data, with_input_shapes(read_bytes(data), {"0": (*size, 1)}), tmp_path)
    assert len(new) == len(data)
    changed = np.flatnonzero(np.frombuffer(data, np.uint8) != np.frombuffer(new, np.uint8))
    assert 0 < len(changed) < 400  # the few bytes of some shapes


def test_the_same_shapes_change_nothing() -> None:
    data = (EXAMPLES / "dscnn_kws.int8.tflite").read_bytes()
    assert with_shapes_written(data, read_bytes(data)) == data


def test_an_open_dimension_is_closed() -> None:
    model = Model()
    g = model.subgraph()
    x = g.input((1, 4), signature=(-1, 4))
    g.outputs(g.apply("RELU", [x], (1, 4)))
    graph = read_bytes(model.build())
    assert graph.subgraphs[0].tensors[0].is_dynamic
    back = read_bytes(with_shapes_written(graph.source, with_input_shapes(graph, {"0": (3, 4)})))
    assert [(t.shape, t.is_dynamic) for t in back.subgraphs[0].tensors] == [((3, 4), False)] * 2


def _any_rank() -> Model:
    model = Model()
    g = model.subgraph()
    x = g.input((2, 3), name="x")
    y = g.apply("MUL", [x, g.constant(np.array([1, 2, 3], np.float32))], (2, 3))
    g.outputs(g.apply("SUM", [y, g.constant(np.array([0, 1], np.int32))], ()))
    return model


def test_another_rank_is_appended(tmp_path: Path) -> None:
    data = _any_rank().build()
    new = check(data, with_input_shapes(read_bytes(data), {"x": (5, 4, 2, 3)}), tmp_path)
    assert len(new) > len(data)


def test_a_tensor_without_a_shape_in_the_file_gets_one(tmp_path: Path) -> None:
    model = _any_rank()
    model.value.subgraphs[0].tensors[-2].shape = None  # of MUL, as old converters leave it
    graph = read_bytes(model.build())
    check(bytes(graph.source), with_input_shapes(graph, {"x": (5, 3)}), tmp_path)


def test_a_vector_that_two_tensors_share_is_not_changed_for_both(tmp_path: Path) -> None:
    model = Model()
    g = model.subgraph()
    x, y = g.input((2, 3), name="x"), g.input((2, 3), name="y")
    g.outputs(g.apply("TANH", [x], (2, 3)), g.apply("TANH", [y], (2, 3)))
    data = bytearray(model.build())
    table = SCHEMA.Model.GetRootAs(data, 0).Subgraphs(0)
    first, second = table.Tensors(0)._tab, table.Tensors(1)._tab
    field = second.Pos + second.Offset(4)
    shared = first.Vector(first.Offset(4)) - 4 - field  # tables are written back to front: the first lies behind
    data[field : field + 4] = np.uint32(shared).tobytes()
    graph = read_bytes(bytes(data))
    new = check(bytes(data), with_input_shapes(graph, {"x": (7, 3)}), tmp_path)
    assert shapes(read_bytes(new))[0][:2] == [(7, 3), (2, 3)]


def test_weights_behind_the_flatbuffer_stay(tmp_path: Path) -> None:
    model = _any_rank()
    content = model.value.buffers[1].data.tobytes()
    model.value.buffers[1] = SCHEMA.BufferT(offset=2, size=len(content))
    size = len(_pack(model))
    model.value.buffers[1].offset = size
    data = _pack(model) + content
    graph = read_bytes(data)
    assert graph.subgraphs[0].tensors[1].data == (size, len(content))
    check(data, with_input_shapes(graph, {"x": (5, 4, 3)}), tmp_path)


def _pack(model: Model) -> bytes:
    """As :meth:`Model.build`, padded so that weights can follow."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.value.Pack(builder), b"TFL3")
    packed = bytes(builder.Output())
    return packed + bytes(-len(packed) % 16)


def test_the_bytes_of_another_model_are_refused() -> None:
    graph = with_input_shapes(read_model(EXAMPLES / "dscnn_kws.int8.tflite"), {"0": (3, 98, 20, 1)})
    with pytest.raises(InputError, match="not the file"):
        with_shapes_written((EXAMPLES / "dscnn_kws.fp32.tflite").read_bytes(), graph)


def test_a_size_limit_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    data = _any_rank().build()
    graph = read_bytes(data)
    monkeypatch.setattr("edgedeploy_partitioner.model.patch._MAX_FILE_BYTES", len(data))
    with pytest.raises(InputError, match="2 GiB"):
        with_shapes_written(data, with_input_shapes(graph, {"x": (5, 4, 3)}))
    assert with_shapes_written(data, replace(graph)) == data
