# SPDX-License-Identifier: Apache-2.0
"""Models of one recurrent op, in the forms that its kernels have, with sizes drawn at random."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from edgedeploy_partitioner.model.build import per_tensor
from support.kernel_cases import Case, Const, In, Operand, Out, case, ones

_KINDS = ("float32", "int8", "uint8")  # of weights, beside a float input: the last two are hybrid


class Sizes(NamedTuple):
    batch: int
    steps: int
    inputs: int
    cells: int
    outputs: int
    time_major: bool = False

    def sequence(self, width: int) -> tuple[int, ...]:
        return (self.steps, self.batch, width) if self.time_major else (self.batch, self.steps, width)

    def projection(self, dtype: str) -> int:
        """A width other than that of the cells; the float kernels crash on one that is much larger."""
        return self.outputs if dtype != "float32" else max(1, self.cells - self.outputs % self.cells)


def recurrent(rng: Random) -> Iterator[Case]:
    for dtype in _KINDS:
        for sequences in (False, True):
            for time_major in (False, True)[: 1 + sequences]:
                yield from _lstms(sizes(rng, time_major), dtype, sequences)
                yield _rnn(sizes(rng, time_major), dtype, sequences)
        for _ in range(4):
            yield _bidirectional_lstm(rng, sizes(rng, rng.random() < 0.5), dtype)
            yield _bidirectional_rnn(rng, sizes(rng, rng.random() < 0.5), dtype)
        yield _svdf(rng, dtype)
    for sequences in (False, True):
        yield from _integer_lstms(sizes(rng), sequences)
    for dtype in ("float32", "uint8"):
        yield _basic_lstm(sizes(rng), dtype)


def sizes(rng: Random, time_major: bool = False) -> Sizes:
    cells = rng.randint(1, 20)
    return Sizes(rng.randint(1, 4), rng.randint(1, 5), rng.randint(1, 20), cells, rng.randint(1, 40), time_major)


def _lstms(z: Sizes, dtype: str, sequences: bool) -> Iterator[Case]:
    code = "UNIDIRECTIONAL_SEQUENCE_LSTM" if sequences else "LSTM"
    x = In(z.sequence(z.inputs) if sequences else (z.batch, z.inputs))
    options: dict[str, Any] = {"time_major": z.time_major} if sequences else {"kernel_type": "FULL"}
    for form in ("plain", "coupled peephole", "projected", "coupled projected", "normalized", "asymmetric"):
        width = z.projection(dtype) if "projected" in form else z.cells
        states = [In((z.batch, width), variable=True), In((z.batch, z.cells), variable=True)]
        coupled = "coupled" in form
        normalization = [ones(z.cells)] * 4 if form == "normalized" else []
        weights = direction(
            z, dtype, width, coupled=coupled, peephole="peephole" in form, projected="projected" in form
        )
        out = Out(z.sequence(width) if sequences else (z.batch, width))
        yield case(code, [x, *weights, *states, *normalization], out, version=3, note=f"{form} {dtype} {z}",
                   asymmetric_quantize_inputs=form == "asymmetric", fused_activation_function="TANH",
                   **options)  # fmt: skip


def direction(
    z: Sizes, dtype: str, width: int, *, coupled: bool = False, peephole: bool = False, projected: bool = False
) -> list[Operand]:
    """Weights and biases of the gates, the input gate's first, and the projection's."""

    def gates(operand: Operand) -> list[Operand]:
        return [None if coupled else operand, operand, operand, operand]

    looks = ones(z.cells, dtype=dtype) if peephole else None
    return [
        *gates(ones(z.cells, z.inputs, dtype=dtype)),
        *gates(ones(z.cells, width, dtype=dtype)),
        *gates(looks)[:1], looks, looks,
        *gates(ones(z.cells)),
        ones(width, z.cells, dtype=dtype) if projected else None,
        None,
    ]  # fmt: skip


def _integer_lstms(z: Sizes, sequences: bool) -> Iterator[Case]:
    """All in integers: 8-bit weights, 16-bit cells, or only bytes (12 intermediates), of which LSTM alone has a kernel
    and that only with normalisation and projection."""
    code = "UNIDIRECTIONAL_SEQUENCE_LSTM" if sequences else "LSTM"
    forms = (("", 5), ("projected normalized", 5), *([] if sequences else [("projected normalized", 12)]))
    for form, count in forms:
        width = z.outputs if form else z.cells
        weights, bias = per_tensor(0.01), per_tensor(1e-4)
        gates: list[Operand] = [ones(z.cells, z.inputs, dtype="int8", quant=weights)] * 4
        recurrent_gates: list[Operand] = [ones(z.cells, width, dtype="int8", quant=weights)] * 4
        biases: list[Operand] = [ones(z.cells, dtype="int32", quant=bias)] * 4
        projection: list[Operand] = [None, None]
        normalization: list[Operand] = []
        if form:
            projection = [
                ones(width, z.cells, dtype="int8", quant=weights), ones(width, dtype="int32", quant=bias)
            ]  # fmt: skip
            normalization = [ones(z.cells, dtype="int16", quant=per_tensor(1e-3))] * 4
        state = In((z.batch, width), "int8", True, per_tensor(0.03, 2))
        cell = In((z.batch, z.cells), "int16", True, per_tensor(2**-11))
        x = In(z.sequence(z.inputs) if sequences else (z.batch, z.inputs), "int8")
        between = [Out((), "int8" if i == 4 else "int16", per_tensor(0.002)) for i in range(count)]
        options: dict[str, Any] = {} if sequences else {"kernel_type": "FULL"}
        out = Out(z.sequence(width) if sequences else (z.batch, width), "int8", per_tensor(0.03, 2))
        operands = [x, *gates, *recurrent_gates, None, None, None, *biases, *projection, state, cell, *normalization]
        yield case(code, operands, out, version=4, note=f"int8 {form} {count} {z}", intermediates=between,
                   fused_activation_function="TANH", **options)  # fmt: skip


def _basic_lstm(z: Sizes, dtype: str) -> Case:
    """The old form, whose state comes in and goes out."""
    quantized = dtype == "uint8"
    data, cell = (per_tensor(1 / 128, 128), per_tensor(2**-11)) if quantized else (None, None)
    wide = "int16" if quantized else dtype
    weights = ones(4 * z.cells, z.inputs + z.cells, dtype=dtype, quant=per_tensor(0.01, 128) if quantized else None)
    bias = ones(4 * z.cells, dtype="int32", quant=per_tensor(1e-4)) if quantized else ones(4 * z.cells)
    results = [
        Out((z.batch, z.cells), dtype, data), Out((z.batch, z.cells), wide, cell),
        Out((z.batch, z.inputs + z.cells), dtype, data), Out((z.batch, 4 * z.cells), wide, cell),
    ]  # fmt: skip
    operands: list[Operand] = [
        In((z.batch, z.inputs), dtype, False, data), In((z.batch, z.cells), dtype, False, data), weights, bias,
        In((z.batch, z.cells), wide, False, cell),
    ]  # fmt: skip
    return case("LSTM", operands, *results, version=2, note=f"basic {dtype} {z}", kernel_type="BASIC",
                fused_activation_function="TANH")  # fmt: skip


def _bidirectional_lstm(rng: Random, z: Sizes, dtype: str) -> Case:
    projected, coupled, merged = (rng.random() < 0.5 for _ in range(3))
    auxiliary = rng.choice(["no", "stacked", "weighted"])
    width = z.projection(dtype) if projected else z.cells
    one = direction(z, dtype, width, coupled=coupled, peephole=rng.random() < 0.5, projected=projected)
    states = [In((z.batch, width), variable=True), In((z.batch, z.cells), variable=True)] * 2
    more = rng.randint(1, 20) if auxiliary == "weighted" else z.inputs
    gate = ones(z.cells, more, dtype=dtype) if auxiliary == "weighted" else None
    gates: list[Operand] = [None if coupled else gate, gate, gate, gate]
    second = None if auxiliary == "no" else In(z.sequence(more))
    outs = [Out(z.sequence(2 * width))] if merged else [Out(z.sequence(width))] * 2
    return case("BIDIRECTIONAL_SEQUENCE_LSTM", [In(z.sequence(z.inputs)), *one, *one, *states, second, *gates, *gates],
                *outs, version=3, note=f"{dtype} {z} {projected} {coupled} {auxiliary}", merge_outputs=merged,
                time_major=z.time_major, fused_activation_function="TANH")  # fmt: skip


def _rnn(z: Sizes, dtype: str, sequences: bool) -> Case:
    weights = [ones(z.cells, z.inputs, dtype=dtype), ones(z.cells, z.cells, dtype=dtype), ones(z.cells)]
    state = In((z.batch, z.cells), variable=True)
    note = f"{dtype} {z}"
    if not sequences:
        return case("RNN", [In((z.batch, z.inputs)), *weights, state], Out((z.batch, z.cells)), version=3, note=note)
    x, out = In(z.sequence(z.inputs)), Out(z.sequence(z.cells))
    return case("UNIDIRECTIONAL_SEQUENCE_RNN", [x, *weights, state], out, version=3, note=note,
                time_major=z.time_major, asymmetric_quantize_inputs=True)  # fmt: skip


def _bidirectional_rnn(rng: Random, z: Sizes, dtype: str) -> Case:
    if dtype != "float32":
        z = z._replace(time_major=False)  # otherwise the hybrid kernel crashes
    merged, auxiliary = rng.random() < 0.5, rng.choice(["no", "stacked", "weighted"])
    more = rng.randint(1, 20) if auxiliary == "weighted" else z.inputs
    units = (z.cells, z.outputs)

    def one(n: int) -> list[Operand]:
        return [ones(n, z.inputs, dtype=dtype), ones(n, n, dtype=dtype), ones(n), In((z.batch, n), variable=True)]

    weights = [ones(n, more, dtype=dtype) if auxiliary == "weighted" else None for n in units]
    second = None if auxiliary == "no" else In(z.sequence(more))
    outs = [Out(z.sequence(sum(units)))] if merged else [Out(z.sequence(n)) for n in units]
    operands = [In(z.sequence(z.inputs)), *one(units[0]), *one(units[1]), second, *weights]
    return case("BIDIRECTIONAL_SEQUENCE_RNN", operands, *outs, version=3, note=f"{dtype} {z} {auxiliary}",
                time_major=z.time_major, merge_outputs=merged)  # fmt: skip


def _svdf(rng: Random, dtype: str) -> Case:
    rank, units, memory, batch, inputs = (rng.randint(1, n) for n in (3, 9, 9, 4, 20))
    filters = rank * units
    steps = ones(filters, memory, dtype=rng.choice(["float32", "int8"]) if dtype == "int8" else "float32")
    state = In((batch, filters * memory), variable=True)
    operands: list[Operand] = [In((batch, inputs)), ones(filters, inputs, dtype=dtype), steps, ones(units), state]
    note = f"{dtype} rank {rank} {filters}x{memory} {batch}x{inputs}"
    return case("SVDF", operands, Out((batch, units)), version=4, note=note, rank=rank)


def integer_svdf(rng: Random) -> Case:
    rank, units, memory, batch, inputs = (rng.randint(1, n) for n in (3, 9, 9, 4, 20))
    filters = rank * units
    operands: list[Operand] = [
        In((batch, inputs), "int8"), ones(filters, inputs, dtype="int8", quant=per_tensor(0.01)),
        Const(ones(filters, memory).value, "int16", per_tensor(0.001)),
        ones(units, dtype="int32", quant=per_tensor(1e-5)),
        In((batch, filters * memory), "int16", True, per_tensor(0.01)),
    ]  # fmt: skip
    return case("SVDF", operands, Out((batch, units), "int8"), version=3, note=f"int8 {rank} {filters}", rank=rank,
                fused_activation_function="RELU")  # fmt: skip
