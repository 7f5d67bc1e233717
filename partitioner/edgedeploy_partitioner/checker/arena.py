# SPDX-License-Identifier: Apache-2.0
"""The activation arena of one subgraph, by the rules of TFLite's planner, for graphs of plain kernels.

Kernels that ask for scratch memory or size their outputs at run time are not modelled here. Rules: 64-byte alignment;
blocks that live for the whole run first, by tensor; then the larger, then the earlier; each into the smallest gap that
fits. Inputs and outputs of the graph, and results that nobody reads, are never freed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, permutations, product

from edgedeploy_partitioner.model.graph import DType, Subgraph, Tensor

_ALIGNMENT_BYTES = 64
_FOREVER = 1 << 31
_SCALAR_BYTES = 4
_MOST_STEPS = 1_000_000

# Built-in kernels without scratch memory, whose outputs have the size the file says.
_PLAIN = frozenset({
    "ABS", "ADD", "AVERAGE_POOL_2D", "CONCATENATION", "CUMSUM", "DEQUANTIZE", "DIV", "ELU", "EQUAL", "EXP",
    "EXPAND_DIMS", "FLOOR", "GATHER", "GELU", "GREATER", "HARD_SWISH", "LEAKY_RELU", "LESS", "LOG", "LOGICAL_AND",
    "LOGICAL_NOT", "LOGISTIC", "LOG_SOFTMAX", "MAXIMUM", "MAX_POOL_2D", "MINIMUM", "MUL", "NEG", "PACK", "PRELU",
    "QUANTIZE", "RELU", "RELU6", "RSQRT", "SELECT_V2", "SIN", "SOFTMAX", "SPLIT", "SQRT", "SQUARE",
    "SQUARED_DIFFERENCE", "SQUEEZE", "SUB", "TANH", "UNPACK",
})  # fmt: skip
# The same, if the inputs after the first are constants.
_SHAPED = frozenset({
    "BROADCAST_TO", "MIRROR_PAD", "PAD", "PADV2", "RESHAPE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "SLICE",
    "STRIDED_SLICE", "TILE", "TRANSPOSE",
})  # fmt: skip
# Kernels that may write over an input: how many of the first inputs, and whether the data stays as it is.
_IN_PLACE = {
    "ADD": (2, False), "SUB": (2, False), "MUL": (2, False), "DIV": (2, False), "SOFTMAX": (1, False),
    "EXPAND_DIMS": (1, True), "SQUEEZE": (1, True), "RESHAPE": (1, True),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ArenaNode:
    """One executed node. ``code`` is the operator of a built-in kernel, None for a delegate node."""

    code: str | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Block:
    tensor: int
    bytes: int
    first: int
    last: int


def possible_arenas(subgraph: Subgraph, nodes: Sequence[ArenaNode], fixed: frozenset[int]) -> frozenset[int] | None:
    """The sizes in bytes that the runtime's arena may have; None where that is not modelled.

    ``fixed`` are constant tensors. There are several sizes only if blocks are equal in the planner's order: which of
    them comes first is the choice of its C++ library.
    """
    if any(not _is_plain(subgraph, node, fixed) for node in nodes):
        return None
    blocks = sorted(_blocks(subgraph, nodes, fixed), key=_rank)
    equals = [list(group) for _, group in groupby(blocks, key=_rank)]
    if math.prod(math.factorial(len(group)) for group in equals) * len(blocks) ** 2 > _MOST_STEPS:
        return None
    orders = product(*(permutations(group) for group in equals))
    return frozenset(_size([block for group in order for block in group]) for order in orders)


def _size(blocks: Sequence[_Block]) -> int:
    placed: list[tuple[int, _Block]] = []
    for block in blocks:
        placed.append((_offset(block, placed), block))
    return max((offset + block.bytes for offset, block in placed), default=0)


def _is_plain(subgraph: Subgraph, node: ArenaNode, fixed: frozenset[int]) -> bool:
    if any(subgraph.tensors[t].is_dynamic for t in node.outputs if t >= 0):
        return False
    if node.code is not None and fixed.issuperset(node.inputs):  # some kernels compute such results beforehand
        return False
    if node.code in _SHAPED:
        return fixed.issuperset(node.inputs[1:])
    return node.code is None or node.code in _PLAIN


def _offset(block: _Block, placed: Sequence[tuple[int, _Block]]) -> int:
    """The smallest gap between blocks alive at the same time, the first of equals; else after all of them."""
    alive = sorted((at, b.bytes) for at, b in placed if b.first <= block.last and block.first <= b.last)
    best, best_gap, end = None, 0, 0
    for at, size in alive:
        start = -(-end // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        if start + block.bytes <= at and (best is None or at - start < best_gap):
            best, best_gap = start, at - end  # the runtime compares aligned gaps with unaligned ones
        end = max(end, at + size)
    return best if best is not None else -(-end // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES


def _blocks(subgraph: Subgraph, nodes: Sequence[ArenaNode], fixed: frozenset[int]) -> list[_Block]:
    owner = _owners(subgraph, nodes, fixed)
    kept = set(subgraph.inputs) | set(subgraph.outputs)
    first = dict.fromkeys((t for t in subgraph.inputs if t >= 0), 0)
    last: dict[int, int] = {}
    for i, node in enumerate(nodes):
        for t in node.outputs:
            first.setdefault(t, i)
        last.update((owner.get(t, t), i) for t in node.inputs if t >= 0)
    return [
        _Block(t, subgraph.tensors[t].nbytes, at, _FOREVER if t in kept else last.get(t, _FOREVER))
        for t, at in first.items()
        if t not in owner and t not in fixed and _in_arena(subgraph.tensors[t]) and subgraph.tensors[t].nbytes
    ]


def _rank(block: _Block) -> tuple[int, ...]:
    """The planner's order."""
    if block.first == 0 and block.last == _FOREVER:
        return 0, block.tensor
    return 1, -block.bytes, block.first


def _in_arena(tensor: Tensor) -> bool:
    return not tensor.is_variable and tensor.dtype not in (DType.STRING, DType.RESOURCE, DType.VARIANT)


def _owners(subgraph: Subgraph, nodes: Sequence[ArenaNode], fixed: frozenset[int]) -> Mapping[int, int]:
    """Tensor -> the tensor whose memory it shares."""
    uses = Counter(t for t in (*subgraph.inputs, *subgraph.outputs) if t >= 0)
    uses.update(t for node in nodes for t in node.inputs if t >= 0)
    owner: dict[int, int] = {}
    for node in nodes:
        count, same_data = _IN_PLACE.get(node.code or "", (0, False))
        for t in node.inputs[:count] if node.outputs else ():
            output = node.outputs[0]
            if t < 0 or t in fixed or not _in_arena(subgraph.tensors[t]):
                continue
            if t in subgraph.inputs or output in subgraph.outputs:
                continue
            size = subgraph.tensors[t].nbytes
            if not same_data and (size != subgraph.tensors[output].nbytes or size <= _SCALAR_BYTES or uses[t] > 1):
                continue
            root = owner.get(t, t)
            if same_data or uses[root] <= 1:
                owner[output] = root
            break
    return owner
