# SPDX-License-Identifier: Apache-2.0
"""For any row of a support table: an op that it takes, and for each of its requirements that op changed to break it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from edgedeploy_partitioner.model.graph import DType, Quantization, Tensor
from edgedeploy_partitioner.model.work import multiplied
from edgedeploy_partitioner.support.case import Case
from edgedeploy_partitioner.support.verdicts import Judged, verdicts
from edgedeploy_profiles.schema import Backend, Rule
from support.examples import example
from support.single_op import Made

TYPES = ("int8", "uint8", "float32", "float16", "int32", "bool")
"""Element types in which an op is tried on a row."""


class RowCase(NamedTuple):
    """One requirement of one row on one op."""

    rule: Rule
    code: str
    name: str

    def __str__(self) -> str:
        return f"{self.code}-{self.rule.maps_to[self.code]}-{self.rule.verdict}-{self.name}"


def judge(table: Backend, made: Made, soc: str = "") -> Judged:
    """The verdict on the back end's first kernel."""
    return next(j for j in verdicts(*made, table, soc or table.socs[0]) if j.kernel == table.kernels[0])


def alone(table: Backend, rule: Rule) -> Backend:
    """A table of that row only."""
    return msgspec.structs.replace(table, rules=(rule,), every_op=(), refusals=())


def row_ops(table: Backend) -> list[tuple[Rule, str]]:
    return [(rule, code) for rule in table.rules for code in rule.maps_to]


def row_cases(table: Backend) -> list[RowCase]:
    return [RowCase(rule, code, name) for rule, code in row_ops(table) for name in rule.require]


def taken(table: Backend, rule: Rule, code: str) -> Made:
    """An op ``code`` that breaks no requirement of ``rule``."""
    only, soc = alone(table, rule), (rule.socs or table.socs)[0]
    tried = [example(code, dtype, is_global="max_global_kernel" in rule.require) for dtype in TYPES]
    return next(made for made in tried if judge(only, made, soc).rule == "row")


def broken(case: RowCase, table: Backend) -> Iterator[Judged]:
    """What the row with that requirement only says of the op it takes, changed in each way that breaks it."""
    parameter = case.rule.require[case.name]
    only = alone(table, msgspec.structs.replace(case.rule, require={case.name: parameter}))
    for changed in BREAK[case.name](taken(table, case.rule, case.code), parameter):
        yield judge(only, changed, (case.rule.socs or table.socs)[0])


# --- changing an op ----------


def with_input(made: Made, position: int, **fields: Any) -> Made:
    return _with_tensor(made, made[1].inputs[position], fields)


def with_output(made: Made, **fields: Any) -> Made:
    return _with_tensor(made, made[1].outputs[0], fields)


def with_options(made: Made, **options: Any) -> Made:
    graph, op = made
    return graph, replace(op, options={**op.options, **options})


def _with_tensor(made: Made, number: int, fields: dict[str, Any]) -> Made:
    graph, op = made
    [subgraph] = graph.subgraphs
    tensors = tuple(replace(t, **fields) if t.id == number else t for t in subgraph.tensors)
    return replace(graph, subgraphs=(replace(subgraph, tensors=tensors),)), op


def _tensor(made: Made, position: int) -> Tensor:
    found = Case(*made, _ANY).input(position)
    assert found is not None
    return found


_ANY = Backend(
    schema="edgedeploy.backend/1", name="any", title="Any", sdk_version="", sources={}, delegate="any", library="",
    cost_model="", kernels=("npu",), layouts={}, socs=("any",), rules=(),
)  # fmt: skip


def _data(made: Made) -> int:
    return Case(*made, _ANY).data_position()


def _weights(made: Made) -> int:
    positions = multiplied(made[1])
    assert positions is not None
    return positions[1][0]


def _other(types: Iterable[str]) -> DType:
    return next(dtype for dtype in DType if dtype.value not in types)


def _typed(made: Made, position: int, dtype: DType) -> Made:
    return with_input(made, position, dtype=dtype)


def _optioned(made: Made, allowed: dict[str, list[Any]]) -> Iterator[Made]:
    for name, values in allowed.items():
        wrong = "SIGN_BIT" if isinstance(values[0], str) else True if values == [False] else max(values) + 1
        yield with_options(made, **{name: wrong})


def _constants(made: Made, positions: list[int]) -> Iterator[Made]:
    for position in positions:
        if position < len(made[1].inputs):
            yield with_input(made, position, data=None)


def _sized(made: Made, limits: dict[str, int]) -> Iterator[Made]:
    for axis, limit in limits.items():
        shape = list(_tensor(made, _data(made)).shape)
        shape = [1] * (4 - len(shape)) + shape
        shape["NHWC".index(axis)] = limit + 1
        yield with_input(made, _data(made), shape=tuple(shape))


def _kernel(made: Made, height: int, width: int) -> Made:
    if "filter_height" in made[1].options:
        return with_options(made, filter_height=height, filter_width=width)
    first, *_, last = _tensor(made, _weights(made)).shape
    return with_input(made, _weights(made), shape=(first, height, width, last))


def _padded(made: Made, most: int) -> Made:
    """SAME over one position with a kernel that needs more on one side."""
    small = _kernel(with_options(made, padding="SAME"), 2 * most + 3, 1)
    data, output = _tensor(made, _data(made)).shape, Case(*made, _ANY).output(0)
    assert output is not None
    image = with_input(small, _data(made), shape=(1, 1, 1, data[-1]))
    return with_output(image, shape=(1, 1, 1, output.shape[-1]))


