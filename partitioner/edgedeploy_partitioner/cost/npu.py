# SPDX-License-Identifier: Apache-2.0
"""What an NPU's cost model answers, and the registry of models, one module each, found by looking into this folder."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Protocol

from edgedeploy_partitioner.cost.cpu import CpuCost
from edgedeploy_partitioner.cost.ranges import Cost
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import Graph, Op, Tensor
from edgedeploy_profiles.schema import Stack


class NpuCost(Protocol):
    """Prices one back end on one board."""

    def op(self, graph: Graph, op: Op, kernel: str, layout: str) -> Cost: ...

    def enter(self, tensor: Tensor, layout: str) -> Cost:
        """From the NHWC arena into the back end's layout, once per tensor and partition."""
        ...

    def leave(self, tensor: Tensor, layout: str) -> Cost:
        """From the back end's layout into the NHWC arena, once per tensor."""
        ...

    def internal(self, tensor: Tensor, layout_from: str, layout_to: str) -> Cost:
        """Between two layouts inside one partition."""
        ...

    def partition_handover(self) -> Cost: ...

    def segment_handover(self) -> Cost: ...


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
