# SPDX-License-Identifier: Apache-2.0
"""Many trials of models in the stock runtime, each in a process of its own, at the price of one start of Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_DEADLINE_S = 120
_FORKING = """
import json, os, signal, sys
from edgedeploy_agent import trial
trial.stock_runtime()
for line in sys.stdin:
    child = os.fork()
    if not child:
        os._exit(trial.main(json.loads(line)))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0:
        print(json.dumps({"stage": "", "error": signal.Signals(-status).name}), flush=True)
"""


def run_all(
    folder: Path, models: Sequence[bytes], *, arguments: Sequence[Sequence[str]] | None = None, xnnpack: bool = True
) -> list[dict[str, Any]]:
    """What ``edgedeploy_agent.trial`` says of each model, with ``arguments[i]`` for model i; ``folder`` is for files.

    A model that kills its process gives ``{"stage": "", "error": "SIGSEGV"}``.
    """
    requests = []
    for i, model in enumerate(models):
        path = folder / f"{i}.tflite"
        path.write_bytes(model)
        more = list(arguments[i]) if arguments else []
        requests.append(json.dumps([str(path), "--xnnpack", "default" if xnnpack else "off", *more]))
    done = subprocess.run(
        [sys.executable, "-c", _FORKING],
        input="\n".join(requests),
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # a forking process should have one thread
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=_DEADLINE_S,
        check=True,
    )
    answers: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(models)
    return answers
