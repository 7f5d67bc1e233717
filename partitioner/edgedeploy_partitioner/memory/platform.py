# SPDX-License-Identifier: Apache-2.0
"""What the memory of a plan depends on beside the model and the order of execution."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from edgedeploy_partitioner.memory.line import Line
from edgedeploy_partitioner.memory.release import Release
from edgedeploy_partitioner.plan import Machine, Segment
from edgedeploy_profiles.schema import Backend, Core, Quantity, Stack


def machine_of(isa: Collection[str]) -> Machine:
    """The name of the architecture, as Python and the plan have it."""
    return "aarch64" if "asimd" in isa else "x86_64"


@dataclass(frozen=True)
class Platform:
    """The runtime, the CPU and the NPU stack that a plan runs on."""

    runtime: str
    version: str
    stack: Stack | None
    backend: Backend | None
    segments: Mapping[int, tuple[Segment, ...]]
    """By partition, in the order they run. XNNPACK's partitions have one."""
    core: Core | None = None
    """The fastest of the board, by which XNNPACK chooses its kernels; None is an x86-64."""
    baseline: Quantity | None = None
    """Bytes of a process that holds the runtime and no model."""
    fused: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """By subgraph, the host of each op that one of our kernels computes together with it."""
    is_switched: bool = False
    """``libedgedeploy.so`` applies XNNPACK."""

    @property
    def isa(self) -> tuple[str, ...]:
        return self.core.isa if self.core else ()

    @property
    def release(self) -> Release:
        return Release.of(self.runtime, self.version, self.machine, is_switched=self.is_switched)

    @property
    def machine(self) -> Machine:
        return machine_of(self.isa)

    @property
    def baseline_line(self) -> Line | None:
        """Measured on x86-64, so it is assumed on any other core."""
        if self.baseline is None:
            return None
        low, value, high = (round(n) for n in (self.baseline.lowest, self.baseline.value, self.baseline.highest))
        return Line(value, low, high, "assumed" if self.release.is_arm else "modelled")
