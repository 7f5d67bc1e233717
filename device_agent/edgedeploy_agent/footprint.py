# SPDX-License-Identifier: Apache-2.0
"""What a model costs the process that runs it: heap, resident memory, and their peak. Run it as a child process.

    python -m edgedeploy_agent.footprint [--xnnpack off] [--library FILE] [--threads N] [--first TINY] MODEL...

Prints one JSON line a model, in order; each is loaded, allocated and run twice:

    {"runtime": {...}, "stages": {"before": S, "load": S, "allocate": S, "run": S}, "peak_bytes": N, "arenas": [A, ...],
     "error": ""}

S has ``heap_bytes`` (in use by malloc, also in anonymous maps; null where the C library does not say), ``rss_bytes``,
``anonymous_bytes``, ``pss_bytes`` and ``peak_bytes`` (VmHWM). That of the model is VmHWM from "before" on without what
its inputs are copied from; null where it cannot be reset. A has ``arena_bytes`` and ``persistent_bytes`` of one
subgraph; ``arenas`` is null where the runtime cannot be looked into.

``--library`` is libedgedeploy.so, which carries out the plan beside each model: of ``m.tflite`` that is ``m.edp``.
``--first`` runs a model once beforehand, keeps it, and settles the process: all that the libraries have of code is made
resident, what malloc has free goes back to the system, and the holes of its heap are filled. So "before" holds what any
model needs, and what grows afterwards is the model's own. Each model has a forked process of its own; without
``--first`` only the heap and the anonymous bytes mean anything there, as such a process has not mapped the runtime's
pages yet.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import mmap
import os
import signal
import sys
from typing import Any

import numpy as np

from edgedeploy_agent.runtime import interpreter_for, plan_delegate, stock_runtime
from edgedeploy_agent.trial import own_stdout

STAGES = ("before", "load", "allocate", "run")
_RUNS = 2  # XNNPACK sets its buffers up in the first, and may move them in the second
_KIB = 1024
_CACHED, _CACHED_BYTES = 7, 1024  # blocks of a size that glibc keeps at a thread's hand, where they count as given out


class _Mallinfo2(ctypes.Structure):
    """glibc's ``struct mallinfo2``."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
                     "keepcost")
    ]  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Measure each model; 0 if all ran."""
    options = _parser().parse_args(arguments)
    answer = own_stdout()
    module, name, version = stock_runtime()
    kept: list[Any] = []
    if options.first:
        kept.append(_life(module, options.first, options, {}))  # freed, it would leave holes that the next fills
    runtime = {"name": name, "version": version}
    errors = []
    for path in options.models:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            with open(writer, "w") as pipe:
                pipe.write(json.dumps(_measure(module, runtime, path, options, kept)))
            os._exit(0)
        os.close(writer)
        with open(reader) as pipe:
            told = pipe.read()
        status = os.waitpid(child, 0)[1]
        result = json.loads(told) if told else _died(runtime, status)  # some die when they have answered already
        answer.write(json.dumps(result) + "\n")
        answer.flush()
        errors.append(result["error"])
    return 1 if any(errors) else 0


def _died(runtime: dict[str, str], status: int) -> dict[str, Any]:
    how = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit code {status >> 8}"
    return {"runtime": runtime, "stages": {}, "peak_bytes": None, "arenas": None, "error": how}


def _measure(
    module: Any, runtime: dict[str, str], path: str, options: argparse.Namespace, kept: list[Any]
) -> dict[str, Any]:
    signal.alarm(options.deadline)  # ends a model that never returns, and this process with it
    result: dict[str, Any] = {"runtime": runtime, "stages": {}, "peak_bytes": None, "arenas": None, "error": ""}
    if options.first:
        settle()
    can_reset = reset_peak()
    try:
        kept.append(_life(module, path, options, result["stages"]))  # to free it may end the process
        if can_reset:
            result["peak_bytes"] = max(result["stages"][stage]["peak_bytes"] for stage in ("allocate", "run"))
        result["arenas"] = _arenas(kept[-1])
    except Exception as error:
        result["error"] = " ".join(str(error).split()) or type(error).__name__
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m edgedeploy_agent.footprint", description="Memory of models.")
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--xnnpack", choices=("default", "off"), default="default")
    parser.add_argument("--library", metavar="FILE", help="libedgedeploy.so, for the plan.edp beside each model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--deadline", type=int, default=120, metavar="S", help="seconds that a model may take")
    parser.add_argument("--first", metavar="TINY", help="a model to run once before anything is measured")
    return parser


def _life(module: Any, path: str, options: argparse.Namespace, stages: dict[str, Any]) -> Any:
    """Load, allocate and run a model; ``stages`` gets the usage after each. Returns the interpreter."""

    def at(stage: str) -> None:
        stages[stage] = usage()

    at("before")
    interpreter = interpreter_for(
        module,
        path,
        threads=options.threads,
        xnnpack=options.xnnpack != "off",
        delegates=_delegates(module, path, options) if path != options.first else (),
    )
    at("load")
    interpreter.allocate_tensors()
    at("allocate")
    _write_inputs(interpreter)
    reset_peak()  # what they were copied from is no part of the model
    for _ in range(_RUNS):
        interpreter.invoke()
    at("run")
    return interpreter


def _delegates(module: Any, path: str, options: argparse.Namespace) -> list[Any]:
    if not options.library:
        return []
    plan = os.path.splitext(path)[0] + ".edp"
    return [plan_delegate(module, options.library, plan, "/dev/null", options.threads)]


def _write_inputs(interpreter: Any) -> None:
    """Floats of one, as kernels leave out rows of zeros, and zeros: a page of the arena that nobody wrote to takes no
    memory. What is written lies in a map of its own, which leaves no hole in the heap."""
    for tensor in interpreter.get_input_details():
        shape, dtype = tensor["shape"], np.dtype(tensor["dtype"])
        size = int(np.prod(shape)) * dtype.itemsize
        with contextlib.suppress(TypeError, ValueError), mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE) as pages:
            value: Any = np.ndarray(shape, dtype, pages)
            if dtype.kind == "f":
                value[...] = 1
            interpreter.set_tensor(tensor["index"], value)  # texts, resources and 4 bits stay as they are
            del value


def _arenas(interpreter: Any) -> list[dict[str, int]] | None:
    from edgedeploy_agent.inspector import arena_sizes

    sizes = arena_sizes(interpreter)
    return None if sizes is None else [{"arena_bytes": rw, "persistent_bytes": kept} for rw, kept in sizes]


def usage() -> dict[str, int | None]:
    """What this process uses now, in bytes."""
    return {
        "heap_bytes": heap_bytes(),
        "rss_bytes": _status("VmRSS"),
        "anonymous_bytes": _status("RssAnon"),
        "peak_bytes": _status("VmHWM"),
        "pss_bytes": _kib("/proc/self/smaps_rollup", "Pss"),
    }


def heap_bytes() -> int | None:
    """Bytes that malloc has given out in all its arenas; None without glibc 2.33 or newer."""
    ask = _mallinfo2()
    if ask is None:
        return None
    info = ask()
    return int(info.uordblks + info.hblkhd)


def settle() -> None:
    """Make every page of the libraries resident, and leave malloc little that is free but the end of its heap.

    The latter needs glibc 2.33 or newer.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/maps") as maps:
        mapped = [line.split() for line in maps]
    for bounds, access, _, _, _, *path in mapped:
        if path and path[0].startswith("/") and access.startswith("r"):
            start, end = (int(bound, 16) for bound in bounds.split("-"))
            for address in range(start, end, page):
                ctypes.c_char.from_address(address).value  # noqa: B018 - reading it is the point
    with contextlib.suppress(AttributeError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)
    _fill_holes()


