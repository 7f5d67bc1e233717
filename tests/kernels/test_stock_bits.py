# SPDX-License-Identifier: Apache-2.0
"""Every kernel of the manifest gives the bits of the stock path that its ``numerics`` names, and takes what it says.

The outputs are those of the scalar file; ``test_same_bits.py`` shows that NEON gives the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from flatbuffers import flexbuffers

import edgedeploy_kernels
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.model.shapes.detection import NAME as DETECTION
from edgedeploy_partitioner.support.kernels import NEON, SOC, kernel_table
from edgedeploy_partitioner.support.verdicts import verdicts
from edgedeploy_profiles import load_kernels
from edgedeploy_profiles.schema import Kernel
from support.kernel_programs import Array, KernelCase, cases, programs, stock
from support.runtimes import HERE, Runtime

from .conftest import COUNT

MANIFEST = load_kernels(edgedeploy_kernels.manifest())
TABLE = kernel_table(MANIFEST)
_BYTES = {"int8", "uint8"}
ARM_ONLY = {
    "HARD_SWISH": _BYTES, "SOFTMAX": _BYTES, "LOG_SOFTMAX": _BYTES, f"CUSTOM:{DETECTION}": {"uint8"},
}  # fmt: skip
"""By op, the types of which the stock runtime has other bits on ARM than on x86-64; the kernels have those of ARM."""

every_kernel = pytest.mark.parametrize("kernel", MANIFEST.kernels, ids=lambda kernel: kernel.name)


def made_for(kernel: Kernel, seed: int, count: int) -> list[KernelCase]:
    try:
        programs("plain")
    except LookupError as error:
        pytest.skip(str(error))
    return cases(kernel.name, seed, count)


def is_arms_own(case: KernelCase) -> bool:
    ops = (case.op, case.host.op if case.host else "")
    return any(operand.type in ARM_ONLY.get(op, ()) for op in ops for operand in case.inputs)


def taken(found: Sequence[KernelCase]) -> list[KernelCase]:
    return [case for case in found if not case.reason]


def compare(found: Mapping[str, Sequence[KernelCase]], runtime: Runtime) -> None:
    """Of each kernel, its cases; all are run in one process."""
    for numerics in sorted({kernel.numerics for kernel in MANIFEST.kernels}):
        named = [k.name for k in MANIFEST.kernels if k.numerics == numerics and k.name in found]
        together = [case for name in named for case in found[name]]
        for case, answer in zip(together, stock(together, numerics, runtime), strict=True):
            assert not isinstance(answer, str), f"{case}: {answer}"
            for ours, theirs in zip(case.made, written(case, answer), strict=True):
                assert ours.tobytes() == theirs.tobytes(), f"{case}: {np.flatnonzero(ours != theirs)[:9]}"
        for op, count in sorted(Counter(case.op for case in together).items()):
            print(f"{count} of {op} have the bits of {numerics} in {runtime.title}")


def written(case: KernelCase, answer: list[Array]) -> list[Array]:
    """What the stock kernel gives, with zeros where it writes nothing: rows that hold no detection."""
    if case.op != f"CUSTOM:{DETECTION}":
        return answer
    options = flexbuffers.Loads(bytes.fromhex(case.options["custom_options"]))
    places = 1 if options.get("use_regular_nms") else options["max_classes_per_detection"]
    rows = np.arange(answer[1].size)
    is_there = (rows % places < options["num_classes"]) & (rows < answer[3][0] * places)
    return [*(np.where(is_there.reshape(1, -1, *[1] * (a.ndim - 2)), a, np.float32(0)) for a in answer[:3]), answer[3]]


@every_kernel
def test_the_bits_are_those_of_the_stock_path(kernel: Kernel) -> None:
    assert kernel.runtime == f"{HERE.name}=={HERE.version}"
    compare({kernel.name: [case for case in taken(made_for(kernel, 1, COUNT)) if not is_arms_own(case)]}, HERE)


@pytest.mark.board
def test_the_bits_are_those_of_the_stock_path_on_arm(emulated: Runtime) -> None:
    """Fewer cases: emulation is slow."""
    compare({kernel.name: taken(made_for(kernel, 2, COUNT // 4)) for kernel in MANIFEST.kernels}, emulated)


@every_kernel
def test_there_are_cases_of_everything_that_the_manifest_names(kernel: Kernel) -> None:
    found = taken(made_for(kernel, 3, 40))
    assert {case.op for case in found} == set(kernel.ops)
    assert {operand.type for case in found for operand in (case.inputs[0], *case.outputs)} >= set(kernel.dtypes)


@every_kernel
def test_what_is_offered_to_the_planner_is_taken(kernel: Kernel) -> None:
    """And the other way round, of the types that the manifest names: an op that the kernel takes is offered."""
    for case in made_for(kernel, 4, 40):
        if case.op not in kernel.ops:
            assert case.reason
            continue
        graph = read_bytes(case.model)
        *before, op = graph.subgraphs[0].ops
        judged = [j for j in verdicts(graph, op, TABLE, SOC) if j.kernel == kernel.name]
        hosted = all(verdicts(graph, host, TABLE, SOC)[0].status == "supported" for host in before)
        offered = [j.status == "supported" and hosted for j in judged]
        if case.type in kernel.dtypes or any(offered):
            assert offered == [not case.reason], f"{case}: kernel: {case.reason or 'takes it'}; {NEON}: {judged}"
