# SPDX-License-Identifier: Apache-2.0
"""Where results go: stdout and nothing else; what is said beside them: stderr."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from edgedeploy.text import printable

Json = Mapping[str, Any] | Sequence[Any]

ASCII = str.maketrans({"…": "...", "×": "x", "→": "->"})
"""What a pipe gets for the signs in this program's own words; names from files stay as they are."""

PIPE_CLOSED = 141
"""What a shell reports for a program that a closed pipe stopped (128 + SIGPIPE)."""


class PipeClosed(Exception):
    """The reader of stdout went away (``| head``). Nothing is wrong."""


def emit(result: str | bytes) -> None:
    """Write the result to stdout, whole; bytes (JSON) as they are. Raises :class:`PipeClosed`, OSError."""
    stream = sys.stdout
    if stream is None:  # the caller closed it: nobody wants the result
        return
    try:
        if isinstance(result, bytes):
            stream.flush()
            stream.buffer.write(result)
        else:
            stream.write(result if stream.isatty() else result.translate(ASCII))
        stream.flush()
    except OSError as error:
        _discard(stream)
        if isinstance(error, BrokenPipeError):
            raise PipeClosed from None
        raise


def _discard(stream: TextIO) -> None:
    """Send what is left in ``stream`` to nowhere, or the interpreter complains when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def emit_json(value: Json) -> None:
    """Write ``value`` to stdout as JSON."""
    emit(json_bytes(value))


def json_bytes(value: Json) -> bytes:
    """``value`` as indented JSON with a final newline."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def say(message: str) -> None:
    """One line on stderr; nothing if nobody can read it: what it is about decides the exit code."""
    if sys.stderr is not None:
        try:
            print(f"edgedeploy: {printable(message)}", file=sys.stderr, flush=True)
        except OSError:
            _discard(sys.stderr)


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM and SIGHUP end the program as an exception would, so that it cleans up; exit code 128 + signal."""

    def stop(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    ending = (signal.SIGTERM, signal.SIGHUP)
    caught = [each for each in ending if signal.getsignal(each) == signal.SIG_DFL]  # not what nohup ignores
    for each in caught:
        signal.signal(each, stop)
    try:
        yield
    finally:
        for each in caught:
            signal.signal(each, signal.SIG_DFL)


@contextmanager
def progress(doing: str, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show what is being done on stderr while it is done; only to a person who watches.

    The body may tell what it does now, or nothing when that is ``doing`` again.
    """
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.text import Text

    width, height = shutil.get_terminal_size()  # rich itself stumbles over COLUMNS=\u00b2
    with Console(stderr=True, width=width, height=height).status(Text(printable(doing))) as status:
        yield lambda now: status.update(Text(printable(now or doing)))
