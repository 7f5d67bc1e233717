# SPDX-License-Identifier: Apache-2.0
"""Read a ``.tflite`` file. Whatever the bytes: a Graph, or one line that says what is wrong and where."""

from __future__ import annotations

import mmap
import os
import stat

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.decode import decode
from edgedeploy_partitioner.model.flatbuffer import File
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.schema import IDENTIFIER

_HEADER_BYTES = 8
_MAPPED_FROM_BYTES = 1 << 24
"""Smaller files are read: a mapped file that is cut while it is in use kills the process (SIGBUS)."""

# What people give instead of a model: where its mark lies in the file, the mark, and what to say.
_MISTAKES = (
    (0, b"version https://git-lfs", "a git-LFS pointer: run `git lfs pull` to fetch the model itself"),
    (0, b"PK\x03\x04", "a zip archive (a .task bundle, a .keras or PyTorch model?): give the .tflite file inside it"),
    (0, b"LITERTLM", "a .litertlm bundle: give the .tflite file inside it"),
    (0, b"\x89HDF", "an HDF5 file (a Keras .h5 model?): convert it to .tflite first"),
    (0, b"\x08\x01\x12", "a TensorFlow SavedModel: convert it to .tflite first"),
    (0, b"RKNN", "a model compiled for a Rockchip NPU: give the .tflite file it was made from"),
    (0, b"GGUF", "a GGUF model, which is not for this runtime"),
    (0, b"\x1f\x8b", "compressed with gzip: unpack it first"),
    (257, b"ustar", "a tar archive: unpack it and give the .tflite file inside it"),
    (0, b"\x7fELF", "a program or library, not a model"),
    (4, b"TFL2", "a .tflite model of version 2: convert the original model again"),
)


def read_model(path: str | os.PathLike[str]) -> Graph:
    """The model in the file at ``path``.

    Files of 16 MiB and more are mapped and must keep their length while the Graph is in use; smaller ones are read.
    Either way constants stay where they lie in the file and are never copied.

    Raises:
        InputError: the file cannot be read, or is something else than a ``.tflite`` model.
        MalformedModel: the model is broken; says which object, and at which byte.
    """
    name = os.fspath(path)
    try:
        contents = _contents(name)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{name}: cannot be read: {reason}") from None
    return read_bytes(contents, name)


def read_bytes(data: bytes | memoryview, name: str = "model") -> Graph:
    """The model in ``data``; ``name`` is what messages call it.

    Raises:
        InputError: the bytes are something else than a ``.tflite`` model.
        MalformedModel: the model is broken; says which object, and at which byte.
    """
    view = memoryview(data).cast("B")
    if view[4:_HEADER_BYTES] != IDENTIFIER:
        raise InputError(f"{name}: not a .tflite model but {_what_is(view)}")
    return decode(File(view, name))


def _contents(name: str) -> memoryview:
    # Without O_NONBLOCK opening a FIFO would wait for a writer.
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"{name}: is a folder; give the .tflite file inside it")
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{name}: is a pipe or device; save it to a file first")
        if status.st_size >= _MAPPED_FROM_BYTES:
            return memoryview(mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ))
        with open(descriptor, "rb", closefd=False) as file:
            return memoryview(file.read(_MAPPED_FROM_BYTES))
    finally:
        os.close(descriptor)


def _what_is(data: memoryview) -> str:
    for offset, mark, what in _MISTAKES:
        if data[offset : offset + len(mark)] == mark:
            return what
    start = bytes(data[:512])
    if not start:
        return "an empty file: did the download or copy fail?"
    if start[:1] == b"\x08" and any(word in start for word in (b"onnx", b"pytorch", b"ai.onnx")):
        return "an ONNX model: convert it to .tflite first"
    if start.lstrip()[:1] == b"<":
        return "a web page or XML: the download saved a page instead of the file"
    if all(byte in b"\t\n\r\f" or 32 <= byte < 127 or byte > 127 for byte in start):
        return f"a text file of {len(data)} bytes"
    cut = "; was the download or copy cut short?" if len(data) < _HEADER_BYTES else ""
    return f"{len(data)} bytes without the identifier {IDENTIFIER.decode()} at byte 4{cut}"
