# SPDX-License-Identifier: Apache-2.0
"""Write a network as a graph of shapes: quantised like a converted ``.tflite`` file, with weights that have no bytes.

Small constants (axes, sizes, paddings) have their values, so that rules which read them work.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

import numpy as np

from edgedeploy_partitioner.model.graph import DType, Graph, Op, OptionValue, Quantization, Span, Subgraph, Tensor

_FUSED = ("NONE", "RELU", "RELU6")
_SCALE = 0.05
_UP_TO_6 = 0.0235  # of unsigned bytes, which converters give what a RELU6 clamps: nothing above 6 is left


class Net:
    """A model being written, batch 1. Tensors are ids; methods named like TFLite's ops return the id of the result.

    ``dtype`` is ``int8`` (weights per channel), ``uint8`` (weights per tensor), ``float16`` or ``float32``.
    Activations: ``NONE``, ``RELU`` and ``RELU6`` are options of the op before; ``SILU`` is LOGISTIC and MUL;
    any other is an op of that name.
    """

    def __init__(self, name: str, dtype: str = "int8") -> None:
        self.name = f"{name}.{dtype}"
        self.dtype = DType(dtype)
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []
        self.inputs: list[int] = []
        self._data = bytearray()
        self._constant_bytes = 0

    def build(self, *outputs: int) -> Graph:
        main = Subgraph(0, "main", tuple(self.tensors), tuple(self.ops), tuple(self.inputs), outputs)
        sha256 = hashlib.sha256(f"{self.name}{self.tensors}{self.ops}".encode()).hexdigest()
        return Graph(sha256, self._constant_bytes, 3, self.name, (main,), source=memoryview(bytes(self._data)))

    def shape(self, x: int) -> tuple[int, ...]:
        return self.tensors[x].shape

    def channels(self, x: int) -> int:
        return self.shape(x)[-1]

    # --- tensors ----------

    def input(self, *shape: int) -> int:
        self.inputs.append(self._tensor((1, *shape)))
        return self.inputs[-1]

    def weights(self, *shape: int, axis: int = 0) -> int:
        """A constant without bytes; int8 ones are quantised per slice of ``axis``."""
        return self._constant(shape, self.dtype, self._quantised(shape[axis] if self.dtype is DType.INT8 else 1, axis))

    def bias(self, size: int) -> int:
        dtype = DType.INT32 if self._is_quantised else self.dtype
        return self._constant((size,), dtype, self._quantised(size if self.dtype is DType.INT8 else 1, 0))

    def integers(self, *values: int) -> int:
        """An int32 constant with its value."""
        data = np.array(values, np.int32).tobytes()
        self._data += data
        return self._tensor((len(values),), DType.INT32, None, Span(len(self._data) - len(data), len(data)))

    # --- ops ----------

    def conv(
        self, x: int, out: int, k: int | tuple[int, int] = 1, s: int = 1, act: str = "RELU", *, dilation: int = 1,
        groups: int = 1, padding: str = "SAME",
    ) -> int:  # fmt: skip
        kh, kw = (k, k) if isinstance(k, int) else k
        operands = [x, self.weights(out, kh, kw, self.channels(x) // groups), self.bias(out)]
        shape = (1, *self._slid(x, (kh, kw), s, dilation, padding), out)
        options = {**_window(s, padding), "dilation_h_factor": dilation, "dilation_w_factor": dilation}
        return self._activated("CONV_2D", operands, shape, act, options)

    def depthwise(
        self, x: int, k: int | tuple[int, int] = 3, s: int = 1, act: str = "RELU", *, dilation: int = 1,
        multiplier: int = 1, padding: str = "SAME",
    ) -> int:  # fmt: skip
        kh, kw = (k, k) if isinstance(k, int) else k
        out = self.channels(x) * multiplier
        operands = [x, self.weights(1, kh, kw, out, axis=3), self.bias(out)]
        shape = (1, *self._slid(x, (kh, kw), s, dilation, padding), out)
        options = {**_window(s, padding), "dilation_h_factor": dilation, "dilation_w_factor": dilation}
        return self._activated("DEPTHWISE_CONV_2D", operands, shape, act, {**options, "depth_multiplier": multiplier})

    def transpose_conv(self, x: int, out: int, k: int = 2, s: int = 2, act: str = "NONE") -> int:
        _, h, w, c = self.shape(x)
        shape = (1, h * s, w * s, out)
        operands = [self.integers(*shape), self.weights(out, k, k, c), x, self.bias(out)]
        return self._activated("TRANSPOSE_CONV", operands, shape, act, _window(s, "SAME"))

    def fully_connected(self, x: int, out: int, act: str = "NONE") -> int:
        depth = self.channels(x)
        rows = self.tensors[x].elements // depth
        flags = {"keep_num_dims": False, "asymmetric_quantize_inputs": False}
        options: dict[str, OptionValue] = {"weights_format": "DEFAULT", **flags}
        operands = [x, self._per_tensor(out, depth), self._per_tensor(out)]
        return self._activated("FULLY_CONNECTED", operands, (rows, out), act, options)

    def max_pool(self, x: int, k: int, s: int, padding: str = "SAME") -> int:
        return self._pool("MAX_POOL_2D", x, k, s, padding)

    def average_pool(self, x: int, k: int, s: int, padding: str = "SAME") -> int:
        return self._pool("AVERAGE_POOL_2D", x, k, s, padding)

    def global_pool(self, x: int, *, keep: bool = False) -> int:
        """MEAN over height and width."""
        c = self.channels(x)
        shape = (1, 1, 1, c) if keep else (1, c)
        return self.op("MEAN", [x, self.integers(1, 2)], shape, {"keep_dims": keep})

    def add(self, a: int, b: int, act: str = "NONE") -> int:
        return self._activated("ADD", [a, b], self._wider(a, b), act, {"pot_scale_int16": True})

    def mul(self, a: int, b: int, act: str = "NONE") -> int:
        return self._activated("MUL", [a, b], self._wider(a, b), act, {})

    def activation(self, x: int, act: str) -> int:
        """An activation as an op of its own."""
        if act == "SILU":
            return self.mul(x, self.activation(x, "LOGISTIC"))
        return self.op(act, [x], self.shape(x), {"alpha": 0.1} if act == "LEAKY_RELU" else {})

    def concat(self, *xs: int) -> int:
        """Along the channels."""
        shape = (*self.shape(xs[0])[:-1], sum(self.channels(x) for x in xs))
        return self._activated("CONCATENATION", list(xs), shape, "NONE", {"axis": len(shape) - 1})

    def split(self, x: int, parts: int = 2) -> tuple[int, ...]:
        """Equal parts of the channels."""
        shape = (*self.shape(x)[:-1], self.channels(x) // parts)
        outs = [self._tensor(shape) for _ in range(parts)]
        self._append("SPLIT", [self.integers(len(shape) - 1), x], outs, {"num_splits": parts})
        return tuple(outs)

    def resize(self, x: int, height: int, width: int, *, bilinear: bool = False) -> int:
        code = "RESIZE_BILINEAR" if bilinear else "RESIZE_NEAREST_NEIGHBOR"
        shape = (1, height, width, self.channels(x))
        options = {"align_corners": False, "half_pixel_centers": bilinear}
        return self.op(code, [x, self.integers(height, width)], shape, options)

    def upsample(self, x: int) -> int:
        """Twice the size, nearest."""
        _, h, w, _ = self.shape(x)
        return self.resize(x, 2 * h, 2 * w)

    def reshape(self, x: int, *shape: int) -> int:
        return self.op("RESHAPE", [x, self.integers(*shape)], shape, {"new_shape": shape})

    def transpose(self, x: int, *perm: int) -> int:
        return self.op("TRANSPOSE", [x, self.integers(*perm)], tuple(self.shape(x)[p] for p in perm), {})

    def batch_matmul(self, a: int, b: int, *, adj_x: bool = False, adj_y: bool = False) -> int:
        rows, columns = self.shape(a)[-1 if adj_x else -2], self.shape(b)[-2 if adj_y else -1]
        options = {"adj_x": adj_x, "adj_y": adj_y, "asymmetric_quantize_inputs": False}
        return self.op("BATCH_MATMUL", [a, b], (*self.shape(a)[:-2], rows, columns), options)

    def softmax(self, x: int) -> int:
        return self.op("SOFTMAX", [x], self.shape(x), {"beta": 1.0})

    def op(
        self, code: str, inputs: Sequence[int], shape: tuple[int, ...], options: Mapping[str, OptionValue] | None = None
    ) -> int:
        """Any op with one result of the model's type."""
        out = self._tensor(shape)
        self._append(code, inputs, [out], options or {})
        return out

    # --- inside ----------

    @property
    def _is_quantised(self) -> bool:
        return self.dtype in (DType.INT8, DType.UINT8)

    def _quantised(self, scales: int = 1, axis: int = 0) -> Quantization | None:
        if not self._is_quantised:
            return None
        scale = _UP_TO_6 if self.dtype is DType.UINT8 else _SCALE
        return Quantization((scale,) * scales, (0,) * scales, axis)

    def _tensor(
        self, shape: tuple[int, ...], dtype: DType | None = None, quantization: Quantization | None = None,
        data: Span | None = None,
    ) -> int:  # fmt: skip
        quantization = self._quantised() if dtype is None else quantization
        number = len(self.tensors)
        self.tensors.append(
            Tensor(number, f"t{number}", shape, dtype or self.dtype, quantization=quantization, data=data)
        )
        return number

    def _constant(self, shape: tuple[int, ...], dtype: DType, quantization: Quantization | None) -> int:
        size = math.prod(shape) * dtype.bits // 8
        self._constant_bytes += size
        return self._tensor(shape, dtype, quantization, Span(0, size))

    def _per_tensor(self, *shape: int) -> int:
        """Weights or (of one dimension) the bias of an op that is not quantised per channel."""
        dtype = DType.INT32 if self._is_quantised and len(shape) == 1 else self.dtype
        return self._constant(shape, dtype, self._quantised())

    def _append(
        self, code: str, inputs: Sequence[int], outputs: Sequence[int], options: Mapping[str, OptionValue]
    ) -> None:
        self.ops.append(Op(0, len(self.ops), code, tuple(inputs), tuple(outputs), options=options))

    def _activated(
        self, code: str, inputs: Sequence[int], shape: tuple[int, ...], act: str, options: Mapping[str, OptionValue]
    ) -> int:
        fused = act if act in _FUSED else "NONE"
        out = self.op(code, inputs, shape, {**options, "fused_activation_function": fused})
        return out if act in _FUSED else self.activation(out, act)

    def _pool(self, code: str, x: int, k: int, s: int, padding: str) -> int:
        shape = (1, *self._slid(x, (k, k), s, 1, padding), self.channels(x))
        options = {**_window(s, padding), "filter_height": k, "filter_width": k}
        return self._activated(code, [x], shape, "NONE", options)

    def _slid(self, x: int, kernel: tuple[int, int], s: int, dilation: int, padding: str) -> tuple[int, int]:
        _, h, w, _ = self.shape(x)
        if padding == "SAME":
            return -(-h // s), -(-w // s)
        (rows, columns) = ((side - (k - 1) * dilation - 1) // s + 1 for side, k in zip((h, w), kernel, strict=True))
        return rows, columns

    def _wider(self, a: int, b: int) -> tuple[int, ...]:
        return max(self.shape(a), self.shape(b), key=math.prod)


def _window(s: int, padding: str) -> dict[str, OptionValue]:
    return {"padding": padding, "stride_h": s, "stride_w": s}


def scaled(channels: float, alpha: float, divisor: int = 8) -> int:
    """``channels * alpha`` rounded to a multiple of ``divisor``, by at most 10 % down, as MobileNets do."""
    wanted = channels * alpha
    rounded = max(divisor, int(wanted + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * wanted else rounded
