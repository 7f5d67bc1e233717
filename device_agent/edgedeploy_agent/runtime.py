# SPDX-License-Identifier: Apache-2.0
"""The TFLite runtimes behind one small interface: ai-edge-litert and tflite-runtime."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

PACKAGES = {"ai-edge-litert": "ai_edge_litert", "tflite-runtime": "tflite_runtime"}
"""Distribution -> package, in the order of preference."""
_MACHINES = {62: "x86_64", 183: "aarch64"}
"""``e_machine`` of ELF -> the kernel's word for it."""


class Coverage(NamedTuple):
    """Of all ops of a model, those that run in XNNPACK; None where the runtime cannot be looked into."""

    xnnpack_ops: int | None
    ops: int | None


def stock_runtime() -> tuple[Any, str, str]:
    """The interpreter module that is installed, its name and version."""
    from importlib import import_module
    from importlib.metadata import PackageNotFoundError, version

    reasons = []
    for distribution, package in PACKAGES.items():
        try:
            return import_module(package + ".interpreter"), distribution, version(distribution)
        except (ImportError, PackageNotFoundError) as error:  # noqa: PERF203 - two at most
            reasons.append(f"{distribution}: {error}")
    raise ImportError(f"no TFLite runtime ({'; '.join(reasons)})")


def interpreter_for(module: Any, path: str, *, threads: int, xnnpack: bool, delegates: Sequence[Any] = ()) -> Any:
    """An interpreter of the model, nothing allocated yet; without XNNPACK only the runtime's own kernels.

    ``delegates`` are applied here. The interpreter keeps them alive.
    """
    more = {} if xnnpack else {"experimental_op_resolver_type": module.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES}
    return module.Interpreter(
        model_path=path, num_threads=threads, experimental_delegates=list(delegates) or None, **more
    )


def plan_delegate(module: Any, library: str, plan: str, report: str, threads: int) -> Any:
    """``libedgedeploy.so`` with a plan, as a delegate. Raises ValueError, OSError with what is wrong in a line."""
    try:
        return module.load_delegate(library, {"plan": plan, "report": report, "threads": str(threads)})
    except OSError:
        machine, here = _built_for(library), os.uname().machine
        if machine in (None, here):
            raise
        raise OSError(
            f"libedgedeploy.so is for {machine}, and this machine is {here}: plan for the board that it runs on"
        ) from None


def _built_for(library: str) -> str | None:
    """The architecture that a shared library is for, of which the loader says at most that there is no such file."""
    with open(library, "rb") as file:
        head = file.read(20)
    return _MACHINES.get(int.from_bytes(head[18:20], "little")) if head.startswith(b"\x7fELF") else None


class Entry:
    """What of a model a program runs: the subgraph of a signature, or else the first. Tensors are by their index in it.

    The runtimes' own runner of a signature allocates and copies in every call; so this calls what that calls.
    """

    def __init__(self, interpreter: Any, signature: str = "") -> None:
        """Raises ValueError if the model has no such signature."""
        self.interpreter = interpreter
        self._subgraph = self._native.GetSubgraphIndexFromSignature(signature) if signature else 0
        self._runner = interpreter.get_signature_runner(signature) if self._subgraph else None

    def inputs(self) -> list[dict[str, Any]]:
        """As the runtime's ``get_input_details``."""
        if self._runner is None:
            return list(self.interpreter.get_input_details())
        return list(self._runner.get_input_details().values())

    def outputs(self) -> list[dict[str, Any]]:
        """As the runtime's ``get_output_details``."""
        if self._runner is None:
            return list(self.interpreter.get_output_details())
        return list(self._runner.get_output_details().values())

    def resize(self, index: int, shape: Sequence[int]) -> None:
        """Takes effect with the next allocation. Raises ValueError, RuntimeError."""
        from numpy import array, int32

        self._native.ResizeInputTensor(index, array(shape, int32), False, self._subgraph)

    def allocate(self) -> None:
        """Raises ValueError, RuntimeError if the runtime refuses the model."""
        if not self._subgraph:
            self.interpreter.allocate_tensors()
            return
        if "tflite_runtime" in type(self.interpreter).__module__:
            self._native.AllocateTensors()  # of the first: there XNNPACK is not applied before, to any of them
        self._native.AllocateTensors(self._subgraph)

    def set(self, index: int, value: Any) -> None:
        """Raises TypeError, ValueError if the value does not fit."""
        self._native.SetTensor(index, value, self._subgraph)

    def get(self, index: int) -> Any:
        """A copy of the tensor."""
        return self._native.GetTensor(index, self._subgraph)

    @property
    def _native(self) -> Any:
        """Not kept: the runtime refuses to run while somebody else holds it."""
        return self.interpreter._interpreter

    @property
    def invoke(self) -> Callable[[], Any]:
        return functools.partial(self._native.Invoke, self._subgraph) if self._subgraph else self.interpreter.invoke


def coverage(interpreter: Any) -> Coverage:
    """What XNNPACK took, as the runtime's own execution plan has it after allocation."""
    from edgedeploy_agent.inspector import executed_plans

    try:
        nodes = [node for plan in executed_plans(interpreter) for node in plan.nodes]
    except RuntimeError:
        return Coverage(None, None)
    taken = sum(len(node.members or ()) for node in nodes if "XNNPack" in node.name)
    return Coverage(taken, sum(1 if node.members is None else len(node.members) for node in nodes))
