# SPDX-License-Identifier: Apache-2.0
"""What a shape rule sees: one op, what is known of its inputs, and how to say that they do not fit.

A rule is a function ``Site -> list of output shapes``, registered by op name with :func:`rule`. It only states the
arithmetic: asking for a shape or value that is not known ends it (the outputs are then known only at run time), and
what it asked for decides whether its outputs are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from edgedeploy_partitioner.errors import InputError, printable
from edgedeploy_partitioner.model.graph import DType, Graph, Op, Subgraph, Tensor

Shape = tuple[int, ...]
Array = NDArray[Any]
Rule = Callable[["Site"], Sequence[Shape]]

RULES: dict[str, Rule] = {}
MAX_DIM = 2**31 - 1
_MOST_NAMED = 6


class ShapeMismatch(InputError):
    """Shapes that do not fit ``op`` (subgraph, index). ``problem`` names the tensors and their shapes."""

    def __init__(self, op: Op, problem: str) -> None:
        self.where = where(op)
        self.problem = problem
        self.op = (op.subgraph, op.index)
        super().__init__(f"{self.where}: {problem}")


class Unknown(Exception):
    """Raised inside a rule: an output shape depends on what only the running model knows."""


@dataclass(frozen=True, eq=False, slots=True)
class Flow:
    """What is known of a tensor before the model runs. ``shape`` None: nothing.

    ``is_fixed`` False: the shape follows from a dimension that the file leaves open (-1), taken as stored.
    ``value``: the numbers themselves, where they are known (constants and integer arithmetic on shapes), and whether
    those are fixed.
    """

    shape: Shape | None
    is_fixed: bool = True
    value: Array | None = None
    is_value_fixed: bool = True

    def __eq__(self, other: object) -> bool:
        """Equal as far as another subgraph sees them: numbers are not handed to it."""
        return isinstance(other, Flow) and (self.shape, self.is_fixed) == (other.shape, other.is_fixed)

    def merge(self, other: Flow) -> Flow:
        """What holds for both."""
        return Flow(self.shape, self.is_fixed and other.is_fixed) if self.shape == other.shape else UNKNOWN


UNKNOWN = Flow(None, is_fixed=False)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function as the shape rule of these kinds of ops (``ADD``, ``CUSTOM:code``)."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


class Site:
    """One op where it stands. ``is_fixed`` becomes False when a rule uses an input that is not."""

    def __init__(self, graph: Graph, op: Op, flows: Sequence[Flow]) -> None:
        self.graph = graph
        self.op = op
        self.flows = flows
        self.is_fixed = True

    @property
    def subgraph(self) -> Subgraph:
        return self.graph.subgraphs[self.op.subgraph]

    def has(self, i: int) -> bool:
        return i < len(self.op.inputs) and self.op.inputs[i] >= 0

    def tensor(self, i: int) -> Tensor:
        if not self.has(i):
            self.fail(f"input {i} is missing")
        return self.subgraph.tensors[self.op.inputs[i]]

    def stored(self, i: int) -> Tensor:
        """Output ``i`` as the file has it."""
        if i >= len(self.op.outputs) or self.op.outputs[i] < 0:
            raise Unknown
        return self.subgraph.tensors[self.op.outputs[i]]

    def shape(self, i: int, rank: int | None = None) -> Shape:
        """Shape of input ``i``; with ``rank``, it must have that many dimensions."""
        shape = self.peek(i)
        self.is_fixed &= self.flows[i].is_fixed
        if rank is not None and len(shape) != rank:
            self.fail(f"input {i} must have {rank} dimensions")
        return shape

    def peek(self, i: int) -> Shape:
        """Shape of input ``i``, for a check that does not decide the output."""
        self.tensor(i)
        shape = self.flows[i].shape
        if shape is None:
            raise Unknown
        return shape

    def value(self, i: int) -> Array:
        """The numbers of input ``i``."""
        self.tensor(i)
        value = self.flows[i].value
        if value is None:
            raise Unknown
        self.is_fixed &= self.flows[i].is_value_fixed
        return value

    def ints(self, i: int) -> Shape:
        """The numbers of input ``i`` as a flat tuple of integers."""
        value = self.value(i)
        self.require(value.dtype.kind in "iu", f"input {i} must hold integers")
        return tuple(value.reshape(-1).tolist())

    def scalar(self, i: int) -> int:
        values = self.ints(i)
        if len(values) != 1:
            self.fail(f"input {i} must hold one number")
        return values[0]

    def option(self, name: str, default: int = 0) -> int:
        value = self.op.options.get(name, default)
        return int(value) if isinstance(value, int) else default

    def word(self, name: str) -> str:
        return str(self.op.options.get(name, ""))

    def vector(self, name: str) -> Shape:
        value = self.op.options.get(name, ())
        return tuple(int(v) for v in value) if isinstance(value, tuple) else ()

    def axis(self, axis: int, rank: int) -> int:
        """``axis`` counted from the front; it must lie in ``rank``."""
        if not -rank <= axis < rank:
            self.fail(f"axis {axis} is outside {rank} dimensions")
        return axis % rank

    def require(self, holds: bool, problem: str) -> None:
        if not holds:
            self.fail(problem)

    def fail(self, problem: str) -> NoReturn:
        count = len(self.op.inputs)
        inputs = ", ".join(self._describe(i) for i in range(min(count, _MOST_NAMED)))
        raise ShapeMismatch(self.op, f"{problem} (inputs: {inputs}{', …' if count > _MOST_NAMED else ''})")

    def _describe(self, i: int) -> str:
        if not self.has(i):
            return "-"
        tensor = self.subgraph.tensors[self.op.inputs[i]]
        shape = self.flows[i].shape
        return f"tensor {tensor.id} {tensor.name!r} {'[?]' if shape is None else brackets(shape)}"


def where(op: Op) -> str:
    """What messages call an op."""
    return f"{f'subgraph {op.subgraph} ' if op.subgraph else ''}op {op.index} {printable(op.name)}"


def brackets(shape: Iterable[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def elements(shape: Shape) -> int:
    return math.prod(shape)


def constant(graph: Graph, tensor: Tensor) -> Array | None:
    """The numbers of a constant, not copied; None if they are elsewhere, sparse, packed, not numbers, or not there: a
    graph that was made to be planned only may have shapes alone."""
    if not tensor.elements:  # the file needs no bytes for it
        return np.empty(0, np.int32) if tensor.shape == (0,) and not tensor.is_dynamic else None
    dtype = _NUMBERS.get(tensor.dtype)
    if tensor.data is None or tensor.is_sparse or dtype is None:
        return None
    stored = graph.bytes_of(tensor.data)
    if len(stored) < tensor.nbytes:
        return None
    return np.frombuffer(stored, dtype, tensor.elements).reshape(tensor.shape)


_NUMBERS = {
    dtype: np.dtype(dtype.value).newbyteorder("<")
    for dtype in (DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32, DType.BOOL)
}
