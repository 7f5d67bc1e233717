# SPDX-License-Identifier: Apache-2.0
"""The checked cursor on bytes written by hand and by the flatbuffers builder."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from typing import Any

import flatbuffers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedeploy_partitioner.errors import MalformedModel
from edgedeploy_partitioner.model.flatbuffer import File, Table
from edgedeploy_partitioner.model.schema import SCHEMA, Kind, fields


def root(table: str, data: bytes) -> Table:
    return File(memoryview(data), "m").root(table)


def packed(value: Any) -> bytes:
    builder = flatbuffers.Builder(64)
    builder.Finish(value.Pack(builder))
    return bytes(builder.Output())


def by_hand(vtable: bytes, table: bytes) -> bytes:
    """A root word, a vtable at byte 4, then a table whose first word leads back to it."""
    start = 4 + len(vtable)
    return struct.pack("<I", start) + vtable + struct.pack("<i", len(vtable)) + table


def test_numbers_defaults_and_absent_fields() -> None:
    code = root("OperatorCode", packed(SCHEMA.OperatorCodeT(builtinCode=150)))
    assert (code.number("builtin_code"), code.number("version"), code.text("custom_code")) == (150, 1, "")
    tensor = root("Tensor", packed(SCHEMA.TensorT(isVariable=True)))
    assert tensor.number("is_variable") == 1
    assert tensor.integers("shape") is None
    assert tensor.table("quantization") is None
    assert list(root("Model", packed(SCHEMA.ModelT())).tables("subgraphs", "subgraph")) == []


def test_strings_that_are_not_utf8_stay_printable() -> None:
    tensor = root("Tensor", packed(SCHEMA.TensorT(name=b"a\xff\xc3\xa4")))
    assert tensor.text("name") == "a\\xffä"


def test_bytes_are_pointed_to_not_copied() -> None:
    data = packed(SCHEMA.BufferT(data=b"weights!"))
    span = root("Buffer", data).span("data")
    assert span is not None
    assert data[span.start : span.start + span.size] == b"weights!"


def test_a_union_is_the_table_its_type_names() -> None:
    options = SCHEMA.OperatorT(builtinOptionsType=1, builtinOptions=SCHEMA.Conv2DOptionsT(strideW=3))
    conv = root("Operator", packed(options)).union("builtin_options", "BuiltinOptions")
    assert conv is not None
    assert (conv.type, conv.number("stride_w"), conv.number("dilation_w_factor")) == ("Conv2DOptions", 3, 1)


@pytest.mark.parametrize(("number", "type_"), [(0, None), (255, None), (1, "Conv2DOptions")])
def test_a_union_without_a_table_has_defaults(number: int, type_: str | None) -> None:
    operator = root("Operator", packed(SCHEMA.OperatorT(builtinOptionsType=number)))
    found = operator.union("builtin_options", "BuiltinOptions")
    assert (found and found.type) == type_
    if found:
        assert {field.name: value for field, value in found.values()}["dilation_h_factor"] == 1


@pytest.mark.parametrize(
    ("data", "where", "offset", "problem"),
    [
        (b"", "root", 0, "4 bytes lie outside the file, which has 0; was the"),
        (struct.pack("<I", 900), "operatorcode", 900, "4 bytes lie outside the file, which has 4"),
        (struct.pack("<Ii", 4, 5), "operatorcode field list", -1, "2 bytes lie outside"),
        (struct.pack("<Ii", 4, -9000), "operatorcode field list", 9004, "2 bytes lie outside"),
        (by_hand(struct.pack("<HH", 2, 4), b""), "operatorcode", 8, "field list of 2"),
        (by_hand(struct.pack("<HH", 4, 3), b""), "operatorcode", 8, "table of 3 bytes"),
        (by_hand(struct.pack("<HH", 400, 4), b""), "operatorcode field list", 4, "400 bytes lie outside"),
        (by_hand(struct.pack("<HH", 4, 400), b""), "operatorcode", 8, "400 bytes lie outside"),
        (by_hand(struct.pack("<HHHHH", 10, 8, 0, 0, 2), bytes(4)), "version", 14, "lies at 2 of a table of 8"),
        (by_hand(struct.pack("<HHHHH", 10, 8, 0, 0, 5), bytes(4)), "version", 14, "lies at 5 of a table of 8"),
    ],
)
def test_what_does_not_fit_is_refused(data: bytes, where: str, offset: int, problem: str) -> None:
    with pytest.raises(MalformedModel) as caught:
        root("OperatorCode", data).number("version")
    assert (caught.value.where, caught.value.offset) == (f"m: {where}", offset)
    assert problem in caught.value.problem


@pytest.mark.parametrize(
    ("field", "read"),
    [
        ("shape", lambda t: t.integers("shape")),
        ("name", lambda t: t.text("name")),
        ("shape", lambda t: t.span("shape")),
        ("variant_tensors", lambda t: list(t.tables("variant_tensors", "v"))),
        ("variant_tensors", lambda t: t.length("variant_tensors")),
    ],
)
def test_a_vector_longer_than_the_file_is_refused(field: str, read: Callable[[Table], object]) -> None:
    entries = [0] * 11
    entries[fields("Tensor")[field].slot] = 4
    vtable = struct.pack("<13H", 26, 8, *entries)
    data = by_hand(vtable, struct.pack("<II", 4, 2**32 - 1))
    with pytest.raises(MalformedModel, match=f"m: {field} at byte 42: .* lie outside the file, which has 42"):
        read(root("Tensor", data))


def test_shared_objects_cannot_multiply() -> None:
    """A vector of 100,000 offsets to one and the same table is refused long before it is unfolded."""
    builder = flatbuffers.Builder(64)
    SCHEMA.BufferStart(builder)
    buffer = SCHEMA.BufferEnd(builder)
    SCHEMA.ModelStartBuffersVector(builder, 100_000)
    for _ in range(100_000):
        builder.PrependUOffsetTRelative(buffer)
    buffers = builder.EndVector()
    SCHEMA.ModelStart(builder)
    SCHEMA.ModelAddBuffers(builder, buffers)
    builder.Finish(SCHEMA.ModelEnd(builder))
    buffer_tables = root("Model", bytes(builder.Output())).tables("buffers", "buffer")
    with pytest.raises(MalformedModel, match=r"m: buffer \d+ at byte \d+: its parts overlap"):
        list(buffer_tables)


@pytest.mark.parametrize("read", [lambda t: t.integers("shape"), lambda t: t.text("name")])
def test_shared_vectors_and_strings_cannot_multiply(read: Callable[[Table], object]) -> None:
    tensor = root("Tensor", packed(SCHEMA.TensorT(shape=list(range(25_000)), name="n" * 25_000)))
    with pytest.raises(MalformedModel, match="its parts overlap"):
        [read(tensor) for _ in range(100)]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_any_bytes_give_values_or_a_malformed_model(data: st.DataObject) -> None:
    """Each field of each kind, read from tables in random bytes."""
    raw = data.draw(st.binary(min_size=4, max_size=120))
    name = data.draw(st.sampled_from(("Model", "SubGraph", "Tensor", "Operator", "Conv2DOptions", "BucketizeOptions")))
    with contextlib.suppress(MalformedModel):
        table = root(name, struct.pack("<I", data.draw(st.integers(0, len(raw)))) + raw)
        for field in fields(name).values():
            if field.kind is Kind.TABLES:
                assert table.length(field.name) == len(list(table.tables(field.name, "part")))
        for field, value in table.values():
            assert isinstance(value, tuple) == (field.kind is Kind.NUMBERS)


def test_an_error_names_file_object_and_byte() -> None:
    error = File(memoryview(b""), "dir/a.tflite").malformed("subgraph 0 operator 3", 17, "is wrong")
    assert str(error) == "dir/a.tflite: subgraph 0 operator 3 at byte 17: is wrong"
