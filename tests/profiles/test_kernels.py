# SPDX-License-Identifier: Apache-2.0
"""The kernels that a runtime's profile lists, against the runtime that is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgedeploy_partitioner.model.build import Model, Subgraph
from edgedeploy_partitioner.model.schema import names
from edgedeploy_profiles import load_runtime
from support import runtime

RUNTIME = load_runtime("ai-edge-litert", "2.3.0")
NOT_OPS = ("CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES")


def bare(code: str, version: int) -> bytes:
    """``code`` without options. A kernel that is there complains of that, one that is not is missed before."""
    model = Model()
    g = model.subgraph()
    y = g.tensor((1, 4))
    g.op(code, [g.input((1, 4))], [y], op_version=version)
    g.outputs(y)
    return model.build()


def test_exactly_the_listed_kernels_and_versions_are_found() -> None:
    newest = {code: RUNTIME.kernel_versions.get(code, 0) for code in names("BuiltinOperator").values()}
    asked = [(c, v) for c, known in newest.items() if c not in NOT_OPS for v in (known, known + 1) if v]
    answers = runtime.inspect_all([bare(*op) for op in asked], xnnpack=False)
    found = {op for op, answer in zip(asked, answers, strict=True) if "Didn't find op" not in answer.failure}
    assert found == set(RUNTIME.kernel_versions.items())
    assert {code for code, _ in found} == set(RUNTIME.builtin_kernels)


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def body(model: Model) -> None:
    g = model.subgraph("body")
    g.outputs(g.apply("STABLEHLO_ADD", [g.input(()), g.input(())], ()))


def bucketize(_: Model, g: Subgraph) -> int:
    return g.apply("BUCKETIZE", [g.input((1, 4))], (1, 4), "int32", boundaries=[0.5, 1.0])


def reduce_window(_: Model, g: Subgraph) -> int:
    windows = [g.constant(ints(n, n)) for n in (2, 2, 1)]
    operands = [g.input((4, 4)), g.constant(np.zeros((), np.float32)), *windows]
    return g.apply("REDUCE_WINDOW", operands, (2, 2), reduce_function="ADD")


def hlo_pad(_: Model, g: Subgraph) -> int:
    by: dict[str, Any] = {"edge_padding_low": [1, 1], "edge_padding_high": [1, 1], "interior_padding": [0, 0]}
    return g.apply("STABLEHLO_PAD", [g.input((2, 2)), g.constant(np.zeros((), np.float32))], (4, 4), **by)


def hlo_reduce_window(model: Model, g: Subgraph) -> int:
    body(model)
    windows: dict[str, Any] = {"window_dimensions": [2, 2], "window_strides": [2, 2], "padding": [0] * 4}
    dilations: dict[str, Any] = {"base_dilations": [1, 1], "window_dilations": [1, 1]}
    operands = [g.input((4, 4)), g.constant(np.zeros((), np.float32))]
    return g.apply("STABLEHLO_REDUCE_WINDOW", operands, (2, 2), body_subgraph_index=1, **windows, **dilations)


def hlo_case(model: Model, g: Subgraph) -> int:
    for name in "ab":
        branch = model.subgraph(name)
        branch.outputs(branch.apply("ABS", [branch.constant(np.zeros(2, np.float32))], (2,)))
    return g.apply("STABLEHLO_CASE", [g.input((1,), "int32")], (2,), branch_subgraph_indices=[1, 2])


@pytest.mark.parametrize("make", [bucketize, reduce_window, hlo_pad, hlo_reduce_window, hlo_case])
def test_a_kernel_that_needs_options_runs_and_xnnpack_leaves_it(make: Any) -> None:
    model = Model()
    g = model.subgraph()
    g.outputs(make(model, g))
    [answer] = runtime.inspect_all([model.build()], run=True)
    assert not answer.failure
    assert not answer.claimed()
