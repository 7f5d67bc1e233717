# SPDX-License-Identifier: Apache-2.0
"""Single-op models for the census: a base case for each op and element type, and variations of it.

A variation changes one thing: an operand's source, type, quantisation or shape, an option, the number of operands.
Variations are made for every op alike, so nothing here repeats what any delegate is believed to check.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from edgedeploy_partitioner.model.build import Model, Subgraph, options_table, per_channel, per_tensor
from edgedeploy_partitioner.model.graph import Quantization
from edgedeploy_partitioner.model.schema import OPTION_ENUMS, fields, names

SCALE = 1 / 64
_QUANTISED = ("int8", "uint8", "int16", "int32", "int4", "int2")
_DTYPES = ("float32", "float16", "int8", "uint8", "int16", "int32", "int64", "bool", "int4", "int2")
_UNPACKING = ("DENSIFY", "DEQUANTIZE")
_MOST_RANK = 6  # XNNPACK writes past the end of what it keeps of a shape when it unpacks one of more
_UNPACKED = {"float32": ("half", "shared", "int8", "dense", "dense_half", "dense_int8"), "float16": ("dense",),
             "int8": ("dense",)}  # fmt: skip
_POWERS = (-20, -17, -16, -11, -10, -9, -8, -7, -1, 1, 4, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17)
_FACTORS = tuple(2.0**k * nudge for k in _POWERS for nudge in (1, 1 - 2.0**-20, 1 + 2.0**-20))


@dataclass(frozen=True)
class Operand:
    """One tensor of a case. ``source`` is how it comes about, in the words of the census; ``-`` leaves it out. What is
    unpacked comes from a constant in ``half`` precision (``shared``: and is read by another op too) or of ``int8``, or
    from a sparse one of its own type (``dense``) or of these (``dense_half``, ``dense_int8``).

    ``value`` is what a constant holds; zeros and ones in turn if None.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    quant: Quantization | None = None
    source: str = "fed"
    value: tuple[int, ...] | None = None

    def array(self) -> np.ndarray[Any, Any]:
        size = int(np.prod(self.shape))
        values = np.arange(size) % 2 if self.value is None else np.resize(np.array(self.value or (0,)), size)
        return values.reshape(self.shape).astype("int8" if self.dtype in ("int4", "int2") else self.dtype)

    def add_to(self, g: Subgraph) -> int:
        if self.source == "-":
            return -1
        if self.source == "fed":
            return g.input(self.shape, self.dtype, self.quant)
        if self.source == "handle":
            return g.apply("VAR_HANDLE", [], self.shape, "resource", shared_name="v")
        if self.source == "variable":
            return g.tensor(self.shape, self.dtype, self.quant, variable=True)
        if self.source == "const":
            return g.constant(self.array(), self.dtype, self.quant)
        if self.source == "sparse":
            return g.sparse_constant(self.array(), self.dtype, self.quant)
        tensor = self._unpacked(g)
        if self.source == "shared":
            g.outputs(g.apply("ABS", [tensor], self.shape, self.dtype, self.quant))
        return tensor

    def _unpacked(self, g: Subgraph) -> int:
        if self.source == "dense":
            return _dense(g, self)
        packed = replace(self, dtype="int8", quant=per_tensor(1.0)) if "int8" in self.source else self
        packed = replace(packed, dtype="float16") if packed is self else packed
        tensor = _dense(g, packed) if "dense" in self.source else g.constant(packed.array(), quant=packed.quant)
        return g.apply("DEQUANTIZE", [tensor], self.shape)


