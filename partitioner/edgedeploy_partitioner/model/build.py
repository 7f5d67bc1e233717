# SPDX-License-Identifier: Apache-2.0
"""Write ``.tflite`` bytes from values: for tests, the census of a runtime and probes of a board.

    model = Model()
    g = model.subgraph()
    x = g.input((1, 8, 8, 3), "float32")
    w = g.constant(np.zeros((4, 3, 3, 3), np.float32))
    g.outputs(g.apply("CONV_2D", [x, w, -1], (1, 8, 8, 4), padding="SAME", stride_w=1, stride_h=1))
    data = model.build()

The same calls give the same bytes. Nothing is checked: a test may want a bad model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np
from numpy.typing import NDArray

from edgedeploy_partitioner.model.graph import DType, Quantization
from edgedeploy_partitioner.model.schema import OPTION_ENUMS, SCHEMA

Array = NDArray[Any]

_ALIGNMENT_BYTES = 16  # what the schema asks of buffer data

# Options tables that are not named like their op.
_SHARED_OPTIONS = {
    "AVERAGE_POOL_2D": "Pool2DOptions", "MAX_POOL_2D": "Pool2DOptions", "L2_POOL_2D": "Pool2DOptions",
    "MEAN": "ReducerOptions", "SUM": "ReducerOptions", "REDUCE_PROD": "ReducerOptions", "REDUCE_MAX": "ReducerOptions",
    "REDUCE_MIN": "ReducerOptions", "REDUCE_ANY": "ReducerOptions", "REDUCE_ALL": "ReducerOptions",
    "MAXIMUM": "MaximumMinimumOptions", "MINIMUM": "MaximumMinimumOptions", "L2_NORMALIZATION": "L2NormOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions", "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "RANDOM_UNIFORM": "RandomOptions", "RANDOM_STANDARD_NORMAL": "RandomOptions", "MULTINOMIAL": "RandomOptions",
}  # fmt: skip


def options_table(code: str) -> str | None:
    """Name of the schema's options table for a builtin op (``Conv2DOptions``), None if it has none."""
    if code in _SHARED_OPTIONS:
        return _SHARED_OPTIONS[code]
    wanted = code.replace("_", "").lower() + "options"
    return next((n for union in _option_unions() for n in vars(union) if n.lower() == wanted), None)


def per_tensor(scale: float, zero_point: int = 0) -> Quantization:
    return Quantization((scale,), (zero_point,), 0)


def per_channel(scales: Sequence[float], axis: int, zero_points: Sequence[int] | None = None) -> Quantization:
    return Quantization(tuple(scales), tuple(zero_points or [0] * len(scales)), axis)


class Model:
    """A model being written. Subgraphs, buffers and operator codes are numbered in the order they are made."""

    def __init__(self, description: str = "") -> None:
        self.value = SCHEMA.ModelT(version=3, description=description, buffers=[_Buffer()], operatorCodes=[])
        self.value.subgraphs, self.value.signatureDefs, self.value.metadata = [], [], []

    def subgraph(self, name: str = "main") -> Subgraph:
        self.value.subgraphs.append(SCHEMA.SubGraphT(tensors=[], inputs=[], outputs=[], operators=[], name=name))
        return Subgraph(self, len(self.value.subgraphs) - 1)

    def buffer(self, data: bytes) -> int:
        """Add a buffer; returns its number, to be shared by several tensors."""
        self.value.buffers.append(_Buffer(data=np.frombuffer(data, np.uint8)))
        return len(self.value.buffers) - 1

    def metadata(self, name: str, data: bytes) -> None:
        self.value.metadata.append(SCHEMA.MetadataT(name=name, buffer=self.buffer(data)))

    def signature(self, key: str, inputs: Mapping[str, int], outputs: Mapping[str, int], subgraph: int = 0) -> None:
        """Name an entry point; ``inputs`` and ``outputs`` are tensor ids by name."""

        def tensors(named: Mapping[str, int]) -> list[Any]:
            return [SCHEMA.TensorMapT(name=n, tensorIndex=t) for n, t in named.items()]

        self.value.signatureDefs.append(
            SCHEMA.SignatureDefT(
                inputs=tensors(inputs), outputs=tensors(outputs), signatureKey=key, subgraphIndex=subgraph
            )
        )

    def op_code(self, code: str, custom_code: str, version: int) -> int:
        number = getattr(SCHEMA.BuiltinOperator, code)
        codes = self.value.operatorCodes
        for i, known in enumerate(codes):
            if (known.builtinCode, known.customCode or "", known.version) == (number, custom_code, version):
                return i
        # Readers before 2.3 know only the old one-byte field.
        byte = min(number, 127)
        codes.append(
            SCHEMA.OperatorCodeT(
                builtinCode=number, deprecatedBuiltinCode=byte, version=version, customCode=custom_code or None
            )
        )
        return len(codes) - 1

    def build(self) -> bytes:
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.value.Pack(builder), b"TFL3")
        return bytes(builder.Output())


