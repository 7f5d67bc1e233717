# SPDX-License-Identifier: Apache-2.0
"""The NEON file of every kernel gives the bits of its scalar file: by SIMDe under sanitizers here, and emulated.

``kernels_neon/tests/test_kernels.c`` compares the two; the checksums of what they give are the same on both machines.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import edgedeploy_kernels
from edgedeploy_profiles import load_kernels
from edgedeploy_profiles.load import load_core
from support.kernel_programs import SOURCES, programs
from support.userland import Userland

from .conftest import COUNT

KERNELS = sorted(path.name.removesuffix("_neon.c") for path in (SOURCES / "src" / "kernels").glob("*_neon.c"))


def built(kind: str) -> Path:
    try:
        return programs(kind)
    except LookupError as error:
        pytest.skip(str(error))


def checksums(*command: str | Path) -> dict[str, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
    assert done.returncode == 0, done.stderr
    found = dict(re.findall(r"test_kernels: (\w+), \d+ cases, checksum (\w{16})", done.stdout))
    print(done.stdout)
    return found


def test_neon_is_scalar_under_sanitizers() -> None:
    assert checksums(built("simde") / "test_kernels", str(COUNT), *KERNELS).keys() == {*KERNELS}


@pytest.mark.board
def test_neon_is_scalar_on_arm(board: Userland) -> None:
    here = checksums(built("simde") / "test_kernels", str(COUNT), *KERNELS)
    program = built("aarch64") / "test_kernels"
    for core in ("cortex-a53", "cortex-a76"):
        emulator = board.command(load_core(core))[:-1]
        assert checksums(*emulator, program, str(COUNT), *KERNELS) == here


def test_the_manifest_names_kernels_that_are_there() -> None:
    kernels = load_kernels(edgedeploy_kernels.manifest()).kernels
    assert {kernel.name for kernel in kernels} <= set(KERNELS)
    for kernel in kernels:
        assert {name: v.symbol for name, v in kernel.variants.items()} == {"neon": f"ed_{kernel.name}_neon"}
