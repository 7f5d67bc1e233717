# SPDX-License-Identifier: Apache-2.0
"""Try one model in the stock runtime: load, allocate, invoke once. Run it as a child process: it may crash.

    python -m edgedeploy_agent.trial MODEL [--xnnpack off] [--resize 0=1,64,64,3] [--deadline-s 30] [--memory-bytes N]

With ``--digests N`` it invokes the model, and each of its signatures, N times and hashes every output; ``--arenas``
measures the arenas after the run. Prints one JSON line on stdout. What the runtime logs goes to stderr, with a line
``trial: STAGE`` before each stage, so that whoever reads it knows how far a process came that did not live to tell.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import resource
import signal
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from edgedeploy_agent.ending import NO_REASON
from edgedeploy_agent.runtime import interpreter_for, stock_runtime

STAGES = ("start", "load", "allocate", "invoke", "done")
SEED = 20240229


def main(arguments: list[str] | None = None) -> int:
    """Run the trial; 0 if the model ran, 1 if the runtime refused it."""
    options = _parser().parse_args(arguments)
    answer = own_stdout()
    _limit(options.deadline_s)
    result = run(options)
    answer.write(json.dumps(result) + "\n")
    answer.flush()
    return 0 if result["stage"] == "done" else 1


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Stage reached (one of ``STAGES``; the one that failed, if ``error`` is set) and what was seen until then."""
    result: dict[str, Any] = dict.fromkeys(("stage", "error", "runtime", "xnnpack_partitions"))
    result["outputs"] = []

    def begin(stage: str) -> None:
        result["stage"] = stage
        print(f"trial: {stage}", file=sys.stderr, flush=True)

    try:
        begin("start")
        module, name, version = stock_runtime()
        result["runtime"] = {"name": name, "version": version}
        limit_memory(options.memory_bytes)
        begin("load")
        interpreter = interpreter_for(module, options.model, threads=options.threads, xnnpack=options.xnnpack != "off")
        for position, shape in options.resize:
            interpreter.resize_tensor_input(interpreter.get_input_details()[position]["index"], shape)
        begin("allocate")
        interpreter.allocate_tensors()
        result["xnnpack_partitions"] = _xnnpack_partitions(interpreter)
        begin("invoke")
        random = np.random.default_rng(SEED)
        for _ in range(options.digests or 1):
            _feed(interpreter, random)
            interpreter.invoke()
            if options.digests:
                outputs = [interpreter.get_tensor(t["index"]) for t in interpreter.get_output_details()]
                result.setdefault("digests", []).append(_digest(outputs))
        if options.digests:
            result["digests"] += _of_signatures(interpreter, random, options.digests)
        result["outputs"] = [_shown(t) for t in interpreter.get_output_details()]
        if options.arenas:
            result["arena_bytes"] = _arenas(interpreter)
        if options.tensors:
            result["tensors"] = {int(t["index"]): t["shape"].tolist() for t in interpreter.get_tensor_details()}
        begin("done")
    except MemoryError:
        result["error"] = "out of memory"
    except Exception as error:
        result["error"] = " ".join(str(error).split()) or NO_REASON
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m edgedeploy_agent.trial", description="Try a model once.")
    parser.add_argument("model")
    parser.add_argument("--xnnpack", choices=("default", "off"), default="default")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--resize", type=_resize, action="append", default=[], metavar="POSITION=N,H,W,C")
    parser.add_argument("--tensors", action="store_true", help="report the shape of every tensor after the run")
    parser.add_argument("--digests", type=int, metavar="N", help="hash the outputs of N runs on different inputs")
    parser.add_argument("--arenas", action="store_true", help="measure the arena of each subgraph after the run")
    parser.add_argument("--deadline-s", type=int, help="kill itself after this time, whatever the runtime does")
    parser.add_argument("--memory-bytes", type=int, help="what the model may map beyond what the runtime has")
    return parser


