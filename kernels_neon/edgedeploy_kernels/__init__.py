# SPDX-License-Identifier: Apache-2.0
"""The C kernels and their manifest."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def manifest() -> Path:
    """``kernels.toml``: which kernels there are, what they take and what they cost."""
    return Path(str(resources.files(__name__))) / "kernels.toml"
