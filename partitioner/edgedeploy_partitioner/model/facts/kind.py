# SPDX-License-Identifier: Apache-2.0
"""What a model is, in one word: its element types, and whether it was already compiled for some NPU."""

from __future__ import annotations

from collections.abc import Iterator

from edgedeploy_partitioner.errors import printable
from edgedeploy_partitioner.model.facts.finding import all_ops, operand
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Subgraph, Tensor
from edgedeploy_partitioner.model.work import multiplied

_COMPILED = {
    "ethos-u": "ethos-u",  # Vela
    "edgetpu-custom-op": "edgetpu",
    "NeutronGraph": "neutron",  # NXP eIQ Neutron
    "vsi-npu": "vx",  # a VeriSilicon network binary
    "DISPATCH_OP": "an NPU by LiteRT",
}
"""Custom ops that hold the output of an NPU compiler, and what runs them."""
_STAMP = "LiteRtStamp"
_STAMP_WIDTH_BYTES = 125

_FLOATS = frozenset({DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16})
_BYTES = frozenset({DType.INT8, DType.UINT8})
_TINY = frozenset({DType.INT4, DType.UINT4, DType.INT2})


def dtype_class(graph: Graph) -> str:
    """The arithmetic of the model, from the ops that multiply weights (convolutions, FULLY_CONNECTED, LSTM, …).

    ======================  ==========================================================================
    ``float32`` …           activations and weights of that type (also ``float16``, ``bfloat16``)
    ``float16-weights``     float32 activations, weights stored as float16 behind a constant DEQUANTIZE
    ``dynamic-range``       float activations, 8-bit integer weights ("hybrid"), direct or behind a
                            constant DEQUANTIZE
    ``int8``, ``uint8``     activations and weights of 8 bits
    ``int16x8``, ``int16``  int16 activations with int8 or int16 weights
    ``int4``                weights of 4 bits or fewer, whatever the activations
    ``mixed``               ops of different classes
    ``none``                no op that computes floats or quantised numbers
    ======================  ==========================================================================

    Converters leave small weights in float32: float32 ops beside ``float16-weights``, ``dynamic-range`` or ``int4``
    do not make a model mixed. Without any op that has weights, it is the type of what the other ops compute.
    """
    classes = {c for sub, op in all_ops(graph) for c in _weighted_classes(sub, op)}
    if not classes:
        classes = {c for sub, op in all_ops(graph) for c in _computed_classes(sub, op)}
    if classes & {"float16-weights", "dynamic-range", "int4"}:
        classes.discard("float32")
    if not classes:
        return "none"
    return classes.pop() if len(classes) == 1 else "mixed"


def _weighted_classes(sub: Subgraph, op: Op) -> Iterator[str]:
    inputs = multiplied(op)
    if inputs is None:
        return
    data = operand(sub, op.inputs, inputs[0])
    weights = [t for t in (operand(sub, op.inputs, i) for i in inputs[1]) if t is not None]
    if data is not None:
        yield from {_class(data.dtype, stored_type(sub, w)) for w in weights if w.dtype.bits and w.elements}


def _class(data: DType, weights: DType) -> str:
    if weights in _TINY:
        return "int4"
    if data in _FLOATS and weights in _BYTES:
        return "dynamic-range"
    if data is DType.FLOAT32 and weights is DType.FLOAT16:
        return "float16-weights"
    if data is DType.INT16 and weights is DType.INT8:
        return "int16x8"
    return data.value if data is weights else "mixed"


def _computed_classes(sub: Subgraph, op: Op) -> Iterator[str]:
    """Types of the numbers an op gives out: floats, and integers that are quantised or 8 bits wide."""
    for i in range(len(op.outputs)):
        tensor = operand(sub, op.outputs, i)
        if tensor and (tensor.dtype in _FLOATS | _BYTES or (tensor.dtype is DType.INT16 and tensor.quantization)):
            yield tensor.dtype.value


def stored_type(sub: Subgraph, tensor: Tensor) -> DType:
    """Element type in the file: of a folded weight, that of the constant behind DEQUANTIZE and DENSIFY."""
    for _ in sub.ops:
        producer = sub.producer.get(tensor.id)
        if producer is None or producer not in sub.folded:
            break
        source = operand(sub, sub.ops[producer].inputs, 0)
        if source is None:
            break
        tensor = source
    return tensor.dtype


def compiled_for(graph: Graph) -> str | None:
    """What the model was already compiled for (``ethos-u``, ``edgetpu``, …), None for an ordinary model.

    A file that LiteRT compiled carries the vendor and SoC in its metadata, and those are given.
    """
    targets = [_COMPILED[op.custom_code] for sub in graph.subgraphs for op in sub.ops if op.custom_code in _COMPILED]
    return _stamp(graph) or targets[0] if targets else None


def _stamp(graph: Graph) -> str:
    for name, span in graph.metadata:
        if name == _STAMP:
            text = bytes(graph.bytes_of(span)[: 2 * _STAMP_WIDTH_BYTES])
            parts = (text[:_STAMP_WIDTH_BYTES], text[_STAMP_WIDTH_BYTES:])
            return printable(" ".join(p.split(b"\0")[0].decode("ascii", "backslashreplace") for p in parts).strip())
    return ""
