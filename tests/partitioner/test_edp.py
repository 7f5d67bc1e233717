# SPDX-License-Identifier: Apache-2.0
"""plan.edp: the frozen bytes, that reading undoes writing, and that damage is told and never crashes."""

from __future__ import annotations

import contextlib
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedeploy_partitioner import edp
from edgedeploy_partitioner.edp import Edp, EdpBackend, EdpOp, EdpPartition, EdpSubgraph, decode, encode, pack, select
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.plan import Plan
from support import handmade

GOLDEN = Path(__file__).parent / "golden" / "hand.edp"
DOCUMENT = Path(__file__).parents[2] / "docs" / "plan-edp.md"

NPU = handmade.NPU
EXPECTED = Edp(
    subgraphs=(EdpSubgraph(0, "5a" * 32),),
    backends=(EdpBackend("rknn", "librknnrt.so", (("core_mask", "auto"),)), EdpBackend("neon", None, ())),
    partitions=(EdpPartition(0, 0, "edgedeploy"), EdpPartition(2, 0, "edgedeploy")),
    ops=(
        EdpOp(0, 0, 0, None, None, None, None, None),
        EdpOp(0, 1, 0, 0, "rknn", "npu", None, NPU),
        EdpOp(0, 2, 0, 1, "neon", "gelu_f32", "a76", "NHWC"),
        EdpOp(0, 3, 0, 2, "rknn", "npu", None, NPU),
        EdpOp(0, 6, 2, 4, "rknn", "npu", None, NPU),
    ),
)


def hand_plan() -> Plan:
    """The hand-written plan with a fixed fingerprint: the golden file is about the layout, not the model."""
    return handmade.edited(handmade.plan(), lambda d: d["inputs"]["model"].update(fingerprints=["5a" * 32]))


# --- the layout ------------------------------------------------------


def test_the_golden_file_holds_what_was_written_by_hand() -> None:
    assert decode(GOLDEN.read_bytes()) == EXPECTED


def test_the_golden_file_is_what_the_plan_encodes_to() -> None:
    assert encode(hand_plan()) == GOLDEN.read_bytes()


def test_a_reader_with_nothing_but_the_document_finds_an_op() -> None:
    data = GOLDEN.read_bytes()
    magic, version, size, subgraphs, backends, options, partitions, ops, strings = struct.unpack_from("<8s8I", data)
    assert (magic, version, size) == (b"EDGEPLAN", 1, len(data))
    table = 40 + 40 * subgraphs + 8 * backends + 16 * options + 16 * partitions
    text = table + 32 * ops
    assert text + strings + 8 == size
    words = struct.unpack_from("<8I", data, table + 2 * 32)
    assert words[:5] == (0, 2, 0, 1, 1)
    assert [data[text + w : data.index(b"\0", text + w)] for w in words[5:]] == [b"gelu_f32", b"a76", b"NHWC"]
    assert zlib.crc32(data[:-4]) == struct.unpack_from("<I", data, size - 4)[0]


_SIZES = {"u32": 4, "u8[8]": 8, "u8[32]": 32}


_TITLES = ("Header", "Subgraph", "Back end", "Option", "Partition", "Op", "Strings, and trailer")


@pytest.mark.parametrize("title", _TITLES)
def test_the_document_lists_every_byte(title: str) -> None:
    section = re.search(rf"^## {title}, (\d+) bytes$(.*?)^## ", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    assert section is not None
    end = 0
    for offset, kind in re.findall(r"^\| (\d+) \| (\S+) \|", section[2], re.MULTILINE):
        assert int(offset) == end
        end += _SIZES[kind]
    assert end == int(section[1])
    known = (edp._HEADER, edp._SUBGRAPH, edp._BACKEND, edp._OPTION, edp._PARTITION, edp._OP, edp._TRAILER)
    assert end in {record.size for record in known}


def test_xnnpack_is_left_out_and_folded_ops_come_along() -> None:
    assert select(hand_plan()) == EXPECTED


def test_indices_are_those_of_the_shipped_model() -> None:
    mapped = {(0, i): [i + 10] for i in range(7)} | {(0, 1): [1, 2]}
    assert [op.index for op in select(hand_plan(), mapped).ops] == [10, 1, 2, 12, 13, 16]


# --- what cannot be written ------------------------------------------


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda d: d["backends"].pop(0), "rknn"),
        (lambda d: d["backends"][0].update(library="a\0b"), "zero byte"),
        (lambda d: d["backends"][0]["options"].update(x="\ud800"), "Unicode"),
        (lambda d: d["partitions"][2].update(id=2**32), "2"),
        (lambda d: d["ops"][6].update(partition=None), "op 6"),
        (lambda d: d["inputs"]["model"].update(fingerprints=["5a"]), "SHA-256"),
        (lambda d: d["inputs"]["model"].update(fingerprints=[]), "subgraph 0"),
        (lambda d: d["segments"].clear(), "runs no op"),
    ],
)
def test_a_plan_that_cannot_be_written_is_refused(change: Callable[[handmade.Json], object], word: str) -> None:
    with pytest.raises(InputError, match=word):
        encode(handmade.edited(hand_plan(), change))


