# SPDX-License-Identifier: Apache-2.0
"""How a child process that ran a model ended, in one word and one line."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Sequence
from typing import Literal

MESSAGE_CHARACTERS = 300
NO_REASON = "gave up without a reason, as it does when memory cannot be allocated"
"""What an empty message of a runtime means."""
_OUT_OF_MEMORY = ("bad_alloc", "out of memory", "cannot allocate memory", "cannot be allocated", "failed to allocate",
                  "failed with error '12'")  # fmt: skip # the last is ENOMEM where a model is mapped


def lacks_memory(message: str) -> bool:
    """Do these words of a runtime, or of the C library, mean that there was no memory?"""
    return any(words in message.lower() for words in _OUT_OF_MEMORY)


def tail(log: bytes) -> list[str]:
    """The lines of a log, without blank ones."""
    return [" ".join(line.split()) for line in log.decode(errors="replace").splitlines() if line.strip()]


def how_it_died(
    code: int, log: Sequence[str], *, cpu_features: str = ""
) -> tuple[Literal["crashed", "out-of-memory"], str]:
    """("crashed" or "out-of-memory", one line), of the exit code (negative: the signal) and what it logged last."""
    said = [line for line in log if not line.startswith("INFO: ")]
    last = said[-1][:MESSAGE_CHARACTERS] if said else ""
    if code == -signal.SIGKILL or any(map(lacks_memory, said[-5:])):
        return "out-of-memory", last
    died = _died(code)
    if code == -signal.SIGILL and cpu_features:
        died += f", an instruction that this CPU does not have (it has {cpu_features})"
    return "crashed", died + (f": {last}" if last else "")


def _died(code: int) -> str:
    if code >= 0:
        return f"the process ended with code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"
