# SPDX-License-Identifier: Apache-2.0
"""What a rule is given and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

from edgedeploy_partitioner.memory.release import Release
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Tensor

INT32_BYTES = FLOAT_BYTES = 4
QUANTIZED = (DType.INT8, DType.UINT8, DType.INT16)


class Scratch(NamedTuple):
    """One temporary tensor. A persistent one keeps its value between runs; one of 0 bytes is not in an arena; one that
    the kernel asks for and leaves alone is not ``written``."""

    bytes: int
    persistent: bool = False
    written: bool = True


Scratches = tuple[Scratch, ...] | None

ON_HEAP = Scratch(0)
"""A temporary that is given memory from the heap at each run, or none at all."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """An op as its kernel sees it."""

    graph: Graph
    op: Op
    threads: int
    fixed: Collection[int]
    persistent: Collection[int]
    release: Release

    def input(self, position: int) -> Tensor:
        """The tensor there. Raises LookupError if the op has none."""
        return self.graph.operand(self.op, position)

    def has_input(self, position: int) -> bool:
        return position < len(self.op.inputs) and self.op.inputs[position] >= 0

    def is_fixed(self, position: int) -> bool:
        """The value there is known before the first run."""
        return self.input(position).id in self.fixed

    @property
    def output(self) -> Tensor:
        return self.graph.tensor(self.op.subgraph, self.op.outputs[0])

    def is_hybrid(self, weights: int = 1, dtypes: Collection[DType] = (DType.INT8, DType.UINT8), x: int = 0) -> bool:
        """Activations in float, weights in integers: the kernel quantises the activations itself.

        Raises ValueError for weights that no kernel reads beside floats.
        """
        if self.input(x).dtype is not DType.FLOAT32 or self.input(weights).dtype is DType.FLOAT32:
            return False
        if self.input(weights).dtype not in dtypes:
            raise ValueError(self.input(weights).dtype)
        return True


Rule = Callable[[Kernel], Scratches]


def from_heap(count: int) -> Rule:
    """The rule of a kernel with ``count`` temporaries that are given memory at each run."""
    return lambda _: (ON_HEAP,) * count
