# SPDX-License-Identifier: Apache-2.0
"""``interpreter_bytes``: what the interpreter keeps on the heap about the model itself, and its built-in kernels.

Beside what the kernels take (:mod:`kernel_heap`) it is a line fitted to the heap of ai-edge-litert 2.3.0 on x86-64
after loading 76 models of 1 to 580 tensors; ``docs/memory.md`` has how far off the heap is. Each subgraph asks for room
for 128 tensors and ops at once; pages of it that are not written take no memory. The fixed parts were measured in
processes whose heap had no holes: in one that has some, a model goes partly into them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from edgedeploy_partitioner.memory.kernel_heap import kernel_heap
from edgedeploy_partitioner.memory.line import Line
from edgedeploy_partitioner.memory.liveness import ExecutedNode
from edgedeploy_partitioner.memory.release import LITERT_2_1, LITERT_2_3, TFLITE_2_14, Release
from edgedeploy_partitioner.model.graph import Graph, Subgraph

Executed = Mapping[int, Sequence[ExecutedNode]]


class _Fixed(NamedTuple):
    """Whatever the model: of the heap, mostly tables of kernels, and what resident memory grows by beyond it."""

    heap_bytes: int
    pages_bytes: int


_FIXED = (
    (LITERT_2_3, _Fixed(105_000, 17_000)),
    (LITERT_2_1, _Fixed(102_000, 14_000)),
    (TFLITE_2_14, _Fixed(98_000, 5_000)),
)
_SWITCH_BYTES = 14_000  # libedgedeploy.so, and an XNNPACK delegate beside the runtime's own
_TENSOR_BYTES, _OP_BYTES, _SCALE_BYTES, _SUBGRAPH_BYTES = 292, 165, 8, 33_000
_NODE_BYTES = 400
_INDEX_BYTES = 4  # of each stored value of a sparse tensor, unless it is stored in blocks
_ROOM = 128  # tensors and ops that a subgraph asks memory for
_TENSOR_ROOM_BYTES, _OP_ROOM_BYTES = 112, 168  # TfLiteTensor; TfLiteNode and TfLiteRegistration
_BORDER_BYTES = 10_000  # of that room, on pages that are written all the same
_LOW, _HIGH, _SLACK_BYTES = 0.9, 1.15, 25_000

_MULTIPLYING = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED")
# Built-in kernels that take from the heap while they run, for operands they pack or unfold.
_UNFOLDING = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL", "TRANSPOSE_CONV", "CONV_3D",
                        "CONV_3D_TRANSPOSE", "SVDF", "RNN", "LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM",
                        "SPARSE_TO_DENSE", "TOPK_V2", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"})  # fmt: skip


def _fixed(release: Release) -> _Fixed:
    return next((fixed for since, fixed in _FIXED if release >= since), _FIXED[-1][1])


def heap_bytes(graph: Graph, executed: Executed, isa: Collection[str], release: Release = LITERT_2_3) -> int:
    """What malloc gives out, written or not."""
    return _own_bytes(graph, executed, release) + kernel_heap(graph, executed, isa, release).kept_bytes


def _own_bytes(graph: Graph, executed: Executed, release: Release) -> int:
    tensors = [t for s in graph.subgraphs for t in s.tensors]
    scales = sum(len(t.quantization.scales) for t in tensors if t.quantization is not None)
    return (
        _fixed(release).heap_bytes
        + (_SWITCH_BYTES if release.is_switched else 0)
        + _TENSOR_BYTES * len(tensors)
        + _OP_BYTES * sum(len(s.ops) for s in graph.subgraphs)
        + _SCALE_BYTES * scales
        + _INDEX_BYTES * sum(t.data.size * 8 // t.dtype.bits for t in tensors if t.is_sparse and t.data)
        + _SUBGRAPH_BYTES * (len(graph.subgraphs) - 1)
        + sum(_node_bytes(graph.subgraphs[i], op) for i, op in _built_in(executed))
    )


def interpreter(graph: Graph, executed: Executed, isa: Collection[str], release: Release = LITERT_2_3) -> Line:
    """The line. There is no upper bound where a built-in kernel takes more while it runs."""
    taken = kernel_heap(graph, executed, isa, release)
    own = _own_bytes(graph, executed, release) + taken.lasting_bytes + _fixed(release).pages_bytes
    own -= sum(map(_never_written, graph.subgraphs))
    unfolds = any(graph.subgraphs[i].ops[op].code in _UNFOLDING for i, op in _built_in(executed))
    is_open = unfolds or any(t.is_sparse for s in graph.subgraphs for t in s.tensors)
    high = int((own + 2 * taken.peak_bytes) * _HIGH) + _SLACK_BYTES
    return Line(own + taken.peak_bytes, max(0, int(own * _LOW) - _SLACK_BYTES), None if is_open else high, "modelled")


def _never_written(subgraph: Subgraph) -> int:
    tensors, ops = (max(0, _ROOM - len(them)) for them in (subgraph.tensors, subgraph.ops))
    return max(0, tensors * _TENSOR_ROOM_BYTES + ops * _OP_ROOM_BYTES - _BORDER_BYTES)


def _node_bytes(subgraph: Subgraph, op: int) -> int:
    """A kernel keeps a multiplier and a shift for each scale of quantised weights."""
    inputs = subgraph.ops[op].inputs[:3] if subgraph.ops[op].code in _MULTIPLYING else ()
    weights = (subgraph.tensors[t].quantization for t in inputs if t >= 0 and subgraph.tensors[t].is_constant)
    return _NODE_BYTES + _SCALE_BYTES * max((len(q.scales) for q in weights if q is not None), default=0)


def _built_in(executed: Executed) -> list[tuple[int, int]]:
    return [(i, node.op) for i, nodes in executed.items() for node in nodes if node.op is not None]
