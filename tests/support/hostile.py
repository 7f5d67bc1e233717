# SPDX-License-Identifier: Apache-2.0
"""Models that do harm to the process that runs them."""

from __future__ import annotations

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


def huge() -> Model:
    """2 GiB of output."""
    model = Model()
    g = model.subgraph()
    x = g.input((1, 1024))
    g.outputs(g.apply("TILE", [x, g.constant(np.array([65536, 8], np.int32))], (65536, 8192)))
    return model
