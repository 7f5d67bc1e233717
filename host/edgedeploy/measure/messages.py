# SPDX-License-Identifier: Apache-2.0
"""The protocol's messages as plain values."""

from __future__ import annotations

import math
from typing import Any


def plain(message: Any) -> dict[str, Any]:
    """A message by its fields' names, messages in it too; an optional field that is absent is None.

    Raises ValueError for a number that is none (NaN, an infinity): nothing that is measured can be one.
    """
    return {field.name: _value(message, field) for field in message.DESCRIPTOR.fields}


def _value(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.has_presence and not message.HasField(field.name):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{field.full_name}: {value}")
    if field.message_type is None:
        return value if isinstance(value, str | bytes | int | float) else list(value)
    return plain(value) if field.has_presence else [plain(each) for each in value]