def test_an_op_without_a_shipped_index_is_refused() -> None:
    with pytest.raises(InputError, match=r"op 0:3 .*op index map"):
        encode(hand_plan(), {(0, i): [i] for i in (0, 1, 2, 6)})


# --- writing and reading ---------------------------------------------

_TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=6)


@st.composite
def edps(draw: st.DrawFn) -> Edp:
    subgraphs = sorted(draw(st.sets(st.integers(0, 9), min_size=1, max_size=3)))
    names = draw(st.lists(_TEXT, min_size=1, max_size=3, unique=True))
    options = st.dictionaries(_TEXT, _TEXT, max_size=2).map(lambda d: tuple(sorted(d.items())))
    ids = sorted(draw(st.sets(st.integers(0, 40), max_size=4)))
    partitions = tuple(EdpPartition(i, draw(st.sampled_from(subgraphs)), draw(_TEXT)) for i in ids)
    ops: list[EdpOp] = []
    for partition in partitions:
        count = draw(st.integers(1, 4))
        segments = sorted(draw(st.lists(st.integers(0, 5), min_size=count, max_size=count)))
        folded: list[int | None] = [None] * draw(st.integers(0, 2))
        for number, segment in enumerate((*folded, *segments)):
            index = 100 * partition.id + number
            if segment is None:
                ops.append(EdpOp(partition.subgraph, index, partition.id, None, None, None, None, None))
            else:
                texts = draw(_TEXT), draw(st.none() | _TEXT), draw(_TEXT)
                backend = draw(st.sampled_from(names))
                ops.append(EdpOp(partition.subgraph, index, partition.id, segment, backend, *texts))
    return Edp(
        tuple(EdpSubgraph(i, draw(st.binary(min_size=32, max_size=32)).hex()) for i in subgraphs),
        tuple(EdpBackend(name, draw(st.none() | _TEXT), draw(options)) for name in names),
        partitions,
        tuple(ops),
    )


@given(edps())
def test_reading_undoes_writing(value: Edp) -> None:
    data = pack(value)
    assert decode(data) == value
    assert len(data) % 8 == 0


# --- damage ----------------------------------------------------------


def test_every_changed_byte_is_noticed() -> None:
    data = bytearray(GOLDEN.read_bytes())
    for i, good in enumerate(data):
        for bad in range(0, 256, 3):
            if bad != good:
                data[i] = bad
                with pytest.raises(InputError):
                    decode(bytes(data))
        data[i] = good
    assert decode(bytes(data)) == EXPECTED


def test_every_cut_is_noticed() -> None:
    data = GOLDEN.read_bytes()
    for length in range(len(data)):
        with pytest.raises(InputError) as caught:
            decode(data[:length])
        assert "\n" not in caught.value.message
    with pytest.raises(InputError, match="copy it again"):
        decode(data + bytes(8))


@given(st.lists(st.tuples(st.integers(8, 1000), st.integers(0, 255) | st.sampled_from([0, 1, 0xFF])), max_size=6))
def test_what_has_a_right_checksum_is_still_not_trusted(changes: list[tuple[int, int]]) -> None:
    """A forged file is refused in one line, or it is a file that can be written and read again."""
    data = bytearray(GOLDEN.read_bytes())
    for at, byte in changes:
        data[at % (len(data) - 4)] = byte
    data[-4:] = struct.pack("<I", zlib.crc32(data[:-4]))
    value: Edp | None = None
    with contextlib.suppress(InputError):
        value = decode(bytes(data))
    if value is not None:
        assert decode(pack(value)) == value


