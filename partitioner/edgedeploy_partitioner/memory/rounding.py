# SPDX-License-Identifier: Apache-2.0
"""Sizes and offsets on a grid."""

from __future__ import annotations


def up(value: int, multiple: int) -> int:
    """The least multiple of ``multiple`` that is not below ``value``."""
    return -(-value // multiple) * multiple
