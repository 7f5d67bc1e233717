# SPDX-License-Identifier: Apache-2.0
"""What a plan warns of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from edgedeploy_partitioner.model.facts import runtime_refusals
from edgedeploy_partitioner.model.graph import Graph, Op
from edgedeploy_partitioner.plan import Warn
from edgedeploy_partitioner.planning.calls import Use
from edgedeploy_partitioner.planning.target import Target


def warnings(graph: Graph, target: Target, uses: Mapping[int, Use]) -> tuple[Warn, ...]:
    """Warnings on the model, its ops and the runtime, in the order of the file."""
    found = list(_on_ops(graph, target))
    found += [Warn("runtime_rejects", r.message, r.op) for r in runtime_refusals(graph, target.runtime)]
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
            if not target.has_kernel(op) and not target.takes_whole(op):
                runtime = f"{target.runtime.name} {target.runtime.version}"
                message = f"{runtime} has no kernel for {op.name}; it is planned at no cost"
                yield Warn("no_runtime_kernel", message, _key(op))
            elif target.xnnpack != "off":
                yield from _on_census(op, target)


def _on_census(op: Op, target: Target) -> Iterator[Warn]:
    found = target.census[_key(op)]
    if found.verdict == "fails":
        message = f"XNNPACK claims {op.name} and then refuses to prepare it: the model loads only with --xnnpack off"
        yield Warn("xnnpack_fails", message, _key(op))
    elif not found.known:
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
