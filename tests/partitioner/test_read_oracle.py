# SPDX-License-Identifier: Apache-2.0
"""The reader against flatbuffers' own object API, which trusts its input and is right about good files."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedeploy_partitioner.model.graph import Graph, Op, Span, Tensor
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.model.schema import OPTION_ENUMS, SCHEMA

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.tflite"))


def text(value: bytes | None) -> str:
    return (value or b"").decode()


def numbers(value: Any) -> tuple[Any, ...]:
    return () if value is None else tuple(np.asarray(value).tolist())


def enum_name(enum: str, number: int) -> str:
    values: dict[int, str] = {value: name for name, value in vars(getattr(SCHEMA, enum)).items()}
    return values[number]


def contents(graph: Graph, span: Span | None) -> bytes | None:
    return None if span is None else bytes(graph.bytes_of(span))


def data_of(buffer: Any) -> bytes | None:
    return None if buffer.data is None else bytes(bytearray(buffer.data))


def assert_same_tensor(graph: Graph, tensor: Tensor, stored: Any, buffers: Any) -> None:
    assert tensor.name == text(stored.name)
    assert tensor.shape == numbers(stored.shape)
    assert tensor.dtype.value == enum_name("TensorType", stored.type).lower()
    assert tensor.signature == (numbers(stored.shapeSignature) or None)
    assert (tensor.is_variable, tensor.is_external) == (stored.isVariable, stored.externalBuffer != 0)
    assert tensor.is_sparse == (stored.sparsity is not None)
    assert tensor.buffer == stored.buffer
    assert contents(graph, tensor.data) == (data_of(buffers[stored.buffer]) if stored.buffer else None)
    scales = numbers(stored.quantization.scale) if stored.quantization else ()
    if tensor.quantization is None:
        assert scales == ()
    else:
        assert tensor.quantization.scales == scales
        assert tensor.quantization.zero_points == numbers(stored.quantization.zeroPoint)
        assert tensor.quantization.axis == stored.quantization.quantizedDimension


def options_of(stored: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for options in (stored.builtinOptions, stored.builtinOptions2):
        for camel, value in vars(options).items() if options else ():
            name = re.sub("([A-Z])", lambda m: "_" + m[1].lower(), camel)
            if isinstance(value, bytes):
                found[name] = text(value)
            elif isinstance(value, (list, np.ndarray)):
                found[name] = numbers(value)
            elif name in OPTION_ENUMS and isinstance(value, int):
                found[name] = enum_name(OPTION_ENUMS[name], value)
            else:
                found[name] = value
    return found


def assert_same_op(graph: Graph, op: Op, stored: Any, codes: Any) -> None:
    code = codes[stored.opcodeIndex]
    assert op.code == enum_name("BuiltinOperator", max(code.builtinCode, code.deprecatedBuiltinCode))
    assert (op.custom_code, op.version) == (text(code.customCode), code.version)
    assert (op.inputs, op.outputs) == (numbers(stored.inputs), numbers(stored.outputs))
    assert op.intermediates == numbers(stored.intermediates)
    # The object API says None for an absent vector or string, the reader gives an empty one.
    assert {k: v for k, v in op.options.items() if v not in ((), "")} == {
        k: v for k, v in options_of(stored).items() if v is not None and v not in ((), "")
    }
    assert contents(graph, op.custom_options) == data_of(SCHEMA.BufferT(data=stored.customOptions))


def assert_same(graph: Graph, model: Any) -> None:
    assert (graph.version, graph.description) == (model.version, text(model.description))
    for subgraph, stored in zip(graph.subgraphs, model.subgraphs, strict=True):
        assert subgraph.name == text(stored.name)
        assert (subgraph.inputs, subgraph.outputs) == (numbers(stored.inputs), numbers(stored.outputs))
        for tensor, stored_tensor in zip(subgraph.tensors, stored.tensors, strict=True):
            assert_same_tensor(graph, tensor, stored_tensor, model.buffers)
        for op, stored_op in zip(subgraph.ops, stored.operators or (), strict=True):
            assert_same_op(graph, op, stored_op, model.operatorCodes)
    for signature, stored in zip(graph.signatures, model.signatureDefs or (), strict=True):
        assert (signature.key, signature.subgraph) == (text(stored.signatureKey), stored.subgraphIndex)
        assert signature.inputs == tuple((text(t.name), t.tensorIndex) for t in stored.inputs)
        assert signature.outputs == tuple((text(t.name), t.tensorIndex) for t in stored.outputs)
    for (name, span), stored in zip(graph.metadata, model.metadata or (), strict=True):
        assert name == text(stored.name)
        assert contents(graph, span) == data_of(model.buffers[stored.buffer])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_field_is_what_the_object_api_says(path: Path) -> None:
    data = path.read_bytes()
    graph = read_bytes(data)
    assert (graph.sha256, graph.size) == (hashlib.sha256(data).hexdigest(), len(data))
    assert_same(graph, SCHEMA.ModelT.InitFromPackedBuf(data, 0))
