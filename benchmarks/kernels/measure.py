# SPDX-License-Identifier: Apache-2.0
"""Instructions of an op in the stock runtime, in a kernel, and of a copy, counted in one emulated run."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgedeploy_partitioner.model.build import Model
from edgedeploy_profiles import load_kernel_costs
from edgedeploy_profiles.schema import Core
from support.kernel_programs import RESOLVERS, Array, KernelCase, programs, type_number, typical
from support.userland import Userland

_HERE = Path(__file__).parent
_QEMU = "qemu-aarch64"  # the static one loads no plugins
_DEADLINE_S = 900


@dataclass(frozen=True, slots=True)
class Work:
    """The typical case of an op. Without ``kernel`` only the stock runtime is asked."""

    kernel: str
    variant: str
    op: str
    type: str
    shape: str
    numerics: str


@dataclass(frozen=True, slots=True)
class Counted:
    """Instructions for the whole op, by who computes it; None if it refuses."""

    work: Work
    elements: int
    stock: int | None
    kernel: int | None
    copy: int
    """A plain copy of the output."""
    refusal: str


def plugin(folder: Path) -> Path:
    """The counting plugin, compiled for this machine. Raises LookupError if that cannot be done."""
    if not shutil.which(_QEMU):
        raise LookupError(f"{_QEMU} is not installed: make system-deps")
    built = folder / "insn_count.so"
    done = subprocess.run(
        [sys.executable, "-m", "ziglang", "cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
         "-o", str(built), str(_HERE / "insn_count.c")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise LookupError(f"the plugin does not compile: {done.stderr.strip()}")
    return built


def count(works: Sequence[Work], board: Userland, core: Core) -> list[Counted]:
    """Count each, on a board of ``core``. Raises LookupError if a tool is missing."""
    models = [typical(work.kernel, work.op, work.type, work.shape) for work in works]
    jobs = [_job(_NOTHING, _nothing(), [np.zeros(1, np.float32)], 1)]
    jobs += [
        _job(work, case.model, case.to_feed, sum(operand.byte_count for operand in case.outputs))
        for work, case in zip(works, models, strict=True)
    ]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "jobs").write_bytes(pickle.dumps(jobs, protocol=4))
        library = programs("aarch64") / "libcount.so"
        command, environment = board.runtime(core).start(
            str(_HERE / "guest.py"), str(library), str(folder / "jobs"), str(folder / "answers")
        )
        with_plugin = [_QEMU, "-plugin", f"{plugin(folder)},out={folder / 'marks'}", *command[1:]]
        done = subprocess.run(
            with_plugin, env=environment, capture_output=True, text=True, check=False, timeout=_DEADLINE_S
        )
        if done.returncode:
            raise LookupError(f"the emulated run ended with {done.returncode}: {done.stderr[-500:]}")
        answers = pickle.loads((folder / "answers").read_bytes())
        marks = [int(line) for line in (folder / "marks").read_text().split()]
    spans = [after - before for before, after in zip(marks[::2], marks[1::2], strict=True)]
    if len(spans) != 3 * len(jobs):
        raise LookupError(f"{len(spans)} counts for {len(jobs)} ops: something else calls getppid")
    call, empty, _ = spans[:3]  # an invoke that computes one element, and two marks with nothing between
    found = []
    for i, (work, case) in enumerate(zip(works, models, strict=True), 1):
        stock, kernel, copy = spans[3 * i : 3 * i + 3]
        refusal, taken = answers[i]
        elements = _elements(case)
        ours = kernel - empty if taken else None
        found.append(Counted(work, elements, None if refusal else stock - call, ours, copy - empty, refusal))
    return found


def _elements(case: KernelCase) -> int:
    """What the planner counts instructions by."""
    if case.op.removeprefix("CUSTOM:") in load_kernel_costs().per_input:
        return max(operand.elements for operand in case.inputs)
    return sum(operand.elements for operand in case.outputs)


_NOTHING = Work("", "", "RELU", "float32", "1", "builtin")


def _nothing() -> bytes:
    model = Model()
    g = model.subgraph()
    g.outputs(g.apply("RELU", [g.input((1,))], (1,)))
    return model.build()


def _job(work: Work, model: bytes, inputs: list[Array], size: int) -> dict[str, object]:
    return {
        "kernel": work.kernel, "variant": work.variant, "op": work.op, "type": type_number(work.type),
        "shape": work.shape, "resolver": RESOLVERS[work.numerics], "model": model, "inputs": inputs, "bytes": size,
    }  # fmt: skip
