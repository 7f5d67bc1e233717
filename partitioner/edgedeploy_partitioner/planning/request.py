# SPDX-License-Identifier: Apache-2.0
"""What the user asks for, and what it resolves to on one board."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from edgedeploy_partitioner.cost import CpuCost
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.plan import XnnpackMode
from edgedeploy_profiles import load_core, load_kernel_costs
from edgedeploy_profiles.schema import Board, Cluster, Kernels, Runtime

MAX_CPU = 1023


@dataclass(frozen=True)
class Request:
    """The options of ``edgedeploy partition``, by their names on the command line."""

    runtime: Runtime
    npu: str | None = None
    """A stack of the board; None for its first, ``none`` for no NPU."""
    xnnpack: XnnpackMode = "default"
    threads: int | None = None
    cpus: str | None = None
    """``big``, ``little``, or a list of CPU numbers like ``0,2-3``; None for the fastest cluster."""
    memory_limit_bytes: int | None = None
    max_partitions: int | None = None
    force: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    assume_unknown: Literal["refused", "supported"] = "refused"
    signature: str | None = None
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    kernels: Kernels | None = None
    """The C kernels to plan with; None for the manifest that ships."""

    def __post_init__(self) -> None:
        """Python callers get the checks that the command line makes. Raises :class:`InputError`."""
        for name, allowed in (("xnnpack", ("default", "off", "switch")), ("assume_unknown", ("refused", "supported"))):
            if getattr(self, name) not in allowed:
                raise InputError(f"{name}={getattr(self, name)!r}: expected one of {', '.join(allowed)}")
        for name in ("threads", "memory_limit_bytes", "max_partitions"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 0):
                raise InputError(f"{name}={value!r}: expected a whole number that is not negative")
        for name in ("force", "forbid"):
            if isinstance(getattr(self, name), str):
                raise InputError(f"{name}={getattr(self, name)!r}: expected a sequence of WHAT=BACKEND")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        shapes = {str(name): tuple(shape) for name, shape in self.input_shapes.items()}
        object.__setattr__(self, "input_shapes", shapes)


def stack_of(board: Board, npu: str | None) -> str | None:
    """The name of the stack to plan for; None for a plan without NPU. Raises :class:`InputError`."""
    if npu == "none" or not board.stacks:
        if npu not in (None, "none"):
            raise InputError(f"--npu {npu}: board {board.name} has no NPU stack; leave --npu out or say none")
        return None
    if npu is None:
        return next(iter(board.stacks))
    if npu not in board.stacks:
        raise InputError(f"--npu {npu}: board {board.name} has {', '.join(board.stacks)}{_near(npu, board.stacks)}")
    return npu


def cpu_cost(board: Board, cpus: str | None, threads: int | None) -> tuple[CpuCost, str]:
    """The CPU cost model for ``--cpus`` and ``--threads``, and ``--cpus`` in its resolved form."""
    cluster, numbers = _cluster(board, cpus)
    count = len(numbers) if threads is None else threads
    if not 1 <= count <= 64:
        raise InputError(f"--threads {count}: expected 1 to 64")
    cost = CpuCost(board, cluster, load_core(cluster.core), load_kernel_costs(), count, min(count, len(numbers)))
    return cost, ",".join(map(str, numbers))


def parse_cpus(text: str) -> tuple[int, ...]:
    """``0,2-3`` -> (0, 2, 3). Raises :class:`InputError`."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not part.isascii() or not first.isdecimal() or (dash and not last.isdecimal()) or len(part) > 9:
            raise InputError(f"--cpus {text}: expected big, little or a list like 0,2-3")
        if not int(first) <= int(last or first) <= MAX_CPU:
            raise InputError(f"--cpus {text}: {part} is no range of CPU numbers up to {MAX_CPU}")
        found += range(int(first), int(last or first) + 1)
    if len(set(found)) != len(found):
        raise InputError(f"--cpus {text}: expected each CPU once")
    return tuple(found)


def _cluster(board: Board, cpus: str | None) -> tuple[Cluster, tuple[int, ...]]:
    if cpus is None or cpus == "big":
        return board.clusters[0], board.clusters[0].cpus
    if cpus == "little":
        return board.clusters[-1], board.clusters[-1].cpus
    numbers = parse_cpus(cpus)
    known = {n: cluster for cluster in board.clusters for n in cluster.cpus}
    missing = [n for n in numbers if n not in known]
    if missing:
        raise InputError(f"--cpus {cpus}: board {board.name} has CPUs {_ranges(known)}, not {missing[0]}")
    # Threads that span clusters wait for the slowest: price them on it.
    return max((known[n] for n in numbers), key=board.clusters.index), numbers


def _ranges(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
