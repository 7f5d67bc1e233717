# SPDX-License-Identifier: Apache-2.0
"""``packed_bytes``: what XNNPACK allocates beside TFLite's arena, modelled from the shapes of what it takes.

Each operator keeps its packed weights and its tables of pointers (:mod:`packing`). Tensors inside a partition, scratch
memory and inputs quantised on the way lie in one workspace, which all partitions share: it has the size that the
hungriest needs. Constants in half precision are unpacked for the ops that cannot read them so.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from edgedeploy_partitioner.memory.line import Line
from edgedeploy_partitioner.memory.liveness import ExecutedNode
from edgedeploy_partitioner.memory.packing import Held, held
from edgedeploy_partitioner.memory.release import LITERT_2_3, Release
from edgedeploy_partitioner.memory.rounding import up
from edgedeploy_partitioner.memory.tiles import Tiles, tiles
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Subgraph
from edgedeploy_partitioner.plan import XNNPACK
from edgedeploy_profiles.schema import Core

_IN_PLACE_OPS = """
    ABS ADD CEIL COS DIV ELU EXP EXPAND_DIMS FLOOR GELU HARD_SWISH LEAKY_RELU LOG LOGISTIC MAXIMUM MINIMUM MUL NEG PRELU
    QUANTIZE RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 RESHAPE ROUND RSQRT SIGN SIN SOFTMAX SQRT SQUARE SQUARED_DIFFERENCE
    SQUEEZE SUB TANH
"""
_IN_PLACE = frozenset(_IN_PLACE_OPS.split())
_READS_HALF = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"})
# An activation whose input nobody else reads is done by the operator before it, if that is one of these.
_ACTIVATIONS = frozenset({"RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"})
_CLAMPING_OPS = """
    ADD AVERAGE_POOL_2D CONV_2D DEPTHWISE_CONV_2D DIV FULLY_CONNECTED MAX_POOL_2D MUL SUB TRANSPOSE_CONV
