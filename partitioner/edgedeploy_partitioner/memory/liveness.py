# SPDX-License-Identifier: Apache-2.0
"""Which tensors hold memory during which steps of one subgraph, as TFLite decides it.

A tensor that a node writes lives until the last node that reads it; inputs and outputs of the subgraph are never
freed. Some built-in kernels write their result over an input. Tensors inside a delegate node belong to the delegate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from edgedeploy_partitioner.memory.libstdcxx import set_order
from edgedeploy_partitioner.memory.release import LITERT_2_3, Release
from edgedeploy_partitioner.memory.temporaries import Scratch, numbered, temporaries
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Subgraph, Tensor
from edgedeploy_partitioner.model.shapes.detection import NAME as DETECTION
from edgedeploy_partitioner.model.shapes.detection import detection_shapes
from edgedeploy_partitioner.plan import XNNPACK
from edgedeploy_partitioner.runtime.prepared import FOLDING, SHAPES, Prepared, is_dynamic, prepared

FOREVER = 2**31 - 1
Home = Literal["arena", "persistent", "shared", "heap"]

_ON_HEAP = (DType.STRING, DType.RESOURCE, DType.VARIANT)
_HANDLE_BYTES = 4  # what VAR_HANDLE makes of its resource tensor
_SCALAR_BYTES = 4  # tensors up to this size are not overwritten in place

# Kernels that may write over an input: how many of the first inputs may be shared, and whether the data changes.
# Read from the registrations of tflite-runtime 2.14 and ai-edge-litert 2.3, which agree.
_IN_PLACE: Mapping[str, tuple[int, bool]] = {
    **dict.fromkeys(("ADD", "SUB", "MUL", "DIV"), (2, True)),
    **dict.fromkeys(("SOFTMAX", "DYNAMIC_UPDATE_SLICE"), (1, True)),
    **dict.fromkeys(("RESHAPE", "EXPAND_DIMS", "SQUEEZE", "BITCAST"), (1, False)),
}


@dataclass(frozen=True, slots=True)
class ExecutedNode:
    """One step of a subgraph's execution plan: an op with a built-in kernel, or a delegate node (``op`` None).

    ``members`` are op indices. ``inputs`` and ``outputs`` are tensor ids; a built-in op that reads a tensor twice has
    it twice. Outputs of a delegate node that stay inside it may be listed, they are not counted.
    """

    op: int | None
    members: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    delegate: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Memory that must not be given to another from node ``first`` to node ``last``, both included.

    ``tensor`` is an id of the subgraph, or one past them for a kernel's temporary. A ``shared`` tensor is written over
    another and has no memory of its own. What is not ``written`` is asked for only.
    """

    tensor: int
    bytes: int
    first: int
    last: int
    home: Home = "arena"
    written: bool = True


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The blocks in the order the runtime's planner meets them, and the ops for which they are not the whole truth."""

    blocks: tuple[Block, ...]
    unknown_scratch: tuple[int, ...]
    """Ops whose built-in kernel asks for scratch memory that is not modelled."""
    dynamic: tuple[int, ...]
    """Ops whose results get their size at run time; here they have that which is stored."""
    on_heap_bytes: int
    """Those of these results that do not lie where the op's input does."""
    stages: tuple[int, ...]
    """Positions at which the runtime plans on, once the op before has given its result a size."""


def lifetimes(
    graph: Graph, subgraph: Subgraph, nodes: Sequence[ExecutedNode], threads: int = 1, release: Release = LITERT_2_3
) -> Lifetimes:
    """The blocks that TFLite plans for ``nodes``, which run in that order."""
    nodes = _with_borders(subgraph, nodes)
    places = _prepared(subgraph, nodes, release)
    without = _lent(graph, subgraph) | _passed_on(graph, subgraph)
    blocks = {b.tensor: b for b in _tensor_blocks(subgraph, nodes, places) if b.tensor not in without}
    blocks |= {b.tensor: b for b in _sized_by_options(graph, subgraph, nodes, blocks)}
    met: list[list[int]] = [[] for _ in nodes] or [[]]
    for block in blocks.values():
        met[block.first].append(block.tensor)
    ops = {position: subgraph.ops[node.op] for position, node in enumerate(nodes) if node.op is not None}
    asked = [(op, temporaries(graph, op, threads, places.fixed, release, places.persistent)) for op in ops.values()]
    for position, scratches in zip(ops, numbered(subgraph, asked, release), strict=True):
        blocks |= {id_: _scratch_block(id_, scratch, position) for id_, scratch in scratches.items()}
        met[position] += scratches
    ordered = (blocks[t] for ids in met for t in set_order(ids))
    return Lifetimes(
        blocks=tuple(b for b in ordered if b.bytes and b.home != "heap"),
        unknown_scratch=tuple(op.index for op, scratches in asked if scratches is None),
        dynamic=places.dynamic,
        on_heap_bytes=sum(b.bytes for b in blocks.values() if b.home == "heap" and b.tensor in places.unsized),
        stages=tuple(at + 1 for at, op in ops.items() if op.index in places.dynamic),
    )


