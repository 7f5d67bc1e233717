# SPDX-License-Identifier: Apache-2.0
"""The C kernels and their manifest."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

LIBRARY = "libedgedeploy.so"


def manifest() -> Path:
    """``kernels.toml``: which kernels there are, what they take and what they cost."""
    return Path(str(resources.files(__name__))) / "kernels.toml"


def library(machine: str) -> Path | None:
    """The delegate for boards of an architecture (``aarch64``, ``x86_64``). None where it is not built: a wheel has it,
    ``make kernels`` builds it in a clone."""
    file = Path(str(resources.files(__name__))) / "lib" / machine / LIBRARY
    return file if file.is_file() else None
