# SPDX-License-Identifier: Apache-2.0
"""The C tests that compare nothing with other programs: each ends with 0, under sanitizers."""

from __future__ import annotations

import subprocess

import pytest

import edgedeploy_kernels
from edgedeploy_profiles import load_kernels
from support.kernel_programs import SOURCES, programs

OF_KERNELS = {"test_kernels", "test_hostile"}
NAMES = sorted(path.stem for path in (SOURCES / "tests").glob("test_*.c") if path.stem not in OF_KERNELS)
COUNT = 60
"""Cases of each op that :file:`test_hostile.c` takes a tenth of, and changes."""


def passes(name: str, *arguments: str) -> None:
    try:
        program = programs("simde") / name
    except LookupError as error:
        pytest.skip(str(error))
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, cwd=SOURCES, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_it_passes(name: str) -> None:
    passes(name)


@pytest.mark.parametrize("kernel", [k.name for k in load_kernels(edgedeploy_kernels.manifest()).kernels])
def test_a_kernel_refuses_what_a_model_says_or_stays_inside_its_buffers(kernel: str) -> None:
    passes("test_hostile", str(COUNT), kernel)
