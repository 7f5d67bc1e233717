# SPDX-License-Identifier: Apache-2.0
"""What a plan warns of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import structs

from edgedeploy_partitioner.model.facts import runtime_refusals
from edgedeploy_partitioner.model.graph import Graph, Op
from edgedeploy_partitioner.plan import Warn
from edgedeploy_partitioner.planning.calls import Use
from edgedeploy_partitioner.planning.target import XNNPACK_KERNEL, Target


def warnings(graph: Graph, target: Target, uses: Mapping[int, Use]) -> tuple[Warn, ...]:
    """Warnings on the model, its ops and the runtime, in the order of the file."""
    as_used = structs.replace(target.runtime, xnnpack_default=target.xnnpack != "off")
    found = list(_on_ops(graph, target))
    found += [
        Warn("runtime_rejects", r.message, r.op)
        for r in runtime_refusals(graph, as_used)
        if r.code not in ("no_kernel", "flex_op")  # said op by op as no_runtime_kernel
    ]
    found += _on_control_flow(graph, uses)
    dynamic = [t for t in graph.subgraphs[_main(uses)].inputs if graph.tensor(_main(uses), t).is_dynamic]
    if dynamic:
        tensor = graph.tensor(_main(uses), dynamic[0])
        found.append(
            Warn(
                "dynamic_shape",
                f"input {tensor.name!r} has no fixed shape {list(tensor.signature or ())}: times and memory are for"
                f" {list(tensor.shape)} as stored; --input-shape plans for another",
            )
        )
    return tuple(found)


def _on_ops(graph: Graph, target: Target) -> Iterator[Warn]:
    for sub in graph.subgraphs:
        for op in sub.ops:
            if op.index in sub.folded:
                continue
            if not target.has_kernel(op) and target.cpu_kernel(op) != XNNPACK_KERNEL:
                runtime = f"{target.runtime.name} {target.runtime.version}"
                message = f"{runtime} has no kernel for {op.name}; it is planned at no cost"
                yield Warn("no_runtime_kernel", message, _key(op))
            elif target.xnnpack != "off" and not target.census[_key(op)].known:
                message = f"the census has no row for {op.name} with these types: taken as built-in"
                yield Warn("not_in_census", message, _key(op))


def _on_control_flow(graph: Graph, uses: Mapping[int, Use]) -> Iterator[Warn]:
    for sub in graph.subgraphs:
        if not uses[sub.index].times:
            continue
        for op in sub.ops:
            if op.code == "WHILE":
                yield Warn("while_one_trip", "the loop is counted as one trip: there is no upper bound", _key(op))
            elif op.code == "IF":
                message = "the dearer branch is counted; the cheaper one is the low bound"
                yield Warn("if_dearer_branch", message, _key(op))


def _main(uses: Mapping[int, Use]) -> int:
    return next(index for index, use in uses.items() if use.role == "main")


def _key(op: Op) -> tuple[int, int]:
    return op.subgraph, op.index