def _resize(text: str) -> tuple[int, list[int]]:
    position, _, shape = text.partition("=")
    return int(position), [int(d) for d in shape.split(",") if d]


def own_stdout() -> Any:
    """The real stdout; file descriptor 1 then leads to stderr, as native code prints what it likes."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answer


def _limit(deadline_s: int | None) -> None:
    """No core files, no endless log; SIGALRM at the deadline, also when the parent is gone."""
    lower_limit(resource.RLIMIT_CORE, 0)
    lower_limit(resource.RLIMIT_FSIZE, 1 << 24)
    if deadline_s:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(deadline_s)


def limit_memory(memory_bytes: int | None) -> None:
    """What the model may map beyond what Python and the runtime have mapped already."""
    if memory_bytes:
        with open("/proc/self/statm") as statm:
            mapped = int(statm.read().split()[0]) * resource.getpagesize()
        lower_limit(resource.RLIMIT_AS, mapped + memory_bytes)


def lower_limit(kind: int, most: int) -> None:
    """Set a limit for good, unless there is a lower one."""
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))


def _xnnpack_partitions(interpreter: Any) -> int | None:
    ops = getattr(interpreter, "_get_ops_details", None)
    return None if ops is None else sum(op["op_name"] in ("DELEGATE", "TfLiteXNNPackDelegate") for op in ops())


def _feed(interpreter: Any, random: np.random.Generator) -> None:
    """Give every input a sample; one of a type that NumPy cannot hand over (4 bits, a resource) stays as it is."""
    for tensor in interpreter.get_input_details():
        with contextlib.suppress(TypeError, ValueError):
            interpreter.set_tensor(tensor["index"], sample(random, tensor["dtype"], tuple(tensor["shape"])))


def _of_signatures(interpreter: Any, random: np.random.Generator, times: int) -> list[str]:
    """The digests of every signature's outputs, in the order of the keys and names."""
    found = []
    for key in sorted(interpreter.get_signature_list()):
        runner = interpreter.get_signature_runner(key)
        wanted = sorted(runner.get_input_details().items())
        for _ in range(times):
            outputs = runner(**{name: sample(random, t["dtype"], tuple(t["shape"])) for name, t in wanted})
            found.append(_digest(value for _, value in sorted(outputs.items())))
    return found


def _arenas(interpreter: Any) -> list[int] | None:
    """The arena of each subgraph; None where the runtime cannot be looked into."""
    from edgedeploy_agent.inspector import arena_sizes

    sizes = arena_sizes(interpreter)
    return None if sizes is None else [arena for arena, _ in sizes]


def _digest(outputs: Iterable[Any]) -> str:
    """The hash of some outputs: types, shapes and every bit; texts by their bytes."""
    found = hashlib.sha256()
    for value in map(np.asarray, outputs):
        found.update(f"{value.dtype} {value.shape} ".encode())
        found.update(repr(value.tolist()).encode() if value.dtype.hasobject else np.ascontiguousarray(value).tobytes())
    return found.hexdigest()


def sample(random: np.random.Generator, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Numbers that suit most models: all values of 8 and 16 bits, floats in [-1, 1), indices 0 and 1, short texts."""
    kind = np.dtype(dtype)
    if kind.kind in "SUO":
        return np.full(shape, b"a b", dtype=object)
    if kind.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        limits = np.iinfo(kind) if kind.itemsize < 4 else None
        low, high = (limits.min, limits.max) if limits else (0, 1)
        return random.integers(low, high, shape, dtype=kind, endpoint=True)
    return random.uniform(-1, 1, shape).astype(kind)


def _shown(tensor: dict[str, Any]) -> dict[str, Any]:
    return {"name": tensor["name"], "shape": [int(d) for d in tensor["shape"]], "dtype": np.dtype(tensor["dtype"]).name}


if __name__ == "__main__":
    sys.exit(main())
