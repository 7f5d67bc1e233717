# SPDX-License-Identifier: Apache-2.0
"""The TFLite runtimes behind one small interface: ai-edge-litert and tflite-runtime."""

from __future__ import annotations

from typing import Any, NamedTuple

PACKAGES = {"ai-edge-litert": "ai_edge_litert", "tflite-runtime": "tflite_runtime"}
"""Distribution -> package, in the order of preference."""


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


def interpreter_for(module: Any, path: str, *, threads: int, xnnpack: bool) -> Any:
    """An interpreter of the model, nothing allocated yet; without XNNPACK only the runtime's own kernels."""
    more = {} if xnnpack else {"experimental_op_resolver_type": module.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES}
    return module.Interpreter(model_path=path, num_threads=threads, **more)


def coverage(interpreter: Any) -> Coverage:
    """What XNNPACK took, as the runtime's own execution plan has it after allocation."""
    from edgedeploy_agent.inspector import executed_plans

    try:
        nodes = [node for plan in executed_plans(interpreter) for node in plan.nodes]
    except RuntimeError:
        return Coverage(None, None)
    taken = sum(len(node.members or ()) for node in nodes if "XNNPack" in node.name)
    return Coverage(taken, sum(1 if node.members is None else len(node.members) for node in nodes))
