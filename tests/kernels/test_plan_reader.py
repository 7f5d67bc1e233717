# SPDX-License-Identifier: Apache-2.0
"""The C reader of plan.edp accepts and refuses what the planner's own reader does."""

from __future__ import annotations

import random
import struct
import subprocess
import zlib
from pathlib import Path

from edgedeploy_partitioner.edp import decode
from edgedeploy_partitioner.errors import InputError
from support.delegates import SOURCES, built
from support.runtimes import HERE, ROOT

GOLDEN = (ROOT / "tests" / "partitioner" / "golden" / "hand.edp").read_bytes()
WORDS = (0, 1, 2, 3, 4, 8, 16, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)


def mutant(seed: int) -> bytes:
    rng, data = random.Random(seed), bytearray(GOLDEN)
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.6:
            struct.pack_into("<I", data, 4 * rng.randrange(len(data) // 4 - 1), rng.choice([*WORDS, rng.randrange(64)]))
        elif rng.random() < 0.7:
            data[rng.randrange(len(data) - 4)] ^= 1 << rng.randrange(8)
        else:
            at = 8 * rng.randrange(len(data) // 8 - 1)
            data[at:at] = rng.choice([data[at : at + 8], bytes(8)])
    struct.pack_into("<I", data, 12, len(data))
    struct.pack_into("<I", data, len(data) - 4, zlib.crc32(data[:-4]))
    return bytes(data)


def accepts(data: bytes) -> bool:
    try:
        decode(data)
    except InputError:
        return False
    return True


def test_both_readers_agree(tmp_path: Path) -> None:
    mutants = [GOLDEN, *(mutant(seed) for seed in range(3000))]
    files = []
    for i, data in enumerate(mutants):
        files.append(tmp_path / str(i))
        files[-1].write_bytes(data)
    program = built(HERE.machine, "test_plan")
    done = subprocess.run(
        [program, "parse", *files], cwd=SOURCES, capture_output=True, text=True, check=True, timeout=300
    )
    said = done.stdout.splitlines()
    expected = [accepts(data) for data in mutants]
    assert expected[0]
    assert 100 < sum(expected) < len(mutants) - 100
    for i, (line, accepted) in enumerate(zip(said, expected, strict=True)):
        assert (line == "ok") == accepted, f"mutant {i - 1}: {line}"
