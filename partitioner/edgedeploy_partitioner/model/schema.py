# SPDX-License-Identifier: Apache-2.0
"""The TFLite flatbuffers schema, as ``ai-edge-litert`` ships it: which table has which field in which slot.

The generated module is loaded by its path, because importing the package itself would load a native library.
Nothing is copied from it by hand: a table's fields are found by calling its generated accessors on a probe that
records what they ask for. Loading takes about 0.1 s and happens on first use.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from edgedeploy_partitioner.errors import InputError

IDENTIFIER = b"TFL3"

# The generated code has no enum types on fields: this says which enum a field of an options table holds.
OPTION_ENUMS = {
    "algorithm": "RngAlgorithm",
    "combiner": "CombinerType",
    "compare_type": "StablehloComparisonType",
    "comparison_direction": "StablehloComparisonDirection",
    "composite_attributes_format": "CustomOptionsFormat",
    "fused_activation_function": "ActivationFunctionType",
    "idx_out_type": "TensorType",
    "in_data_type": "TensorType",
    "kernel_type": "LSTMKernelType",
    "key_dtype": "TensorType",
    "mode": "MirrorPadMode",
    "out_data_type": "TensorType",
    "out_type": "TensorType",
    "output_type": "TensorType",
    "padding": "Padding",
    "quantized_bias_type": "TensorType",
    "reduce_function": "ReduceWindowFunction",
    "type": "LSHProjectionType",
    "value_dtype": "TensorType",
    "weights_format": "FullyConnectedOptionsWeightsFormat",
}


class Kind(Enum):
    """How a field is stored."""

    NUMBER = "number"
    NUMBERS = "vector of numbers"
    TEXT = "string"
    TABLE = "table"
    TABLES = "vector of tables"
    UNION = "union"


_KINDS = {
    ("Get",): Kind.NUMBER,
    ("Vector", "Get"): Kind.NUMBERS,
    ("String",): Kind.TEXT,
    ("Indirect",): Kind.TABLE,
    ("Vector", "Indirect"): Kind.TABLES,
    ("Union",): Kind.UNION,
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a table. ``format`` is the struct code of a number or of a vector's elements."""

    name: str
    slot: int
    kind: Kind
    format: str = ""
    default: bool | int | float = 0
    table: str = ""
    """The table that a table field, or each element of a vector of tables, is."""


class _Probe:
    """Stands in for the generated code's view of a table and records what an accessor does with it."""

    Bytes = b""
    Pos = 0

    def __init__(self, present: bool) -> None:
        self.present = present
        self.slot = -1
        self.steps: list[str] = []
        self.format = ""

    def Offset(self, vtable_offset: int) -> int:  # noqa: N802 - the generated code's name
        self.slot = (vtable_offset - 4) // 2
        return 4 if self.present else 0

    def Get(self, flags: Any, _: int) -> int:  # noqa: N802
        self.steps.append("Get")
        self.format = flags.packer_type.format.lstrip("<")
        return 0

    def __getattr__(self, step: str) -> Any:
        def record(*_: object) -> int:
            self.steps.append(step)
            return 0

        return record


def __getattr__(name: str) -> ModuleType:
    """``SCHEMA``: the generated module itself, loaded when first asked for."""
    if name != "SCHEMA":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _load()


@cache
def fields(table: str) -> Mapping[str, Field]:
    """Fields of ``table`` by their snake_case names, without deprecated ones.

    Raises:
        KeyError: the schema has no such table.
    """
    accessors = vars(vars(_load())[table])
    found = (_field(vars(_load())[table], name) for name in accessors if _is_field(name, accessors))
    return {field.name: field for field in found if field is not None}


@cache
def names(enum: str) -> Mapping[int, str]:
    """Names of the values of an enum, or of the member tables of a union."""
    return {value: name for name, value in vars(vars(_load())[enum]).items() if not name.startswith("_")}


@cache
def _load() -> ModuleType:
    package = importlib.util.find_spec("ai_edge_litert")
    for folder in package.submodule_search_locations or () if package else ():
        path = Path(folder) / "schema_py_generated.py"
        if path.is_file():
            spec = importlib.util.spec_from_file_location(f"{__package__}._tflite_schema", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise InputError("the TFLite schema is missing: pip install 'ai-edge-litert>=2.3' (it has none for this Python?)")


def _is_field(name: str, accessors: Mapping[str, object]) -> bool:
    """True for ``Shape``, not for ``ShapeLength``, ``GetRootAs`` or ``Init``."""
    base = re.sub("(AsNumpy|Length|IsNone)$", "", name)
    extra = name == "Init" or (base != name and base in accessors)
    return isinstance(accessors[name], FunctionType) and not extra


def _field(table: type[Any], accessor: str) -> Field | None:
    """None for a way of storing that no field of the known schema has."""
    present, absent = _Probe(True), _Probe(False)
    value = _ask(table, accessor, present)
    default = _ask(table, accessor, absent)
    kind = _KINDS.get(tuple(present.steps))
    return kind and Field(
        name=re.sub("(?<!^)(?=[A-Z])", "_", accessor).lower(),
        slot=present.slot,
        kind=kind,
        format=present.format,
        default=0 if default is None else default,
        table=type(value).__name__ if "Indirect" in present.steps else "",
    )


def _ask(table: type[Any], accessor: str, probe: _Probe) -> Any:
    view = table()
    view._tab = probe
    method = getattr(view, accessor)
    return method(0) if method.__func__.__code__.co_argcount == 2 else method()
