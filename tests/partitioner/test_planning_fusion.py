# SPDX-License-Identifier: Apache-2.0
"""Ops that run inside another: an ADD on the open driver of RK3588 only so, a RELU on RKNN for less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgedeploy_partitioner.checker import check
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.build import Model, Subgraph
from edgedeploy_partitioner.model.graph import Graph, Quantization
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.plan import CandidateEntry, Plan, from_json, to_json
from edgedeploy_partitioner.planning import Request, partition
from edgedeploy_profiles import load_board, load_runtime
from support import handmade

RUNTIME = load_runtime("ai-edge-litert", "2.3.0")
SHAPE = (1, 32, 32, 128)
QUANT = {"uint8": Quantization((5.99 / 255,), (0,), 0), "int8": Quantization((0.02,), (0,), 0)}


class Net:
    """A model of one element type, written op by op."""

    def __init__(self, dtype: str) -> None:
        self.model, self.dtype = Model(), dtype
        self.g: Subgraph = self.model.subgraph()
        self.seed = 0

    def input(self) -> int:
        return self.g.input(SHAPE, self.dtype, QUANT[self.dtype])

    def conv(self, x: int) -> int:
        self.seed += 1
        low, kind = (1, np.uint8) if self.dtype == "uint8" else (-127, np.int8)
        values = np.random.default_rng(self.seed).integers(low, low + 254, (128, 3, 3, 128)).astype(kind)
        quant = QUANT[self.dtype]
        operands = [x, self.g.constant(values, self.dtype, quant)]
        operands.append(self.g.constant(np.zeros(128, np.int32), "int32", quant))
        return self.op("CONV_2D", *operands, padding="SAME", stride_h=1, stride_w=1)

    def op(self, code: str, *inputs: int, **options: Any) -> int:
        return self.g.apply(code, list(inputs), SHAPE, self.dtype, QUANT[self.dtype], **options)

    def graph(self, *outputs: int) -> Graph:
        self.g.outputs(*outputs)
        return read_bytes(self.model.build())


def plan(graph: Graph, npu: str, **options: Any) -> Plan:
    found = partition(graph, load_board("rk3588"), Request(RUNTIME, npu=npu, **options))
    assert check(found, graph) == ()
    assert from_json(to_json(found)) == found
    return found


def on(found: Plan, index: int, backend: str) -> CandidateEntry:
    return next(c for c in found.ops[index].candidates if c.backend == backend and c.kernel == "npu")


def residual(dtype: str, *, read_twice: bool = False) -> Graph:
    """conv 0, conv 1, ADD 2 of conv 1's result and conv 0's, conv 3."""
    net = Net(dtype)
    a = net.conv(net.input())
    b = net.conv(a)
    c = net.conv(net.op("ADD", b, a))
    return net.graph(c, *([b] if read_twice else []))


def test_an_add_runs_inside_the_convolution_that_makes_its_operand() -> None:
    found = plan(residual("uint8"), "teflon-rocket", force=("0-3=teflon-rocket",))
    assert found.ops[2].fused_into == 1
    assert found.ops[2].predicted_ns == on(found, 2, "teflon-rocket").fused_ns == 0
    assert [p.delegate for p in found.partitions] == ["teflon"]


def test_without_its_convolution_it_cannot_be_there() -> None:
    with pytest.raises(InputError, match="--force 1=cpu: one of these ops only runs inside another"):
        plan(residual("uint8"), "teflon-rocket", force=("2=teflon-rocket", "1=cpu"))
    alone = Net("uint8")
    graph = alone.graph(alone.op("ADD", alone.input(), alone.input()))
    judged = on(plan(graph, "teflon-rocket"), 0, "teflon-rocket")
    assert (judged.verdict, judged.rule) == ("refused", "fusion")
    assert judged.reason.startswith("ADD only runs inside a CONV_2D or DEPTHWISE_CONV_2D of the NPU that makes")
    assert judged.predicted_ns is None
    with pytest.raises(InputError, match="op 0 ADD cannot run on teflon-rocket: ADD only runs inside"):
        plan(graph, "teflon-rocket", force=("0=teflon-rocket",))


def test_nobody_else_may_read_what_is_between() -> None:
    found = plan(residual("uint8", read_twice=True), "teflon-rocket")
    assert on(found, 2, "teflon-rocket").rule == "fusion"


def test_a_convolution_the_npu_refuses_is_no_host() -> None:
    """int8 is not what the open driver computes."""
    found = plan(residual("int8"), "teflon-rocket")
    assert on(found, 2, "teflon-rocket").verdict == "refused"


def test_a_forced_add_takes_its_convolution_along() -> None:
    found = plan(residual("uint8"), "teflon-rocket", force=("2=teflon-rocket",))
    assert [found.ops[i].backend for i in (1, 2)] == ["teflon-rocket"] * 2
    assert found.ops[1].segment == found.ops[2].segment


def test_rknn_runs_an_add_by_itself_or_for_less_inside() -> None:
    found = plan(residual("int8"), "rknn", force=("0-3=rknn",))
    judged = on(found, 2, "rknn")
    assert judged.fused_ns is not None
    assert judged.predicted_ns is not None
    assert judged.fused_ns < judged.predicted_ns
    assert (found.ops[2].fused_into, found.ops[2].predicted_ns) == (1, judged.fused_ns)
    apart = plan(residual("int8"), "rknn", force=("0=rknn", "2-3=rknn", "1=cpu"))
    assert (apart.ops[2].fused_into, apart.ops[2].predicted_ns) == (0, judged.fused_ns) or (
        apart.ops[2].fused_into is None and apart.ops[2].predicted_ns == judged.predicted_ns
    )


def test_a_swish_goes_into_the_convolution() -> None:
    """x * LOGISTIC(x): both read x, and still it is one op for the NPU."""
    net = Net("int8")
    x = net.conv(net.input())
    graph = net.graph(net.conv(net.op("MUL", x, net.op("LOGISTIC", x))))
    assert [o.fused_into for o in plan(graph, "rknn", force=("0-3=rknn",)).ops] == [None, 0, 1, None]
    apart = plan(graph, "rknn", force=("0-1=rknn", "2=cpu"))
    assert [o.fused_into for o in apart.ops] == [None] * 4, "x has to leave for the MUL"


def test_another_product_with_a_logistic_does_not() -> None:
    net = Net("int8")
    image = net.input()
    x, y = net.conv(image), net.conv(image)
    found = plan(net.graph(net.op("MUL", y, net.op("LOGISTIC", x))), "rknn", force=("0-3=rknn",))
    assert next(o for o in found.ops if o.op == "MUL").fused_into != next(
        o.index for o in found.ops if o.op == "LOGISTIC"
    )


def test_the_checker_knows_a_wrong_fusion() -> None:
    graph = residual("uint8")
    found = plan(graph, "teflon-rocket", force=("0-3=teflon-rocket",))

    def codes(**changed: Any) -> set[str]:
        return {f.code for f in check(handmade.edited(found, lambda d: d["ops"][2].update(**changed)), graph)}

    assert codes(fused_into=None) >= {"fusion"}
    assert codes(fused_into=0) >= {"fusion"}
    assert codes(fused_into=3) >= {"fusion"}


def test_a_stock_delegate_that_would_stop_is_no_baseline() -> None:
    """Cut by an op in between, the ADD is claimed without its convolution."""
    net = Net("uint8")
    image = net.input()
    other = net.conv(net.op("TANH", net.conv(image)))
    b = net.conv(net.conv(image))
    found = plan(net.graph(net.conv(net.op("ADD", b, other))), "teflon-rocket")
    assert found.baselines.stock_delegate is None
    [warning] = [w for w in found.warnings if w.code == "stock_delegate_fails"]
    assert "Mesa rocket left to itself claims ADD without the op that it must run inside of" in warning.message
    assert plan(residual("uint8"), "teflon-rocket").baselines.stock_delegate is not None
