# SPDX-License-Identifier: Apache-2.0
"""Questions that single ops do not answer: rules about graphs, and which ops the runtime has kernels for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from census_cases import attributes
from census_ops import CUSTOM
from edgedeploy_partitioner.model.build import Model, per_tensor
from edgedeploy_partitioner.model.schema import names

_NEWEST_VERSION = 20
Answer = Mapping[str, Any]
_SHAPE = (1, 4, 4, 6)


def rule_models() -> dict[str, bytes]:
    """One model for each rule of :data:`RULES`."""
    return {
        "xnnpack_default": _one_op(),
        "all_subgraphs": _branches(),
        "handles_follow_users": _variable(),
        "skips_decompositions": _composite(),
        "unpacks_with_all_readers": _shared_weights(),
        "dynamic_turns_off": _dynamic(),
        "needs_floats": _without_floats(),
    }


def _claimed(answer: Answer, subgraph: int = 0) -> set[int]:
    """Nothing in a model that the runtime does not load."""
    subgraphs = answer.get("subgraphs", {subgraph: {"nodes": ()}})
    return {i for n in subgraphs[subgraph]["nodes"] for i in n["members"] or ()}


RULES: Mapping[str, Callable[[Answer], bool]] = {
    "xnnpack_default": lambda answer: _claimed(answer) == {0},
    "all_subgraphs": lambda answer: _claimed(answer, 1) == {0},
    "handles_follow_users": lambda answer: _claimed(answer) == {0, 1},
    "skips_decompositions": lambda answer: "subgraphs" in answer and not _claimed(answer, 1),
    "unpacks_with_all_readers": lambda answer: _claimed(answer) == {1},
    "dynamic_turns_off": lambda answer: not _claimed(answer),
    "needs_floats": lambda answer: not _claimed(answer),
}
"""By rule of the runtime's profile: whether the answer to its model shows that it holds."""


def _one_op() -> bytes:
    model = Model()
    g = model.subgraph()
    g.outputs(g.apply("ABS", [g.input(_SHAPE)], _SHAPE))
    return model.build()


def _branches() -> bytes:
    model = Model()
    g = model.subgraph()
    g.outputs(
        g.apply("IF", [g.input((), "bool"), g.input(_SHAPE)], _SHAPE, then_subgraph_index=1, else_subgraph_index=2)
    )
    for code in ("ABS", "NEG"):
        branch = model.subgraph(code)
        branch.outputs(branch.apply(code, [branch.input(_SHAPE)], _SHAPE))
    return model.build()


def _variable() -> bytes:
    model = Model()
    g = model.subgraph()
    handle = g.apply("VAR_HANDLE", [], (), "resource", shared_name="v")
    g.op("ASSIGN_VARIABLE", [handle, g.input(_SHAPE)], [])
    unused = g.apply("VAR_HANDLE", [], (), "resource", shared_name="w")
    g.outputs(g.apply("SHAPE", [g.input(_SHAPE)], (4,), "int32", out_type="INT32"), unused)
    return model.build()


def _composite() -> bytes:
    model = Model()
    g = model.subgraph()
    composite: dict[str, Any] = {"name": "some.thing", "decomposition_subgraph_index": 1}
    g.outputs(g.apply("STABLEHLO_COMPOSITE", [g.input(_SHAPE)], _SHAPE, composite_attributes=attributes(), **composite))
    meaning = model.subgraph("meaning")
    meaning.outputs(meaning.apply("ABS", [meaning.input(_SHAPE)], _SHAPE))
    return model.build()


def _shared_weights() -> bytes:
    """Half-precision weights that a convolution reads, and an op that XNNPACK does not know."""
    model = Model()
    g = model.subgraph()
    shape = (6, 1, 1, 6)
    w = g.apply("DEQUANTIZE", [g.constant(np.ones(shape, np.float16))], shape)
    b = g.constant(np.zeros(6, np.float32))
    conv = g.apply("CONV_2D", [g.input(_SHAPE), w, b], _SHAPE, padding="SAME", stride_w=1, stride_h=1)
    g.outputs(conv, g.apply("REVERSE_V2", [w, g.constant(np.zeros(1, np.int32))], shape))
    return model.build()


def _dynamic() -> bytes:
    """A shape that the run decides, and an op beside it."""
    model = Model()
    g = model.subgraph()
    shaped = g.apply("RESHAPE", [g.input((4,)), g.input((2,), "int32")], (2, 2))
    g.outputs(shaped, g.apply("ABS", [g.input(_SHAPE)], _SHAPE))
    return model.build()


def _without_floats() -> bytes:
    """Ops on integers that XNNPACK may take beside others."""
    model = Model()
    g = model.subgraph()
    quant = per_tensor(1 / 64)
    order = g.constant(np.array([0, 2, 1, 3], np.int32))
    x = g.apply("TRANSPOSE", [g.input(_SHAPE, "int8", quant), order], _SHAPE, "int8", quant)
    g.outputs(g.apply("ADD", [x, g.input(_SHAPE, "int8", quant)], _SHAPE, "int8", quant))
    return model.build()


def kernel_models() -> Iterator[tuple[str, int, bytes]]:
    """(op, version, model): the op without options and on operands that may not suit it. A runtime without a kernel
    for that version says so before it looks at them."""
    for code in names("BuiltinOperator").values():
        if code not in ("CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES"):
            yield from ((code, version, _bare(code, version)) for version in range(1, _NEWEST_VERSION))
    yield from ((name, 1, _bare("CUSTOM", 1, name)) for name in CUSTOM)


def _bare(code: str, version: int, custom_code: str = "") -> bytes:
    model = Model()
    g = model.subgraph()
    y = g.tensor(_SHAPE)
    g.op(code, [g.input(_SHAPE)], [y], op_version=version, custom_code=custom_code)
    g.outputs(y)
    return model.build()
