# SPDX-License-Identifier: Apache-2.0
"""libedgedeploy.so as it is shipped: what it shows, what it needs of a board; and the C tests under sanitizers."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.delegates import SOURCES, built, library
from support.elf import needed, symbols

MACHINES = ("x86_64", "aarch64")


@pytest.mark.parametrize("machine", MACHINES)
def test_it_shows_its_interface_and_kernels_and_nothing_else(machine: str) -> None:
    shown = {s.name for s in symbols(library(machine)) if s.is_defined}
    interface = {"tflite_plugin_create_delegate", "tflite_plugin_destroy_delegate", "edgedeploy_times"}
    assert interface <= shown
    kernels = shown - interface
    assert kernels
    assert all(re.fullmatch(r"ed_\w+_(scalar|neon|dotprod|i8mm)", name) for name in kernels), kernels


@pytest.mark.parametrize("machine", MACHINES)
def test_it_needs_no_newer_c_library_than_2_17(machine: str) -> None:
    versions = {s.version for s in symbols(library(machine)) if not s.is_defined and s.version}
    assert versions, "no version was read"
    assert all(v.startswith("GLIBC_") for v in versions), versions
    assert max(tuple(map(int, v.removeprefix("GLIBC_").split("."))) for v in versions) <= (2, 17)
    assert set(needed(library(machine))) <= {
        "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-aarch64.so.1", "ld-linux-x86-64.so.2",
    }  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
def test_it_is_for_the_machine_that_it_is_built_for(machine: str) -> None:
    head = library(machine).read_bytes()[:20]
    assert head[:6] == b"\x7fELF\x02\x01"
    assert int.from_bytes(head[18:20], "little") == {"x86_64": 62, "aarch64": 183}[machine]


def sanitized(sanitizers: str, build: str, *programs: str) -> list[Path]:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc, which has the sanitizers")
    targets = [f"build/{build}/{program}" for program in programs]
    done = subprocess.run(
        ["make", "-C", str(SOURCES), "CC=gcc", f"SANITIZE={sanitizers}", f"BUILD=build/{build}", *targets],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [SOURCES / target for target in targets]


DELEGATE_TESTS = tuple(
    f"test_{name}" for name in ("operators", "options", "placement", "plan", "report", "sha256", "text", "threads")
)


def test_the_parts_of_the_delegate_are_clean_under_sanitizers() -> None:
    for program in sanitized("address,undefined", "sanitized", *DELEGATE_TESTS):
        done = subprocess.run([program], cwd=SOURCES, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(program.name)


def test_the_pool_has_no_races() -> None:
    [program] = sanitized("thread", "threads", "test_threads")
    done = subprocess.run(
        ["setarch", "-R", program], cwd=SOURCES, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr


def test_the_library_for_tests_is_not_what_is_shipped() -> None:
    shipped = {s.name for s in symbols(library()) if s.is_defined}
    tests = {s.name for s in symbols(built("x86_64", "libedgedeploy-tests.so")) if s.is_defined}
    assert tests - shipped == {f"ed_test_{kernel}_scalar" for kernel in ("unary", "binary", "reshape", "never")}
