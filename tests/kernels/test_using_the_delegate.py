# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/using-the-delegate.md run as they stand."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgedeploy_partitioner.edp import encode
from support.delegates import SOURCES, library_with_test_kernels, planned
from support.random_model import random_dag
from support.runtimes import ROOT

DOCUMENT = (ROOT / "docs" / "using-the-delegate.md").read_text()
BLOCKS = re.findall(r"<!-- run: (\S+) -->\n```\w+\n(.*?)```", DOCUMENT, re.S)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a bundle of a plan that claims ops."""
    model = random_dag(5, 20, "float32")
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "model.tflite").write_bytes(model)
    (bundle / "plan.edp").write_bytes(encode(planned(model, "rpi5")))
    shutil.copy(library_with_test_kernels(), bundle / "libedgedeploy.so")
    return tmp_path


def python_says(program: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_python_examples(folder: Path) -> None:
    run_it, time_it = (program for kind, program in BLOCKS if kind == "python")
    outputs, *partitions = python_says(run_it, folder)
    assert outputs.startswith("[(")
    assert partitions
    for line in partitions:
        ops = re.findall(r"\[[\d, ]+\]", line)
        assert len(ops) == 2
        assert set(re.findall(r"\d+", ops[0])) == set(re.findall(r"\d+", ops[1]))
    times = python_says(time_it, folder)
    assert any(line.startswith("edgedeploy [") for line in times)
    assert all(re.fullmatch(r".+ \[[\d, ]*\] \d+", line) for line in times)


def test_the_cpp_example(folder: Path) -> None:
    [program] = [text for kind, text in BLOCKS if kind == "c++"]
    (folder / "check.cc").write_text(program)
    build = [sys.executable, "-m", "ziglang", "cc", "-x", "c++", "-nostdinc++", "-Wall", "-Wextra", "-Werror"]
    done = subprocess.run(
        [*build, f"-I{SOURCES / 'include'}", "-o", "check", "check.cc", "-ldl"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr

    def check(plan: str) -> tuple[int, str, str]:
        done = subprocess.run(
            ["./check", "bundle/libedgedeploy.so", plan],
            cwd=folder, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    assert check("bundle/plan.edp") == (0, "the plan is carried out by this library\n", "")
    assert check("none") == (1, "", "edgedeploy: plan=none: No such file or directory\n")


def test_the_options_are_those_of_the_header() -> None:
    header = (SOURCES / "include" / "edgedeploy.h").read_text()
    told = set(re.findall(r"^//   (\w+)=", header, re.M))
    assert told == set(re.findall(r"^\| `(\w+)=", DOCUMENT, re.M)) == {"plan", "report", "threads", "strict", "times"}
