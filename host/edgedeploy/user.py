# SPDX-License-Identifier: Apache-2.0
"""Who runs this program. In containers, and for services, the system may not know."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import ClassVar


class NoHome(Exception):
    """The user has no home folder."""

    exit_code: ClassVar[int] = 2


def home() -> Path:
    """The user's folder. Raises NoHome."""
    try:
        return Path.home()
    except RuntimeError:
        raise NoHome("this user has no home folder: set HOME") from None


def name() -> str:
    """The login name, or the number where there is none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # which one depends on the version of Python
        return str(os.getuid())
