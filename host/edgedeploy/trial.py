# SPDX-License-Identifier: Apache-2.0
"""Does the stock runtime of this machine take a model? Tried in a child process, which may crash or hang."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import IO, Any, Literal

from edgedeploy_agent.ending import MESSAGE_CHARACTERS, how_it_died, lacks_memory, tail

DEADLINE_S = 60.0
MEMORY_BYTES = 2 << 30
_LOG_TAIL_BYTES = 1 << 16

Outcome = Literal["ran", "refused", "crashed", "out-of-memory", "timeout", "no-runtime"]


@dataclass(frozen=True, slots=True)
class Trial:
    """What happened. ``stage`` is where it ended: start, load, allocate, invoke or done.

    ``message`` is one line: the runtime's refusal, the signal and the last thing the runtime said, or the limit hit.
    ``outputs`` are (name, dtype, shape) after one run on random inputs.
    """

    outcome: Outcome
    stage: str
    message: str = ""
    runtime: str = ""
    xnnpack_partitions: int | None = None
    outputs: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    digests: tuple[str, ...] = ()
    arena_bytes: tuple[int, ...] | None = None
    """``digests`` are hashes of the outputs and ``arena_bytes`` the subgraphs' arenas as measured, where they were
    asked for."""

    @property
    def ok(self) -> bool:
        return self.outcome == "ran"


def try_model(
    path: str | os.PathLike[str],
    *,
    xnnpack: bool = True,
    threads: int = 1,
    digests: int = 0,
    arenas: bool = False,
    deadline_s: float = DEADLINE_S,
    memory_bytes: int = MEMORY_BYTES,
) -> Trial:
    """Load, allocate and run the model once in a child with a deadline and a memory limit.

    With ``digests`` it runs that often, and each signature too, always on the same inputs, and the outputs are hashed;
    with ``arenas`` the arenas are measured.
    Nothing of the child survives this call, and nothing it does is an exception here.
    """
    command = [
        sys.executable, "-P", "-m", "edgedeploy_agent.trial", os.fspath(os.path.abspath(path)),
        "--xnnpack", "default" if xnnpack else "off", "--memory-bytes", str(memory_bytes),
        "--deadline-s", str(math.ceil(deadline_s) + 5), "--threads", str(threads), "--digests", str(digests),
        *(["--arenas"] if arenas else []),
    ]  # fmt: skip
    with tempfile.TemporaryFile() as log:
        answer, code = _run(command, log, deadline_s)
        return _trial(answer, code, _tail(log), deadline_s, memory_bytes)


def _run(command: list[str], log: IO[bytes], deadline_s: float) -> tuple[bytes, int | None]:
    """stdout and exit code; the code is None if the deadline passed. The whole session is killed in any case."""
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
    )
    try:
        answer, _ = child.communicate(timeout=deadline_s)
        return answer, child.returncode
    except subprocess.TimeoutExpired:
        return b"", None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        if child.stdout:
            child.stdout.close()


def _tail(log: IO[bytes]) -> list[str]:
    """The last lines that the child logged."""
    log.seek(max(log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES, 0))
    return tail(log.read())


def _trial(answer: bytes, code: int | None, log: list[str], deadline_s: float, memory_bytes: int) -> Trial:
    stage = next((line.removeprefix("trial: ") for line in reversed(log) if line.startswith("trial: ")), "start")
    if code is None or code == -signal.SIGALRM:
        return Trial("timeout", stage, f"no answer within {deadline_s:g} s")
    result = _result(answer)
    if result is not None:
        return _answered(result, memory_bytes)
    kind, message = how_it_died(code, [line for line in log if not line.startswith("trial: ")])
    if kind == "out-of-memory":
        return Trial(kind, stage, f"needs more than {memory_bytes} bytes" + (f": {message}" if message else ""))
    return Trial(kind, stage, message)


def _result(answer: bytes) -> dict[str, Any] | None:
    try:
        result = json.loads(answer)
    except ValueError:
        return None
    return result if isinstance(result, dict) else None


def _answered(result: dict[str, Any], memory_bytes: int) -> Trial:
    runtime = " ".join(result["runtime"].values()) if result["runtime"] else ""
    error, stage = result["error"], result["stage"]
    if error is None:
        outputs = tuple((o["name"], o["dtype"], tuple(o["shape"])) for o in result["outputs"])
        arenas = result.get("arena_bytes")
        return Trial(
            outcome="ran",
            stage=stage,
            runtime=runtime,
            xnnpack_partitions=result["xnnpack_partitions"],
            outputs=outputs,
            digests=tuple(result.get("digests", ())),
            arena_bytes=None if arenas is None else tuple(arenas),
        )
    if lacks_memory(error):
        return Trial("out-of-memory", stage, f"needs more than {memory_bytes} bytes: {error}", runtime)
    outcome: Outcome = "refused" if runtime else "no-runtime"
    return Trial(outcome, stage, error[:MESSAGE_CHARACTERS], runtime, result["xnnpack_partitions"])
