# SPDX-License-Identifier: Apache-2.0
"""A kernel of two ops, from the planner's choice to the bits: SOFTMAX, and the mean that a CONV_2D takes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import edgedeploy_kernels
from edgedeploy_partitioner.checker import check
from edgedeploy_partitioner.edp import decode, encode, pack
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_profiles.load import load_kernels
from support.delegates import Job, claims, library, planned, run, same
from support.dfl_model import MEAN, SOFTMAX, dfl_model
from support.runtimes import HERE, Runtime

SHIPPED = load_kernels(edgedeploy_kernels.manifest())


@pytest.mark.parametrize("board", ["rpi4", "rk3588"])
def test_the_planner_takes_both_ops_together(board: str) -> None:
    model = dfl_model(40)
    plan = planned(model, board, npu="none", kernels=SHIPPED)
    softmax, mean = plan.ops[SOFTMAX], plan.ops[MEAN]
    assert (softmax.kernel, softmax.fused_into) == ("softmax", None)
    assert (mean.kernel, mean.variant, mean.fused_into) == ("dfl", "neon", SOFTMAX)
    assert claims(plan) == [{SOFTMAX, MEAN}]
    assert "dfl" not in {c.kernel for c in plan.ops[0].candidates}  # a convolution of no probabilities
    assert plan.memory.delegate_internal_bytes == 0  # the probabilities are nowhere
    assert check(plan, read_bytes(model)) == ()
    apart = planned(model, board, npu="none", kernels=SHIPPED, forbid=(f"{MEAN}=neon",))
    assert plan.predicted.latency_ns < apart.predicted.latency_ns


def test_probabilities_that_are_read_elsewhere_are_made() -> None:
    plan = planned(dfl_model(reads_bins=True), npu="none", kernels=SHIPPED)
    assert plan.ops[MEAN].kernel == "xnnpack"
    [refused] = [c for c in plan.ops[MEAN].candidates if c.kernel == "dfl"]
    assert (refused.verdict, refused.rule) == ("refused", "fusion")
    assert refused.reason.startswith("CONV_2D only runs inside a SOFTMAX of the C kernels")
    with pytest.raises(InputError, match=f"op {MEAN} CONV_2D cannot run on neon: CONV_2D only runs inside a SOFTMAX"):
        planned(dfl_model(reads_bins=True), npu="none", kernels=SHIPPED, force=(f"{MEAN}=neon",))


@pytest.mark.parametrize("bins", [16, 17, 8])
def test_it_runs_as_planned(bins: int) -> None:
    model = dfl_model(9, bins)
    plan = planned(model, npu="none", kernels=SHIPPED, force=(f"{MEAN}=neon",))
    ran, stock = run([Job(model, plan, {"strict": "1"}, runs=2), Job(model, runs=2)], HERE, library())
    assert (ran.error, ran.delegate_nodes) == ("", [[SOFTMAX, MEAN]])
    assert ran.report is not None
    assert ran.report["partitions"][0]["internal_bytes"] == plan.memory.delegate_internal_bytes == 0
    # On x86-64 the stock runtime's SOFTMAX has other bits now and then: a mean of bins may move by one step.
    far = [np.abs(a.astype(int) - b.astype(int)).max() for a, b in zip(ran.outputs[1], stock.outputs[1], strict=True)]
    assert max(far) <= 1


@pytest.mark.board
def test_the_bits_are_those_of_the_stock_runtime_on_arm(emulated: Runtime) -> None:
    models = [dfl_model(9, bins) for bins in (16, 17, 8)]
    plans = [planned(model, npu="none", kernels=SHIPPED, force=(f"{MEAN}=neon",)) for model in models]
    mine = [Job(model, plan, {"threads": "2"}) for model, plan in zip(models, plans, strict=True)]
    ran = run([*mine, *map(Job, models)], emulated, library(emulated.machine))
    for ours, stock in zip(ran[:3], ran[3:], strict=True):
        assert (ours.error, ours.delegate_nodes) == ("", [[SOFTMAX, MEAN]])
        assert same(ours.outputs, stock.outputs)


def test_a_plan_without_the_other_op_is_refused() -> None:
    model = dfl_model(9)
    plan = decode(encode(planned(model, npu="none", kernels=SHIPPED, force=(f"{MEAN}=neon",))))
    alone = replace(plan, ops=tuple(op for op in plan.ops if op.index == MEAN))
    [ran] = run([Job(model, pack(alone), {"strict": "1"})], HERE, library())
    assert ran.line.endswith(f"op 0:{MEAN}: kernel dfl also computes the op before, which is not here")


def test_an_op_that_reads_the_probabilities_too_is_refused() -> None:
    model = dfl_model(9, reads_bins=True)
    plan = decode(encode(planned(model, npu="none", kernels=SHIPPED, force=(f"{SOFTMAX}=neon",))))
    [op] = plan.ops
    both = pack(replace(plan, ops=(op, replace(op, index=MEAN, kernel="dfl"))))
    [ran] = run([Job(model, both, {"strict": "1"})], HERE, library())
    assert ran.line.endswith(f"op 0:{MEAN}: kernel dfl also computes the op before, which is not here")
