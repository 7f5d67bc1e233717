# SPDX-License-Identifier: Apache-2.0
"""Every kernel of the manifest gives the bits of the stock path that its ``numerics`` names, and takes what it says.

The outputs are those of the scalar file; ``test_same_bits.py`` shows that NEON gives the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

import edgedeploy_kernels
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.support.kernels import NEON, SOC, kernel_table
from edgedeploy_partitioner.support.verdicts import verdicts
from edgedeploy_profiles import load_kernels
from edgedeploy_profiles.schema import Kernel
from support.kernel_programs import KernelCase, cases, programs, stock
from support.runtimes import HERE, Runtime

from .conftest import COUNT

MANIFEST = load_kernels(edgedeploy_kernels.manifest())
TABLE = kernel_table(MANIFEST)
ARM_ONLY = {"HARD_SWISH", "SOFTMAX"}
"""Ops of which the stock runtime has other bits on ARM than on x86-64; the kernels have those of ARM."""

every_kernel = pytest.mark.parametrize("kernel", MANIFEST.kernels, ids=lambda kernel: kernel.name)


def made_for(kernel: Kernel, seed: int, count: int) -> list[KernelCase]:
    try:
        programs("plain")
    except LookupError as error:
        pytest.skip(str(error))
    return cases(kernel.name, seed, count)


def taken(found: Sequence[KernelCase]) -> list[KernelCase]:
    return [case for case in found if not case.reason]


def compare(found: Mapping[str, Sequence[KernelCase]], runtime: Runtime) -> None:
    """Of each kernel, its cases; all are run in one process."""
    for numerics in sorted({kernel.numerics for kernel in MANIFEST.kernels}):
        named = [k.name for k in MANIFEST.kernels if k.numerics == numerics and k.name in found]
        together = [case for name in named for case in found[name]]
        for case, answer in zip(together, stock(together, numerics, runtime), strict=True):
            assert not isinstance(answer, str), f"{case}: {answer}"
            for ours, theirs in zip(case.made, answer, strict=True):
                assert ours.tobytes() == theirs.tobytes(), f"{case}: {np.flatnonzero(ours != theirs)[:9]}"
        for op, count in sorted(Counter(case.op for case in together).items()):
            print(f"{count} of {op} have the bits of {numerics} in {runtime.title}")


@every_kernel
def test_the_bits_are_those_of_the_stock_path(kernel: Kernel) -> None:
    assert kernel.runtime == f"{HERE.name}=={HERE.version}"
    compare({kernel.name: [case for case in taken(made_for(kernel, 1, COUNT)) if case.op not in ARM_ONLY]}, HERE)


@pytest.mark.board
def test_the_bits_are_those_of_the_stock_path_on_arm(emulated: Runtime) -> None:
    """Fewer cases: emulation is slow."""
    compare({kernel.name: taken(made_for(kernel, 2, COUNT // 4)) for kernel in MANIFEST.kernels}, emulated)


@every_kernel
def test_there_are_cases_of_everything_that_the_manifest_names(kernel: Kernel) -> None:
    kinds = {(case.op, case.type) for case in taken(made_for(kernel, 3, 40))}
    assert {op for op, _ in kinds} == set(kernel.ops)
    assert {dtype for _, dtype in kinds} >= set(kernel.dtypes) - {"bool"}


@every_kernel
def test_what_is_offered_to_the_planner_is_taken(kernel: Kernel) -> None:
    """And the other way round, of the types that the manifest names: an op that the kernel takes is offered."""
    for case in made_for(kernel, 4, 40):
        if case.op not in kernel.ops:
            assert case.reason
            continue
        graph = read_bytes(case.model)
        judged = [j for j in verdicts(graph, graph.subgraphs[0].ops[0], TABLE, SOC) if j.kernel == kernel.name]
        offered = [j.status == "supported" for j in judged]
        if case.type in kernel.dtypes or any(offered):
            assert offered == [not case.reason], f"{case}: kernel: {case.reason or 'takes it'}; {NEON}: {judged}"
