# SPDX-License-Identifier: Apache-2.0
"""The child process that runs a model. It may crash, hang or be killed: whoever started it makes that an answer.

``python -m edgedeploy_agent.worker`` reads one line of JSON, the task, and the bytes of its input tensors from stdin.
It says what happens on stdout, one line of JSON each: ``{"progress": {"stage": "load"}}`` and the other events of the
protocol by their field names, with ``{"chunk": {...}, "bytes": N}`` followed by N bytes for an output.

``mode`` is "examine" (what XNNPACK takes, memory), "measure" (times) or "run" (outputs).
"""

from __future__ import annotations

import ctypes
import gc
import json
import math
import os
import resource
import signal
import sys
import time
from typing import Any

import numpy as np

from edgedeploy_agent.arrays import BadInputs, read_arrays
from edgedeploy_agent.conditions import Observer, hottest
from edgedeploy_agent.ending import MESSAGE_CHARACTERS, NO_REASON, lacks_memory
from edgedeploy_agent.footprint import reset_peak, settle, usage
from edgedeploy_agent.machine import Machine
from edgedeploy_agent.runtime import Entry, coverage, interpreter_for, plan_delegate, stock_runtime
from edgedeploy_agent.trial import SEED, limit_memory, lower_limit, sample

_PR_SET_PDEATHSIG = 1
_LOG_BYTES = 1 << 24
_CHUNK = 1 << 20
_LATE_S = 5  # its own deadline is that much later than the one of whoever started it
_MOST_IN_BATCH = 10_000
_LOOK_S = 0.2


class Task:
    """One model to run, as asked for, and the way to say what happens."""

    def __init__(self, asked: dict[str, Any], answer: Any) -> None:
        self.asked = asked
        self.stage = "start"
        self.report: int | None = None  # file descriptor of what the delegate writes, if one is used
        self._answer = answer

    def say(self, event: dict[str, Any], data: bytes = b"") -> None:
        signal.alarm(0)  # that whoever listens takes its time is no hang
        self._answer.write(json.dumps(event).encode() + b"\n" + data)
        self._answer.flush()
        signal.alarm(math.ceil(self.asked["deadline_s"]) + _LATE_S)

    def begin(self, stage: str) -> None:
        self.stage = stage
        self.say({"progress": {"stage": stage}})


def main() -> int:
    """Do the task; 0 if the model ran."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # native code prints what it likes
    asked = json.loads(sys.stdin.buffer.readline() or "null")
    if asked is None:
        return 1
    _die_with(asked["parent"])
    lower_limit(resource.RLIMIT_CORE, 0)
    lower_limit(resource.RLIMIT_FSIZE, _LOG_BYTES)
    task = Task(asked, answer)
    try:
        given = [(t["name"], _read_tensor(t)) for t in asked.get("tensors", ())]
        task.begin("start")
        if asked["inputs"]:
            given += read_arrays(asked["inputs"])
        os.sched_setaffinity(0, asked["cpus"])  # before the runtime starts threads, which inherit it
        _MODES[asked["mode"]](task, given)
        task.say({"done": {}})
    except BadInputs as error:
        return _fail(task, "inputs", error)
    except ImportError as error:
        return _fail(task, "no-runtime", error)
    except MemoryError as error:
        return _fail(task, "out-of-memory", error)
    except Exception as error:
        return _fail(task, "out-of-memory" if lacks_memory(_words(error)) else "refused", error)
    return 0


def _fail(task: Task, kind: str, error: Exception) -> int:
    task.say({"failure": {"kind": kind, "stage": task.stage, "message": _words(error)[:MESSAGE_CHARACTERS]}})
    return 1


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or NO_REASON


def _die_with(parent: int) -> None:
    """Be killed when the parent is gone, however it went; at once if it is gone already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _read_tensor(tensor: dict[str, Any]) -> Any:
    try:
        dtype = np.dtype(tensor["dtype"])
        data = sys.stdin.buffer.read(math.prod(tensor["shape"]) * dtype.itemsize)
        return np.frombuffer(data, dtype).reshape(tensor["shape"])
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInputs(f"{tensor['name']!r}: {_words(error)}") from None


# --- what a task does --------------------------------------------------


