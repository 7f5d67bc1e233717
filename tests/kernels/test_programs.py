# SPDX-License-Identifier: Apache-2.0
"""The C tests that need no cases: each ends with 0, under sanitizers."""

from __future__ import annotations

import subprocess

import pytest

from support.kernel_programs import SOURCES, programs

NAMES = sorted(path.stem for path in (SOURCES / "tests").glob("test_*.c") if path.stem != "test_kernels")


@pytest.mark.parametrize("name", NAMES)
def test_it_passes(name: str) -> None:
    try:
        program = programs("simde") / name
    except LookupError as error:
        pytest.skip(str(error))
    done = subprocess.run([program], capture_output=True, text=True, check=False, cwd=SOURCES, timeout=600)
    assert done.returncode == 0, done.stderr
