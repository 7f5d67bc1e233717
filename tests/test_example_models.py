# SPDX-License-Identifier: Apache-2.0
"""The generated examples are what their generator writes, and hold the patterns they are there for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import example_models
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes, read_model
from support.runtime import inspect_all

EXAMPLES = Path(__file__).parents[1] / "examples"
YOLO, SSD = "yolo_96.int8.tflite", "ssd_96.int8.tflite"


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    return example_models.made()


@pytest.mark.parametrize("name", [YOLO, SSD])
def test_the_file_is_what_the_generator_writes(name: str, made: dict[str, bytes]) -> None:
    """The same ops, shapes and weights; scales but for what float kernels of another machine may differ by."""
    kept, new = read_model(EXAMPLES / name), read_bytes(made[name])
    assert _ops(kept) == _ops(new)
    for old, again in zip(kept.subgraphs[0].tensors, new.subgraphs[0].tensors, strict=True):
        assert (old.shape, old.dtype, old.data is None) == (again.shape, again.dtype, again.data is None)
        if old.quantization is not None and again.quantization is not None:
            assert np.allclose(old.quantization.scales, again.quantization.scales, rtol=0.02)
        if old.data is not None and again.data is not None and old.dtype.value == "int8":
            assert kept.bytes_of(old.data) == new.bytes_of(again.data)


def test_the_head_has_the_patterns_of_a_yolo() -> None:
    graph = read_model(EXAMPLES / YOLO)
    tensors = graph.subgraphs[0].tensors
    ops = {op.code: [o for o in graph.subgraphs[0].ops if o.code == op.code] for op in graph.subgraphs[0].ops}
    assert max(len(op.inputs) for op in ops["CONCATENATION"]) >= 6
    assert [tensors[op.inputs[0]].shape[-1] for op in ops["SOFTMAX"]] == [16]
    assert {"LOGISTIC", "RESIZE_NEAREST_NEIGHBOR", "SPLIT", "STRIDED_SLICE"} <= set(ops)
    assert [op.options["filter_height"] for op in ops["MAX_POOL_2D"]] == [5, 5, 5]
    spans = [tensors[op.inputs[3]].data for op in ops["STRIDED_SLICE"]]
    steps = [tuple(np.frombuffer(graph.bytes_of(span), np.int32)) for span in spans if span is not None]
    assert steps.count((1, 2, 2, 1)) == 4


@pytest.mark.parametrize("name", [YOLO, SSD])
def test_it_runs(name: str) -> None:
    data = (EXAMPLES / name).read_bytes()
    assert [answer.failure for answer in inspect_all([data, data], run=True)] == ["", ""]


def _ops(graph: Graph) -> list[tuple[object, ...]]:
    return [(op.name, op.version, op.inputs, op.outputs, dict(op.options)) for op in graph.subgraphs[0].ops]
