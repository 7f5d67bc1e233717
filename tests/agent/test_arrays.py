# SPDX-License-Identifier: Apache-2.0
"""Files of inputs: what NumPy wrote comes back, anything else is refused in one way, and nothing in them is run."""

from __future__ import annotations

import contextlib
import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgedeploy_agent.arrays import BadInputs, read_arrays

ARRAYS: dict[str, Any] = {
    "a": np.arange(40, dtype=np.int8).reshape(2, 20),
    "b/c": np.array([1.5, np.nan], np.float32),
    "\u00fc": np.array([b"x", b"yz"]),
    "none": np.zeros((0, 3), np.complex64),
}


def saved(*, compressed: bool = False) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **ARRAYS)
    return stream.getvalue()


def archive(content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("a.npy", content)
    return stream.getvalue()


def array_file(described: str) -> bytes:
    """A file of one array with this header."""
    header = described.encode().ljust(118 - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64)


def one_array() -> bytes:
    stream = io.BytesIO()
    np.save(stream, ARRAYS["a"])
    return stream.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
def test_what_numpy_wrote_comes_back(tmp_path: Path, *, compressed: bool) -> None:
    (tmp_path / "x.npz").write_bytes(saved(compressed=compressed))
    found = dict(read_arrays(str(tmp_path / "x.npz")))
    assert found.keys() == ARRAYS.keys()
    for name, value in ARRAYS.items():
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
        assert found[name].tobytes() == value.tobytes()


class Trap:
    sprung = False

    def __reduce__(self) -> Any:
        return setattr, (Trap, "sprung", True)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"hello", b"PK\x03\x04", b"\x93NUMPY", one_array(), pickle.dumps(1), pickle.dumps(Trap()),
        archive(b"no array"), archive(one_array()[:20]),
        archive(array_file("{'descr': '|i1', 'fortran_order': False, 'shape': (1")),
        archive(array_file("{'descr': '|i1', 'fortran_order': False, 'shape': (True,)}")),
        archive(array_file(f"{{'descr': '|i1', 'fortran_order': False, 'shape': ({1 << 60},)}}")),
        archive(array_file(f"{{'descr': '|i1', 'fortran_order': False, 'shape': ({1 << 70},)}}")),
        archive(array_file("{'descr': '|S0', 'fortran_order': False, 'shape': (1,)}")),
        archive(array_file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}")),
        archive(array_file("{'descr': '<M8[s]', 'fortran_order': False, 'shape': (1,)}")),
    ],
)  # fmt: skip
def test_what_is_none_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(BadInputs, match=r"\.npz file") as refused:
        read_arrays(str(tmp_path / "x.npz"))
    assert "\n" not in str(refused.value)
    assert not Trap.sprung


def test_a_file_that_is_not_there_is_refused_too(tmp_path: Path) -> None:
    for path in (tmp_path / "none.npz", tmp_path):
        with pytest.raises(BadInputs, match=r"no \.npz file of arrays: (No such file|Is a directory)"):
            read_arrays(str(path))


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.array([Trap()], dtype=object))
    with pytest.raises(BadInputs, match=r"[Oo]bject"):
        read_arrays(str(tmp_path / "x.npz"))
    assert not Trap.sprung


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.booleans(), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4))
def test_damage_is_found_or_does_no_harm(tmp_path: Path, compressed: bool, damage: list[tuple[int, int]]) -> None:
    content = bytearray(saved(compressed=compressed))
    for place, byte in damage:
        content[place % len(content)] = byte
    (tmp_path / "x.npz").write_bytes(content)
    with contextlib.suppress(BadInputs):
        assert all(isinstance(value, np.ndarray) for _, value in read_arrays(str(tmp_path / "x.npz")))
