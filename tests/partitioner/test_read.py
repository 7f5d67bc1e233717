# SPDX-License-Identifier: Apache-2.0
"""Reading files: what is read, how it lies in memory, and what people give by mistake."""

from __future__ import annotations

import errno
import itertools
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgedeploy_partitioner.errors import InputError, MalformedModel
from edgedeploy_partitioner.model import read
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.graph import Graph, Quantization
from edgedeploy_partitioner.model.read import read_bytes, read_model
from edgedeploy_partitioner.model.schema import SCHEMA

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.tflite"))


@pytest.fixture(scope="module", params=EXAMPLES, ids=lambda path: path.name)
def example(request: pytest.FixtureRequest) -> Graph:
    return read_model(request.param)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6


def test_every_op_input_has_a_source(example: Graph) -> None:
    for subgraph in example.subgraphs:
        given = {*subgraph.inputs, *(t.id for t in subgraph.tensors if t.is_constant or t.is_variable)}
        for op in subgraph.ops:
            assert set(op.inputs) <= {-1, *given, *subgraph.producer}
        assert set(subgraph.outputs) <= {*given, *subgraph.producer}


def test_constants_fill_their_shape_exactly(example: Graph) -> None:
    for subgraph in example.subgraphs:
        for tensor in subgraph.tensors:
            if tensor.data is not None:
                assert tensor.data.size == tensor.nbytes


def test_constants_lie_in_the_source(example: Graph) -> None:
    for subgraph in example.subgraphs:
        for tensor in subgraph.tensors:
            if tensor.data is not None:
                assert example.bytes_of(tensor.data).obj is example.source.obj


