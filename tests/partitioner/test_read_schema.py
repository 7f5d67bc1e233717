# SPDX-License-Identifier: Apache-2.0
"""The field tables, against the generated builder functions, which state slots, types and defaults on their own."""

from __future__ import annotations

import inspect
import re
import struct
import subprocess
import sys
from typing import Any

import pytest

from edgedeploy_partitioner.model.schema import OPTION_ENUMS, SCHEMA, Kind, fields, names

TABLES = [name for name, value in vars(SCHEMA).items() if inspect.isclass(value) and hasattr(value, "GetRootAs")]
ENUMS = {
    name
    for name, value in vars(SCHEMA).items()
    if inspect.isclass(value) and name not in TABLES and not hasattr(value, "InitFromPackedBuf")
}
OPTIONS = sorted({*names("BuiltinOptions").values(), *names("BuiltinOptions2").values()} - {"NONE"})
WIRE = {
    "PrependBoolSlot": "?", "PrependInt8Slot": "b", "PrependUint8Slot": "B", "PrependInt16Slot": "h",
    "PrependUint16Slot": "H", "PrependInt32Slot": "i", "PrependUint32Slot": "I", "PrependInt64Slot": "q",
    "PrependUint64Slot": "Q", "PrependFloat32Slot": "f", "PrependFloat64Slot": "d",
    "PrependUOffsetTRelativeSlot": "offset",
}  # fmt: skip


class Builder:
    """Stands in for a flatbuffers builder and keeps the last call."""

    call: tuple[Any, ...]

    def __getattr__(self, name: str) -> Any:
        return lambda *args: setattr(self, "call", (name, *args))


def calls(prefix: str, suffix: str = "") -> dict[str, tuple[Any, ...]]:
    """Name in the schema -> what the generated function ``prefix NAME suffix`` tells a builder."""
    found = {}
    for name, function in vars(SCHEMA).items():
        match = re.fullmatch(f"{prefix}(\\w+){suffix}", name)
        if match and inspect.isfunction(function):
            function(builder := Builder(), 0)
            found[re.sub("(?<!^)(?=[A-Z])", "_", match[1]).lower()] = builder.call
    return found


@pytest.mark.parametrize("table", TABLES)
def test_fields_are_those_of_the_builder(table: str) -> None:
    added = calls(f"{table}Add")
    assert set(fields(table)) == set(added)
    for name, (method, slot, _, default) in added.items():
        field = fields(table)[name]
        assert field.slot == slot
        if field.kind is Kind.NUMBER:
            assert (field.format, field.default) == (WIRE[method], default)
        else:
            assert WIRE[method] == "offset"


@pytest.mark.parametrize("table", TABLES)
def test_vectors_are_those_of_the_builder(table: str) -> None:
    started = calls(f"{table}Start", "Vector")
    assert {f.name for f in fields(table).values() if f.kind in (Kind.NUMBERS, Kind.TABLES)} == set(started)
    for name, (_, element_bytes, *_rest) in started.items():
        field = fields(table)[name]
        assert element_bytes == (4 if field.kind is Kind.TABLES else struct.calcsize("<" + field.format))


def test_every_table_a_field_names_exists() -> None:
    named = {field.table for table in TABLES for field in fields(table).values()} - {""}
    assert named <= set(TABLES)
    assert set(OPTIONS) <= set(TABLES)


def test_the_schema_uses_a_byte_in_options_only_for_an_enum() -> None:
    """So a new enum field that OPTION_ENUMS does not know shows up here."""
    bytes_ = {f.name for table in OPTIONS for f in fields(table).values() if f.kind is Kind.NUMBER and f.format == "b"}
    assert bytes_ <= set(OPTION_ENUMS)


def test_every_enum_of_the_schema_is_read_by_name() -> None:
    structural = {
        "BuiltinOperator", "BuiltinOptions", "BuiltinOptions2", "QuantizationDetails", "TensorType",
        "DimensionType", "SparseIndexVector",  # of sparse tensors, whose structure is not read
        "StablehloPrecisionConfig",  # a vector: stays numbers
    }  # fmt: skip
    assert set(OPTION_ENUMS.values()) | structural == ENUMS
    option_fields = {name for table in OPTIONS for name in fields(table)}
    assert set(OPTION_ENUMS) <= option_fields


def test_enum_names() -> None:
    assert names("Padding") == {0: "SAME", 1: "VALID"}
    assert names("ActivationFunctionType")[3] == "RELU6"
    assert names("BuiltinOperator")[3] == "CONV_2D"


def test_nothing_heavy_is_loaded() -> None:
    """Importing the reader loads no schema, and the schema loads no native runtime."""
    code = """
import sys
import edgedeploy_partitioner.model.read
from edgedeploy_partitioner.model import schema
assert "numpy" not in sys.modules and "flatbuffers" not in sys.modules
schema.fields("Tensor")
assert "ai_edge_litert" not in sys.modules
assert "ai_edge_litert" not in open("/proc/self/maps").read()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
