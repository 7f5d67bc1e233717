# SPDX-License-Identifier: Apache-2.0
"""One way to run an op, with its verdict and its price."""

from __future__ import annotations

from dataclasses import dataclass

from edgedeploy_partitioner.cost import Cost
from edgedeploy_partitioner.plan import CandidateEntry, Status
from edgedeploy_partitioner.support.verdicts import Judged


@dataclass(frozen=True)
class Candidate:
    """One way to run an op. ``cost`` is None where a back end refuses it; ``fused`` is what it adds inside the op
    that makes its operand, ``hosts`` those ops."""

    backend: str
    kernel: str
    layout: str
    verdict: Status
    reason: str
    rule: str
    source: str
    sdk_version: str | None
    cost: Cost | None
    variant: str | None = None
    fused: Cost | None = None
    fusion_required: bool = False
    hosts: tuple[int, ...] = ()
    companions: tuple[int, ...] = ()
    """Ops that must be there too."""

    @staticmethod
    def of(backend: str, judged: Judged, layout: str) -> Candidate:
        """Without a price."""
        return Candidate(
            backend=backend,
            kernel=judged.kernel,
            layout=layout,
            verdict=judged.status,
            reason=judged.reason,
            rule=judged.rule,
            source=judged.source,
            sdk_version=judged.sdk_version,
            cost=None,
        )

    def entry(self) -> CandidateEntry:
        cost = self.cost
        return CandidateEntry(
            backend=self.backend,
            kernel=self.kernel,
            layout=self.layout,
            verdict=self.verdict,
            reason=self.reason,
            rule=self.rule,
            source=self.source,
            sdk_version=self.sdk_version,
            predicted_ns=cost.ns if cost else None,
            low_ns=cost.low_ns if cost else None,
            high_ns=cost.high_ns if cost else None,
            provenance=cost.provenance if cost else None,
            fused_ns=self.fused.ns if self.fused else None,
            fused_low_ns=self.fused.low_ns if self.fused else None,
            fused_high_ns=self.fused.high_ns if self.fused else None,
            fusion_required=self.fusion_required,
        )
