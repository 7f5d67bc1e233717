# SPDX-License-Identifier: Apache-2.0
"""Ops that keep a shape or broadcast shapes."""

from __future__ import annotations

from edgedeploy_partitioner.model.shapes.site import Shape, Site, brackets, rule


@rule(
    "ABS", "BUCKETIZE", "CAST", "CEIL", "COMPLEX_ABS", "COS", "CUMSUM", "DENSIFY", "DEQUANTIZE", "ELU", "EXP",
    "FAKE_QUANT", "FLOOR", "GELU", "HARD_SWISH", "IMAG", "L2_NORMALIZATION", "LEAKY_RELU",
    "LOCAL_RESPONSE_NORMALIZATION", "LOG", "LOGICAL_NOT", "LOGISTIC", "LOG_SOFTMAX", "MATRIX_SET_DIAG", "NEG",
    "QUANTIZE", "REAL", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "REVERSE_SEQUENCE", "REVERSE_V2", "ROUND",
    "RSQRT", "SIGN", "SIN", "SOFTMAX", "SQRT", "SQUARE", "TANH", "ZEROS_LIKE", "DYNAMIC_UPDATE_SLICE",
    "STABLEHLO_ABS", "STABLEHLO_CBRT", "STABLEHLO_CONVERT", "STABLEHLO_COSINE", "STABLEHLO_EXPONENTIAL",
    "STABLEHLO_FLOOR", "STABLEHLO_LOG", "STABLEHLO_LOGISTIC", "STABLEHLO_NEGATE", "STABLEHLO_RSQRT", "STABLEHLO_TANH",
    "STABLEHLO_DYNAMIC_UPDATE_SLICE",
)  # fmt: skip
def unary(site: Site) -> list[Shape]:
    return [site.shape(0)]


@rule(
    "ADD", "ATAN2", "BITWISE_XOR", "DIV", "EQUAL", "FLOOR_DIV", "FLOOR_MOD", "GREATER", "GREATER_EQUAL", "LESS",
    "LESS_EQUAL", "LOGICAL_AND", "LOGICAL_OR", "MAXIMUM", "MINIMUM", "MUL", "NOT_EQUAL", "POW", "PRELU", "RIGHT_SHIFT",
    "SQUARED_DIFFERENCE", "SUB",
)  # fmt: skip
def binary(site: Site) -> list[Shape]:
    return [broadcast(site, site.shape(0), site.shape(1))]


@rule(
    "ADD_N", "STABLEHLO_ADD", "STABLEHLO_AND", "STABLEHLO_COMPARE", "STABLEHLO_DIVIDE", "STABLEHLO_MAXIMUM",
    "STABLEHLO_MINIMUM", "STABLEHLO_MULTIPLY", "STABLEHLO_OR", "STABLEHLO_POWER", "STABLEHLO_REMAINDER",
    "STABLEHLO_SHIFT_LEFT", "STABLEHLO_SUBTRACT",
)  # fmt: skip
def all_equal(site: Site) -> list[Shape]:
    first = site.shape(0)
    for i in range(1, len(site.op.inputs)):
        site.require(site.shape(i) == first, "all inputs must have the same shape")
    return [first]


@rule("SELECT_V2")
def select_v2(site: Site) -> list[Shape]:
    return [broadcast(site, site.shape(0), broadcast(site, site.shape(1), site.shape(2)))]


@rule("SELECT", "STABLEHLO_SELECT")
def select(site: Site) -> list[Shape]:
    condition, chosen = site.shape(0), site.shape(1)
    site.require(site.shape(2) == chosen, "both choices must have the same shape")
    site.require(condition in ((), (1,), chosen, chosen[:1]), "the condition does not fit the choices")
    return [chosen]


@rule("BROADCAST_TO")
def broadcast_to(site: Site) -> list[Shape]:
    target = site.ints(1)
    source = site.peek(0)
    fits = len(source) <= len(target) and all(a in (1, b) for a, b in zip(source[::-1], target[::-1], strict=False))
    site.require(fits, f"input 0 cannot be broadcast to {brackets(target)}")
    return [target]


@rule("BROADCAST_ARGS")
def broadcast_args(site: Site) -> list[Shape]:
    return [max(site.shape(0, rank=1), site.shape(1, rank=1))]


def broadcast(site: Site, a: Shape, b: Shape) -> Shape:
    """The common shape of two inputs, aligned at the last dimension; a size of 1 stretches."""
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    if any(x != y and 1 not in (x, y) for x, y in zip(left, right, strict=True)):
        site.fail(f"{brackets(a)} and {brackets(b)} cannot be broadcast")
    return tuple(y if x == 1 else x for x, y in zip(left, right, strict=True))