def _reordered(made: Made, allowed: tuple[int, int]) -> Iterator[Made]:
    yield _kernel(made, allowed[1] + 1, 1)


def _scaled(*scales: float) -> Quantization:
    return Quantization(scales, (0,) * len(scales), 0)


def _in_bytes(made: Made) -> Made:
    data, weights = _data(made), _weights(made)
    small = {"dtype": DType.UINT8, "quantization": _scaled(0.5)}
    return with_input(with_input(made, data, **small), weights, **small)


def _without(made: Made, positions: list[int]) -> Iterator[Made]:
    graph, op = made
    for position in positions:
        yield graph, replace(op, inputs=(*op.inputs[:position], -1, *op.inputs[position + 1 :]))


def _with_more(made: Made, positions: list[int]) -> Iterator[Made]:
    graph, op = made
    for position in positions:
        inputs = (*op.inputs, *[-1] * (position + 1 - len(op.inputs)))
        yield graph, replace(op, inputs=(*inputs[:position], 0, *inputs[position + 1 :]))


def _grouped(made: Made, batch: int) -> Made:
    data, weights = _tensor(made, _data(made)).shape, _tensor(made, _weights(made)).shape
    halves = with_input(made, _weights(made), shape=(*weights[:-1], weights[-1] // 2))
    return with_input(halves, _data(made), shape=(batch, *data[1:]))


def _named(made: Made, types: Iterable[str], position: int) -> Iterator[Made]:
    return (_typed(made, position, DType(name)) for name in types)


BREAK: dict[str, Callable[[Made, Any], Iterable[Made]]] = {
    "absent_inputs": _with_more,
    "batch_one_if_grouped": lambda m, _: [_grouped(m, 2)],
    "bytes_have_rank": lambda m, least: [with_input(m, 0, shape=(4,) * (least - 1))],
    "cell_state_types": lambda m, types: [_typed(m, 19, _other(types))],
    "condition_like_data": lambda m, _: [with_input(m, 0, shape=(4,))],
    "constant_inputs": _constants,
    "constant_scalars": lambda m, _: [with_input(m, 1, shape=(), data=None)],
    "dilation_among": lambda m, factors: [with_options(m, dilation_h_factor=max(factors) + 1)],
    "gathered_indices_rank": lambda m, rank: [with_input(m, 1, shape=(1,) * (rank[1] + 1))],
    "input_rank": lambda m, rank: [with_input(m, _data(m), shape=(4,) * (rank[0] - 1))],
    "input_types": lambda m, types: [_typed(m, _data(m), _other(types))],
    "keeps_batch": lambda m, _: [with_input(m, 0, shape=(2, 8, 8, 4))],
    "kernel": _reordered,
    "max_channels": lambda m, limits: [
        with_input(m, _data(m), shape=(1, 8, 8, limit + 1), dtype=DType(name)) for name, limit in limits.items()
    ],
    "max_global_kernel": lambda m, _: [_kernel(m, 2, 8)],
    "max_sizes": _sized,
    "no_crops": lambda m, _: [with_input(m, 2, data=None)],
    "no_empty_splits": lambda m, _: [with_output(m, shape=(0,))],
    "no_inputs_of": lambda m, types: _named(m, types, len(m[1].inputs) - 1),
    "no_outputs_of": lambda m, types: [with_output(m, dtype=DType(name)) for name in types],
    "no_types": lambda m, types: _named(m, types, _data(m)),
    "one_adjoint": lambda m, _: [with_options(m, adj_x=True, adj_y=True)],
    "one_scale_each": lambda m, _: [with_output(m, quantization=_scaled(0.5, 0.25))],
    "op_version": lambda m, newest: [(m[0], replace(m[1], version=newest + 1))],
    "options": _optioned,
    "output_types": lambda m, types: [with_output(m, dtype=_other(types))],
    "packs_before_last": lambda m, _: [with_options(m, axis=-1)],
    "padding": lambda m, sizes: [_padded(m, sizes[1])],
    "present_inputs": _without,
    "quantised": lambda m, _: [with_input(m, _data(m), dtype=DType.INT8, quantization=None)],
    "repeats_lower_rank": lambda m, _: [with_input(m, 1, shape=(1, 1, 1, 4))],
    "same_type_weights": lambda m, _: [_typed(m, _weights(m), DType.INT16)],
    "shrinking_scales": lambda m, _: [with_output(_in_bytes(m), dtype=DType.UINT8, quantization=_scaled(0.25))],
    "state_as_output": lambda m, _: [_typed(m, 18, DType.FLOAT32)],
    "strides_among": lambda m, sizes: [with_options(_kernel(m, 16, 16), stride_h=max(sizes) + 1)],
    "strides_within_kernel": lambda m, _: [with_options(_kernel(m, 1, 1), stride_h=2)],
    "ungrouped": lambda m, _: [_grouped(m, 1)],
    "unit_strides_if_dilated": lambda m, _: [with_options(m, dilation_h_factor=2, dilation_w_factor=2, stride_h=2)],
    "weight_types": lambda m, types: [_typed(m, _weights(m), _other(types))],
}
"""By predicate: the op changed in ways that the parameter does not allow."""
