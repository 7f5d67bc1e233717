# SPDX-License-Identifier: Apache-2.0
"""Entry point: runs one command and turns whatever happens into an exit code and at most one line on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

INTERRUPTED = 130
BUG = 70
"""sysexits' EX_SOFTWARE: the fault is in edgedeploy itself."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code (``docs/cli.md``)."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer ends so while it prints help
            return _explain(error.__context__, arguments)
        raise
    except Exception as error:
        return _explain(error, arguments)


def _run(arguments: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    from edgedeploy.cli import app

    result = app(args=arguments or ["--help"], prog_name="edgedeploy", standalone_mode=False)
    return result if isinstance(result, int) else 0


def _explain(error: Exception, arguments: Sequence[str]) -> int:
    """Say ``error`` in one line and return its exit code."""
    from edgedeploy.output import PIPE_CLOSED, PipeClosed, say

    if isinstance(error, PipeClosed | BrokenPipeError):
        return PIPE_CLOSED
    if isinstance(error, ImportError) and any(isinstance(each, KeyboardInterrupt) for each in _causes(error)):
        return INTERRUPTED  # some libraries turn any failure of their own imports into an ImportError
    code = getattr(error, "exit_code", None)
    if hasattr(error, "format_message"):  # the option parser's own errors, whatever module they live in
        command = getattr(getattr(error, "ctx", None), "command_path", "edgedeploy")
        say(f"error: {error.format_message()} (see '{command} --help')")
        return 2
    if isinstance(code, int):
        say(f"error: {error}")
        return code
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        say(f"error: {where}{error.strerror or error}")
        return 2
    if isinstance(error, MemoryError):
        say("error: not enough memory on this machine")
        return 2
    if verbose(arguments):
        import contextlib
        import traceback

        with contextlib.suppress(OSError):
            traceback.print_exception(error)
    hint = "" if verbose(arguments) else "; 'edgedeploy -v ...' shows where"
    say(f"error: this is a bug in edgedeploy, please report it: {type(error).__name__}: {error}{hint}")
    return BUG


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def verbose(arguments: Sequence[str]) -> bool:
    return "-v" in arguments or "--verbose" in arguments


if __name__ == "__main__":
    sys.exit(main())