def _fill_holes() -> None:
    """Take the free blocks between others. What a model puts there is no growth, and how much it finds depends on what
    the process did before."""
    malloc, ask = ctypes.CDLL(None).malloc, _mallinfo2()
    malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    if ask is None:
        return
    left = holes(ask())
    for size in (*(1 << n for n in range(17, 10, -1)), *range(1024, 16, -16)):
        most = _CACHED if size <= _CACHED_BYTES else 0
        misses = 0
        while left and misses <= most:
            malloc(size - 8)
            before, left = left, holes(ask())
            misses = 0 if left < before else misses + 1


def holes(info: Any) -> int:
    """Bytes of glibc's ``mallinfo2`` that are free, but for the end of the heap."""
    return int(info.fordblks - info.keepcost)


def _mallinfo2() -> Any:
    """glibc's function, None where the C library has none. Each call takes memory, freed again at some time."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return None
    ask.restype = _Mallinfo2
    return ask


def reset_peak() -> bool:
    """Make VmHWM start again from what is resident now; False where the kernel does not let us."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return False
    return True


def _status(key: str) -> int | None:
    return _kib("/proc/self/status", key)


def _kib(path: str, key: str) -> int | None:
    try:
        with open(path) as lines:
            return next((int(line.split()[1]) * _KIB for line in lines if line.startswith(key + ":")), None)
    except OSError:
        return None


if __name__ == "__main__":
    sys.exit(main())
