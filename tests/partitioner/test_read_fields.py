# SPDX-License-Identifier: Apache-2.0
"""No field of the schema is dropped in silence: changing any stored field changes the Graph, or it is listed here.

Tables and fields come from flatbuffers' object API (``TensorT`` and the like), not from the reader's own lists.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import flatbuffers

from edgedeploy_partitioner.errors import MalformedModel
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.model.schema import SCHEMA

IGNORED = {
    "QuantizationParameters.min": "for importing back into TensorFlow",
    "QuantizationParameters.max": "for importing back into TensorFlow",
    "CustomQuantization.custom": "no runtime reads it",
    "BlockwiseQuantization.blockShape": "no runtime reads it; block_size says it for one axis",
    "MultiAxisQuantization.quantizedDimensions": "no runtime reads it",
    "Tensor.variantTensors": "types inside a variant; no ops on variants are planned",
    "SparsityParameters.traversalOrder": "only that a tensor is sparse matters to a plan",
    "SparsityParameters.blockMap": "as above",
    "SparsityParameters.dimMetadata": "as above",
    "Operator.customOptionsFormat": "has one value, FLEXBUFFERS",
    "Operator.mutatingVariableInputs": "Tensor.isVariable says it",
    "Operator.debugMetadataIndex": "points to the converter's notes",
    "SubGraph.debugMetadataIndex": "points to the converter's notes",
    "Model.metadataBuffer": "from before Model.metadata",
    "ExternalBuffer.offset": "lies in another file",
    "ExternalBuffer.length": "lies in another file",
    "ExternalBuffer.packing": "lies in another file",
}
ELSEWHERE = {*vars(SCHEMA.BuiltinOptions), *vars(SCHEMA.BuiltinOptions2), "DimensionMetadata", "VariantSubType"}
"""Tables that this test leaves out: options have a test of their own, the others are inside ignored fields."""


def packed(model: Any) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def full_model() -> Any:
    """A model with every structural field of the schema set, each to something else than its default."""
    s = SCHEMA
    affine = s.QuantizationParametersT(
        min=[-1.0], max=[1.0], scale=[0.5, 0.25], zeroPoint=[3, 4], quantizedDimension=1,
        detailsType=1, details=s.CustomQuantizationT(custom=[1]),
    )  # fmt: skip
    block = s.BlockwiseQuantizationT(scales=1, zeroPoints=2, blockSize=32)
    multi = s.MultiAxisQuantizationT(scales=1, zeroPoints=2, blockSize=16, quantizedDimensions=[0, 1])
    dims = [s.DimensionMetadataT(denseSize=2)]
    tensors = [
        s.TensorT(
            shape=[1, 2], type=9, buffer=0, name="in", quantization=affine, isVariable=True, shapeSignature=[-1, 2],
            hasRank=True, variantTensors=[s.VariantSubTypeT()], externalBuffer=77,
        ),
        s.TensorT(shape=[2], buffer=1, name="scales",
                  sparsity=s.SparsityParametersT(traversalOrder=[0], blockMap=[0], dimMetadata=dims)),
        s.TensorT(shape=[2], buffer=2, name="zeros", hasRank=True),
        s.TensorT(shape=[], type=9, name="out", hasRank=True,
                  quantization=s.QuantizationParametersT(detailsType=2, details=block)),
        s.TensorT(shape=[4, 4], type=17, name="more",
                  quantization=s.QuantizationParametersT(detailsType=3, details=multi)),
    ]  # fmt: skip
    ops = [
        s.OperatorT(
            opcodeIndex=1, inputs=[0, 1], outputs=[3], builtinOptionsType=1, builtinOptions=s.Conv2DOptionsT(strideH=2),
            customOptions=[1, 2], customOptionsFormat=0, mutatingVariableInputs=[True], intermediates=[2],
            builtinOptions2Type=2, builtinOptions2=s.StablehloBroadcastInDimOptionsT(broadcastDimensions=[3]),
            debugMetadataIndex=1,
        ),
        s.OperatorT(opcodeIndex=0, inputs=[3], outputs=[4], largeCustomOptionsOffset=8, largeCustomOptionsSize=16),
        s.OperatorT(opcodeIndex=2, inputs=[4, -1], outputs=[]),
    ]  # fmt: skip
    maps = [s.TensorMapT(name="x", tensorIndex=1)]
    return s.ModelT(
        version=3,
        operatorCodes=[
            s.OperatorCodeT(deprecatedBuiltinCode=32, customCode="mine", version=2, builtinCode=32),
            s.OperatorCodeT(deprecatedBuiltinCode=3, version=5, builtinCode=0),
            s.OperatorCodeT(deprecatedBuiltinCode=127, version=1, builtinCode=150),
        ],
        subgraphs=[
            s.SubGraphT(tensors=tensors, inputs=[0], outputs=[3], operators=ops, name="main", debugMetadataIndex=1),
            s.SubGraphT(tensors=tensors[1:3], inputs=[], outputs=[], operators=[], name="other"),
        ],
        description="all fields",
        buffers=[s.BufferT(), s.BufferT(data=list(range(8))), s.BufferT(offset=8, size=16)],
        metadataBuffer=[1],
        metadata=[s.MetadataT(name="note", buffer=2)],
        signatureDefs=[
            s.SignatureDefT(inputs=maps, outputs=copy.deepcopy(maps), signatureKey="serve", subgraphIndex=1)
        ],
        externalBufferGroups=[s.ExternalBufferGroupT(name="weights.bin")],
        externalBuffers=[s.ExternalBufferT(id=77, group=0, offset=64, length=2, packing="unpacked")],
    )


def table_of(value: Any) -> str:
    return type(value).__name__.removesuffix("T")


def objects(value: Any) -> Iterator[Any]:
    """Every table in ``value``."""
    if isinstance(value, list):
        for item in value:
            yield from objects(item)
    elif hasattr(value, "Pack") and table_of(value) not in ELSEWHERE:
        yield value
        for item in vars(value).values():
            yield from objects(item)


def places() -> list[tuple[str, int, str]]:
    """(table, which one of its kind, field) of everything in the full model."""
    counts: dict[str, int] = {}
    found = []
    for value in objects(full_model()):
        table = table_of(value)
        counts[table] = counts.get(table, -1) + 1
        found += [(table, counts[table], field) for field in vars(value)]
    return found


def other_values(value: Any) -> list[Any]:
    """What a field might hold instead of ``value``."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, value - 1, value + 2, 0]
    if isinstance(value, str):
        return [value + "!"]
    if isinstance(value, list) and value and not hasattr(value[0], "Pack"):
        return [[other, *value[1:]] for other in other_values(value[0])]
    return [value[:-1]] if value and isinstance(value, list) else [None]


