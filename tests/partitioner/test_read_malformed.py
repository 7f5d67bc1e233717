# SPDX-License-Identifier: Apache-2.0
"""Broken models: each is one line that names the object and its byte.

The byte is compared with where flatbuffers' own accessors find the object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flatbuffers
import numpy as np
import pytest

from edgedeploy_partitioner.errors import MalformedModel
from edgedeploy_partitioner.model.build import Model, per_channel
from edgedeploy_partitioner.model.graph import Quantization
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.model.schema import SCHEMA

Patch = Callable[[Any], None]


def model() -> Any:
    """Two ops, a constant, a signature, and IF with its two branches: an object-API value to be damaged."""
    model = Model()
    g = model.subgraph()
    x, w = g.input((1, 4)), g.constant(np.ones(4, np.float32))
    y = g.apply("ADD", [x, w], (1, 4))
    z = g.apply("FULLY_CONNECTED", [y, w, -1], (1, 4), quant=per_channel([0.5] * 4, 1))
    condition = g.constant(np.array([True]), "bool")
    g.outputs(g.apply("IF", [condition, z], (1, 4), then_subgraph_index=1, else_subgraph_index=2))
    for name in ("then", "else"):
        branch = model.subgraph(name)
        branch.outputs(branch.apply("RELU", [branch.input((1, 4))], (1, 4)))
    model.signature("serve", {"x": x}, {"z": z})
    model.metadata("min_runtime_version", b"2.3.0")
    return model.value


def tensor(m: Any, index: int, **values: Any) -> None:
    for name, value in values.items():
        setattr(m.subgraphs[0].tensors[index], name, value)


def op(m: Any, index: int, **values: Any) -> None:
    for name, value in values.items():
        setattr(m.subgraphs[0].operators[index], name, value)


def block(m: Any, **values: Any) -> None:
    details = SCHEMA.BlockwiseQuantizationT(**{"zeroPoints": -1, "blockSize": 32, **values})
    tensor(m, 1, quantization=SCHEMA.QuantizationParametersT(detailsType=2, details=details))


def call(m: Any, subgraph: int, callee: int) -> None:
    m.subgraphs[subgraph].operators[0].builtinOptionsType = SCHEMA.BuiltinOptions.CallOnceOptions
    m.subgraphs[subgraph].operators[0].builtinOptions = SCHEMA.CallOnceOptionsT(initSubgraphIndex=callee)


T0, T1, OP0, OP1 = (0, "Tensors", 0), (0, "Tensors", 1), (0, "Operators", 0), (0, "Operators", 1)
CASES: list[tuple[str, Patch, str, Sequence[Any] | None, str]] = [
    ("buffer", lambda m: tensor(m, 1, buffer=9), "subgraph 0 tensor 1 buffer", T1, "points to 9 of 4 buffers"),
    ("type", lambda m: tensor(m, 1, type=99), "subgraph 0 tensor 1 type", T1, "99 is no known tensor type"),
    ("negative type", lambda m: tensor(m, 1, type=-1), "tensor 1 type", T1, "-1 is no known"),
    ("dimension", lambda m: tensor(m, 0, shape=[1, -4]), "tensor 0 shape", T0, "1, -4 is no possible shape"),
    ("huge", lambda m: tensor(m, 0, shape=[2**31 - 1] * 3), "tensor 0 shape", T0, "no possible shape"),
    ("huge rank", lambda m: tensor(m, 0, shape=[2] * 70), "tensor 0 shape", T0, "2, 2, 2, 2, 2, 2, 2, 2, … is no"),
    ("signature rank", lambda m: tensor(m, 0, shapeSignature=[-1]), "tensor 0 shape_signature", T0,
     "-1 does not fit the shape 1, 4"),
    ("signature value", lambda m: tensor(m, 0, shapeSignature=[-2, 4]), "shape_signature", T0, "-2, 4 does not fit"),
    ("constant size", lambda m: tensor(m, 1, shape=[5]), "subgraph 0 tensor 1 buffer", T1,
     "float32[5] needs 20 bytes, buffer 1 has 16"),
    ("sub-byte size", lambda m: tensor(m, 1, shape=[33], type=SCHEMA.TensorType.INT4), "tensor 1 buffer", T1,
     "int4[33] needs 17 bytes, buffer 1 has 16"),
    ("external", lambda m: tensor(m, 0, externalBuffer=5), "tensor 0 external_buffer", T0, "no external buffer 5"),
    ("block scales", lambda m: block(m, scales=99), "tensor 1 quantization details scales", (), "points to 99 of 6"),
    ("no block scales", lambda m: block(m, scales=-1), "quantization details scales", (), "points to -1 of 6 tensors"),
    ("block zeros", lambda m: block(m, zeroPoints=-2), "quantization details zero_points", (), "points to -2 of"),
    ("zero points", lambda m: m.subgraphs[0].tensors[3].quantization.zeroPoint.pop(),
     "subgraph 0 tensor 3 quantization", (), "4 scales but 3 zero points"),
    ("op code", lambda m: op(m, 1, opcodeIndex=7), "subgraph 0 operator 1 opcode_index", OP1,
     "points to 7 of 4 operator codes"),
    ("op input", lambda m: op(m, 1, inputs=[0, 900]), "subgraph 0 operator 1 inputs 1", OP1,
     "points to tensor 900 of 6"),
    ("negative input", lambda m: op(m, 1, inputs=[-2]), "operator 1 inputs 0", OP1, "points to tensor -2 of 6"),
    ("output -1", lambda m: op(m, 1, outputs=[-1]), "operator 1 outputs 0", OP1, "points to tensor -1 of 6"),
    ("intermediate", lambda m: op(m, 1, intermediates=[6]), "operator 1 intermediates 0", OP1, "tensor 6 of 6"),
    ("options outside", lambda m: op(m, 0, largeCustomOptionsOffset=2**40, largeCustomOptionsSize=8),
     "operator 0 large_custom_options_offset", (), "8 bytes lie outside the file, which has "),
    ("two writers", lambda m: op(m, 1, outputs=[2]), "operator 1 outputs", OP1,
     "writes tensor 2, which is the output of operator 0"),
    ("one op writes twice", lambda m: op(m, 1, outputs=[3, 3]), "operator 1 outputs", OP1,
     "writes tensor 3, which is the output of operator 1"),
    ("writes a constant", lambda m: op(m, 1, outputs=[1]), "operator 1 outputs", OP1, "tensor 1, which is a constant"),
    ("writes an input", lambda m: op(m, 1, outputs=[0]), "operator 1 outputs", OP1,
     "writes tensor 0, which is an input of the subgraph"),
    ("waits for itself", lambda m: op(m, 0, inputs=[2]), "subgraph 0 operator 0", OP0,
     "waits for its own result, through operators 0, 0"),
    ("wait for each other", lambda m: op(m, 0, inputs=[3]), "subgraph 0 operator", (),
     "waits for its own result, through operators "),
    ("subgraph input", lambda m: m.subgraphs[1].inputs.append(-1), "subgraph 1 inputs 1", (1,), "tensor -1 of 2"),
    ("subgraph output", lambda m: m.subgraphs[2].outputs.append(2), "subgraph 2 outputs 1", (2,), "tensor 2 of 2"),
    ("callee", lambda m: call(m, 2, 3), "subgraph 2", (2,), "operator 0 (RELU) calls subgraph 3 of 3"),
    ("negative callee", lambda m: call(m, 2, -1), "subgraph 2", (2,), "calls subgraph -1 of 3"),
    ("recursion", lambda m: call(m, 2, 2), "subgraph 2", (2,), "calls itself, through subgraphs 2, 2"),
    ("mutual recursion", lambda m: call(m, 2, 0), "subgraph ", (), "calls itself, through subgraphs "),
    ("signature subgraph", lambda m: setattr(m.signatureDefs[0], "subgraphIndex", 3), "signature 0 subgraph_index", (),
     "points to 3 of 3 subgraphs"),
    ("signature input", lambda m: setattr(m.signatureDefs[0].inputs[0], "tensorIndex", 6),
     "signature 0 input 0 tensor_index", (), "points to 6 of 6 tensors"),
    ("metadata", lambda m: setattr(m.metadata[0], "buffer", 4), "metadata 0 buffer", (), "points to 4 of 4 buffers"),
    ("external group", lambda m: setattr(m, "externalBuffers", [SCHEMA.ExternalBufferT(id=1, group=0)]),
     "external buffer 0 group", (), "points to 0 of 0 external buffer groups"),
    ("no subgraphs", lambda m: setattr(m, "subgraphs", []), "model", None, "has no subgraph"),
    ("operator", lambda m: vars(m.operatorCodes[0]).update(builtinCode=-7, deprecatedBuiltinCode=-7),
     "operator code 0", (), "-7 is no operator"),
]  # fmt: skip


def packed(value: Any) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(value.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def place_of(data: bytes, path: Sequence[Any] | None) -> int:
    """Byte of the model (None), a subgraph (its index) or an object in one (index, accessor, index)."""
    found = SCHEMA.Model.GetRootAs(data, 0)
    if path is not None:
        found = found.Subgraphs(path[0])
        if len(path) > 1:
            found = getattr(found, path[1])(path[2])
    place: int = found._tab.Pos
    return place


@pytest.mark.parametrize(("patch", "where", "place", "problem"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_broken_model_is_one_line_that_says_where(
    patch: Patch, where: str, place: Sequence[Any] | None, problem: str
) -> None:
    value = model()
    patch(value)
    data = packed(value)
    with pytest.raises(MalformedModel) as caught:
        read_bytes(data, "bad.tflite")
    error = caught.value
    assert error.where.startswith("bad.tflite: ")
    assert where in error.where
    assert problem in error.problem
    assert str(error) == f"{error.where} at byte {error.offset}: {error.problem}"
    assert str(error).isprintable()
    assert error.exit_code == 2
    if place != ():
        assert error.offset == place_of(data, place)


def test_the_undamaged_model_is_read() -> None:
    graph = read_bytes(packed(model()))
    assert [op.code for op in graph.subgraphs[0].ops] == ["ADD", "FULLY_CONNECTED", "IF"]
    assert [op.callees for op in graph.subgraphs[0].ops] == [(), (), (1, 2)]
    assert graph.subgraphs[0].ops[1].inputs == (2, 1, -1)


def tolerated(m: Any) -> None:
    """What the stock runtime or real files allow, though it looks odd."""
    tensor(m, 1, shape=[3])  # the constant has more bytes than its shape needs
    tensor(m, 3, quantization=SCHEMA.QuantizationParametersT(scale=[0.5], zeroPoint=[0], quantizedDimension=3))
    tensor(m, 2, isVariable=True)
    m.subgraphs[0].tensors[1].shapeSignature = []
    m.subgraphs[0].operators[1].inputs = [2, 1, -1, -1]
    m.subgraphs[1].outputs = []


def test_what_only_some_runtime_dislikes_is_read() -> None:
    value = model()
    tolerated(value)
    tensors = read_bytes(packed(value)).subgraphs[0].tensors
    assert tensors[1].data is not None
    assert (tensors[1].data.size, tensors[1].nbytes, tensors[1].signature) == (16, 12, None)
    assert tensors[3].quantization == Quantization((0.5,), (0,), 3)


def test_a_sparse_constant_may_be_smaller_than_its_shape() -> None:
    sparse = Model()
    g = sparse.subgraph()
    g.outputs(g.sparse_constant(np.eye(8, dtype=np.float32)))
    [tensor] = read_bytes(sparse.build()).subgraphs[0].tensors
    assert tensor.data is not None
    assert (tensor.is_sparse, tensor.data.size, tensor.nbytes) == (True, 32, 256)


def test_long_chains_need_no_deep_stack() -> None:
    """A chain of 5,000 ops stored backwards, and 2,000 subgraphs that call one another in a row."""
    chain = Model()
    g = chain.subgraph()
    tensors = [g.input((1,)), *(g.tensor((1,), name="") for _ in range(5_000))]
    for i in reversed(range(5_000)):
        g.value.operators.append(SCHEMA.OperatorT(inputs=[tensors[i]], outputs=[tensors[i + 1]]))
    chain.op_code("DEQUANTIZE", "", 1)
    for _ in range(2_000):
        g = chain.subgraph("")
        g.value.operators.append(SCHEMA.OperatorT(inputs=[], outputs=[]))
    chain.value.subgraphs[0].tensors[0].buffer = chain.buffer(bytes(4))
    chain.value.subgraphs[0].inputs = []
    for i in range(1, 2_000):
        call(chain.value, i, i + 1)
    graph = read_bytes(chain.build())
    assert len(graph.subgraphs[0].folded) == 5_000
