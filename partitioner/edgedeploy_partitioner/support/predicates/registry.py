# SPDX-License-Identifier: Apache-2.0
"""A predicate is one function. Its name is the key in a support table, its docstring the rule's text."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeVar, get_type_hints

import msgspec

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.support.case import Case

Check = TypeVar("Check", bound=Callable[..., str | None])


class Between(NamedTuple):
    """Both ends included; ``[1, 31]`` in a table."""

    low: int
    high: int

    def holds(self, *values: int) -> bool:
        return all(self.low <= value <= self.high for value in values)

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class Predicate:
    name: str
    text: str
    """What the rule asks for, as words that follow "needs"; ``{}`` is the parameter."""
    parameter: Any
    check: Callable[..., str | None]

    def read(self, raw: object) -> Any:
        """The parameter as a table gives it, with its type. Raises :class:`InputError`."""
        try:
            return msgspec.convert(raw, self.parameter, strict=True)
        except msgspec.ValidationError as error:
            raise InputError(f"predicate {self.name} does not take {raw!r}: {error}") from None

    def needs(self, raw: object) -> str:
        """The rule's text with the numbers filled in."""
        return self.text.format(_words(self.read(raw)))

    def violation(self, case: Case, raw: object) -> str | None:
        """What was found in ``case`` that the rule does not allow; None if it holds."""
        parameter = self.read(raw)
        if self.parameter is bool:
            return self.check(case) if parameter else None
        return self.check(case, parameter)


PREDICATES: dict[str, Predicate] = {}


def predicate(check: Check) -> Check:
    """Register a function ``(case, parameter) -> what was found, or None if the rule holds``.

    The type of the parameter is what a table may give; without a parameter the table says ``true``. The first
    paragraph of the docstring says what the rule asks for.
    """
    name = check.__name__
    if name in PREDICATES:
        raise ValueError(f"two predicates are called {name}")
    text = " ".join((inspect.getdoc(check) or "").split("\n\n")[0].split())
    types = get_type_hints(check)
    _case, *parameters = inspect.signature(check).parameters
    PREDICATES[name] = Predicate(name, text, types[parameters[0]] if parameters else bool, check)
    return check


def find(name: str) -> Predicate:
    """The predicate with that name. Raises :class:`InputError` that names the near ones."""
    if name not in PREDICATES:
        near = difflib.get_close_matches(name, PREDICATES, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(PREDICATES))}"
        raise InputError(f"no predicate {name!r}; {hint}")
    return PREDICATES[name]


def _words(value: object) -> str:
    """A parameter in words: ``int8 or float16``, ``1-31``, ``C 8192, H 7``."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Between) or not isinstance(value, tuple | Mapping):
        return str(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_words(item)}" for key, item in value.items())
    *most, last = map(_words, value) if value else ("nothing",)
    return f"{', '.join(most)} or {last}" if most else last
