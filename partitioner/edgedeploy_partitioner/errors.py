# SPDX-License-Identifier: Apache-2.0
"""What can go wrong while planning, and the exit code each one stands for.

    PlanningError
    ├── InputError            2   bad input or usage
    │   └── MalformedModel    2   the bytes are not a readable .tflite model
    └── NotDeployable         3   a good model that this board cannot take

Every message is one printable line: what, where, what to do. Names in it may come from a hostile file.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """``text`` on one line, every control, bidirectional and undecodable character written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


class PlanningError(Exception):
    """Base of every error this package raises on purpose."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        self.message = printable(message)
        super().__init__(self.message)


class InputError(PlanningError):
    """Unusable input: a file, an option or a name."""

    exit_code = 2


class MalformedModel(InputError):
    """The bytes are not a readable model. ``where`` names the object, ``offset`` the byte in the file."""

    def __init__(self, where: str, offset: int, problem: str) -> None:
        super().__init__(f"{where} at byte {offset}: {problem}")
        self.where = where
        self.offset = offset
        self.problem = problem


class NotDeployable(PlanningError):
    """The model is readable and this board, runtime or limit cannot take it."""

    exit_code = 3
