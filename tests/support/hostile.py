# SPDX-License-Identifier: Apache-2.0
"""Models that do harm to the process that runs them."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np

from edgedeploy_partitioner.model.build import Model, per_tensor


def endless() -> Model:
    """WHILE true: x = x + 1."""
    model = Model()
    main, condition, body = (model.subgraph(name) for name in ("main", "condition", "body"))
    x = main.input((1,))
    main.outputs(main.apply("WHILE", [x], (1,), cond_subgraph_index=1, body_subgraph_index=2))
    condition.input((1,))
    condition.outputs(condition.constant(np.array(True)))
    y = body.input((1,))
    body.outputs(body.apply("ADD", [y, body.constant(np.ones(1, np.float32))], (1,)))
    return model


def crashing() -> Model:
    """An int8 SVDF whose state is int8: the kernel writes int16 past its end."""
    model = Model()
    g = model.subgraph()
    x = g.input((1, 64), "int8", per_tensor(0.5))
    weights = [g.constant(np.ones((512, n), np.int8), "int8", per_tensor(0.5)) for n in (64, 64)]
    bias = g.constant(np.zeros(512, np.int32), "int32", per_tensor(0.25))
    state = g.tensor((1, 512 * 64), "int8", per_tensor(0.5), variable=True)
    result = g.tensor((1, 512), "int8", per_tensor(0.5))
    g.op("SVDF", [x, *weights, bias, state], [result], rank=1, fused_activation_function="RELU")
    g.outputs(result)
    return model


def crashing_by(number: signal.Signals) -> Model:
    """What a converter could have written, and ends the runtime with SIGABRT or SIGSEGV, always.

    The built-in ADD of int16 with scales that are powers of two cannot broadcast, and gives up; the built-in
    DEPTHWISE_CONV_2D reads its bias without looking whether there is one.
    """
    model = Model()
    g = model.subgraph()
    if number == signal.SIGABRT:
        scale, shape = per_tensor(1 / 64), (1, 4, 4, 6)
        vector = g.constant(np.ones(6, np.int16), "int16", scale)
        added = g.apply("ADD", [g.input(shape, "int16", scale), vector], shape, "int16", scale, pot_scale_int16=True)
        g.outputs(added)
    elif number == signal.SIGSEGV:
        shape = (1, 8, 8, 4)
        weights = g.constant(np.ones((1, 3, 3, 4), np.float32))
        steps: dict[str, Any] = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "depth_multiplier": 1}
        g.outputs(g.apply("DEPTHWISE_CONV_2D", [g.input(shape), weights], shape, **steps))
    else:
        raise ValueError(number)
    return model


def huge(rows: int = 65536, columns: int = 8) -> Model:
    """2 GiB of output, or ``rows`` by ``columns`` of 4 KiB."""
    model = Model()
    g = model.subgraph()
    x = g.input((1, 1024))
    g.outputs(g.apply("TILE", [x, g.constant(np.array([rows, columns], np.int32))], (rows, 1024 * columns)))
    return model


def large(size: int) -> Model:
    """``size`` bytes of weights, rounded down, that no compression makes less; an op that reads one row of them."""
    model = Model()
    g = model.subgraph()
    table = np.random.default_rng(size).integers(0, 256, (size // 4096, 4096), np.uint8)
    weights = g.constant(table, "uint8", per_tensor(1 / 64))
    g.outputs(g.apply("GATHER", [weights, g.input((1,), "int32")], (1, 4096), "uint8", per_tensor(1 / 64)))
    return model
