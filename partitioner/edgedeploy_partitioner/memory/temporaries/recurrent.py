# SPDX-License-Identifier: Apache-2.0
"""Recurrent kernels. The hybrid ones quantise inputs and state themselves and keep the sums of their weights' rows."""

from __future__ import annotations

from edgedeploy_partitioner.memory.temporaries.kernel import (
    FLOAT_BYTES,
    INT32_BYTES,
    Kernel,
    Rule,
    Scratch,
    Scratches,
)
from edgedeploy_partitioner.model.graph import DType, Tensor

# Where the operands of both directions lie in BIDIRECTIONAL_SEQUENCE_LSTM and BIDIRECTIONAL_SEQUENCE_RNN.
_BACKWARD_LSTM, _AUXILIARY_LSTM, _AUXILIARY_LSTM_WEIGHTS = 17, 39, (42, 46)
_AUXILIARY_RNN = 9

_SUMS_FLOATS = 16  # the float kernels for sequences have room for a little more than their gates


def _batch(kernel: Kernel) -> int:
    x = kernel.input(0)
    return x.shape[1] if len(x.shape) == 3 and kernel.op.options.get("time_major") else x.shape[0]


def _floats(n: int, persistent: bool = False) -> Scratch:
    return Scratch(FLOAT_BYTES * n, persistent)


def _svdf(kernel: Kernel) -> Scratches:
    x, weights, memory = kernel.input(0), kernel.input(1), kernel.input(2)
    batch, filters = x.shape[0], weights.shape[0]
    products = Scratch(INT32_BYTES * batch * filters)
    if x.dtype is DType.INT8:
        return products, Scratch(INT32_BYTES * kernel.output.elements)
    if not kernel.is_hybrid():
        return (products,)
    quantized = Scratch(x.elements), _floats(batch)
    return (products, *quantized, _floats(memory.elements, True), _floats(batch), _floats(filters, True))


def _gates(kernel: Kernel, batch: int, cells: int, first: int = 0, more: int = 0) -> Scratch:
    """The gates before their activations, and one more for sums; with coupled gates there is no input gate."""
    return _floats(batch * (cells * (5 if kernel.has_input(first + 1) else 4) + more))


def _lstm(kernel: Kernel) -> Scratches:
    if kernel.op.options.get("kernel_type") == "BASIC":
        return ()  # its scratch memory is outputs
    x, weights = kernel.input(0), kernel.input(4)
    batch, cells = _batch(kernel), weights.shape[0]
    if x.dtype is DType.INT8:
        return _integer_lstm(kernel, batch * cells)
    gates = _gates(kernel, batch, cells, more=_SUMS_FLOATS if kernel.op.code != "LSTM" else 0)
    if not kernel.is_hybrid(4):
        return (gates,)
    if weights.is_sparse:
        return None
    return (
        gates,
        Scratch(x.elements),
        Scratch(batch * _state(kernel)),
        Scratch(batch * cells),
        *[_floats(batch)] * 3,
        _floats(cells),
        _floats(batch * cells),
        *[_floats(batch)] * 2,
        _row_sums(kernel, cells),
    )


def _integer_lstm(kernel: Kernel, states: int) -> Scratches:
    """``states``: cells of all batches. Without 16-bit gates (12 intermediate tensors) in other widths."""
    narrow, wide = Scratch(states), Scratch(2 * states)
    if len(kernel.op.intermediates) == 12:
        return (*[narrow] * 2, *[wide] * 6)
    return (*[wide] * 4, narrow, Scratch(INT32_BYTES * states))


def _state(kernel: Kernel, first: int = 0) -> int:
    """Width of the result that a step hands on; a projection makes it other than the number of cells."""
    return kernel.input(first + 6).shape[1]


def _row_sums(kernel: Kernel, cells: int, first: int = 0, auxiliary: bool = False) -> Scratch:
    """A row for each matrix of weights, as many as needed for the projection's."""
    gates = 4 if kernel.has_input(first + 1) else 3
    projection = -(-_state(kernel, first) // cells) if kernel.has_input(first + 16) else 0
    return _floats(cells * (gates * (3 if auxiliary else 2) + projection), True)


def _bidirectional_lstm(kernel: Kernel) -> Scratches:
    x, weights = kernel.input(0), kernel.input(4)
    batch, cells, backward = _batch(kernel), weights.shape[0], _BACKWARD_LSTM
    gates = _gates(kernel, batch, cells, more=_SUMS_FLOATS), _gates(kernel, batch, cells, backward)
    if not kernel.is_hybrid(4):
        return gates
    auxiliary = all(kernel.has_input(position) for position in _AUXILIARY_LSTM_WEIGHTS)
    return (
        *gates,
        Scratch(x.elements),
        Scratch(batch * _state(kernel)),
        Scratch(batch * _state(kernel, backward)),
        *[Scratch(batch * cells)] * 2,
        *[_floats(batch)] * 4,
        _floats(cells),
        _floats(batch * cells),
        *[_floats(batch)] * 3,
        _row_sums(kernel, cells, auxiliary=auxiliary),
        _row_sums(kernel, cells, backward, auxiliary),
        *_auxiliary(kernel, _AUXILIARY_LSTM, auxiliary),
    )


def _auxiliary(kernel: Kernel, position: int, is_used: bool) -> tuple[Scratch, ...]:
    return (Scratch(kernel.input(position).elements),) if is_used else ()


def _rnn(kernel: Kernel) -> Scratches:
    if not kernel.is_hybrid():
        return ()
    return _hybrid_rnn(kernel, [kernel.input(1)], sums=2)


def _bidirectional_rnn(kernel: Kernel) -> Scratches:
    if not kernel.is_hybrid():
        return ()
    auxiliary = kernel.has_input(_AUXILIARY_RNN) and kernel.has_input(_AUXILIARY_RNN + 1)
    directions = [kernel.input(1), kernel.input(5)]
    scratches = _hybrid_rnn(kernel, directions, sums=3 if auxiliary else 2)
    return (*scratches, *_auxiliary(kernel, _AUXILIARY_RNN, auxiliary))


def _hybrid_rnn(kernel: Kernel, directions: list[Tensor], sums: int) -> tuple[Scratch, ...]:
    """``directions`` are the weights [units, inputs] of each direction, ``sums`` the matrices that each has."""
    batch, units = _batch(kernel), [weights.shape[0] for weights in directions]
    return (
        Scratch(kernel.input(0).elements),
        *(Scratch(batch * n) for n in units),
        _floats(batch),
        _floats(batch * max(units)),
        _floats(batch),
        *(_floats(sums * n, True) for n in units),
    )


RULES: dict[str, Rule] = {
    "SVDF": _svdf,
    **dict.fromkeys(("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"), _lstm),
    "BIDIRECTIONAL_SEQUENCE_LSTM": _bidirectional_lstm,
    **dict.fromkeys(("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"), _rnn),
    "BIDIRECTIONAL_SEQUENCE_RNN": _bidirectional_rnn,
}
