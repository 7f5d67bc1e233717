# SPDX-License-Identifier: Apache-2.0
"""Cost of our own C kernels, from their manifest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from edgedeploy_partitioner.cost.cpu import CpuCost
from edgedeploy_partitioner.cost.ranges import Cost, Range
from edgedeploy_partitioner.model.graph import Graph, Op
from edgedeploy_profiles.schema import Kernel, Kernels, Variant


@dataclass(frozen=True)
class NeonCost:
    """Prices the kernels of ``manifest`` on the cores of ``cpu``."""

    manifest: Kernels
    cpu: CpuCost

    @cached_property
    def kernels(self) -> dict[str, Kernel]:
        """Those that some variant of fits the core, by name."""
        return {k.name: k for k in self.manifest.kernels if any(map(self._fits, k.variants.values()))}

    def op(self, graph: Graph, op: Op, kernel: str) -> tuple[Cost, str]:
        """Time of one run of ``op`` with the fastest variant for this core, and that variant's name."""
        chosen = self.kernels[kernel]
        elements = self.cpu.elements(graph, op)
        between = chosen.fusion.inputs if chosen.fusion else ()  # what the kernel makes itself never leaves the cache
        read = (t for i, t in enumerate(op.inputs) if i not in between)
        operands = [graph.tensor(op.subgraph, t) for t in (*read, *op.outputs) if t >= 0]
        traffic = sum(max(tensor.nbytes, 0) for tensor in operands)
        costs = {
            name: self._time(variant, elements, traffic, chosen.threaded)
            for name, variant in chosen.variants.items()
            if self._fits(variant)
        }
        fastest = min(costs, key=lambda name: (costs[name].ns, name))
        return costs[fastest], fastest

    def _fits(self, variant: Variant) -> bool:
        return set(variant.isa) <= set(self.cpu.core.isa)

    def _time(self, variant: Variant, elements: int, traffic: int, threaded: bool) -> Cost:
        known = variant.bytes_per_elem
        return self.cpu.loop(
            overhead_us=Range.of(variant.overhead_us),
            instructions=Range.of(variant.instr_per_elem).times(elements),
            bytes_moved=Range.of(known).times(elements) if known else Range.exact(traffic),
            threads=self.cpu.parallel if threaded else 1,
        )
