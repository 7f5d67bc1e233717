# SPDX-License-Identifier: Apache-2.0
"""The model as frozen values: ids instead of pointers, weights left where they lie in the file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import NamedTuple

OptionValue = bool | int | float | str | tuple[int, ...] | tuple[float, ...]


class DType(Enum):
    """Element types of the TFLite schema, by their usual lower-case names."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    INT32 = "int32"
    UINT8 = "uint8"
    INT64 = "int64"
    STRING = "string"
    BOOL = "bool"
    INT16 = "int16"
    COMPLEX64 = "complex64"
    INT8 = "int8"
    FLOAT64 = "float64"
    COMPLEX128 = "complex128"
    UINT64 = "uint64"
    RESOURCE = "resource"
    VARIANT = "variant"
    UINT32 = "uint32"
    UINT16 = "uint16"
    INT4 = "int4"
    BFLOAT16 = "bfloat16"
    INT2 = "int2"
    UINT4 = "uint4"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"

    @property
    def bits(self) -> int:
        """Bits per element; 0 for types without a fixed size (strings, variants). A resource is a 32-bit id."""
        return _BITS[self]


_BITS = {
    DType.FLOAT32: 32, DType.FLOAT16: 16, DType.INT32: 32, DType.UINT8: 8, DType.INT64: 64, DType.STRING: 0,
    DType.BOOL: 8, DType.INT16: 16, DType.COMPLEX64: 64, DType.INT8: 8, DType.FLOAT64: 64, DType.COMPLEX128: 128,
    DType.UINT64: 64, DType.RESOURCE: 32, DType.VARIANT: 0, DType.UINT32: 32, DType.UINT16: 16, DType.INT4: 4,
    DType.BFLOAT16: 16, DType.INT2: 2, DType.UINT4: 4, DType.FLOAT8_E4M3FN: 8, DType.FLOAT8_E5M2: 8,
}  # fmt: skip


class Span(NamedTuple):
    """A run of bytes in the file."""

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Quantization:
    """Affine quantisation: real = scale * (q - zero_point).

    One scale: per tensor. Several: per slice of ``axis``; with ``block_size`` > 0, per block along ``axis``
    (then the scales lie in another tensor and ``scales`` is empty).
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int
    block_size: int = 0
    scale_tensor: int | None = None
    """The tensor with the scales of blocks; ``zero_point_tensor`` is -1 where all zero points are 0."""
    zero_point_tensor: int | None = None

    @property
    def per_channel(self) -> bool:
        return len(self.scales) > 1


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of one subgraph. ``shape`` is as stored; ``signature`` has -1 where the size is not fixed."""

    id: int
    name: str
    shape: tuple[int, ...]
    dtype: DType
    signature: tuple[int, ...] | None = None
    quantization: Quantization | None = None
    is_variable: bool = False
    buffer: int = 0
    data: Span | None = None
    """Where the constant value lies in the file; None for a tensor that is computed or fed."""
    is_external: bool = False
    """The value is constant but lies in another file."""
    is_sparse: bool = False
    has_rank: bool = True

    @property
    def is_constant(self) -> bool:
        return self.data is not None or self.is_external

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the dense value, sub-byte types packed: ceil(elements * bits / 8)."""
        return (self.elements * self.dtype.bits + 7) // 8

    @property
    def is_dynamic(self) -> bool:
        """True if a dimension is only known when the model runs."""
        return self.signature is not None and any(d < 0 for d in self.signature)


@dataclass(frozen=True, slots=True)
class Op:
    """One operator: what to compute. ``code`` is the schema's name (``CONV_2D``, ``CUSTOM``, …).

    Inputs hold -1 where an optional input is absent. ``options`` are the builtin options with the schema's
    names in snake_case and enums by name (``{"padding": "SAME", "stride_h": 2}``), defaults filled in.
    """

    subgraph: int
    index: int
    code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    version: int = 1
    custom_code: str = ""
    intermediates: tuple[int, ...] = ()
    options: Mapping[str, OptionValue] = field(default_factory=dict, hash=False)
    custom_options: Span | None = None

    @property
    def name(self) -> str:
        """What people call the op: its schema name, or the custom code of a custom op."""
        return self.custom_code or self.code

    @property
    def kind(self) -> str:
        """What rules are looked up by: ``CONV_2D``, or ``CUSTOM:code``, whatever that code is."""
        return f"{self.code}:{self.custom_code}" if self.custom_code else self.code

    @property
    def callees(self) -> tuple[int, ...]:
        """Subgraphs that the op runs or stands for (IF, WHILE, CALL_ONCE, composites, …), as its options list them."""
        names = ("subgraph", "subgraph_index", "subgraph_indices")
        values = (value for name, value in self.options.items() if name.endswith(names))
        return tuple(int(i) for value in values for i in (value if isinstance(value, tuple) else (value,)))


@dataclass(frozen=True)
class Subgraph:
    index: int
    name: str
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @cached_property
    def producer(self) -> Mapping[int, int]:
        """Tensor id -> index of the op that writes it."""
        return {t: op.index for op in self.ops for t in op.outputs if t >= 0}

    @cached_property
    def consumers(self) -> Mapping[int, tuple[int, ...]]:
        """Tensor id -> ascending indices of the ops that read it."""
        found: dict[int, list[int]] = {}
        for op in self.ops:
            for t in dict.fromkeys(op.inputs):
                if t >= 0:
                    found.setdefault(t, []).append(op.index)
        return {t: tuple(ops) for t, ops in found.items()}

    @cached_property
    def folded(self) -> frozenset[int]:
        """Ops that only unpack constants: chains of DEQUANTIZE and DENSIFY over weights. They run only once."""
        done: set[int] = set()
        constant = {t.id for t in self.tensors if t.is_constant}
        todo = [op.index for op in self.ops]
        while todo:  # the file's order may be any: an op is looked at again when one of its inputs became constant
            op = self.ops[todo.pop()]
            if op.index not in done and op.code in ("DEQUANTIZE", "DENSIFY") and constant.issuperset(op.inputs):
                done.add(op.index)
                constant.update(op.outputs)
                todo.extend(c for t in op.outputs for c in self.consumers.get(t, ()))
        return frozenset(done)


@dataclass(frozen=True, slots=True)
class Signature:
    """A named entry point: (name, tensor id) pairs of one subgraph."""

    key: str
    subgraph: int
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Graph:
    """A whole model file. ``source`` is the file, memory-mapped when it came from disk."""

    sha256: str
    size: int
    version: int
    description: str
    subgraphs: tuple[Subgraph, ...]
    signatures: tuple[Signature, ...] = ()
    metadata: tuple[tuple[str, Span], ...] = ()
    external_files: tuple[str, ...] = ()
    """Names of the files that hold external constants, as the model gives them."""
    source: memoryview = field(default=memoryview(b""), compare=False, repr=False)

    def bytes_of(self, span: Span) -> memoryview:
        """The bytes of ``span``, not copied."""
        return self.source[span.start : span.start + span.size]

    def operand(self, op: Op, position: int) -> Tensor:
        """The tensor that ``op`` reads at ``position``. Raises LookupError if it has none there."""
        if position >= len(op.inputs) or op.inputs[position] < 0:
            raise LookupError(position)
        return self.tensor(op.subgraph, op.inputs[position])

    def tensor(self, subgraph: int, id: int) -> Tensor:  # noqa: A002 - the schema's word
        return self.subgraphs[subgraph].tensors[id]