class Subgraph:
    """One subgraph of a :class:`Model`. Tensors are ids, ops are indices, both in the order they are made."""

    def __init__(self, model: Model, index: int) -> None:
        self.model = model
        self.index = index
        self.value = model.value.subgraphs[index]

    def tensor(
        self,
        shape: Sequence[int],
        dtype: str = "float32",
        quant: Quantization | None = None,
        *,
        buffer: int = 0,
        name: str | None = None,
        variable: bool = False,
        signature: Sequence[int] | None = None,
    ) -> int:
        """Add a tensor; returns its id. ``dtype`` is a name of :class:`DType`.

        ``signature`` is the shape with -1 where the size is not fixed.
        """
        tensors = self.value.tensors
        tensors.append(
            SCHEMA.TensorT(
                shape=list(shape),
                type=getattr(SCHEMA.TensorType, DType(dtype).name),
                buffer=buffer,
                name=f"t{len(tensors)}" if name is None else name,
                quantization=None if quant is None else _quantization(quant),
                isVariable=variable,
                shapeSignature=None if signature is None else list(signature),
                hasRank=True,
            )
        )
        return len(tensors) - 1

    def input(
        self, shape: Sequence[int], dtype: str = "float32", quant: Quantization | None = None, **more: Any
    ) -> int:
        tensor = self.tensor(shape, dtype, quant, **more)
        self.value.inputs.append(tensor)
        return tensor

    def constant(
        self, value: Array | Sequence[Any], dtype: str | None = None, quant: Quantization | None = None, **more: Any
    ) -> int:
        """Add a constant. ``dtype`` defaults to that of ``value``; for ``int4`` and ``int2`` the values are packed."""
        array = np.asarray(value)
        kind = dtype or array.dtype.name
        return self.tensor(array.shape, kind, quant, buffer=self.model.buffer(_bytes_of(array, kind)), **more)

    def sparse_constant(self, value: Array, dtype: str | None = None, quant: Quantization | None = None) -> int:
        """Add a constant stored sparse: dense in all dimensions but the last, which is compressed (CSR)."""
        array = np.asarray(value)
        if not array.size or not array.ndim:
            raise ValueError(f"nothing to compress in a tensor of shape {array.shape}")
        kind = dtype or array.dtype.name
        rows = array.reshape(-1, array.shape[-1])
        columns = [np.flatnonzero(row) for row in rows]
        stored = np.concatenate([row[at] for row, at in zip(rows, columns, strict=True)])
        tensor = self.tensor(array.shape, kind, quant, buffer=self.model.buffer(_bytes_of(stored, kind)))
        segments = np.concatenate([[0], np.cumsum([len(c) for c in columns])])
        dims = [SCHEMA.DimensionMetadataT(format=0, denseSize=size) for size in array.shape[:-1]]
        dims.append(
            SCHEMA.DimensionMetadataT(
                format=1,
                arraySegmentsType=SCHEMA.SparseIndexVector.Int32Vector,
                arraySegments=SCHEMA.Int32VectorT(values=segments.tolist()),
                arrayIndicesType=SCHEMA.SparseIndexVector.Int32Vector,
                arrayIndices=SCHEMA.Int32VectorT(values=np.concatenate(columns).tolist()),
            )
        )
        self.value.tensors[tensor].sparsity = SCHEMA.SparsityParametersT(
            traversalOrder=list(range(array.ndim)), dimMetadata=dims
        )
        return tensor

    def op(
        self,
        code: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        *,
        op_version: int = 1,
        custom_code: str = "",
        custom_options: bytes = b"",
        intermediates: Sequence[int] = (),
        **options: Any,
    ) -> int:
        """Add an op; returns its index. ``options`` have the schema's names in snake_case, enums by name."""
        op = SCHEMA.OperatorT(
            opcodeIndex=self.model.op_code(code, custom_code, op_version),
            inputs=list(inputs),
            outputs=list(outputs),
            intermediates=list(intermediates) or None,
            customOptions=np.frombuffer(custom_options, np.uint8) if custom_options else None,
        )
        _set_options(op, code, options)
        self.value.operators.append(op)
        return len(self.value.operators) - 1

    def apply(
        self,
        code: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        dtype: str = "float32",
        quant: Quantization | None = None,
        **options: Any,
    ) -> int:
        """Add an op with one new output tensor; returns that tensor."""
        output = self.tensor(shape, dtype, quant)
        self.op(code, inputs, [output], **options)
        return output

    def outputs(self, *tensors: int) -> None:
        self.value.outputs.extend(tensors)


