# SPDX-License-Identifier: Apache-2.0
"""The independent checker: is a plan true of its model?

From the plan and the model alone it recomputes structure, execution order, transitions and sums, and of the memory what
the table says. It shares no code with what makes plans: only the values (``graph``, ``plan``), the reader and the
fingerprint.

Not recomputed, but believed: costs of ops and transitions, with their bounds and provenance; ``macs`` and ``bytes`` of
ops; hand-over times and the overhead; candidates and verdicts, XNNPACK's too; the values of the baselines and the
solver's lower bound (no search is made); how high the plan's upper bound is; cold and optimistic times; ``live_bytes``
and ``peak_tensors``; memory lines other than model and arena, and an arena that is not exact, of several subgraphs or
of kernels with memory of their own; warnings other than ``line_not_modelled``; what the hashes of ``inputs`` are of.

=====================  ==============================================================================================
code                   what does not hold
=====================  ==============================================================================================
model                  the plan's model is the file's: SHA-256 and size
fingerprint            so are its graph fingerprints
op, subgraph           each op and subgraph of the model is listed once, and nothing else
op-identity            with its name, inputs and outputs
partition, segment     ids are unique and resolve; ops, segments and partitions point at each other; none is empty
transition             transitions name a tensor and a partition of their subgraph
backend                back ends are listed once, each in use; the NPUs in use are listed
warning                warnings are about ops that exist
ops-to-probe           so are the ops to probe, and a verdict on each is unknown
folded                 exactly the ops that only unpack constants are folded
folded-cost            they cost nothing
folded-partition       they are with their readers, if these are in one partition that stays one with them
candidate              an op's place is one of its candidates
verdict                that candidate is supported, allowed as unknown, or forced
candidate-cost         and costs the same, or what it says for a fused op
fusion                 a fused op runs after its host in their segment, and reads of it what nobody else reads; what
                       only runs fused is fused
option                 a ``--force`` or ``--forbid`` text can be read
force, forbid          ops are where they were forced, and not where it was forbidden
kernel                 a CPU op's kernel agrees with who claims it; other ops are claimed by their own delegate
delegate               a partition has one delegate, a back end one delegate, XNNPACK one segment of cpu
segment-lane           ops of a segment are on its back end in its layout
segment-cut            neighbouring segments differ in back end or layout
segment-order          segments are ascending, and run in one piece in their order
segment-borders        a segment's inputs and outputs are the tensors that cross its border
max-partitions         there are no more partitions than the limit, nor of a back end than it allows
order                  execution is complete and topological
side-effect            ops with side effects keep the file's order
claim                  the runtime makes each partition one delegate node
replay                 and executes in the plan's order
partition-order        which is the order of partition ids
convexity              no path leaves a partition and returns to it
transition-missing     every tensor that crosses a border has its transition
transition-extra       and no other
transition-bytes       of the tensor's size
times                  subgraphs count as often as the control flow runs them
objective, latency     the parts sum to the objective, which is the predicted latency
bounds, negative       low <= predicted <= high; without control flow the plan's agree with those of its parts; nothing
                       is negative
solver                 the bound is at most the objective, ``optimal`` exactly when equal; the order was tried
advice                 advice is about ops of the model, and faster than the plan
baseline               no baseline that the options allow is faster
arena                  the activation arena is as large as the runtime's planner makes it; the lowest one is as large as
                       the most live bytes of the timeline
line                   the model's line is the file's size; a line is null exactly where a warning says that it is not
                       modelled; none is negative
peak                   memory lines sum to the peak, within its bounds
timeline               has a step for each executed node, in order and within the arena; the peak is where most is live
memory-limit           the peak is within the limit
=====================  ==============================================================================================
"""

from __future__ import annotations

from edgedeploy_partitioner.checker.execution import check_execution
from edgedeploy_partitioner.checker.memory import check_memory
from edgedeploy_partitioner.checker.placement import check_placement
from edgedeploy_partitioner.checker.references import check_references
from edgedeploy_partitioner.checker.structure import check_structure
from edgedeploy_partitioner.checker.sums import check_sums
from edgedeploy_partitioner.checker.times import check_times
from edgedeploy_partitioner.checker.transitions import check_transitions
from edgedeploy_partitioner.checker.view import Fault, View
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.plan import Plan

__all__ = ["Fault", "check"]

_CHECKS = (
    check_placement,
    check_structure,
    check_execution,
    check_transitions,
    check_times,
    check_sums,
    check_memory,
)


def check(plan: Plan, graph: Graph) -> tuple[Fault, ...]:
    """Everything that is wrong with ``plan``, empty if nothing. Never raises for a plan that decodes.

    ``graph`` is the model as planned: with the input shapes of the plan's options written in, if there are any.
    A plan whose ids do not resolve, or that is for another model, is judged no further.
    """
    broken = tuple(check_references(plan, graph))
    if broken:
        return broken
    view = View(plan, graph)
    return tuple(fault for part in _CHECKS for fault in part(view))
