# SPDX-License-Identifier: Apache-2.0
"""The generated code is that of agent.proto, and of a generator that every supported protobuf can run."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

PROTOS = Path(__file__).parents[2] / "protos"
CODE = PROTOS / "edgedeploy_protos"


def test_the_code_is_what_the_generator_makes(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("generate", PROTOS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    try:
        generator.generate(tmp_path)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"the generator cannot be had: {error}")
    made = {path.name: path.read_text() for path in (tmp_path / "edgedeploy_protos").iterdir()}
    assert made == {path.name: path.read_text() for path in CODE.glob("agent_pb2*")}


def test_the_code_is_of_protobuf_6() -> None:
    """Python 3.9 has no protobuf after 6; protobuf 7 runs code of 6, and 8 will not."""
    said = re.search(r"# Protobuf Python Version: (\d+)\.", (CODE / "agent_pb2.py").read_text())
    assert said is not None
    assert said[1] == "6"
