# SPDX-License-Identifier: Apache-2.0
"""One error: a profile that cannot be found or does not say what it should."""

from __future__ import annotations


class ProfileError(Exception):
    """A board, core, back end or runtime profile is missing or wrong. The message is one line."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