@dataclass(frozen=True)
class Case:
    """One model: the op looked at is the last of its main subgraph, the first is one that XNNPACK always takes."""

    op: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    custom_code: str = ""
    custom_options: bytes = b""
    label: str = "base"

    def build(self, with_reader: bool = False) -> bytes:
        """The model; ``with_reader`` adds an op that reads the first output."""
        model = Model()
        g = model.subgraph()
        g.outputs(g.apply("ABS", [g.input((1, 2))], (1, 2)))
        inputs = [operand.add_to(g) for operand in self.inputs]
        for tensor, operand in zip(inputs, self.inputs, strict=True):
            if operand.quant is not None and operand.quant.block_size:
                _block_scales(g, tensor, operand)
        outputs = [g.tensor(o.shape, o.dtype, o.quant) for o in self.outputs]
        g.op(
            self.op, inputs, outputs, op_version=self.version, custom_code=self.custom_code,
            custom_options=self.custom_options, **self.options,
        )  # fmt: skip
        g.outputs(*outputs)
        if with_reader:
            g.outputs(_reader(g, self.outputs[0], outputs[0]))
        if self.op == "STABLEHLO_COMPOSITE":
            meaning = model.subgraph("meaning")
            sources = [meaning.input(o.shape, o.dtype, o.quant) for o in self.inputs]
            meaning.outputs(meaning.apply("ABS", sources[:1], self.outputs[0].shape))
        return model.build()

    def with_input(self, position: int, label: str, **changes: Any) -> Case:
        inputs = list(self.inputs)
        inputs[position] = replace(inputs[position], **changes)
        return replace(self, inputs=tuple(inputs), label=f"{self.label}; in{position} {label}")

    def with_output(self, position: int, label: str, **changes: Any) -> Case:
        outputs = list(self.outputs)
        outputs[position] = replace(outputs[position], **changes)
        return replace(self, outputs=tuple(outputs), label=f"{self.label}; out{position} {label}")

    def with_options(self, **options: Any) -> Case:
        label = ", ".join(f"{name}={value}" for name, value in options.items())
        return replace(self, options={**self.options, **options}, label=f"{self.label}; {label}")


def _dense(g: Subgraph, operand: Operand) -> int:
    """The values of ``operand``, stored sparse and then not."""
    sparse = g.sparse_constant(operand.array(), operand.dtype, operand.quant)
    return g.apply("DENSIFY", [sparse], operand.shape, operand.dtype, operand.quant)


def _reader(g: Subgraph, result: Operand, tensor: int) -> int:
    """An op that XNNPACK never takes, on what the op makes, or on what that is unpacked to in turn: then XNNPACK leaves
    the last that unpacks, too, which it would take if it only computed."""
    shape, dtype, quant = result.shape, result.dtype, result.quant
    if dtype == "float16":  # which few kernels know
        tensor, dtype, quant = g.apply("DEQUANTIZE", [tensor], shape), "float32", None
    if not shape:
        return g.apply("FILL", [g.constant(np.ones(1, np.int32)), tensor], (1,), dtype, quant)
    return g.apply("GATHER", [tensor, g.constant(np.zeros(1, np.int32))], (1, *shape[1:]), dtype, quant)


def _block_scales(g: Subgraph, tensor: int, operand: Operand) -> None:
    if operand.quant is None or len(operand.shape) != 2 or tensor < 0:
        raise ValueError("only matrices are quantised by blocks")
    blocks = operand.shape[-1] // operand.quant.block_size
    scales = g.constant(np.full((operand.shape[0], max(blocks, 1)), SCALE, np.float16))
    g.value.tensors[tensor].quantization.details.scales = scales


# --- variations ------------------------------------------------------


def variations(case: Case) -> Iterator[Case]:
    """Every case that differs from ``case`` in one thing."""
    yield from _option_values(case)
    yield from _shapes(case)
    yield from _together(case)
    for i in range(min(len(case.inputs), 4)):
        yield from _sources(case, i)
        yield from _values(case, i)
        yield from _types(case, i)
        for label, changes in _changes(case.inputs[i]) if case.op != "DENSIFY" else ():
            yield case.with_input(i, label, **changes)
    for label, changes in _changes(case.outputs[0]) if case.outputs and case.op != "DENSIFY" else ():
        yield case.with_output(0, label, **changes)
    if case.op == "FULLY_CONNECTED":
        yield from (replace(case, version=v, label=f"{case.label}; version {v}") for v in range(2, 13))


