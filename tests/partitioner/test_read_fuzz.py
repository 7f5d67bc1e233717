# SPDX-License-Identifier: Apache-2.0
"""A few hundred damaged models, as ``make fuzz`` makes by the ten thousand."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.read import read_bytes
from support.mutate import mutant, structure

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.tflite"))
MUTANTS_EACH = 50


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_damaged_models_are_read_or_refused_in_one_line(path: Path) -> None:
    data, other = path.read_bytes(), EXAMPLES[0].read_bytes()
    places = structure(data)
    refused = 0
    for seed in range(MUTANTS_EACH):
        try:
            read_bytes(mutant(data, places, [other], random.Random(seed)), "mutant")
        except InputError as error:
            refused += 1
            message = str(error)
            assert message.startswith("mutant: "), message
            assert message.isprintable(), message
    assert MUTANTS_EACH // 4 < refused < MUTANTS_EACH  # the damage is neither harmless nor always fatal


def test_mutants_are_the_same_for_the_same_seed() -> None:
    data = EXAMPLES[0].read_bytes()
    first, again, other = (mutant(data, (4, 8), [data], random.Random(seed)) for seed in (1, 1, 2))
    assert first == again != other


def fuzz(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "fuzz_reader.py"), *arguments, str(EXAMPLES[0])]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_fuzzer_reports_a_clean_run() -> None:
    result = fuzz("--mutants", "20", "--seed", "3")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("20 mutants of 1 models, seed 3: ")


@pytest.mark.parametrize("fault", ["raise IndexError", "bytearray(1 << 40)", "os.abort()", "time.sleep(60)"])
def test_the_fuzzer_saves_the_model_that_breaks_the_reader(fault: str, tmp_path: Path) -> None:
    """With a reader that fails on its third model, mutant 2 is saved and the exit code is 1."""
    (tmp_path / "sitecustomize.py").write_text(f"""
import os, time
from edgedeploy_partitioner.model import read
models = []
def broken(data, name):
    models.append(data)
    if len(models) == 3:
        {fault}
    raise read.InputError(name + ": refused")
read.read_bytes = broken
""")
    result = fuzz("--mutants", "9", "--seed", "5", "--deadline", "3", PYTHONPATH=str(tmp_path), TMPDIR=str(tmp_path))
    assert result.returncode == 1
    saved = tmp_path / "fuzz-5-2.tflite"
    assert result.stdout == f"mutant 2, seed 5, breaks the reader; it is in {saved}\n"
    data = EXAMPLES[0].read_bytes()
    assert saved.read_bytes() == mutant(data, structure(data), [data], random.Random("5:2"))