def owners(subgraph: Subgraph, nodes: Sequence[ExecutedNode]) -> Mapping[int, int]:
    """Results that are written over another tensor -> the tensor that owns the memory, which lives as long as either
    is read. The same for every order of ``nodes``."""
    return _sharing(subgraph, _with_borders(subgraph, nodes), _known(subgraph, nodes))


def sure_bytes(graph: Graph, subgraph: Subgraph) -> Mapping[int, int]:
    """What each computed tensor takes of the arena while it lives and is no delegate's, whoever runs the ops: a lower
    bound, for a result that may be written over an input counts nothing."""
    may_share = {op.outputs[0] for op in subgraph.ops if op.code in (*_IN_PLACE, *FOLDING, *SHAPES) and op.outputs}
    constant = {t.id for t in subgraph.tensors if t.is_constant}
    may_be_on_heap = {t for op in subgraph.ops if is_dynamic(subgraph, op, constant) for t in op.outputs}
    may_be_persistent = {t for op in subgraph.ops for t in prepared(subgraph, [(op, True)]).persistent}
    sized_by_options = {t for op in subgraph.ops if op.name == DETECTION for t in op.outputs}
    fixed = {t for i in subgraph.folded for t in subgraph.ops[i].outputs} | may_share | may_be_on_heap
    fixed |= may_be_persistent | sized_by_options | _passed_on(graph, subgraph)
    return {
        t.id: t.nbytes
        for t in subgraph.tensors
        if not (t.is_constant or t.is_variable or t.dtype in _ON_HEAP or t.id in fixed)
    }


