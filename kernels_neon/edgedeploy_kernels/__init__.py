# SPDX-License-Identifier: Apache-2.0
"""The C kernels and their manifest."""

from __future__ import annotations

import hashlib
from importlib import resources


def manifest_sha256() -> str:
    """SHA-256 of ``kernels.toml``, which plans carry as an input."""
    return hashlib.sha256((resources.files(__name__) / "kernels.toml").read_bytes()).hexdigest()
