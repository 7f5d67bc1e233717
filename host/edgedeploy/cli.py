# SPDX-License-Identifier: Apache-2.0
"""The typer app: one command, or group of commands, per module of ``edgedeploy.commands``, found by looking there.

Command modules import only what their options need; the work is imported when a command runs, so that
``edgedeploy --help`` starts fast.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Annotated

import typer

from edgedeploy import commands

EXIT_CODES = """\b
Exit codes:
  0    done
  1    a gate failed (--fail-on, --limit), check found a fault, verify a mismatch
  2    bad input or usage
  3    this model cannot be planned or deployed on this board
  4    a device is not usable
  5    a measurement is not valid (--require-valid)
  6    the model failed on the device
  70   a bug in edgedeploy
  130  interrupted
  141  the reader of the output went away"""


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from edgedeploy.output import emit

        emit(f"edgedeploy {version('edgedeploy')}\n")
        raise typer.Exit


def _build() -> typer.Typer:
    built = typer.Typer(
        name="edgedeploy",
        help="Plan a .tflite model for an ARM board: which operator runs where, what it costs, how much memory it "
        f"takes. Then run it there.\n\n{EXIT_CODES}",
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )

    @built.callback()
    def root(
        version: Annotated[
            bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
        ] = False,
        verbose: Annotated[bool, typer.Option("--verbose", "-v", help="If this program fails, show where.")] = False,
    ) -> None:
        del version, verbose  # the one is done, the other is read from the arguments when something has failed

    for module in pkgutil.iter_modules(commands.__path__):
        found = importlib.import_module(f"{commands.__name__}.{module.name}")
        if hasattr(found, "group"):
            built.add_typer(found.group, name=module.name)
        else:
            built.command(module.name)(found.command)
    return built


app = _build()
