# SPDX-License-Identifier: Apache-2.0
"""Options of every kind of op, written with flatbuffers' object API and read back."""

from __future__ import annotations

import re
from typing import Any

import flatbuffers
import pytest

from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.model.schema import OPTION_ENUMS, SCHEMA, names

MEMBERS = {**vars(SCHEMA.BuiltinOptions), **vars(SCHEMA.BuiltinOptions2)}
TABLES = sorted(name for name in MEMBERS if hasattr(SCHEMA, name + "T"))
SUBGRAPHS = 40
"""Options may name subgraphs, so there are some; the op is in the last, which nothing calls."""


def values_of(table: str) -> dict[str, Any]:
    """Another value than its default for each field, by the object API's names."""
    values: dict[str, Any] = {"windowReversal": [True, False]} if table == "StablehloConvolutionOptions" else {}
    for number, (field, default) in enumerate(vars(getattr(SCHEMA, table + "T")()).items(), start=1):
        if isinstance(default, bool):
            values[field] = not default
        elif default is not None:
            values[field] = default + number
        elif hasattr(SCHEMA, f"{table}Start{field[0].upper()}{field[1:]}Vector"):
            values.setdefault(field, [number, number + 1])
        else:
            values[field] = f"text {number}"
    return values


def read_options(table: str, values: dict[str, Any]) -> dict[str, Any]:
    """The options that the reader gives an op with these values in ``table``."""
    union = "builtinOptions" if hasattr(SCHEMA.BuiltinOptions, table) else "builtinOptions2"
    stored = {union: getattr(SCHEMA, table + "T")(**values), f"{union}Type": MEMBERS[table]}
    subgraphs = [SCHEMA.SubGraphT(tensors=[], inputs=[], outputs=[], operators=[]) for _ in range(SUBGRAPHS)]
    subgraphs[-1].operators = [SCHEMA.OperatorT(inputs=[], outputs=[], **stored)]
    codes, buffers = [SCHEMA.OperatorCodeT()], [SCHEMA.BufferT()]
    model = SCHEMA.ModelT(version=3, operatorCodes=codes, subgraphs=subgraphs, buffers=buffers)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return dict(read_bytes(bytes(builder.Output())).subgraphs[-1].ops[0].options)


def by_schema_names(values: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, value in values.items():
        name = re.sub("([A-Z])", lambda m: "_" + m[1].lower(), field)
        if name in OPTION_ENUMS and isinstance(value, int):
            value = names(OPTION_ENUMS[name]).get(value, f"UNKNOWN_{value}")
        found[name] = tuple(value) if isinstance(value, list) else value
    return found


@pytest.mark.parametrize("table", TABLES)
def test_every_option_is_read(table: str) -> None:
    assert read_options(table, values_of(table)) == by_schema_names(values_of(table))


@pytest.mark.parametrize("table", TABLES)
def test_what_is_not_stored_has_the_default(table: str) -> None:
    """The object API says None for an absent vector or string, the reader gives an empty one."""
    found = {name: None if value in ((), "") else value for name, value in read_options(table, {}).items()}
    assert found == by_schema_names(vars(getattr(SCHEMA, table + "T")()))


def test_enums_are_words() -> None:
    stored = {"padding": 1, "fusedActivationFunction": 3, "strideH": 2}
    options = read_options("Conv2DOptions", stored)
    assert options == {
        "padding": "VALID", "fused_activation_function": "RELU6", "stride_h": 2, "stride_w": 0,
        "dilation_h_factor": 1, "dilation_w_factor": 1, "quantized_bias_type": "FLOAT32",
    }  # fmt: skip
    assert read_options("Conv2DOptions", {"padding": 7})["padding"] == "UNKNOWN_7"
    assert read_options("CastOptions", {"inDataType": 9})["in_data_type"] == "INT8"
