# SPDX-License-Identifier: Apache-2.0
"""Random models that are valid and run: several branches, ops that XNNPACK takes and ops that it leaves.

Every activation has the shape (1, 6, 6, 4), so any op can follow any other; only the graphs are random.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from edgedeploy_partitioner.model.build import Model, Subgraph, per_channel, per_tensor
from edgedeploy_partitioner.model.graph import Quantization

_SHAPE = (1, 6, 6, 4)
_CHANNELS = _SHAPE[-1]

_UNARY = ("ABS", "NEG", "SQUARE", "HARD_SWISH", "RELU", "RELU6", "LOGISTIC", "TANH", "ELU", "GELU", "SOFTMAX",
          "L2_NORMALIZATION", "LEAKY_RELU", "SIN", "ROUND", "FLOOR", "CEIL", "SIGN")  # fmt: skip
_UNARY_INT8 = ("HARD_SWISH", "RELU", "RELU6", "LOGISTIC", "TANH", "ELU", "SOFTMAX", "LEAKY_RELU", "L2_NORMALIZATION")
_BINARY = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE")
_FIXED_SCALE = {
    "LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0), "SOFTMAX": (1 / 256, -128), "L2_NORMALIZATION": (1 / 128, 0),
}  # fmt: skip
_OPTIONS: dict[str, dict[str, Any]] = {"LEAKY_RELU": {"alpha": 0.25}, "SOFTMAX": {"beta": 1.0}}


def random_dag(seed: int, ops: int, dtype: str | None = None) -> bytes:
    """A random model of about ``ops`` ops; the same arguments give the same bytes.

    ``dtype`` is ``float32`` or ``int8``; None lets the seed choose. Every tensor that no op reads is an output.
    """
    rng = random.Random(seed)
    dag = _Dag(rng, dtype or rng.choice(("float32", "int8")))
    while len(dag.g.value.operators) < ops:
        dag.values.append(rng.choice(dag.recipes)())
    return dag.finish()


class _Dag:
    def __init__(self, rng: random.Random, dtype: str) -> None:
        self.rng, self.dtype = rng, dtype
        self.is_float = dtype == "float32"
        self.model = Model()
        self.g: Subgraph = self.model.subgraph()
        self.quants: dict[int, Quantization | None] = {}
        self.values: list[int] = []
        for _ in range(rng.randint(1, 2)):
            quant = self.new_quant()
            self.values.append(self.noted(self.g.input(_SHAPE, dtype, quant), quant))
        shared: list[Callable[[], int]] = [
            self.unary, self.unary, self.binary, self.binary, self.conv, self.depthwise, self.max_pool,
            self.average_pool, self.concat, self.split, self.pad, self.mirror_pad, self.transpose, self.reverse,
            self.mean, self.reshape,
        ]  # fmt: skip
        self.recipes = [*shared, self.fp16_conv, self.dynamic_begin] if self.is_float else [*shared, self.requantize]

    def finish(self) -> bytes:
        read = {t for op in self.g.value.operators for t in op.inputs}
        self.g.outputs(*(t for op in self.g.value.operators for t in op.outputs if t not in read))
        return self.model.build()

    def noted(self, tensor: int, quant: Quantization | None) -> int:
        self.quants[tensor] = quant
        return tensor

    def new_quant(self) -> Quantization | None:
        return None if self.is_float else per_tensor(self.rng.choice((0.02, 0.05, 0.08)), self.rng.choice((-4, 0, 3)))

    def pick(self) -> int:
        """An operand: mostly recent, so that chains and long skips both occur."""
        return self.rng.choice(self.values[-4:] if self.rng.random() < 0.7 else self.values)

    def apply(
        self, code: str, inputs: list[int], quant: Quantization | None, shape: tuple[int, ...] = _SHAPE, **options: Any
    ) -> int:
        return self.noted(self.g.apply(code, inputs, shape, self.dtype, quant, **options), quant)

    def unary(self) -> int:
        code = self.rng.choice(_UNARY if self.is_float else _UNARY_INT8)
        quant = self.new_quant()
        if quant is not None and code in _FIXED_SCALE:
            quant = per_tensor(*_FIXED_SCALE[code])
        return self.apply(code, [self.pick()], quant, **_OPTIONS.get(code, {}))

    def binary(self) -> int:
        code = self.rng.choice(_BINARY)
        a = self.pick()
        if not self.is_float and code in ("MAXIMUM", "MINIMUM"):  # the kernel wants one quantisation for all
            b = self.rng.choice([t for t in self.values if self.quants[t] == self.quants[a]])
            return self.apply(code, [a, b], self.quants[a])
        return self.apply(code, [a, self.pick()], self.new_quant())

    def conv(self) -> int:
        x, size, activation = self.pick(), self.rng.choice((1, 3)), self.rng.choice(("NONE", "RELU", "RELU6"))
        return self.apply(
            "CONV_2D", [x, *self.weights((_CHANNELS, size, size, _CHANNELS), 0, x)], self.new_quant(),
            padding="SAME", stride_w=1, stride_h=1, fused_activation_function=activation,
        )  # fmt: skip

    def depthwise(self) -> int:
        x = self.pick()
        return self.apply(
            "DEPTHWISE_CONV_2D", [x, *self.weights((1, 3, 3, _CHANNELS), 3, x)], self.new_quant(),
            padding="SAME", stride_w=1, stride_h=1, depth_multiplier=1,
        )  # fmt: skip

    def weights(self, shape: tuple[int, ...], axis: int, x: int) -> tuple[int, int]:
        random_values = np.random.default_rng(self.rng.randrange(2**32))
        quant = self.quants[x]
        if quant is None:
            return (
                self.g.constant(random_values.normal(size=shape).astype(np.float32) / 4),
                self.g.constant(np.zeros(_CHANNELS, np.float32)),
            )
        scales = [self.rng.choice((0.01, 0.02)) for _ in range(_CHANNELS)]
        weights = random_values.integers(-127, 128, shape).astype(np.int8)
        return (
            self.g.constant(weights, quant=per_channel(scales, axis)),
            self.g.constant(np.zeros(_CHANNELS, np.int32), quant=per_channel([s * quant.scales[0] for s in scales], 0)),
        )

    def fp16_conv(self) -> int:
        """Convolutions whose half-precision weights pass through one DEQUANTIZE, which another op may read too."""
        half = self.g.constant(np.full((_CHANNELS, 1, 1, _CHANNELS), 0.25, np.float16))
        weights = self.g.apply("DEQUANTIZE", [half], (_CHANNELS, 1, 1, _CHANNELS))
        bias = self.g.constant(np.zeros(_CHANNELS, np.float32))
        for _ in range(self.rng.randint(1, 2)):
            y = self.apply("CONV_2D", [self.pick(), weights, bias], None, padding="SAME", stride_w=1, stride_h=1)
            self.values.append(y)
        if self.rng.random() < 0.3:
            self.g.apply(self.rng.choice(("SIN", "ABS")), [weights], (_CHANNELS, 1, 1, _CHANNELS))
        return y

    def pool(self, code: str, x: int) -> int:
        return self.apply(
            code, [x], self.quants[x], padding="SAME", stride_w=1, stride_h=1, filter_width=3, filter_height=3
        )

    def max_pool(self) -> int:
        return self.pool("MAX_POOL_2D", self.pick())

    def average_pool(self) -> int:
        return self.pool("AVERAGE_POOL_2D", self.pick())

    def concat(self) -> int:
        x = self.pick()
        count = self.rng.choice((2, 3, 6))
        parts = [x] * count if not self.is_float else [x, *(self.pick() for _ in range(count - 1))]
        wide = self.apply("CONCATENATION", parts, self.quants[x], (1, 6, 6, _CHANNELS * count), axis=3)
        return self.slice(wide, (0, 0, 0, self.rng.randrange(_CHANNELS * (count - 1))))

    def slice(self, x: int, begin: tuple[int, ...]) -> int:
        at, size = self.g.constant(np.array(begin, np.int32)), self.g.constant(np.array(_SHAPE, np.int32))
        return self.apply("SLICE", [x, at, size], self.quants[x])

    def split(self) -> int:
        x = self.pick()
        axis, shape = self.rng.choice(((1, (1, 3, 6, 4)), (3, (1, 6, 6, 2))))
        halves = [self.noted(self.g.tensor(shape, self.dtype, self.quants[x]), self.quants[x]) for _ in range(2)]
        self.g.op("SPLIT", [self.g.constant(np.array(axis, np.int32)), x], halves, num_splits=2)
        return self.apply("CONCATENATION", halves[::-1], self.quants[x], axis=axis)

    def pad(self) -> int:
        x = self.pick()
        pads = self.g.constant(np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
        return self.slice(self.apply("PAD", [x, pads], self.quants[x], (1, 8, 8, 4)), (0, 1, 1, 0))

    def mirror_pad(self) -> int:
        x = self.pick()
        pads = self.g.constant(np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
        wide = self.apply("MIRROR_PAD", [x, pads], self.quants[x], (1, 8, 8, 4), mode="REFLECT")
        return self.slice(wide, (0, 2, 2, 0))

    def transpose(self) -> int:
        x = self.pick()
        return self.apply("TRANSPOSE", [x, self.g.constant(np.array([0, 2, 1, 3], np.int32))], self.quants[x])

    def reverse(self) -> int:
        x, axis = self.pick(), self.g.constant(np.array([self.rng.choice((1, 3))], np.int32))
        return self.apply("REVERSE_V2", [x, axis], self.quants[x])

    def mean(self) -> int:
        """A mean over height and width, added back to its input."""
        x = self.pick()
        axes = self.g.constant(np.array([1, 2], np.int32))
        mean = self.apply("MEAN", [x, axes], self.quants[x], (1, 1, 1, _CHANNELS), keep_dims=True)
        return self.apply("ADD", [x, mean], self.new_quant())

    def reshape(self) -> int:
        x = self.pick()
        for shape in ((1, 36, 4), _SHAPE):
            x = self.apply(
                "RESHAPE", [x, self.g.constant(np.array(shape, np.int32))], self.quants[x], shape, new_shape=shape
            )
        return x

    def requantize(self) -> int:
        return self.apply("QUANTIZE", [self.pick()], self.new_quant())

    def dynamic_begin(self) -> int:
        """A SLICE whose start is computed: XNNPACK leaves it, and its output has no size before the model runs."""
        x = self.pick()
        shape = self.g.apply("SHAPE", [x], (4,), "int32", out_type="INT32")
        begin = self.g.apply("SUB", [shape, shape], (4,), "int32")
        return self.apply("SLICE", [x, begin, self.g.constant(np.array(_SHAPE, np.int32))], self.quants[x])
