# SPDX-License-Identifier: Apache-2.0
"""``python delegate_child.py JOBS ANSWERS``: run models with libedgedeploy.so in the TFLite runtime of this Python.

JOBS is a pickled list of dicts, ANSWERS gets one for each. Every job has a forked process of its own: what ends it is
its answer, ``{"signal": 11}``. Otherwise the answer has ``error`` (what the runtime said, or ""), ``stderr``, and as
far as it came ``outputs``, ``plans`` (of each subgraph, as the inspector gives it), ``times``.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from edgedeploy_agent import inspector

_DEADLINE_S = 60


def run(job: dict[str, Any]) -> dict[str, Any]:
    """The keys of ``job``: ``model``, ``delegates`` ((library, options) of each), ``xnnpack``, ``threads``, ``seed``,
    ``runs``, ``resize`` (shapes by tensor), ``times`` (how often to ask the last delegate for times; with it a last
    time when the interpreter is gone, after one more run)."""
    runtime = inspector._runtime()
    answer: dict[str, Any] = {"error": "", "outputs": [], "plans": [], "times": [], "wall_ns": 0}
    resolver = runtime.OpResolverType
    try:
        delegates = [runtime.load_delegate(library, options) for library, options in job["delegates"]]
        interpreter = runtime.Interpreter(
            model_content=job["model"],
            num_threads=job["threads"],
            experimental_delegates=delegates,
            experimental_op_resolver_type=(
                resolver.AUTO if job["xnnpack"] else resolver.BUILTIN_WITHOUT_DEFAULT_DELEGATES
            ),
        )
        for tensor, shape in job["resize"].items():
            interpreter.resize_tensor_input(tensor, shape)
        interpreter.allocate_tensors()
        if job["times"]:
            answer["times"].append(times(job["delegates"][-1][0], delegates[-1]))
        for k in range(job["runs"]):
            feed(interpreter, job["seed"] + k)
            begun = time.perf_counter_ns()
            interpreter.invoke()
            answer["wall_ns"] += time.perf_counter_ns() - begun
            answer["outputs"].append([interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()])
        for _ in range(job["times"]):
            answer["times"].append(times(job["delegates"][-1][0], None))  # the newest is this one
        answer["plans"] = [tuple(n._asdict() for n in p.nodes) for p in inspector.executed_plans(interpreter)]
        if job["times"]:
            interpreter.invoke()
            del interpreter
            answer["times"].append(times(job["delegates"][-1][0], delegates[-1]))
    except (RuntimeError, ValueError) as error:
        answer["error"] = str(error)
    return answer


def feed(interpreter: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    for detail in interpreter.get_input_details():
        shape, dtype = tuple(detail["shape"]), np.dtype(detail["dtype"])
        if dtype.kind == "f":
            value = random.standard_normal(shape).astype(dtype)
        elif dtype.kind == "b":
            value = random.random(shape) < 0.5
        else:
            low, high = (-128, 128) if dtype == np.int8 else (0, 256) if dtype == np.uint8 else (0, 3)
            value = random.integers(low, high, shape).astype(dtype)
        interpreter.set_tensor(detail["index"], value)


class Time(ctypes.Structure):
    """``edgedeploy_time`` of include/edgedeploy.h."""

    _fields_ = [
        ("unit", ctypes.c_int), ("subgraph", ctypes.c_int32), ("node", ctypes.c_int32), ("position", ctypes.c_int32),
        ("name", ctypes.c_char_p), ("ops", ctypes.POINTER(ctypes.c_int32)), ("ops_count", ctypes.c_size_t),
        ("calls", ctypes.c_uint64), ("total_ns", ctypes.c_uint64), ("shortest_ns", ctypes.c_uint64),
    ]  # fmt: skip


def times(library: str, delegate: Any) -> Any:
    """What ``edgedeploy_times`` gives, or its return value where that is negative."""
    call = ctypes.CDLL(library).edgedeploy_times
    call.argtypes = [ctypes.c_void_p, ctypes.POINTER(Time), ctypes.c_size_t]
    call.restype = ctypes.c_int64
    pointer = delegate._get_native_delegate_pointer() if delegate else None
    count = call(pointer, None, 0)
    if count <= 0:
        return count
    room = (Time * count)()
    assert call(pointer, room, count) == count
    names = [name for name, *_ in Time._fields_ if name not in ("ops", "ops_count")]
    return [{**{n: getattr(t, n) for n in names}, "ops": t.ops[: t.ops_count]} for t in room]


def in_child(job: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        said, told = Path(folder, "answer"), Path(folder, "stderr")
        child = os.fork()
        if child == 0:
            signal.alarm(_DEADLINE_S)
            with told.open("wb") as file:
                os.dup2(file.fileno(), 2)
            said.write_bytes(pickle.dumps(run(job)))
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        answer = pickle.loads(said.read_bytes()) if status == 0 else {"signal": status & 127, "error": "ended"}
        return {**answer, "stderr": told.read_text("utf-8", "replace")}


if __name__ == "__main__":
    inspector._runtime()  # once, before the forks
    jobs = pickle.loads(Path(sys.argv[1]).read_bytes())
    Path(sys.argv[2]).write_bytes(pickle.dumps([in_child(job) for job in jobs]))
