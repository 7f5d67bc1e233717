# SPDX-License-Identifier: Apache-2.0
"""What an NPU's cost model answers, and the registry of models, one module each, found by looking into this folder."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgedeploy_partitioner.cost.cpu import CpuCost
from edgedeploy_partitioner.cost.ranges import FREE, ZERO, Cost, Range, fixed, roofline
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import Graph, Op, Tensor
from edgedeploy_profiles.schema import Stack


@dataclass(frozen=True)
class NpuCost:
    """Prices one back end on one board: the base of all cost models, with what most of them share.

    ``stack`` has the constants, ``cpu`` prices what the ARM cores do meanwhile. A stock delegate copies NHWC arena
    buffers at its borders; a model of another layout overrides the transitions.
    """

    stack: Stack
    cpu: CpuCost

    def op(self, graph: Graph, op: Op, kernel: str, layout: str) -> Cost:
        """One run of ``op`` by itself."""
        raise NotImplementedError

    def fused(self, graph: Graph, op: Op, kernel: str, layout: str) -> Cost:  # noqa: ARG002
        """What ``op`` adds when it runs inside the op that makes its operand."""
        return FREE

    def enter(self, tensor: Tensor, layout: str) -> Cost:  # noqa: ARG002
        """From the NHWC arena into the back end's layout, once per tensor and partition."""
        return self._copy("enter", tensor)

    def leave(self, tensor: Tensor, layout: str) -> Cost:  # noqa: ARG002
        """From the back end's layout into the NHWC arena, once per tensor."""
        return self._copy("leave", tensor)

    def internal(self, tensor: Tensor, layout_from: str, layout_to: str) -> Cost:  # noqa: ARG002
        """Between two layouts inside one partition."""
        return FREE

    def partition_handover(self) -> Cost:
        return fixed(self.constant("partition_handover_us"))

    def segment_handover(self) -> Cost:
        return FREE

    def cold_start(self, graph: Graph, partitions: Sequence[Sequence[Op]]) -> Cost | None:  # noqa: ARG002
        """Loading, compiling and first-run overhead of these partitions, beyond a warm run; None without data."""
        return None

    def constant(self, name: str) -> Range:
        """One of the stack's constants. Raises :class:`InputError` if the board does not give it."""
        quantity = self.stack.costs.get(name)
        if quantity is None:
            raise InputError(f"the board's [stacks.*.costs] needs {name!r} for {self.stack.backend}")
        return Range.of(quantity)

    def _copy(self, direction: str, tensor: Tensor) -> Cost:
        per_byte = self.constant(f"{direction}_ns_per_byte").times(tensor.nbytes / 1000)
        return roofline(self.constant(f"{direction}_overhead_us"), ZERO, per_byte)


Factory = Callable[[Stack, CpuCost], NpuCost]
_MODELS: dict[str, Factory] = {}


def model(name: str) -> Callable[[Factory], Factory]:
    """Register a cost model under ``name``."""

    def register(factory: Factory) -> Factory:
        _MODELS[name] = factory
        return factory

    return register


def npu_cost(name: str, stack: Stack, cpu: CpuCost) -> NpuCost:
    """The cost model ``name`` with the constants of ``stack``. Raises :class:`InputError` for an unknown name."""
    from edgedeploy_partitioner import cost

    for module in pkgutil.iter_modules(cost.__path__):
        importlib.import_module(f"{cost.__name__}.{module.name}")
    if name not in _MODELS:
        raise InputError(f"no cost model {name!r}; known: {', '.join(sorted(_MODELS))}")
    return _MODELS[name](stack, cpu)