def _sized_by_options(
    graph: Graph, subgraph: Subgraph, nodes: Sequence[ExecutedNode], blocks: Mapping[int, Block]
) -> Iterator[Block]:
    """Results whose stored shape does not count, in their real size."""
    for op in (subgraph.ops[node.op] for node in nodes if node.op is not None):
        shapes = detection_shapes(graph, op) if op.name == DETECTION else []
        for id_, shape in zip(op.outputs, shapes, strict=False):
            yield replace(blocks[id_], bytes=prod(shape) * subgraph.tensors[id_].dtype.bits // 8)


def _scratch_block(id_: int, scratch: Scratch, position: int) -> Block:
    # The planner orders a persistent one, too, as if it lived for this node only.
    return Block(
        id_, scratch.bytes, position, position, "persistent" if scratch.persistent else "arena", scratch.written
    )


def _with_borders(subgraph: Subgraph, nodes: Sequence[ExecutedNode]) -> tuple[ExecutedNode, ...]:
    """The nodes, each delegate node with only the outputs that another node reads or the subgraph returns, by id."""
    readers: dict[int, set[int]] = {t: {-1} for t in subgraph.outputs}
    for position, node in enumerate(nodes):
        for t in node.inputs:
            readers.setdefault(t, set()).add(position)

    def leaves(tensor: int, position: int) -> bool:
        return bool(readers.get(tensor, set()) - {position})

    return tuple(
        node if node.op is not None
        else replace(node, outputs=tuple(sorted(t for t in node.outputs if leaves(t, position))))
        for position, node in enumerate(nodes)
    )  # fmt: skip


# What control flow runs reads the caller's tensors in place of its own inputs.
_LENDING = ("IF", "STABLEHLO_CASE", "STABLEHLO_COMPOSITE", "WHILE")


def _lent(graph: Graph, subgraph: Subgraph) -> frozenset[int]:
    """Inputs of ``subgraph`` that have no memory of their own: those of branches and bodies, which are the caller's.
    The condition of a WHILE has a copy of what it reads."""
    if len(graph.subgraphs) == 1:
        return frozenset()
    calls = [(op, op.callees.index(subgraph.index)) for op in _callers(graph, subgraph)]
    if any(op.code == "WHILE" and position == 0 for op, position in calls):
        return frozenset(subgraph.inputs) - set(subgraph.consumers)
    return frozenset(subgraph.inputs if any(op.code in _LENDING for op, _ in calls) else ())


def _passed_on(graph: Graph, subgraph: Subgraph) -> frozenset[int]:
    """Results of a WHILE that its body hands on unchanged and nobody reads: the runtime drops them."""
    return frozenset(
        result
        for op in subgraph.ops
        if op.code == "WHILE" and len(op.callees) == 2
        for body in [graph.subgraphs[op.callees[1]]]
        for result, given, returned in zip(op.outputs, body.inputs, body.outputs, strict=False)
        if given == returned and result not in subgraph.consumers and result not in subgraph.outputs
    )


def _callers(graph: Graph, subgraph: Subgraph) -> Iterator[Op]:
    return (op for s in graph.subgraphs for op in s.ops if subgraph.index in op.callees)


def _prepared(subgraph: Subgraph, nodes: Sequence[ExecutedNode], release: Release) -> Prepared:
    """Where built-in kernels prepare the ops that XNNPACK takes afterwards, its results stay where they had put theirs:
    an unpacked weight in the persistent arena."""
    first = {XNNPACK} if release.prepares_first else {}
    built_in = ((node, node.op is not None or node.delegate in first) for node in nodes)
    return prepared(subgraph, ((subgraph.ops[m], by_kernel) for node, by_kernel in built_in for m in node.members))


def _references(subgraph: Subgraph) -> Counter[int]:
    """What keeps a tensor alive besides the nodes that read it."""
    variables = (t.id for t in subgraph.tensors if t.is_variable)
    return Counter([*subgraph.inputs, *subgraph.outputs, *variables])


def _known(subgraph: Subgraph, nodes: Sequence[ExecutedNode]) -> frozenset[int]:
    """Tensors that are not in the arena, as they are known before the first run or kept for all."""
    places = prepared(subgraph, ((subgraph.ops[m], node.op is not None) for node in nodes for m in node.members))
    return places.fixed | places.persistent


def _sharing(subgraph: Subgraph, nodes: Sequence[ExecutedNode], known: Collection[int]) -> Mapping[int, int]:
    """Tensors that are written over another: result -> the tensor that owns the memory. Those ``known`` own none."""
    references = _references(subgraph) + Counter(t for node in nodes for t in node.inputs)
    inputs, outputs = set(subgraph.inputs), set(subgraph.outputs)
    owner: dict[int, int] = {}

    def shares(result: Tensor, tensor: Tensor, changes: bool) -> bool:
        if tensor.id in known or tensor.is_variable or tensor.dtype in _ON_HEAP or tensor.id in inputs:
            return False
        return not changes or (references[tensor.id] <= 1 and tensor.nbytes == result.nbytes > _SCALAR_BYTES)

    for node in nodes:
        if node.op is None:
            continue
        op = subgraph.ops[node.op]
        if op.code not in _IN_PLACE or not op.outputs or op.outputs[0] in outputs:
            continue
        count, changes = _IN_PLACE[op.code]
        result = subgraph.tensors[op.outputs[0]]
        shared = (t for t in op.inputs[:count] if t >= 0 and shares(result, subgraph.tensors[t], changes))
        if (first := next(shared, None)) is not None:
            root = owner.get(first, first)
            if not changes or references[root] <= 1:  # if not, the next input is not tried
                owner[result.id] = root
    return owner


def _tensor_blocks(subgraph: Subgraph, nodes: Sequence[ExecutedNode], places: Prepared) -> Iterator[Block]:
    """A block for every tensor that the planner meets: variables and inputs, then what each node writes."""
    owner = _sharing(subgraph, nodes, places.fixed | places.persistent)
    references = _references(subgraph)
    references.update(owner.get(t, t) for node in nodes for t in node.inputs)
    variables = (t.id for t in subgraph.tensors if t.is_variable)
    first = dict.fromkeys([*variables, *(t for t in subgraph.inputs if t >= 0)], 0)
    last: dict[int, int] = {}
    for position, node in enumerate(nodes):
        for t in node.outputs:
            first.setdefault(t, position)
        for t in (owner.get(t, t) for t in node.inputs):
            references[t] -= 1
            if references[t] == 0:
                last[t] = position

    def home(tensor: Tensor) -> Home:
        if tensor.id in places.persistent:
            return "persistent"
        if tensor.id in places.fixed or tensor.dtype in _ON_HEAP:
            return "heap"
        if tensor.id not in owner:
            return "heap" if tensor.id in places.unsized else "arena"
        # It stays with its owner only if that has arena memory of the same size. If not, it is never freed.
        shared = subgraph.tensors[owner[tensor.id]]
        return "shared" if home(shared) == "arena" and shared.nbytes == tensor.nbytes else "arena"

    for id_, start in first.items():
        tensor = subgraph.tensors[id_]
        size = _HANDLE_BYTES if tensor.dtype is DType.RESOURCE else tensor.nbytes
        yield Block(id_, size, start, last.get(id_, FOREVER), home(tensor))
