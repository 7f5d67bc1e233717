# SPDX-License-Identifier: Apache-2.0
"""From the tables of a model file to a Graph, every index tested.

Refused is what has no meaning: an index out of range, a constant too small for its shape, a tensor with two sources,
ops or subgraphs that wait for each other. What the schema allows and only some runtime dislikes is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from edgedeploy_partitioner.model.flatbuffer import File, Table
from edgedeploy_partitioner.model.graph import (
    DType,
    Graph,
    Op,
    OptionValue,
    Quantization,
    Signature,
    Span,
    Subgraph,
    Tensor,
)
from edgedeploy_partitioner.model.schema import OPTION_ENUMS, names

_MAX_TENSOR_BYTES = 2**63 - 1
_MIN_OUTSIDE_OFFSET = 2
"""The runtime takes offsets 0 and 1 of data behind the flatbuffer for none."""


class _Code(NamedTuple):
    name: str
    custom: str
    version: int


class _Shared(NamedTuple):
    """What the subgraphs of a model point to."""

    codes: Sequence[_Code]
    buffers: Sequence[Span | None]
    external_ids: Collection[int]


def decode(file: File) -> Graph:
    """The whole model of ``file``.

    Raises:
        MalformedModel: with the object and its byte.
    """
    model = file.root("Model")
    files = tuple(group.text("name") for group in model.tables("external_buffer_groups", "external buffer group"))
    shared = _Shared(
        codes=[_code(table) for table in model.tables("operator_codes", "operator code")],
        buffers=[_buffer(table) for table in model.tables("buffers", "buffer")],
        external_ids={_external_id(table, len(files)) for table in model.tables("external_buffers", "external buffer")},
    )
    tables = list(model.tables("subgraphs", "subgraph"))
    if not tables:
        raise model.malformed("has no subgraph")
    subgraphs = tuple(_subgraph(table, index, shared) for index, table in enumerate(tables))
    _check_calls(tables, subgraphs)
    return Graph(
        sha256=hashlib.sha256(file.data).hexdigest(),
        size=file.size,
        version=model.number("version"),
        description=model.text("description"),
        subgraphs=subgraphs,
        signatures=tuple(_signature(table, subgraphs) for table in model.tables("signature_defs", "signature")),
        metadata=tuple(_metadata(table, shared.buffers) for table in model.tables("metadata", "metadata")),
        external_files=files,
        source=file.data,
    )


def _code(table: Table) -> _Code:
    """Files from before code 127 have only the deprecated byte, later ones have both."""
    number = max(table.number("deprecated_builtin_code"), table.number("builtin_code"))
    if number < 0:
        raise table.malformed(f"{number} is no operator")
    name = names("BuiltinOperator").get(number, f"BUILTIN_{number}")
    return _Code(name, table.text("custom_code") if name == "CUSTOM" else "", table.number("version"))


def _buffer(table: Table) -> Span | None:
    inside = table.span("data")
    return inside if inside is not None else _outside(table, "offset", "size")


def _outside(table: Table, offset: str, size: str) -> Span | None:
    """Data in the file, behind the flatbuffer."""
    start = table.number(offset)
    if start < _MIN_OUTSIDE_OFFSET:
        return None
    return table.file.span(start, table.number(size), f"{table.where} {offset}")


def _external_id(table: Table, groups: int) -> int:
    _index(table, "group", groups, "external buffer groups")
    return table.number("id")


def _subgraph(table: Table, index: int, shared: _Shared) -> Subgraph:
    count = table.length("tensors")
    op_tables = list(table.tables("operators", "operator"))
    subgraph = Subgraph(
        index=index,
        name=table.text("name"),
        tensors=tuple(_tensor(t, i, count, shared) for i, t in enumerate(table.tables("tensors", "tensor"))),
        ops=tuple(_op(t, index, i, count, shared.codes) for i, t in enumerate(op_tables)),
        inputs=_ids(table, "inputs", count),
        outputs=_ids(table, "outputs", count),
    )
    _check_sources(op_tables, subgraph)
    return subgraph


def _tensor(table: Table, index: int, count: int, shared: _Shared) -> Tensor:
    shape = table.integers("shape") or ()
    buffer = _index(table, "buffer", len(shared.buffers), "buffers")
    tensor = Tensor(
        id=index,
        name=table.text("name"),
        shape=shape,
        dtype=_dtype(table),
        signature=_shape_signature(table, shape),
        quantization=_quantization(table, count),
        is_variable=bool(table.number("is_variable")),
        buffer=buffer,
        data=shared.buffers[buffer] if buffer else None,
        is_external=_is_external(table, shared.external_ids),
        is_sparse=table.table("sparsity") is not None,
        has_rank=bool(table.number("has_rank") or shape),
    )
    if min(shape, default=0) < 0 or max(tensor.elements, tensor.nbytes) > _MAX_TENSOR_BYTES:
        raise table.malformed(f"{_listed(shape)} is no possible shape", "shape")
    return _with_checked_data(tensor, table)


def _with_checked_data(tensor: Tensor, table: Table) -> Tensor:
    """The runtime wants at least the bytes of the shape. Old files put empty data on tensors that are computed."""
    if tensor.data is None or tensor.is_sparse:
        return tensor
    fits = tensor.data.size >= tensor.nbytes
    if fits and (tensor.data.size or tensor.dtype.bits):
        return tensor
    if not tensor.data.size:
        return replace(tensor, data=None)
    needs = f"{tensor.dtype.value}[{_listed(tensor.shape)}] needs {tensor.nbytes} bytes"
    raise table.malformed(f"{needs}, buffer {tensor.buffer} has {tensor.data.size}", "buffer")


def _dtype(table: Table) -> DType:
    number = table.number("type")
    try:
        return DType(names("TensorType")[number].lower())
    except (KeyError, ValueError):
        raise table.malformed(f"{number} is no known tensor type", "type") from None


def _shape_signature(table: Table, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    signature = table.integers("shape_signature")
    if not signature:
        return None
    if len(signature) != len(shape) or min(signature) < -1:
        raise table.malformed(f"{_listed(signature)} does not fit the shape {_listed(shape)}", "shape_signature")
    return signature


def _quantization(table: Table, count: int) -> Quantization | None:
    """Affine parameters, or those of blocks, whose scales are another tensor of the subgraph."""
    stored = table.table("quantization")
    if stored is None:
        return None
    axis = stored.number("quantized_dimension")
    details = stored.union("details", "QuantizationDetails")
    if details is not None and details.type != "CustomQuantization":
        return Quantization(
            scales=(),
            zero_points=(),
            axis=axis,
            block_size=details.number("block_size"),
            scale_tensor=_index(details, "scales", count, "tensors"),
            zero_point_tensor=_index(details, "zero_points", count, "tensors", optional=True),
        )
    scales, zero_points = stored.floats("scale") or (), stored.integers("zero_point") or ()
    if scales and len(scales) != len(zero_points):
        raise stored.malformed(f"{len(scales)} scales but {len(zero_points)} zero points")
    return Quantization(scales, zero_points, axis) if scales else None


def _is_external(table: Table, ids: Collection[int]) -> bool:
    number = table.number("external_buffer")
    if number and number not in ids:
        raise table.malformed(f"the model has no external buffer {number}", "external_buffer")
    return bool(number)


def _op(table: Table, subgraph: int, index: int, count: int, codes: Sequence[_Code]) -> Op:
    code = codes[_index(table, "opcode_index", len(codes), "operator codes")]
    custom_options = table.span("custom_options")
    return Op(
        subgraph=subgraph,
        index=index,
        code=code.name,
        inputs=_ids(table, "inputs", count, optional=True),
        outputs=_ids(table, "outputs", count),
        version=code.version,
        custom_code=code.custom,
        intermediates=_ids(table, "intermediates", count),
        options=_options(table),
        custom_options=custom_options or _outside(table, "large_custom_options_offset", "large_custom_options_size"),
    )


def _options(table: Table) -> Mapping[str, OptionValue]:
    found: dict[str, OptionValue] = {}
    for name, types in (("builtin_options", "BuiltinOptions"), ("builtin_options2", "BuiltinOptions2")):
        options = table.union(name, types)
        for field, value in options.values() if options else ():
            enum = OPTION_ENUMS.get(field.name)
            if enum and isinstance(value, int):
                value = names(enum).get(value, f"UNKNOWN_{value}")
            found[field.name] = value
    return found


def _signature(table: Table, subgraphs: Sequence[Subgraph]) -> Signature:
    subgraph = _index(table, "subgraph_index", len(subgraphs), "subgraphs")
    count = len(subgraphs[subgraph].tensors)

    def entries(name: str, label: str) -> tuple[tuple[str, int], ...]:
        maps = table.tables(name, label)
        return tuple((entry.text("name"), _index(entry, "tensor_index", count, "tensors")) for entry in maps)

    return Signature(table.text("signature_key"), subgraph, entries("inputs", "input"), entries("outputs", "output"))


def _metadata(table: Table, buffers: Sequence[Span | None]) -> tuple[str, Span]:
    return table.text("name"), buffers[_index(table, "buffer", len(buffers), "buffers")] or Span(0, 0)


def _index(table: Table, name: str, count: int, of: str, optional: bool = False) -> int:
    """An index below ``count``; with ``optional`` also -1."""
    value = table.number(name)
    if not -int(optional) <= value < count:
        raise table.malformed(f"points to {value} of {count} {of}", name)
    return value


def _ids(table: Table, name: str, count: int, optional: bool = False) -> tuple[int, ...]:
    """Ids of tensors; with ``optional`` -1 stands for an absent one."""
    ids = table.integers(name) or ()
    for position, tensor in enumerate(ids):
        if not -int(optional) <= tensor < count:
            raise table.malformed(f"points to tensor {tensor} of {count}", f"{name} {position}")
    return ids


def _check_sources(tables: Sequence[Table], subgraph: Subgraph) -> None:
    """Each tensor has one source and no op waits for itself. The file's order need not be one that works."""
    given = {t.id: "a constant" for t in subgraph.tensors if t.data is not None and t.data.size}
    source = given | dict.fromkeys(subgraph.inputs, "an input of the subgraph")
    for op in subgraph.ops:
        for tensor in op.outputs:
            if tensor in source:
                raise tables[op.index].malformed(f"writes tensor {tensor}, which is {source[tensor]}", "outputs")
            source[tensor] = f"the output of operator {op.index}"
    producer = subgraph.producer
    cycle = _cycle({op.index: [producer[t] for t in op.inputs if t in producer] for op in subgraph.ops})
    if cycle:
        raise tables[cycle[0]].malformed(f"waits for its own result, through operators {_listed(cycle)}")


def _check_calls(tables: Sequence[Table], subgraphs: Sequence[Subgraph]) -> None:
    """Every subgraph that an op calls exists, and none calls itself."""
    for subgraph in subgraphs:
        for op in subgraph.ops:
            for callee in op.callees:
                if not 0 <= callee < len(subgraphs):
                    problem = f"operator {op.index} ({op.code}) calls subgraph {callee} of {len(subgraphs)}"
                    raise tables[subgraph.index].malformed(problem)
    cycle = _cycle({s.index: [callee for op in s.ops for callee in op.callees] for s in subgraphs})
    if cycle:
        raise tables[cycle[0]].malformed(f"calls itself, through subgraphs {_listed(cycle)}")


def _cycle(waits: Mapping[int, Iterable[int]]) -> Sequence[int]:
    """Nodes that wait for each other in a circle, the first one again at the end; empty if there are none."""
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as error:
        cycle: Sequence[int] = error.args[1]
        return cycle
    return ()


def _listed(numbers: Sequence[int], most: int = 8) -> str:
    return ", ".join(map(str, numbers[:most])) + (", …" if len(numbers) > most else "")