def what_is_read(model: Any) -> str | None:
    """All that the reader finds, in words, or why it refuses; None if there is no such model.

    Bytes stand for the places of constants, which move when anything else changes its size.
    """
    try:
        data = packed(model)
    except TypeError:  # flatbuffers refuses a number that does not fit its field
        return None
    try:
        graph = dataclasses.replace(read_bytes(data), sha256="", size=0)
    except MalformedModel as error:
        return error.problem

    def contents(place: re.Match[str]) -> str:
        start, size = int(place[1]), int(place[2])
        return place[0] if start <= 10 else repr(data[start : start + size])

    return re.sub(r"Span\(start=(\d+), size=(\d+)\)", contents, repr(graph))


def is_noticed(table: str, which: int, field: str) -> bool:
    """True if the reader finds something else when the field of that table has another value."""
    before = what_is_read(full_model())

    def one(model: Any) -> Any:
        return [value for value in objects(model) if table_of(value) == table][which]

    for value in other_values(getattr(one(full_model()), field)):
        model = full_model()
        setattr(one(model), field, value)
        if what_is_read(model) not in (before, None):
            return True
    return False


def test_the_full_model_sets_every_field() -> None:
    read_bytes(packed(full_model()))
    kinds = {table_of(value): type(value) for value in objects(full_model())}
    unset = {f"{table}.{field}" for table, kind in kinds.items() for field in vars(kind())}
    for value in objects(full_model()):
        defaults = vars(type(value)())
        unset -= {f"{table_of(value)}.{field}" for field, held in vars(value).items() if held != defaults[field]}
    assert unset <= {
        "BlockwiseQuantization.blockShape",  # ignored
        "Operator.customOptionsFormat", "ExternalBuffer.group",  # only the default is a good value here
    }  # fmt: skip


def test_every_field_is_read_or_listed_as_ignored() -> None:
    noticed: set[str] = set()
    for table, which, field in places():
        if is_noticed(table, which, field):
            noticed.add(f"{table}.{field}")
    assert {f"{table}.{field}" for table, _, field in places()} - noticed == set(IGNORED)