def _option_values(case: Case) -> Iterator[Case]:
    table = options_table(case.op)
    for name, option in fields(table).items() if table else ():
        if option.kind.value != "number" or name.endswith(("subgraph_index", "attributes_format", "bias_type")):
            continue
        values: tuple[Any, ...]
        if name in OPTION_ENUMS:
            values = tuple(v for v in names(OPTION_ENUMS[name]).values() if v not in ("STRING", "RESOURCE", "VARIANT"))
        elif option.format == "?":
            values = (False, True)
        elif option.format == "f":
            values = (-300.0, -1.0, -1e-3, 0.0, 1e-40, 1e-3, 0.5, 1.0, 2.0, 300.0)
        else:
            values = (-1, 0, 1, 2, 3, 5)
        yield from (case.with_options(**{name: value}) for value in values)
    if "stride_w" in case.options:
        for stride, dilation in itertools.product((1, 2), repeat=2):
            steps = {"stride_w": stride, "stride_h": stride}
            if "dilation_w_factor" in (fields(table) if table else {}):
                steps |= {"dilation_w_factor": dilation, "dilation_h_factor": dilation}
            yield from (case.with_options(padding=padding, **steps) for padding in ("SAME", "VALID"))


def _together(case: Case) -> Iterator[Case]:
    """All activations quantised alike in another way, and all constants stored another way."""

    def activations(label: str, off: int, factor: float) -> Case:
        def changed(o: Operand) -> Operand:
            if o.quant is None or o.dtype != data or o.source == "const":
                return o
            return replace(o, quant=per_tensor(o.quant.scales[0] * factor, o.quant.zero_points[0] + off))

        inputs, outputs = tuple(map(changed, case.inputs)), tuple(map(changed, case.outputs))
        return replace(case, inputs=inputs, outputs=outputs, label=f"{case.label}; {label}")

    data = case.outputs[0].dtype if case.outputs else ""
    if data in ("int8", "uint8"):
        for factor in (1.0, 0.01, 0.37, 2.9, 41.0):
            yield activations(f"all off centre and * {factor}", 3, factor)
            yield activations(f"all * {factor}", 0, factor)
    for source in ("sparse", *_UNPACKED["float32"]):
        changed = ((o, (*_unpacked(o), "sparse") if o.source == "const" and _unpacked(o) else ()) for o in case.inputs)
        inputs = tuple(replace(o, source=source) if source in usable else o for o, usable in changed)
        yield replace(case, inputs=inputs, label=f"{case.label}; all constants {source}")
    constants = [i for i, o in enumerate(case.inputs) if o.source == "const" and _unpacked(o)]
    for i, j in itertools.combinations(constants, 2):
        for one, other in itertools.product(_unpacked(case.inputs[i]), _unpacked(case.inputs[j])):
            yield case.with_input(i, one, source=one).with_input(j, other, source=other)


def _unpacked(operand: Operand) -> tuple[str, ...]:
    """How a constant in its place may be unpacked."""
    return _UNPACKED.get(operand.dtype, ()) if 0 < len(operand.shape) <= _MOST_RANK else ()


def _shapes(case: Case) -> Iterator[Case]:
    """The data operands with other ranks all together; where they need not be alike, alone and without elements too."""

    def reshaped(operand: Operand, rank: int) -> Operand:
        is_data = operand.source in ("fed", "variable") or case.op in _UNPACKING
        if operand.dtype in ("int32", "int64") or not is_data:
            return operand
        shape = operand.shape[len(operand.shape) - rank :] if rank < len(operand.shape) else operand.shape
        return replace(operand, shape=(1,) * (rank - len(shape)) + shape)

    elementwise = case.op not in _UNPACKING and case.inputs[0].shape == case.outputs[0].shape if case.outputs else False
    for rank in range(8):
        outputs = tuple(reshaped(o, rank) for o in case.outputs)
        inputs = tuple(reshaped(o, rank) for o in case.inputs)
        yield replace(case, inputs=inputs, outputs=outputs, label=f"{case.label}; rank {rank}")
        if elementwise and len(case.inputs) == 2:
            shape = reshaped(replace(case.inputs[1], source="fed"), rank).shape
            yield case.with_input(1, f"rank {rank}", shape=shape)
    if elementwise:
        for i, operand in enumerate(case.inputs):
            if operand.shape:
                yield case.with_input(i, "empty", shape=(0, *operand.shape[1:]))


