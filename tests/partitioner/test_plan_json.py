# SPDX-License-Identifier: Apache-2.0
"""docs/plan-json.md lists exactly the keys and types of the plan, in its order."""

from __future__ import annotations

import re
import types
import typing
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from edgedeploy_partitioner import plan as p

DOCUMENT = (Path(__file__).parents[2] / "docs" / "plan-json.md").read_text()
TABLES = {
    name: re.findall(r"^\| (\w+) \| (.+?) \| [^|]*\|$", body.replace(r"\|", "¦"), re.MULTILINE)[1:]
    for name, body in re.findall(r"^## (\w+)$(.*?)(?=^## |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL)
}
VALUES = {v.__name__: v for v in p.Value.__subclasses__() if v.__module__ == p.__name__}


def written(kind: Any, key: str) -> str:
    """``kind`` as the document writes it."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return " ¦ ".join(f'"{value}"' for value in arguments)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (a for a in arguments if a is not types.NoneType)
        text = written(inner, key)
        return f"({text})?" if "¦" in text else f"{text}?"
    if origin is tuple:
        return "[" + ", ".join(written(a, key) for a in arguments if a is not Ellipsis) + "]"
    if origin is dict:
        return "{" + written(arguments[1], key) + "}"
    if kind is int:
        return "number" if key.endswith("_us") else "integer"
    return {str: "string", bool: "boolean"}.get(kind) or str(kind.__name__)


def test_every_table_is_a_value_and_every_value_a_table() -> None:
    assert next(iter(TABLES)) == "Plan"
    assert set(TABLES) == set(VALUES)


@pytest.mark.parametrize("name", sorted(VALUES))
def test_keys_and_types(name: str) -> None:
    fields = msgspec.structs.fields(VALUES[name])
    assert TABLES[name] == [(f.encode_name, written(f.type, f.encode_name)) for f in fields]


def test_no_key_is_left_out_of_the_json() -> None:
    assert not any(VALUES[name].__struct_config__.omit_defaults for name in VALUES)