"""
_CLAMPING = frozenset(_CLAMPING_OPS.split())
_EXTRA_BYTES = 32  # that XNNPACK may read beyond the end of the workspace

# XNNPACK's own structures: fitted to the heap of whole models on x86-64, Cortex-A53 and A76.
_OP_BYTES = {"FULLY_CONNECTED": 3550, "VAR_HANDLE": 0}
_OP_BYTES |= dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"), 2350)
_VALUE_BYTES = 560
_PARTITION_BYTES = 1050
_WASTE_BYTES = 400  # by the growth of resident memory beyond the heap

# Of the total; and for small ones, bytes. ``docs/memory.md`` says by what.
_LOW, _HIGH, _LEAST_BYTES, _MOST_BYTES = 0.88, 1.12, 6_000, 60_000
_LOW_SPARSE = 0.6

Executed = Mapping[int, Sequence[ExecutedNode]]


def heap_bytes(graph: Graph, executed: Executed, core: Core | None, release: Release = LITERT_2_3) -> int:
    """What malloc gives out for the XNNPACK nodes of ``executed``, written or not."""
    tile_of = tiles(core, release)
    parts = _partitions(graph, executed, tile_of)
    return _delegate_bytes(parts, tile_of) if parts else 0


def packed(graph: Graph, executed: Executed, core: Core | None, release: Release = LITERT_2_3) -> Line:
    """The line for the XNNPACK nodes of ``executed``, on a machine whose fastest core is ``core``."""
    tile_of = tiles(core, release)
    parts = _partitions(graph, executed, tile_of)
    if not parts:
        return Line.none()
    held_bytes = _delegate_bytes(parts, tile_of)
    total = (
        held_bytes - sum(p.unwritten_bytes for p in parts) + tile_of.border_bytes + sum(p.waste_bytes for p in parts)
    )
    stays_sparse = tile_of.multiplies_sparse and any(p.has_sparse for p in parts)
    least = max(0, int(total * (_LOW_SPARSE if stays_sparse else _LOW)) - _LEAST_BYTES)
    return Line(total, least, int(total * _HIGH) + _MOST_BYTES, "modelled")


def _partitions(graph: Graph, executed: Executed, tile_of: Tiles) -> list[_Partition]:
    nodes = [(graph.subgraphs[i], node) for i, found in executed.items() for node in found if node.delegate == XNNPACK]
    return [_partition(graph, subgraph, node, executed[subgraph.index], tile_of) for subgraph, node in nodes]


def _delegate_bytes(parts: Sequence[_Partition], tile_of: Tiles) -> int:
    return tile_of.delegate_bytes + sum(p.kept_bytes for p in parts) + max(p.workspace_bytes for p in parts)


@dataclass(frozen=True, slots=True)
class _Partition:
    """``unwritten_bytes`` of what is kept take no memory; ``waste_bytes`` are free again, but on pages in use."""

    kept_bytes: int
    workspace_bytes: int
    unwritten_bytes: int
    waste_bytes: int
    has_sparse: bool


def _partition(
    graph: Graph, subgraph: Subgraph, node: ExecutedNode, nodes: Sequence[ExecutedNode], tile_of: Tiles
) -> _Partition:
    inside = _inside(subgraph, node, nodes)
    ops = [subgraph.ops[m] for m in node.members if m not in subgraph.folded]
    ops = _with_activations(subgraph, ops, inside) if tile_of.fuses else ops
    kept, values, unwritten = _PARTITION_BYTES + _unpacked_bytes(subgraph, node, tile_of), set[int](), 0
    blocks = _Workspace(subgraph, inside, tile_of)
    for op in ops:
        buffers = held(graph, op, tile_of)
        kept += _OP_BYTES.get(op.code, tile_of.op_bytes) + buffers.weights_bytes + buffers.pointers_bytes
        unwritten += buffers.unwritten_bytes
        values.update(t for t in (*op.inputs, *op.outputs) if t >= 0)
        blocks.add(op, buffers)
    return _Partition(
        kept + _VALUE_BYTES * len(values),
        blocks.bytes(),
        unwritten,
        _WASTE_BYTES * len(ops),
        any(subgraph.ops[m].code == "DENSIFY" for m in node.members),
    )


def _inside(subgraph: Subgraph, node: ExecutedNode, nodes: Sequence[ExecutedNode]) -> frozenset[int]:
    """Tensors that only the partition knows."""
    elsewhere = {t for other in nodes if other is not node for t in other.inputs}
    made = {t for m in node.members for t in subgraph.ops[m].outputs}
    return frozenset(made - elsewhere - set(subgraph.outputs))


def _with_activations(subgraph: Subgraph, ops: Iterable[Op], inside: Container[int]) -> list[Op]:
    """The operators that XNNPACK makes of ``ops``: an activation is done by the one that makes its input, if it alone
    reads that."""
    merged: dict[int, Op] = {}  # by what they write
    found: list[Op] = []
    for op in ops:
        source = merged.get(op.inputs[0]) if op.code in _ACTIVATIONS and op.inputs else None
        if source is None or op.inputs[0] not in inside or len(subgraph.consumers.get(op.inputs[0], ())) != 1:
            found.append(op)
        else:
            found[found.index(source)] = op = replace(source, outputs=op.outputs)
        if op.code in _CLAMPING and op.outputs:
            merged[op.outputs[0]] = op
    return found


def _unpacked_bytes(subgraph: Subgraph, node: ExecutedNode, tile_of: Tiles) -> int:
    """Constants that the delegate unpacks and keeps: half precision for ops that want floats, and sparse ones."""
    total = 0
    for op in (subgraph.ops[m] for m in node.members if m in subgraph.folded):
        for t in op.outputs:
            readers = [subgraph.ops[c] for c in subgraph.consumers.get(t, ()) if c in node.members]
            as_half = op.code == "DEQUANTIZE" and subgraph.tensors[op.inputs[0]].dtype is DType.FLOAT16
            is_read_so = tile_of.reads_half and all(reader.code in _READS_HALF for reader in readers)
            if not (as_half and is_read_so):
                total += subgraph.tensors[t].nbytes
    return total


# --- the workspace ----------


@dataclass(frozen=True, slots=True)
class _Block:
    bytes: int
    first: int
    last: int
    offset: int = 0


class _Workspace:
    """The values of one partition that lie in the workspace, and where XNNPACK's planner puts them."""

    def __init__(self, subgraph: Subgraph, inside: frozenset[int], tile_of: Tiles) -> None:
        self.subgraph, self.inside, self.tiles = subgraph, inside, tile_of
        self.values: dict[int, _Block] = {}
        self.others: list[_Block] = []
        self.quantized: dict[int, int] = {}
        self.owner: dict[int, int] = {}
        self.step = 0

    def add(self, op: Op, buffers: Held) -> None:
        """The next op; what it first makes of its input takes a step of its own."""
        reads = [t for t in dict.fromkeys(op.inputs) if t in self.inside]
        source = op.inputs[2 if op.code == "TRANSPOSE_CONV" else 0] if op.inputs else -1
        if buffers.reshaped_bytes and not self._ends_here(source):
            self._use([source] if source in reads else [])
            self.others.append(self._block(buffers.reshaped_bytes, self.step + 1))
            self.step += 1
            reads = [t for t in reads if t != source]
        if buffers.quantized_bytes and source not in self.quantized:
            self._use([source] if source in reads else [])
            self.quantized[source] = len(self.others)
            self.others.append(self._block(buffers.quantized_bytes))
            self.step += 1
        if buffers.quantized_bytes:
            at = self.quantized[source]
            self.others[at] = replace(self.others[at], last=self.step)
            reads = [t for t in reads if t != source]
        if buffers.scratch_bytes:
            self.others.append(self._block(buffers.scratch_bytes))
        self._use(reads)
        for t in op.outputs:
            if t in self.inside:
                shared = self._shared(op, t)
                if shared is None:
                    self.values[t] = self._block(self.subgraph.tensors[t].nbytes)
                else:
                    self.owner[t] = shared
                    self._use([t])
        self.step += 1

    def _block(self, size: int, last: int | None = None) -> _Block:
        return _Block(up(size, self.tiles.alignment_bytes), self.step, self.step if last is None else last)

    def _ends_here(self, tensor: int) -> bool:
        """A value whose only reader may write over it, as a reshape does."""
        return tensor in self.inside and self._readers(tensor) == 1

    def _use(self, tensors: Iterable[int]) -> None:
        for t in tensors:
            home = self.owner.get(t, t)
            if home in self.values:
                self.values[home] = replace(self.values[home], last=self.step)

    def _shared(self, op: Op, result: int) -> int | None:
        """The value that ``result`` is written over: of the same size, and nobody else reads it."""
        if op.code not in _IN_PLACE:
            return None
        for t in op.inputs:
            is_same = t in self.inside and self.subgraph.tensors[t].nbytes == self.subgraph.tensors[result].nbytes
            if is_same and self._readers(t) == 1 and self._readers(result) == 1:
                return self.owner.get(t, t)
        return None

    def _readers(self, tensor: int) -> int:
        return len(self.subgraph.consumers.get(tensor, ()))

    def bytes(self) -> int:
        placed: list[_Block] = []
        for block in sorted((*self.values.values(), *self.others), key=lambda b: -b.bytes):
            alive = sorted((b.offset, b.offset + b.bytes) for b in placed if _overlap(b, block))
            placed.append(replace(block, offset=_offset(alive, block.bytes, self.tiles.fills_start)))
        size = max((b.offset + b.bytes for b in placed), default=0)
        return size + _EXTRA_BYTES if size else 0


def _overlap(a: _Block, b: _Block) -> bool:
    return a.first <= b.last and b.first <= a.last


def _offset(alive: Sequence[tuple[int, int]], size: int, from_start: bool) -> int:
    """The start of the smallest gap between or below ``alive`` that fits, else their end."""
    gaps = [(start - end, end) for end, start in _gaps(alive, from_start) if start - end >= size]
    return min(gaps, key=lambda gap: gap[0])[1] if gaps else max((end for _, end in alive), default=0)


def _gaps(alive: Sequence[tuple[int, int]], from_start: bool) -> Iterator[tuple[int, int]]:
    reached = 0 if from_start or not alive else alive[0][0]
    for start, end in alive:
        if start > reached:
            yield reached, start
        reached = max(reached, end)