def _examine(task: Task, given: list[tuple[str, Any]]) -> None:
    module, name, version = _runtime(task)
    memory = Memory(module, task.asked) if task.asked["first"] else None
    entry = _load(task, module)
    if memory:
        memory.note("after_load_bytes")
    _allocate(task, entry, given)
    if memory:
        memory.note("after_allocate_bytes")
    _feed(entry, given)
    if memory:
        reset_peak()  # what the inputs were copied from is no part of the model
    for _ in range(2):  # XNNPACK sets its buffers up in the first, and may move them in the second
        task.begin("invoke")
        entry.invoke()
    if memory:
        task.say({"memory": {**memory.ended(), "arena_bytes": _arena_bytes(entry.interpreter)}})
    _say_runtime(task, entry.interpreter, name, version)


class Memory:
    """What a process has resident, as the protocol's Memory defines it."""

    def __init__(self, module: Any, asked: dict[str, Any]) -> None:
        kept = module.Interpreter(model_content=bytes.fromhex(asked["first"]), num_threads=asked["threads"])
        self._kept = Entry(kept)
        self._kept.allocate()
        _feed(self._kept, [])  # makes what it takes to have random numbers, too
        self._kept.invoke()
        self._baseline = usage()
        settle()
        self._has_peak = reset_peak()
        self._settled = usage()
        self._peak = 0
        self._noted = {"baseline_bytes": self._baseline["rss_bytes"]}

    def note(self, name: str) -> None:
        now = usage()
        self._peak = max(self._peak, now["peak_bytes"] or 0)
        self._noted[name] = self._added("rss_bytes", now["rss_bytes"])

    def ended(self) -> dict[str, int | None]:
        now = usage()
        peak = max(self._peak, now["peak_bytes"] or 0) if self._has_peak else None
        added = {"peak_bytes": self._added("rss_bytes", peak), "pss_bytes": self._added("pss_bytes", now["pss_bytes"])}
        return {**self._noted, **added}

    def _added(self, key: str, now: int | None) -> int | None:
        """What is resident beyond the settled process, on top of the baseline."""
        baseline, settled = self._baseline[key], self._settled[key]
        return None if baseline is None or settled is None or now is None else baseline + now - settled


def _measure(task: Task, given: list[tuple[str, Any]]) -> None:
    asked = task.asked
    module, _, _ = _runtime(task)
    observer = Observer(Machine(asked["root"]), asked["cpus"])
    begun = time.perf_counter_ns()
    entry = _load(task, module)
    _allocate(task, entry, given)
    load_ns = time.perf_counter_ns() - begun
    _feed(entry, given)
    invoke = entry.invoke
    task.say({"effective": {"threads": asked["threads"], "cpus": sorted(os.sched_getaffinity(0))}})
    task.begin("first run")
    [first_run_ns] = timed(invoke, 1, math.inf)
    batch_ns = asked["batch_s"] * 1e9
    left = asked["warmup"]
    while left > 0:
        task.begin("warm-up")
        left -= len(timed(invoke, min(left, _MOST_IN_BATCH), batch_ns))
    if asked.get("cool_c") is not None:
        _cool_down(task)
    task.begin("measure")
    gc.disable()
    task.say({"start": {"load_ns": load_ns, "first_run_ns": first_run_ns, "before": observer.look()}})
    ends = time.monotonic() + (asked["most_s"] or math.inf)
    left = asked["most_runs"] or sys.maxsize
    while left > 0:
        samples = timed(invoke, min(left, _MOST_IN_BATCH), batch_ns)
        left = left - len(samples) if time.monotonic() < ends else 0
        task.say({"batch": {"samples_ns": samples, "after": observer.look()}})


def _cool_down(task: Task) -> None:
    """Wait until no zone is hotter than asked for, or as long as asked for; what it then is the conditions tell."""
    machine, until = Machine(task.asked["root"]), time.monotonic() + task.asked["cooling_s"]
    while time.monotonic() < until and (hottest(machine) or -math.inf) > task.asked["cool_c"]:
        task.begin("cool down")
        time.sleep(_LOOK_S)


def timed(run: Any, most: int, most_ns: float) -> list[int]:
    """How long each of ``most`` calls takes, in nanoseconds; fewer if they take ``most_ns``, but one at least."""
    clock = time.perf_counter_ns
    samples: list[int] = []
    ends = clock() + most_ns
    ended = 0
    while len(samples) < most and ended < ends:
        begun = clock()
        run()
        ended = clock()
        samples.append(ended - begun)
    return samples


