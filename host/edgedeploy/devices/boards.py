# SPDX-License-Identifier: Apache-2.0
"""Which board profile a device has."""

from __future__ import annotations

from collections.abc import Iterable

from edgedeploy_profiles import board_names


def board_of(compatible: Iterable[str]) -> str | None:
    """The profile that is named like an entry of the device tree (``rockchip,rk3588``); the first entry counts most."""
    names = set(board_names())
    return next((chip for entry in compatible if (chip := entry.partition(",")[2]) in names), None)
