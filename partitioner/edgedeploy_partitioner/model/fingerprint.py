# SPDX-License-Identifier: Apache-2.0
"""Graph fingerprints: how the library on the board recognises the graph a plan was made for.

SHA-256 over what a delegate sees in a ``TfLiteContext`` before shapes are propagated, so that C computes the same
without reading the model file. ``docs/plan-edp.md`` lists the hashed bytes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Subgraph, Tensor
from edgedeploy_partitioner.model.schema import SCHEMA

# enum TfLiteType of the C ABI (LiteRT tflite/core/c/c_api_types.h); its numbers are not those of the file's TensorType.
TFLITE_TYPE = {
    DType.FLOAT32: 1, DType.INT32: 2, DType.UINT8: 3, DType.INT64: 4, DType.STRING: 5, DType.BOOL: 6, DType.INT16: 7,
    DType.COMPLEX64: 8, DType.INT8: 9, DType.FLOAT16: 10, DType.FLOAT64: 11, DType.COMPLEX128: 12, DType.UINT64: 13,
    DType.RESOURCE: 14, DType.VARIANT: 15, DType.UINT32: 16, DType.UINT16: 17, DType.INT4: 18, DType.BFLOAT16: 19,
    DType.INT2: 20, DType.UINT4: 21, DType.FLOAT8_E4M3FN: 22, DType.FLOAT8_E5M2: 23,
}  # fmt: skip


def fingerprints(graph: Graph) -> tuple[str, ...]:
    """SHA-256 of every subgraph of the model to ship, lower-case hex.

    Raises :class:`InputError` for an op that the schema has no number for: no runtime loads such a model.
    """
    return tuple(_fingerprint(subgraph) for subgraph in graph.subgraphs)


def _fingerprint(subgraph: Subgraph) -> str:
    digest = hashlib.sha256(_int32(len(subgraph.ops)))
    for op in subgraph.ops:
        for part in _op_bytes(op):
            digest.update(part)
    referenced = {t for op in subgraph.ops for t in (*op.inputs, *op.outputs) if t >= 0}
    for id_ in sorted(referenced):
        digest.update(_tensor_bytes(subgraph.tensors[id_]))
    return digest.hexdigest()


def _op_bytes(op: Op) -> Iterator[bytes]:
    # The runtime keeps a C string, and only of custom ops.
    name = op.custom_code.encode("utf-8", "backslashreplace").split(b"\0")[0] if op.code == "CUSTOM" else b""
    yield _int32(_builtin_code(op), len(name))
    yield name
    yield _int32(len(op.inputs), *op.inputs)
    yield _int32(len(op.outputs), *op.outputs)


def _tensor_bytes(tensor: Tensor) -> bytes:
    return _int32(tensor.id, TFLITE_TYPE[tensor.dtype], len(tensor.shape), *tensor.shape)


def _builtin_code(op: Op) -> int:
    number = getattr(SCHEMA.BuiltinOperator, op.code, None)
    if number is None and op.code.removeprefix("BUILTIN_").isdecimal():  # newer than the schema
        number = int(op.code.removeprefix("BUILTIN_"))
    if not isinstance(number, int):
        raise InputError(f"op {op.index} of subgraph {op.subgraph}: {op.code} is no operator of the TFLite schema")
    return number


def _int32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)