_OPS, _PARTITIONS = 40 + 40 + 2 * 8 + 16 + 2 * 16, 40 + 40 + 2 * 8 + 16


@pytest.mark.parametrize(
    ("at", "word", "message"),
    [
        (0, 0, "not a plan.edp"),
        (8, 2, "reads version 1"),
        (12, 8, "header says 8"),
        (16, 2**32 - 1, "do not fill"),
        (36, 4, "do not fill"),
        (40 + 4, 1, "reserved"),
        (40, 3, "subgraph 0, which is not listed"),
        (40 + 40, 5000, "no text at 5000"),
        (40 + 40 + 2 * 8, 2, "an option has no back end"),
        (_PARTITIONS + 16, 0, "partitions are not in ascending order"),
        (_PARTITIONS + 16, 1, "partition 2 is not listed"),
        (_OPS + 32 + 4, 0, "listed twice"),
        (_OPS + 32 + 4, 2**31, "no such index"),
        (_OPS + 32 + 12, 2**32 - 1, "not all"),
        (_OPS + 32 + 12, 3, "order of their partitions"),
        (_OPS + 32 + 16, 2, "back end 2 is not listed"),
        (_OPS + 24, 0, "variant and no kernel"),
    ],
)
def test_each_rule_of_the_document_is_checked(at: int, word: int, message: str) -> None:
    data = bytearray(GOLDEN.read_bytes())
    struct.pack_into("<I", data, at, word)
    struct.pack_into("<I", data, len(data) - 4, zlib.crc32(data[:-4]))
    with pytest.raises(InputError, match=re.escape(message)):
        decode(bytes(data))


TWO = replace(EXPECTED, subgraphs=(EdpSubgraph(0, "5a" * 32), EdpSubgraph(3, "a5" * 32)))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (replace(TWO, subgraphs=TWO.subgraphs[::-1]), "subgraphs are not in ascending order"),
        (replace(TWO, subgraphs=TWO.subgraphs[:1] * 2), "subgraphs are not in ascending order"),
        (replace(TWO, ops=(replace(TWO.ops[0], subgraph=3), *TWO.ops[1:])), "in another subgraph"),
        (replace(TWO, ops=(TWO.ops[1], TWO.ops[0], *TWO.ops[2:])), "order of their partitions"),
        (replace(TWO, ops=TWO.ops[:-1]), "partition 2 runs no op"),
        (replace(TWO, partitions=TWO.partitions[::-1]), "partitions are not in ascending order"),
        (replace(TWO, backends=(EdpBackend("rknn", None, (("b", ""), ("a", ""))), TWO.backends[1])), "and keys"),
        (replace(TWO, backends=(EdpBackend("rknn", None, (("a", "1"), ("a", "2"))), TWO.backends[1])), "and keys"),
    ],
)
def test_tables_are_in_order(value: Edp, message: str) -> None:
    assert decode(pack(TWO)) == TWO
    with pytest.raises(InputError, match=message):
        pack(value)


def test_options_are_sorted() -> None:
    options = {"z": "1", "a": "2", "m": "3"}
    plan = handmade.edited(hand_plan(), lambda d: d["backends"][0].update(options=options))
    assert decode(encode(plan)).backends[0].options == (("a", "2"), ("m", "3"), ("z", "1"))


def test_the_last_text_must_end() -> None:
    """A string table filled to its last byte: nothing would stop a C reader."""
    data = bytearray(pack(EXPECTED))
    end = len(data) - 8
    while data[end - 1] == 0:
        end -= 1
    data[end : len(data) - 8] = b"x" * (len(data) - 8 - end)
    struct.pack_into("<I", data, len(data) - 4, zlib.crc32(data[:-4]))
    with pytest.raises(InputError, match="its last text does not end"):
        decode(bytes(data))


def test_a_text_that_is_no_utf_8_is_refused() -> None:
    data = bytearray(GOLDEN.read_bytes())
    data[data.index(b"gelu_f32")] = 0xFF
    struct.pack_into("<I", data, len(data) - 4, zlib.crc32(data[:-4]))
    with pytest.raises(InputError, match="not UTF-8"):
        decode(bytes(data))
