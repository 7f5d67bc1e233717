# SPDX-License-Identifier: Apache-2.0
"""Damage model files, the same way for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from edgedeploy_partitioner.model.decode import decode
from edgedeploy_partitioner.model.flatbuffer import File
from edgedeploy_partitioner.model.graph import Span

_WORDS = (0, 1, 2, 3, 4, 8, 127, 128, 255, 256, 0x7FFF, 0xFFFF, 0x10000, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1)


def structure(data: bytes) -> tuple[int, ...]:
    """Offsets of the bytes that decide how ``data``, a good model, is read: all but weights and text."""
    seen: set[int] = set()

    class Recorder(File):
        def span(self, start: int, size: int, where: str) -> Span:
            if size <= 64:
                seen.update(range(start, start + size))
            return super().span(start, size, where)

    decode(Recorder(memoryview(data), "model"))
    return tuple(sorted(seen))


def mutant(data: bytes, places: Sequence[int], others: Sequence[bytes], rng: random.Random) -> bytes:
    """``data`` with one to four damages, at ``places`` three times out of four; pieces also come from ``others``."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.choice(places) if rng.random() < 0.75 else rng.randrange(len(data))
        if at < len(damaged):
            rng.choice(_DAMAGES)(damaged, at, others, rng)
    return bytes(damaged)


def _flip_bit(data: bytearray, at: int, _: Sequence[bytes], rng: random.Random) -> None:
    data[at] ^= 1 << rng.randrange(8)


def _set_byte(data: bytearray, at: int, _: Sequence[bytes], rng: random.Random) -> None:
    data[at] = rng.randrange(256)


def _set_word(data: bytearray, at: int, _: Sequence[bytes], rng: random.Random) -> None:
    """A 32-bit word becomes a limit, the file's size or an offset around it."""
    start = at & ~3
    here = len(data) - start
    word = rng.choice((*_WORDS, len(data), here, here - 4, -start, -4, rng.randrange(here + 1)))
    data[start : start + 4] = (word & 0xFFFFFFFF).to_bytes(4, "little")


def _add_to_word(data: bytearray, at: int, _: Sequence[bytes], rng: random.Random) -> None:
    start = at & ~3
    word = int.from_bytes(data[start : start + 4], "little") + rng.choice((-4, -2, -1, 1, 2, 4, 64, -64))
    data[start : start + 4] = (word & 0xFFFFFFFF).to_bytes(4, "little")


def _splice(data: bytearray, at: int, others: Sequence[bytes], rng: random.Random) -> None:
    """Words from elsewhere, in this model or another, lie where others belong."""
    donor = rng.choice((data, *others))
    length = 4 * rng.choice((1, 1, 1, 2, 4, 16))
    start = 4 * rng.randrange(max(1, (len(donor) - length) // 4))
    data[at & ~3 : (at & ~3) + length] = donor[start : start + length]


def _copy_offset(data: bytearray, at: int, _: Sequence[bytes], rng: random.Random) -> None:
    """A word points where its neighbour points: tables and vectors come to be shared."""
    start = at & ~3
    distance = 4 * rng.choice((1, 1, 1, 2, 3, 8))
    if start + distance + 4 <= len(data):
        word = int.from_bytes(data[start + distance : start + distance + 4], "little") + distance
        data[start : start + 4] = (word & 0xFFFFFFFF).to_bytes(4, "little")


def _truncate(data: bytearray, at: int, _: Sequence[bytes], rng: random.Random) -> None:
    del data[rng.choice((at, rng.randrange(len(data) + 1), len(data) - 1)) :]


def _remove(data: bytearray, at: int, _: Sequence[bytes], rng: random.Random) -> None:
    del data[at : at + rng.choice((1, 2, 4, 16, 256))]


def _insert(data: bytearray, at: int, _: Sequence[bytes], rng: random.Random) -> None:
    data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 16, 256)))


_Damage = Callable[[bytearray, int, Sequence[bytes], random.Random], None]
_DAMAGES: tuple[_Damage, ...] = (
    _flip_bit, _flip_bit, _flip_bit, _set_byte, _set_word, _set_word, _add_to_word, _add_to_word,
    _splice, _splice, _copy_offset, _copy_offset, _truncate, _remove, _insert,
)  # fmt: skip