def test_a_mapped_file_gives_the_same_graph(example: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_MAPPED_FROM_BYTES", 1)
    path = tmp_path / "m.tflite"
    path.write_bytes(example.source)
    mapped = read_model(path)
    assert mapped == example
    assert type(mapped.source.obj).__name__ == "mmap"
    with pytest.raises(TypeError, match="read-only"):
        mapped.source[0] = 0


def test_half_of_a_file_is_one_line_with_path_size_and_place(example: Graph, tmp_path: Path) -> None:
    path = tmp_path / "half.tflite"
    path.write_bytes(example.source[: example.size * 2 // 3])
    with pytest.raises(MalformedModel) as caught:
        read_model(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert f" at byte {caught.value.offset}: " in message
    assert f"outside the file, which has {example.size * 2 // 3}; was the download or copy cut short?" in message
    assert message.isprintable()


def test_every_cut_of_a_model_is_refused_or_read() -> None:
    data = min((path.read_bytes() for path in EXAMPLES), key=len)
    readable = [length for length in range(len(data) + 1) if can_read(data[:length])]
    assert readable[-1] == len(data)
    assert len(readable) <= 4  # only padding at the end may go


def can_read(data: bytes) -> bool:
    try:
        return read_bytes(data).size == len(data)
    except InputError:
        return False


@pytest.mark.parametrize(
    ("contents", "what"),
    [
        (b"", "an empty file: did the download or copy fail?"),
        (b"\x1c\0\0\0TFL", "7 bytes without the identifier TFL3 at byte 4; was the download or copy cut short?"),
        (b"\n<!DOCTYPE html><html>", "a web page or XML"),
        (b"model weights, see README", "a text file of 25 bytes"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "`git lfs pull`"),
        (b"PK\x03\x04\x14\0\0\0face.tflite", "a zip archive (a .task bundle"),
        (b"\x08\x07\x12\x07pytorch\x1a\x051.13", "an ONNX model"),
        (b"\x08\x01\x12\x84\x01", "a TensorFlow SavedModel"),
        (b"\x89HDF\r\n\x1a\n", "a Keras .h5 model"),
        (b"RKNN\0\0\0\0", "compiled for a Rockchip NPU"),
        (b"\x1f\x8b\x08\0", "gzip"),
        (bytes(257) + b"ustar", "a tar archive"),
        (b"\x1c\0\0\0TFL2" + bytes(64), "a .tflite model of version 2"),
        (bytes(64), "64 bytes without the identifier TFL3 at byte 4"),
    ],
)
def test_other_files_are_named_for_what_they_are(contents: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(contents)
    with pytest.raises(InputError) as caught:
        read_model(path)
    assert str(caught.value).startswith(f"{path}: not a .tflite model but ")
    assert what in str(caught.value)
    assert str(caught.value).isprintable()


def special_files(folder: Path) -> Iterator[tuple[Path, str]]:
    yield folder, "is a folder"
    os.mkfifo(folder / "fifo")
    yield folder / "fifo", "is a pipe or device"
    yield Path("/dev/null"), "is a pipe or device"
    yield folder / "none", "No such file"
    (folder / "loop").symlink_to("loop")
    yield folder / "loop", "symbolic links"
    yield folder / ("n" * 300), "name too long"
    yield folder / "a\0b", "null (byte|character)"
    yield EXAMPLES[0] / "inside", "Not a directory"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
        yield folder / "socket", "No such device"


def test_what_is_not_a_file_is_one_line_and_blocks_nothing(tmp_path: Path) -> None:
    open_before = len(os.listdir("/proc/self/fd"))
    for path, problem in special_files(tmp_path):
        with pytest.raises(InputError, match=problem) as caught:
            read_model(path)
        assert caught.value.exit_code == 2
        assert str(caught.value).isprintable()
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_a_forbidden_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the kernel's answer is made up."""

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(InputError, match=r"^m\.tflite: cannot be read: Permission denied$"):
        read_model("m.tflite")


def test_a_path_with_any_characters_stays_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "two\nlines\x1b[31m\udcff.tflite"
    path.write_bytes(b"")
    with pytest.raises(InputError, match=r"two\\nlines\\x1b\[31m\\udcff\.tflite: not a"):
        read_model(path)


def test_names_may_be_empty_equal_or_not_utf8() -> None:
    model = Model()
    g = model.subgraph()
    x = g.input((1, 4), name="")
    y = g.apply("RELU", [x], (1, 4))
    z = g.tensor((1, 4), name="same")
    g.op("CUSTOM", [y], [z], custom_code="Flex\nRelu", custom_options=b"abc")
    g.value.tensors[y].name = "same"
    g.value.tensors[x].name = b"\xffin"
    g.outputs(z)
    graph = read_bytes(model.build())
    assert [t.name for t in graph.subgraphs[0].tensors] == ["\\xffin", "same", "same"]
    op = graph.subgraphs[0].ops[1]
    assert (op.name, op.code, op.custom_options and bytes(graph.bytes_of(op.custom_options))) == (
        "Flex\nRelu", "CUSTOM", b"abc",
    )  # fmt: skip


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_ops_may_be_in_any_order_and_unpacked_constants_are_still_found(order: tuple[int, ...]) -> None:
    """DENSIFY and DEQUANTIZE of a weight and the op that uses it; a DEQUANTIZE of computed values stays."""
    model = Model()
    g = model.subgraph()
    x = g.input((1, 4))
    dense = g.apply("DENSIFY", [g.sparse_constant(np.eye(4, dtype=np.float16)[0])], (4,), "float16")
    y = g.apply("ADD", [x, g.apply("DEQUANTIZE", [dense], (4,))], (1, 4))
    g.value.operators = [g.value.operators[i] for i in order]
    g.outputs(g.apply("DEQUANTIZE", [g.apply("CAST", [y], (1, 4), "float16")], (1, 4)))
    subgraph = read_bytes(model.build()).subgraphs[0]
    assert {subgraph.ops[i].code for i in subgraph.folded} == {"DENSIFY", "DEQUANTIZE"}
    assert subgraph.folded == {order.index(0), order.index(1)}


def test_sub_byte_constants_have_packed_sizes() -> None:
    model = Model()
    g = model.subgraph()
    ids = [g.constant(np.ones((3, 5), np.int8), dtype) for dtype in ("int4", "uint4", "int2", "int8")]
    g.outputs(*ids)
    tensors = read_bytes(model.build()).subgraphs[0].tensors
    assert [t.nbytes for t in tensors] == [8, 8, 4, 15]
    assert [t.data and t.data.size for t in tensors] == [8, 8, 4, 15]


def test_old_files_with_empty_data_on_computed_tensors() -> None:
    model = Model()
    g = model.subgraph()
    x = g.input((1, 4))
    y = g.tensor((1, 4), buffer=model.buffer(b""))
    text = g.tensor((1,), "string", buffer=model.buffer(b""))
    none = g.tensor((0,), "int32", buffer=model.buffer(b""))
    g.op("RELU", [x], [y])
    g.outputs(y)
    tensors = read_bytes(model.build()).subgraphs[0].tensors
    assert not tensors[y].is_constant
    assert not tensors[text].is_constant
    assert tensors[none].is_constant


def test_buffer_0_and_offsets_0_and_1_mean_no_data() -> None:
    model = Model()
    g = model.subgraph()
    g.outputs(g.tensor((1,)), g.tensor((1,), buffer=model.buffer(b"")))
    model.value.buffers = [SCHEMA.BufferT(data=[1, 2, 3, 4]), SCHEMA.BufferT(offset=1, size=4)]
    assert [t.data for t in read_bytes(model.build()).subgraphs[0].tensors] == [None, None]


def test_quantised_blocks_point_to_the_tensor_of_their_scales() -> None:
    model = Model()
    g = model.subgraph()
    w, scales = g.constant(np.ones((2, 64), np.int8), "int4"), g.constant(np.ones((2, 2), np.float16))
    details = SCHEMA.BlockwiseQuantizationT(scales=scales, zeroPoints=-1, blockSize=32)
    stored = SCHEMA.QuantizationParametersT(detailsType=2, details=details, quantizedDimension=1)
    g.value.tensors[w].quantization = stored
    expected = Quantization((), (), 1, block_size=32, scale_tensor=scales, zero_point_tensor=-1)
    assert read_bytes(model.build()).subgraphs[0].tensors[w].quantization == expected


def test_operators_newer_than_the_schema_keep_their_number() -> None:
    model = Model()
    g = model.subgraph()
    g.outputs(g.apply("RELU", [g.input((4,))], (4,)))
    model.value.operatorCodes[0].builtinCode = 9999
    assert read_bytes(model.build()).subgraphs[0].ops[0].code == "BUILTIN_9999"


def test_files_from_before_the_wide_operator_code() -> None:
    model = Model()
    g = model.subgraph()
    g.outputs(g.apply("RELU", [g.input((4,))], (4,)))
    code = model.value.operatorCodes[0]
    code.deprecatedBuiltinCode, code.builtinCode = code.builtinCode, 0
    assert read_bytes(model.build()).subgraphs[0].ops[0].code == "RELU"


def test_data_behind_the_flatbuffer() -> None:
    """Weights and custom options appended to the file, pointed to by 64-bit offsets from its start."""
    model = Model()
    g = model.subgraph()
    x = g.input((2,))
    w = g.tensor((2,), buffer=model.buffer(b""))
    y = g.tensor((2,))
    g.op("CUSTOM", [x, w], [y], custom_code="my")
    g.outputs(y)

    def build(at: int) -> bytes:
        model.value.buffers[1] = SCHEMA.BufferT(offset=at, size=8)
        op = g.value.operators[0]
        op.largeCustomOptionsOffset, op.largeCustomOptionsSize = at + 8, 3
        return model.build()

    at = len(build(1 << 20))
    graph = read_bytes(build(at) + b"weightsXopt")
    tensor, custom = graph.subgraphs[0].tensors[w], graph.subgraphs[0].ops[0].custom_options
    assert tensor.data is not None
    assert custom is not None
    assert bytes(graph.bytes_of(tensor.data)) == b"weightsX"
    assert bytes(graph.bytes_of(custom)) == b"opt"
    with pytest.raises(MalformedModel, match=f"buffer 1 offset at byte {at}: 8 bytes lie outside"):
        read_bytes(build(at) + b"weights")
