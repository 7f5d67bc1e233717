# SPDX-License-Identifier: Apache-2.0
"""Random models whose constants are stored small and unpacked by ops: of half precision or int8, sparse, in chains.

What XNNPACK makes of such a constant depends on how it is stored and on all that read it, so one is often read by
several ops, in several roles, or by none. Every activation has the shape (1, 6, 6, 4).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from edgedeploy_partitioner.model.build import Array, Model, Subgraph, per_channel, per_tensor
from edgedeploy_partitioner.model.graph import Quantization

_SHAPE = (1, 6, 6, 4)
_CHANNELS = 4
_STEPS: dict[str, Any] = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
_QUANT = per_tensor(0.05, 3)
_SHAPES = (_SHAPE, (_CHANNELS,), (_CHANNELS, _CHANNELS), (_CHANNELS, 1, 1, _CHANNELS), (1, 3, 3, _CHANNELS), (6, 4))


def unpacked_dag(seed: int, ops: int) -> bytes:
    """A random model of at least ``ops`` ops; the same arguments give the same bytes.

    Every tensor that no op reads is an output, unless the seed has it that nobody wants an unpacked constant.
    """
    rng = random.Random(seed)
    dag = _Dag(rng)
    while len(dag.g.value.operators) < ops:
        dag.values.append(rng.choice(dag.recipes)())
    return dag.finish()


class _Dag:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.numbers = np.random.default_rng(rng.randrange(2**32))
        self.model = Model()
        self.g: Subgraph = self.model.subgraph()
        self.values = [self.g.input(_SHAPE)]
        self.by_shape: dict[tuple[int, ...], list[int]] = {}
        self.ways: list[Callable[[tuple[int, ...]], int]] = [
            self.half, self.half, self.eight, self.per_channel, self.other_integers, self.sparse, self.sparse_half,
            self.sparse_eight,
        ]  # fmt: skip
        self.recipes: list[Callable[[], int]] = [
            self.unary, self.binary, self.arithmetic, self.arithmetic, self.of_constant, self.moved, self.convolution,
            self.convolution, self.convolution, self.depthwise, self.fully_connected, self.fully_connected,
            self.deconvolution, self.prelu, self.matmul, self.joined, self.padded, self.eight_bit, self.unread,
        ]  # fmt: skip

    def finish(self) -> bytes:
        read = {t for op in self.g.value.operators for t in op.inputs}
        unpackers = {self.model.op_code(code, "", 1) for code in ("DEQUANTIZE", "DENSIFY")}
        kept = self.rng.random() < 0.5
        left = [op for op in self.g.value.operators if kept or op.opcodeIndex not in unpackers]
        self.g.outputs(*(t for op in left for t in op.outputs if t not in read))
        return self.model.build()

    # --- constants ---

    def constant(self, shape: tuple[int, ...], packed: float = 0.8) -> int:
        """Mostly unpacked by an op, and then often one that is there."""
        if self.rng.random() > packed:
            return self.g.constant(self.floats(shape))
        known = self.by_shape.setdefault(shape, [])
        if not known or self.rng.random() < 0.6:
            known.append(self.rng.choice(self.ways)(shape))
        return self.rng.choice(known)

    def floats(self, shape: tuple[int, ...]) -> Array:
        return self.numbers.integers(-4, 5, shape).astype(np.float32) / 8

    def half(self, shape: tuple[int, ...]) -> int:
        return self.g.apply("DEQUANTIZE", [self.g.constant(self.floats(shape).astype(np.float16))], shape)

    def eight(self, shape: tuple[int, ...]) -> int:
        return self.integers(shape, "int8", per_tensor(0.1, self.rng.choice((0, 3))))

    def per_channel(self, shape: tuple[int, ...]) -> int:
        axis = len(shape) - 1
        return self.integers(shape, "int8", per_channel([0.1] * shape[axis], axis))

    def other_integers(self, shape: tuple[int, ...]) -> int:
        return self.integers(shape, self.rng.choice(("uint8", "int16")), per_tensor(0.1))

    def integers(self, shape: tuple[int, ...], dtype: str, quant: Quantization) -> int:
        stored = self.numbers.integers(0, 9, shape).astype(dtype)
        return self.g.apply("DEQUANTIZE", [self.g.constant(stored, quant=quant)], shape)

    def sparse(self, shape: tuple[int, ...]) -> int:
        return self.g.apply("DENSIFY", [self.g.sparse_constant(self.floats(shape))], shape)

    def sparse_half(self, shape: tuple[int, ...]) -> int:
        half = self.g.sparse_constant(self.floats(shape).astype(np.float16))
        return self.g.apply("DEQUANTIZE", [self.g.apply("DENSIFY", [half], shape, "float16")], shape)

    def sparse_eight(self, shape: tuple[int, ...]) -> int:
        return self.g.apply("DEQUANTIZE", [self.dense_int8(shape, per_tensor(0.1))], shape)

    def dense_int8(self, shape: tuple[int, ...], quant: Quantization) -> int:
        stored = self.g.sparse_constant(self.numbers.integers(0, 3, shape).astype(np.int8), quant=quant)
        return self.g.apply("DENSIFY", [stored], shape, "int8", quant)

    # --- ops ---

    def pick(self) -> int:
        return self.rng.choice(self.values[-3:] if self.rng.random() < 0.7 else self.values)

    def data(self) -> int:
        """Mostly what was fed, at times a constant."""
        return self.constant(_SHAPE) if self.rng.random() < 0.1 else self.pick()

    def unary(self) -> int:
        return self.g.apply(self.rng.choice(("ABS", "NEG", "RELU", "SIN", "SOFTMAX")), [self.pick()], _SHAPE)

    def binary(self) -> int:
        return self.g.apply(self.rng.choice(("ADD", "MUL", "SUB")), [self.pick(), self.pick()], _SHAPE)

    def arithmetic(self) -> int:
        code = self.rng.choice(("ADD", "MUL", "SUB", "DIV", "MAXIMUM", "POW"))
        operands = [self.pick(), self.constant(self.rng.choice((_SHAPE, (_CHANNELS,))))]
        self.rng.shuffle(operands)
        return self.g.apply(code, operands, _SHAPE)

    def of_constant(self) -> int:
        """An op that has nothing but the constant."""
        shape = self.rng.choice(_SHAPES)
        t = self.g.apply(self.rng.choice(("ABS", "NEG", "SIN")), [self.constant(shape)], shape)
        return self.g.apply("ADD", [self.pick(), t], _SHAPE) if shape in (_SHAPE, (_CHANNELS,)) else self.unary()

    def moved(self) -> int:
        """An op that moves the values of a constant, and then something that reads them."""
        t = self.constant(_SHAPE)
        order = self.g.constant(np.array([0, 2, 1, 3], np.int32))
        axis = self.g.constant(np.array([1], np.int32))
        if self.rng.random() < 0.3:
            t = self.g.apply(self.rng.choice(("ABS", "SIN")), [t], _SHAPE)
        match self.rng.randrange(4):
            case 0:
                t = self.g.apply("TRANSPOSE", [t, order], _SHAPE)
            case 1:
                t = self.g.apply("REVERSE_V2", [t, axis], _SHAPE)
            case 2:
                t = self.reshaped(self.reshaped(t, (1, 36, 4)), _SHAPE)
            case 3:
                t = self.g.apply("EXPAND_DIMS", [self.g.apply("SQUEEZE", [t], (6, 6, 4)), self.zero()], _SHAPE)
        return self.g.apply("MUL", [self.pick(), t], _SHAPE)

    def zero(self) -> int:
        return self.g.constant(np.array(0, np.int32))

    def reshaped(self, t: int, shape: tuple[int, ...]) -> int:
        return self.g.apply("RESHAPE", [t, self.g.constant(np.array(shape, np.int32))], shape, new_shape=shape)

    def biases(self) -> list[int]:
        return self.rng.choice(([], [-1], [self.constant((_CHANNELS,))], [self.constant((_CHANNELS,))]))

    def convolution(self) -> int:
        weights = self.constant((_CHANNELS, 1, 1, _CHANNELS))
        return self.g.apply("CONV_2D", [self.data(), weights, self.constant((_CHANNELS,))], _SHAPE, **_STEPS)

    def depthwise(self) -> int:
        operands = [self.data(), self.constant((1, 3, 3, _CHANNELS)), self.constant((_CHANNELS,))]
        return self.g.apply("DEPTHWISE_CONV_2D", operands, _SHAPE, depth_multiplier=1, **_STEPS)

    def fully_connected(self) -> int:
        operands = [self.data(), self.constant((_CHANNELS, _CHANNELS)), *self.biases()]
        return self.g.apply("FULLY_CONNECTED", operands, _SHAPE, keep_num_dims=True)

    def deconvolution(self) -> int:
        shape = self.g.constant(np.array(_SHAPE, np.int32))
        operands = [shape, self.constant((_CHANNELS, 1, 1, _CHANNELS)), self.data(), self.constant((_CHANNELS,))]
        return self.g.apply("TRANSPOSE_CONV", operands[: self.rng.choice((3, 4))], _SHAPE, **_STEPS)

    def prelu(self) -> int:
        return self.g.apply("PRELU", [self.pick(), self.constant((_CHANNELS,))], _SHAPE)

    def matmul(self) -> int:
        return self.g.apply("BATCH_MATMUL", [self.pick(), self.constant((_CHANNELS, _CHANNELS))], _SHAPE)

    def joined(self) -> int:
        wide = self.g.apply("CONCATENATION", [self.pick(), self.constant(_SHAPE)], (1, 6, 6, 8), axis=3)
        begin, size = (self.g.constant(np.array(v, np.int32)) for v in ((0, 0, 0, 1), _SHAPE))
        return self.g.apply("SLICE", [wide, begin, size], _SHAPE)

    def padded(self) -> int:
        """Of one dimension and of four; what comes of it is at times not read."""
        shape = self.rng.choice(((_CHANNELS,), (6, 4), _SHAPE))
        pads = self.g.constant(np.array([[0, 2]] + [[0, 0]] * (len(shape) - 1), np.int32))
        t = self.constant(shape) if self.rng.random() < 0.5 else self.g.input(shape)
        wide = (shape[0] + 2, *shape[1:])
        self.g.apply("ABS", [self.g.apply("PAD", [t, pads], wide)], wide)
        return self.unary()

    def eight_bit(self) -> int:
        """A quantised convolution on sparse weights, between floats."""
        x = self.g.apply("QUANTIZE", [self.pick()], _SHAPE, "int8", _QUANT)
        scales = per_channel([0.02] * _CHANNELS, 0)
        weights = self.dense_int8((_CHANNELS, 1, 1, _CHANNELS), scales)
        biases = per_channel([0.02 * _QUANT.scales[0]] * _CHANNELS, 0)
        bias = self.g.constant(np.zeros(_CHANNELS, np.int32), quant=biases)
        y = self.g.apply("CONV_2D", [x, weights, bias], _SHAPE, "int8", _QUANT, **_STEPS)
        return self.g.apply("DEQUANTIZE", [y], _SHAPE)

    def unread(self) -> int:
        self.constant(self.rng.choice(_SHAPES), packed=1.0)
        return self.unary()
