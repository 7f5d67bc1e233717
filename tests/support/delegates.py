# SPDX-License-Identifier: Apache-2.0
"""libedgedeploy.so and the stand-in for stock delegates, built for tests; and models run with them."""

from __future__ import annotations

import fcntl
import functools
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgedeploy_partitioner.edp import decode, encode
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes
from edgedeploy_partitioner.plan import Plan
from edgedeploy_partitioner.planning import Request, partition
from edgedeploy_partitioner.planning.target import Target
from edgedeploy_profiles import load_board, load_runtime
from edgedeploy_profiles.schema import Kernel, Kernels, Quantity, Variant
from support import delegate_child
from support.runtimes import HERE, ROOT, Runtime

SOURCES = ROOT / "kernels_neon"
_DEADLINE_S = 600


@functools.cache
def built(machine: str, target: str) -> Path:
    """``target`` of kernels_neon's Makefile, built for a machine with the compiler that ``make kernels`` uses."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("no ziglang, which builds libedgedeploy.so: make test installs it")
    build = f"build/zig-{machine}"
    (SOURCES / "build").mkdir(exist_ok=True)
    with (SOURCES / "build" / f".lock-{machine}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several workers one builds, and the others find it built
        compiler = f"{sys.executable} -m ziglang cc -target {machine}-linux-gnu.2.17"
        done = subprocess.run(
            ["make", "-C", str(SOURCES), f"CC={compiler}", f"MACHINE={machine}", f"BUILD={build}", f"{build}/{target}"],
            capture_output=True, text=True, check=False, timeout=_DEADLINE_S,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return SOURCES / build / target


def library(machine: str = HERE.machine) -> Path:
    return built(machine, "libedgedeploy.so")


def library_with_test_kernels(machine: str = HERE.machine) -> Path:
    """The library, and the kernels of :data:`TEST_KERNELS`."""
    return built(machine, "libedgedeploy-tests.so")


def stand_in(machine: str = HERE.machine) -> Path:
    return built(machine, "libstock.so")


# --- plans ----------


def _kernel(name: str, *ops: str, dtypes: Sequence[str] = ("float32",), require: Mapping[str, Any] = {}) -> Kernel:
    def free(value: float) -> Quantity:
        return Quantity(value, "assumed: for tests, so that the planner takes it")

    costs = {"neon": (("asimd",), 0.001), "scalar": ((), 0.002)}
    variants = {
        variant: Variant(f"ed_{name}_scalar", isa, free(cost), free(cost), free(cost))
        for variant, (isa, cost) in costs.items()
    }
    return Kernel(
        name=name, ops=ops, dtypes=tuple(dtypes), numerics="builtin", runtime="ai-edge-litert==2.3.0",
        source="assumed: for tests", variants=variants, require=dict(require),
    )  # fmt: skip


TEST_KERNELS = Kernels(
    "edgedeploy.kernels/1",
    kernels=(
        _kernel("test_unary", "ABS", "NEG", "RELU", "RELU6"),
        _kernel(
            "test_binary", "ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM",
            require={"broadcast": {"patterns": [], "limit": 1}},
        ),
        _kernel("test_reshape", "RESHAPE"),
    ),
)  # fmt: skip
"""What the library with test kernels has, so cheap that the planner takes it."""


def _request(runtime: Runtime = HERE, **options: Any) -> Request:
    return Request(load_runtime(runtime.name, runtime.version), **{"kernels": TEST_KERNELS, **options})


def planned(model: bytes, board: str = "rpi5", **options: Any) -> Plan:
    """The planner's plan for ``runtime``, with the test kernels if no others are given."""
    return partition(read_bytes(model), load_board(board), _request(**options))


def scattered(model: bytes, board: str, seed: int, *, share: float = 0.5, **options: Any) -> Plan:
    """A plan with random ops, a share of those that can be, on the NPU and our kernels, however little that pays."""
    graph, random = read_bytes(model), Random(seed)
    target = Target.of(graph, load_board(board), _request(**options))
    force = []
    for op in (op for sub in graph.subgraphs for op in sub.ops if op.index not in sub.folded):
        able = [c.backend for c in target.candidates(op) if c.verdict == "supported" and c.backend != "cpu"]
        if able and random.random() < share:
            force.append(f"{op.subgraph}:{op.index}={random.choice(able)}")
    return planned(model, board, **{**options, "force": tuple(force)})


def claims(plan: Plan, subgraph: int = 0) -> list[set[int]]:
    """The ops of each planned claim, folded ones too, in order."""
    found = decode(encode(plan))
    return [{op.index for op in found.ops if op.partition == p.id} for p in found.partitions if p.subgraph == subgraph]