class _Buffer(SCHEMA.BufferT):  # type: ignore[misc, name-defined, unused-ignore]
    """A buffer whose data is aligned as the schema says; the generated ``Pack`` does not align."""

    def Pack(self, builder: Any) -> int:  # noqa: N802 - the generated name
        if self.data is not None:
            builder.StartVector(1, len(self.data), _ALIGNMENT_BYTES)
            builder.head -= len(self.data)
            builder.Bytes[builder.head : builder.head + len(self.data)] = self.data.tobytes()
            data = builder.EndVector()
        SCHEMA.BufferStart(builder)
        if self.data is not None:
            SCHEMA.BufferAddData(builder, data)
        return int(SCHEMA.BufferEnd(builder))


def _option_unions() -> tuple[Any, Any]:
    return SCHEMA.BuiltinOptions, SCHEMA.BuiltinOptions2


def _set_options(op: Any, code: str, options: Mapping[str, Any]) -> None:
    table = options_table(code)
    if table is None:
        if options:
            raise ValueError(f"{code} has no options, got {sorted(options)}")
        return
    values = getattr(SCHEMA, table + "T")()
    for name, value in options.items():
        field = re.sub(r"_(\w)", lambda m: m[1].upper(), name)
        if not hasattr(values, field):
            raise ValueError(f"{code} has no option {name!r}")
        setattr(values, field, _option(name, value))
    if hasattr(SCHEMA.BuiltinOptions, table):
        op.builtinOptionsType, op.builtinOptions = getattr(SCHEMA.BuiltinOptions, table), values
    else:
        op.builtinOptions2Type, op.builtinOptions2 = getattr(SCHEMA.BuiltinOptions2, table), values


def _option(name: str, value: Any) -> Any:
    if isinstance(value, str) and name in OPTION_ENUMS:
        return getattr(getattr(SCHEMA, OPTION_ENUMS[name]), value)
    if isinstance(value, bytes):
        return np.frombuffer(value, np.uint8)
    return list(value) if isinstance(value, tuple) else value


def _quantization(quant: Quantization) -> Any:
    result = SCHEMA.QuantizationParametersT(quantizedDimension=quant.axis)
    if quant.block_size:
        result.detailsType = SCHEMA.QuantizationDetails.BlockwiseQuantization
        result.details = SCHEMA.BlockwiseQuantizationT(
            scales=quant.scale_tensor or 0,
            zeroPoints=-1 if quant.zero_point_tensor is None else quant.zero_point_tensor,
            blockSize=quant.block_size,
        )
    else:
        result.scale, result.zeroPoint = list(quant.scales), list(quant.zero_points)
    return result


def _bytes_of(array: Array, dtype: str) -> bytes:
    bits = DType(dtype).bits
    if bits in (2, 4):  # lowest bits first
        flat = array.astype(np.uint8).ravel() & (2**bits - 1)
        flat = np.pad(flat, (0, -len(flat) % (8 // bits))).reshape(-1, 8 // bits)
        shifts = np.arange(0, 8, bits)
        array = np.bitwise_or.reduce(flat << shifts, axis=1).astype(np.uint8)
    data: bytes = np.ascontiguousarray(array).tobytes()
    return data