def _run(task: Task, given: list[tuple[str, Any]]) -> None:
    module, name, version = _runtime(task)
    entry = _load(task, module)
    _allocate(task, entry, given)
    _feed(entry, given)
    task.begin("invoke")
    entry.invoke()
    outputs = [(t["name"], _sendable(entry.get(t["index"]))) for t in entry.outputs()]
    for tensor, value in outputs:
        data = value.tobytes()
        described = {"name": tensor, "dtype": value.dtype.str, "shape": list(value.shape)}
        for start in range(0, max(len(data), 1), _CHUNK):
            piece = data[start : start + _CHUNK]
            task.say({"chunk": {} if start else {"tensor": described}, "bytes": len(piece)}, piece)
    _say_runtime(task, entry.interpreter, name, version)


_MODES = {"examine": _examine, "measure": _measure, "run": _run}


# --- its steps -----------------------------------------------------------


def _runtime(task: Task) -> tuple[Any, str, str]:
    found = stock_runtime()
    limit_memory(task.asked["memory_bytes"])
    return found


def _load(task: Task, module: Any) -> Entry:
    task.begin("load")
    asked = task.asked
    threads, delegates = asked["threads"], []
    if asked["delegate"]:
        task.report = os.memfd_create("report")  # gone with this process, however that ends
        report = f"/proc/self/fd/{task.report}"
        delegates.append(plan_delegate(module, asked["delegate"], asked["plan"], report, threads))
    loaded = interpreter_for(module, asked["model"], threads=threads, xnnpack=asked["xnnpack"], delegates=delegates)
    return Entry(loaded, asked["signature"])


def _say_runtime(task: Task, interpreter: Any, name: str, version: str) -> None:
    """At the end: looking is a delegate, too."""
    seen = coverage(interpreter)
    task.say({"runtime": {"name": name, "version": version, **seen._asdict()}})
    if task.report is not None:
        with open(task.report, encoding="utf-8") as file:
            task.say({"claims": {"report": file.read()}})


def _allocate(task: Task, entry: Entry, given: list[tuple[str, Any]]) -> None:
    wanted = {index: tuple(dims) for index, dims in task.asked["shapes"]}
    for tensor, value in _paired(entry, given):
        if wanted.setdefault(tensor["index"], value.shape) != value.shape:
            raise BadInputs(f"the input {tensor['name']!r} is given as {value.shape}, not {wanted[tensor['index']]}")
    own = [(tensor, tuple(map(int, tensor["shape"]))) for tensor in entry.inputs()]
    resized = [(t, shape, wanted[t["index"]]) for t, shape in own if wanted.get(t["index"], shape) != shape]
    task.begin("allocate")
    try:
        for tensor, _, shape in resized:
            entry.resize(tensor["index"], shape)
        entry.allocate()
    except (RuntimeError, ValueError) as error:
        if not given or not resized or lacks_memory(_words(error)):
            raise
        asked = ", ".join(f"{t['name']!r} of shape {list(shape)}, not {list(old)}" for t, old, shape in resized)
        raise BadInputs(f"the model does not take {asked}: {_words(error)}") from None


def _feed(entry: Entry, given: list[tuple[str, Any]]) -> None:
    """Give every input what is given for it, or else numbers from a fixed seed."""
    values = {tensor["index"]: value for tensor, value in _paired(entry, given)}
    random = np.random.default_rng(SEED)
    for tensor in entry.inputs():
        index = tensor["index"]
        try:
            made = sample(random, tensor["dtype"], tuple(tensor["shape"]))
            entry.set(index, values.get(index, made))
        except (TypeError, ValueError) as error:
            if index in values:
                raise BadInputs(" ".join(str(error).split())) from None
            # a type that NumPy cannot hand over (4 bits, a resource) stays as it is


def _paired(entry: Entry, given: list[tuple[str, Any]]) -> list[tuple[dict[str, Any], Any]]:
    """Input tensors and what is given for them: by name, or by position where no name is an input's."""
    inputs = entry.inputs()
    named = {tensor["name"]: tensor for tensor in inputs}
    if len(given) == len(inputs) and not named.keys() & {name for name, _ in given}:
        return list(zip(inputs, (value for _, value in given)))
    unknown = [name for name, _ in given if name not in named]
    if unknown:
        known = f"but {', '.join(map(repr, named))}" if named else "it has none"
        raise BadInputs(f"the model has no input {unknown[0]!r}, {known}")
    return [(named[name], value) for name, value in given]


def _sendable(value: Any) -> Any:
    return np.ascontiguousarray(value.astype(bytes) if value.dtype.hasobject else value).reshape(value.shape)


def _arena_bytes(interpreter: Any) -> int | None:
    from edgedeploy_agent.inspector import arena_sizes

    sizes = arena_sizes(interpreter)
    return None if sizes is None else sum(arena for arena, _ in sizes)


if __name__ == "__main__":
    sys.exit(main())