def steps(plan: Plan, graph: Graph, subgraph: int = 0) -> list[set[int] | int]:
    """What the plan says that the runtime executes: delegate nodes, XNNPACK's among them, and ops."""
    home = {op.index: op.partition for op in plan.ops if op.subgraph == subgraph}
    [use] = [use for use in plan.subgraphs if use.index == subgraph]
    kept = [op for op in use.order if op not in graph.subgraphs[subgraph].folded]
    return [
        step
        for partition_, ops in groupby(kept, key=home.__getitem__)
        for step in ([set(ops)] if partition_ is not None else list(ops))
    ]


def executed(ran: Ran, graph: Graph, subgraph: int = 0) -> list[set[int] | int]:
    """What the runtime executed, likewise. An op that only unpacks a constant is left out."""
    folded = graph.subgraphs[subgraph].folded
    nodes = [n["op"] if n["members"] is None else set(n["members"]) - folded for n in ran.plans[subgraph]]
    return [node for node in nodes if node not in folded and node != set()]


# --- running them ----------


@dataclass
class Job:
    """A model to run, with the delegate if there is a plan."""

    model: bytes
    plan: Plan | bytes | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    xnnpack: bool = True
    threads: int = 1
    seed: int = 0
    runs: int = 1
    times: int = 0
    resize: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Shapes by tensor."""
    before: tuple[str, Mapping[str, str]] | None = None


@dataclass(frozen=True)
class Ran:
    """What came of it. ``outputs`` are those of each run; ``report`` is what the delegate wrote, if it did."""

    error: str
    stderr: str
    outputs: list[list[NDArray[Any]]] = field(default_factory=list)
    plans: list[tuple[dict[str, Any], ...]] = field(default_factory=list)
    times: list[Any] = field(default_factory=list)
    wall_ns: int = 0
    """What all runs took together, the calls of Python in it."""
    report: dict[str, Any] | None = None
    signal: int = 0

    @property
    def line(self) -> str:
        """What libedgedeploy.so said, which is one line."""
        [line] = {line for line in (self.error + "\n" + self.stderr).splitlines() if "edgedeploy: " in line}
        return line[line.index("edgedeploy: ") + len("edgedeploy: ") :]

    @property
    def delegate_nodes(self) -> list[list[int]]:
        """Members of each delegate node of the main subgraph that is not XNNPACK's, in the order of execution."""
        nodes = self.plans[0]
        return [list(n["members"]) for n in nodes if n["members"] is not None and "XNNPack" not in n["name"]]


def run(jobs: Sequence[Job], runtime: Runtime = HERE, library_path: Path | None = None) -> list[Ran]:
    """Run each job in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        given, answers = work / "jobs", work / "answers"
        path = library_path or library_with_test_kernels(runtime.machine)
        given.write_bytes(pickle.dumps([_as_dict(job, i, work, path) for i, job in enumerate(jobs)], protocol=4))
        # The stand-in is every vendor's library.
        for name in ("libteflon.so", "libvx_delegate.so"):
            (work / name).symlink_to(stand_in(runtime.machine))
        command, environment = runtime.start(delegate_child.__file__, str(given), str(answers))
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(
            [str(work), *filter(None, [environment.get("LD_LIBRARY_PATH")])]
        )
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=_DEADLINE_S
        )
        assert done.returncode == 0, done.stderr[-2000:]
        answered = pickle.loads(answers.read_bytes())
        return [_ran(answer, work / f"{i}.report") for i, answer in enumerate(answered)]


def _as_dict(job: Job, number: int, work: Path, library_path: Path) -> dict[str, Any]:
    options = dict(job.options)
    if job.plan is not None:
        edp = work / f"{number}.edp"
        edp.write_bytes(job.plan if isinstance(job.plan, bytes) else encode(job.plan))
        options = {"plan": str(edp), "report": str(work / f"{number}.report"), **options}
    return {
        "model": job.model,
        "delegates": [*([job.before] if job.before else []), *([(str(library_path), options)] if options else [])],
        "xnnpack": job.xnnpack,
        "threads": job.threads,
        "seed": job.seed,
        "runs": job.runs,
        "times": job.times,
        "resize": dict(job.resize),
    }


def _ran(answer: dict[str, Any], report: Path) -> Ran:
    return Ran(**answer, report=json.loads(report.read_text()) if report.exists() else None)


def same(a: Sequence[Sequence[NDArray[Any]]], b: Sequence[Sequence[NDArray[Any]]]) -> bool:
    """Bit for bit, NaNs included."""
    return [_bits(value) for run in a for value in run] == [_bits(value) for run in b for value in run]


def _bits(value: NDArray[Any]) -> tuple[str, tuple[int, ...], bytes]:
    return value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes()