def _sources(case: Case, i: int) -> Iterator[Case]:
    operand = case.inputs[i]
    if operand.source == "handle":
        return
    usable = ["fed", "const", "variable"] + ["-"] * (i >= 2)  # what comes first is never optional
    if unpacked := _unpacked(operand):
        usable += [*unpacked, *["sparse"] * (i == 1 or case.op in _UNPACKING)]
    yield from (case.with_input(i, source, source=source) for source in usable if source != operand.source)


def _values(case: Case, i: int) -> Iterator[Case]:
    """Other values of a small constant of indices."""
    operand = case.inputs[i]
    if operand.value is None or operand.dtype not in ("int32", "int64"):
        return
    yield case.with_input(i, "as column", shape=(*operand.shape, 1))
    yield case.with_input(i, "as row", shape=(1, *operand.shape))
    yield case.with_input(i, "as pair of rows", shape=(2, *operand.shape))
    values = (1, 2, 8, 100) if case.op == "TRANSPOSE_CONV" else (-1, 0, 1, 2, 100)  # there they are sizes
    for at, value in itertools.product(range(len(operand.value)), values):
        changed = (*operand.value[:at], value, *operand.value[at + 1 :])
        yield case.with_input(i, f"value {changed}", value=changed)
    if operand.shape:
        for size in range(4):
            short = operand.value[:size]
            yield case.with_input(i, f"value {short}", value=short, shape=(size, *operand.shape[1:]))


def _types(case: Case, i: int) -> Iterator[Case]:
    """Other types of an operand that need not have the type of the data."""
    if i and case.inputs[i].source != "handle":
        for dtype in _DTYPES:
            quant = per_tensor(SCALE) if dtype in ("int8", "uint8", "int16", "int4", "int2") else None
            yield case.with_input(i, dtype, dtype=dtype, quant=quant)


def _changes(operand: Operand) -> Iterator[tuple[str, dict[str, Any]]]:
    if operand.source == "handle":
        return
    if operand.dtype not in _QUANTISED:
        return
    yield "no quant", {"quant": None}
    yield "quant on axis 1", {"quant": Quantization((SCALE,), (0,), 1)}
    for axis, size in enumerate(operand.shape):
        if size > 1:
            scales = [SCALE / (1 + i % 2) for i in range(size)]
            yield f"per channel {axis}", {"quant": per_channel(scales, axis)}
            yield f"per channel {axis} off centre", {"quant": per_channel([SCALE] * size, axis, [3] * size)}
            yield f"uneven on {axis}", {"quant": per_channel([SCALE] * (size + 1), axis)}
    yield "off centre", {"quant": per_tensor(SCALE, 3)}
    for block in (16, 32, 64) if operand.source == "const" and len(operand.shape) == 2 else ():
        yield f"blocks of {block}", {"quant": Quantization((), (), 0, block, scale_tensor=0)}
    for bad in (0.0, float("inf"), float("nan"), 1e-39):
        yield f"scale {bad}", {"quant": per_tensor(bad)}
    for factor in _FACTORS if operand.dtype in ("int8", "uint8") else ():
        yield f"scale * {factor}", {"quant": _scaled(operand.quant, factor)}


def _scaled(quant: Quantization | None, factor: float) -> Quantization:
    quant = quant or per_tensor(SCALE)
    return replace(quant, scales=tuple(s * factor for s in quant.scales))


def attributes(**values: float) -> bytes:
    """Attributes of a composite."""
    return bytes(flexbuffers.Dumps(values))
