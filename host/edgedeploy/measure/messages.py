# SPDX-License-Identifier: Apache-2.0
"""The protocol's messages as plain values."""

from __future__ import annotations

from typing import Any


def plain(message: Any) -> dict[str, Any]:
    """A message by its fields' names, messages in it too; an optional field that is absent is None."""
    return {field.name: _value(message, field) for field in message.DESCRIPTOR.fields}


def _value(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.has_presence and not message.HasField(field.name):
        return None
    if field.message_type is None:
        return value if isinstance(value, str | bytes | int | float) else list(value)
    return plain(value) if field.has_presence else [plain(each) for each in value]
