# SPDX-License-Identifier: Apache-2.0
"""The command line, bundles and reports; and the verbs for Python, imported when used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgedeploy.api import check as check
    from edgedeploy.api import diff as diff
    from edgedeploy.api import load_board as load_board
    from edgedeploy.api import partition as partition
    from edgedeploy.api import read_model as read_model
    from edgedeploy.api import read_plan as read_plan
    from edgedeploy.bundle import write_bundle as write_bundle
    from edgedeploy_partitioner.errors import InputError as InputError
    from edgedeploy_partitioner.errors import NotDeployable as NotDeployable
    from edgedeploy_profiles.errors import ProfileError as ProfileError

_WHERE = {
    **dict.fromkeys(("check", "diff", "load_board", "partition", "read_model", "read_plan"), "edgedeploy.api"),
    "write_bundle": "edgedeploy.bundle",
    **dict.fromkeys(("InputError", "NotDeployable"), "edgedeploy_partitioner.errors"),
    "ProfileError": "edgedeploy_profiles.errors",
}
__all__ = [
    "InputError",
    "NotDeployable",
    "ProfileError",
    "check",
    "diff",
    "load_board",
    "partition",
    "read_model",
    "read_plan",
    "write_bundle",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return __all__
