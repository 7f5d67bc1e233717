# SPDX-License-Identifier: Apache-2.0
"""From where, and in what shapes, a model was run; nothing where it runs as its file says and nobody had to choose."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from edgedeploy.measure.claims import Claims
from edgedeploy.measure.subject import Subject
from edgedeploy.report.page import DIM, GOOD, WARN, text
from edgedeploy.text import shape


def entry_lines(found: Subject) -> Iterator[Text]:
    if found.signature is not None:
        yield text(("signature ", DIM), found.signature)
    for tensor in found.inputs:
        if tensor.id in found.shapes:
            yield text(("input ", DIM), tensor.name, (" in the shape ", DIM), shape(tensor.shape), (", as asked", DIM))
        elif tensor.is_dynamic:
            why = f": the file leaves {shape(tensor.signature or ())} open, --input-shape sets it"
            yield text(("input ", DIM), tensor.name, (" in the shape ", DIM), shape(tensor.shape), (why, DIM))


def claims_in_words(found: Claims) -> Text:
    """Whether the runtime made of the plan what it says."""
    if not found.differences:
        return text(("run as planned", GOOD))
    return text((f"{len(found.differences)} not as planned: {'; '.join(found.differences)}", WARN))
