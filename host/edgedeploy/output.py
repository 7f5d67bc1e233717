# SPDX-License-Identifier: Apache-2.0
"""Where results go: stdout and nothing else; what is said beside them: stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from edgedeploy.text import printable

Json = Mapping[str, Any] | Sequence[Any]

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
            stream.write(result)
        stream.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # or the interpreter complains when it ends
        if isinstance(error, BrokenPipeError):
            raise PipeClosed from None
        raise


def emit_json(value: Json) -> None:
    """Write ``value`` to stdout as JSON."""
    emit(json_bytes(value))


def json_bytes(value: Json) -> bytes:
    """``value`` as indented JSON with a final newline."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def say(message: str) -> None:
    """One line on stderr."""
    if sys.stderr is not None:
        print(f"edgedeploy: {printable(message)}", file=sys.stderr, flush=True)


@contextmanager
def progress(doing: str, *, quiet: bool) -> Iterator[None]:
    """Show what is being done on stderr while it is done; only to a person who watches."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(printable(doing))):
        yield
