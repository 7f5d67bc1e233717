# SPDX-License-Identifier: Apache-2.0
"""The arrays of an .npz file that somebody else made."""

from __future__ import annotations

from typing import Any

import numpy as np

_KINDS = "biufcSU"  # of NumPy's types those that a model may take: numbers and texts


class BadInputs(ValueError):
    """What is given does not fit the model's inputs, or is no array at all."""


def read_arrays(path: str) -> list[tuple[str, Any]]:
    """Its arrays by name. Nothing in it is run (no pickles). Raises BadInputs, whatever is wrong with the file."""
    try:
        with open(path, "rb") as file:
            archive = np.load(file)
            if not hasattr(archive, "files"):
                raise ValueError("it holds one array without a name; numpy.savez gives it one")
            arrays = [(name, archive[name]) for name in archive.files]
    except MemoryError:
        raise BadInputs("the arrays of the .npz file do not fit into memory") from None
    except Exception as error:  # for a file that is damaged NumPy, zipfile and zlib raise nearly anything
        words = getattr(error, "strerror", None) or error
        raise BadInputs(f"no .npz file of arrays: {' '.join(str(words).split())}") from None
    for name, value in arrays:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in _KINDS or not value.dtype.itemsize:
            raise BadInputs(f"no .npz file of arrays: {name!r} is no array of numbers or texts")
    return arrays
