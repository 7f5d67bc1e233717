# SPDX-License-Identifier: Apache-2.0
"""Arm's Vela compiler (``ethos-u-vela``) as an oracle for Ethos-U65, asked in a child process with a deadline.

Run as a program this file is that child: models and answers are lines of JSON.
"""

from __future__ import annotations

import base64
import ctypes
import importlib
import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib import metadata, resources
from typing import Any, NamedTuple

_DEADLINE_S = 120
_ACCELERATOR = "EthosU65"
_SYSTEM = "[architecture]\nmacs=256\ncores=1\n[vela]\nsystem_config_name={}\nmemory_mode_name={}\n"
_OPTIONS = "[compiler]\nenable_db=true\n[scheduler]\narena_size_limit={}\n"
_CPU = "Passthrough"  # what Vela calls an op that it leaves to the CPU


class Layer(NamedTuple):
    """One operation that Vela schedules. ``op`` is the index of the TFLite op it stems from, None if Vela added it.

    Cycles are Vela's estimates; those of a memory are by its name: ``Sram``, ``Dram``, ``shram``.
    """

    op: int | None
    operator: str
    cycles: int
    macs: int
    memory_cycles: dict[str, int]


class Compiled(NamedTuple):
    """What Vela made of one model; ``failure`` is its error, or how it ended (-11: SIGSEGV); then all else is empty.

    ``refusals``: the op's name and Vela's reason, of each op that it leaves to the CPU with a reason.
    """

    npu: frozenset[int] = frozenset()
    """Indices of the main subgraph's ops that run on the NPU, or that nothing is left of."""
    cpu: frozenset[int] = frozenset()
    cycles: int = 0
    peak_bytes: dict[str, int] = {}  # noqa: RUF012 - of a NamedTuple, never written
    layers: tuple[Layer, ...] = ()
    refusals: tuple[tuple[str, str], ...] = ()
    failure: str = ""


def version() -> str | None:
    """The installed version of Vela, None without it."""
    try:
        return metadata.version("ethos-u-vela")
    except metadata.PackageNotFoundError:
        return None


def compile_all(
    models: Iterable[bytes],
    *,
    system: str = "Ethos_U65_High_End",
    memory: str = "Dedicated_Sram_384KB",
    sram_bytes: int = 384 * 1024,
    deadline_s: float = _DEADLINE_S,
) -> list[Compiled]:
    """Compile each model for an Ethos-U65 of 256 MACs. ``system`` and ``memory`` name sections of Vela's own ini.

    A model that kills the compiler, or at which a process has run for ``deadline_s``, costs a new process, not the
    others' answers.
    """
    waiting, found = list(models), []
    while waiting:
        request = {"system": system, "memory": memory, "sram_bytes": sram_bytes}
        lines = [json.dumps(request), *(base64.b64encode(model).decode() for model in waiting)]
        answers, end = _ask("\n".join(lines), deadline_s)
        if len(answers) < len(waiting):
            answers.append(Compiled(failure=end))
        found += answers
        waiting = waiting[len(answers) :]
    return found


def _ask(request: str, deadline_s: float) -> tuple[list[Compiled], str]:
    """The answers of one child, and how it ended."""
    child = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        output, _ = child.communicate(request.encode(), deadline_s)
        end = f"compiler ended with {child.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        output, _ = child.communicate()
        end = f"no answer within {deadline_s} s"
    return [_read(json.loads(line)) for line in output.decode().splitlines()], end


def constraints() -> dict[str, list[str]]:
    """Vela's own text of what each op must satisfy on an Ethos-U65, by its name of the op."""
    text = f"regor.tflite_operator_constraints({_ACCELERATOR!r})"
    code = f"import json; from ethosu import regor; print(json.dumps({text}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=_DEADLINE_S, check=True)
    texts: dict[str, list[str]] = json.loads(done.stdout)
    return texts


def _read(raw: dict[str, Any]) -> Compiled:
    if "failure" in raw:
        return Compiled(failure=raw["failure"])
    ops = {row["id"]: int(row["ext_key"]) for row in raw["source"]}
    layers = tuple(
        Layer(
            op=ops.get(row["source_id"]),
            operator=row["operator"],
            cycles=int(row["op_cycles"] or 0),
            macs=int(row["mac_count"] or 0),
            memory_cycles={key[:-3]: int(value or 0) for key, value in row.items() if key.endswith("_ac")},
        )
        for row in raw["perf"]
    )
    cpu = frozenset(layer.op for layer in layers if layer.operator == _CPU and layer.op is not None)
    return Compiled(
        npu=frozenset(ops.values()) - cpu,
        cpu=cpu,
        cycles=raw["cycles"],
        peak_bytes=raw["peak_bytes"],
        layers=layers,
        refusals=tuple(_refusals(raw["log"])),
    )


def _refusals(log: str) -> Iterable[tuple[str, str]]:
    """From ``Warning (supported operators) operator: ROUND, ofm: 't4'`` and the line ``Reason: …`` after it."""
    name = ""
    for line in log.splitlines():
        if "operator:" in line:
            name = line.partition("operator:")[2].partition(",")[0].strip()
        elif line.startswith("Reason:") and name:
            yield name, line.removeprefix("Reason:").strip()


# --- in the child ----------


def _main() -> None:
    """Answer in a process that is forked again after each model that kills it: the compiler is imported once."""
    importlib.import_module("ethosu.regor")
    request = json.loads(sys.stdin.readline())
    models = [base64.b64decode(line) for line in sys.stdin]
    begun = mmap.mmap(-1, _COUNT)
    at = 0
    while at < len(models):
        child = os.fork()
        if not child:
            _answer(models, at, begun, request)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        at = int.from_bytes(begun[:])
        if code:
            print(json.dumps({"failure": f"compiler ended with {code}"}), flush=True)


_COUNT = 8  # bytes of the number of models that were begun


def _answer(models: Sequence[bytes], start: int, begun: mmap.mmap, request: dict[str, Any]) -> None:
    with tempfile.TemporaryFile() as log, os.fdopen(os.dup(1), "w") as answers:
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)
        for number in range(start, len(models)):
            begun[:] = (number + 1).to_bytes(_COUNT)
            log.truncate(0)
            log.seek(0)
            answer = _compile(models[number], request)
            ctypes.CDLL(None).fflush(None)
            log.seek(0)
            answer["log"] = log.read().decode(errors="replace")
            print(json.dumps(answer), file=answers, flush=True)


def _compile(model: bytes, request: dict[str, Any]) -> dict[str, Any]:
    regor = importlib.import_module("ethosu.regor")
    ini = (resources.files("ethosu.config_files") / "Arm/vela.ini").read_text()
    system = _SYSTEM.format(request["system"], request["memory"]) + ini
    options = _OPTIONS.format(request["sram_bytes"])
    try:
        made = regor.compile(_ACCELERATOR, model, "TFLITE", system, options=options, verbose=True)
    except Exception as error:  # whatever the C++ side throws is an answer
        return {"failure": str(error) or type(error).__name__}
    tables = {
        name: [dict(zip(table.header, row, strict=True)) for row in table.data]
        for name, table in made.opt_database.tables.items()
        if name in ("source", "perf")
    }
    report = made.perf_report
    peaks = {name: memory.peakUsage for name, memory in report.memories.items()}
    return {"source": [], "perf": [], **tables, "cycles": report.totalCycles, "peak_bytes": peaks}


if __name__ == "__main__":
    _main()
