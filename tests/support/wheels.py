# SPDX-License-Identifier: Apache-2.0
"""Small stand-ins for the wheels that a device gets, so that no test needs a package index."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

CONTENT: Mapping[str, Mapping[str, str]] = {
    "ai_edge_litert-2.3.0": {
        "ai_edge_litert/__init__.py": "",
        "ai_edge_litert/interpreter.py": "class Interpreter: ...",
    },
    "ai_edge_litert-2.1.0": {
        "ai_edge_litert/__init__.py": "",
        "ai_edge_litert/interpreter.py": "class Interpreter: ...",
    },
    "numpy-2.4.6": {"numpy/__init__.py": "stand_in = True", "numpy/tests/test_numpy.py": "raise SystemExit"},
    "grpcio-1.80.0": {"grpc/__init__.py": "", "grpcio-1.80.0.data/scripts/tool": "#!/bin/sh"},
    "protobuf-6.33.0": {"protobuf-6.33.0.data/purelib/google/protobuf/__init__.py": ""},
    "typing_extensions-4.15.0": {"typing_extensions.py": ""},
}


def make_wheel(folder: Path, name: str, files: Mapping[str, str | bytes]) -> Path:
    """A wheel for any Python; ``name`` is ``project-version``."""
    project, version = name.split("-")
    path = folder / f"{name}-py3-none-any.whl"
    info = f"{name}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in files.items():
            archive.writestr(file, content)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def make_wheels(folder: Path) -> Path:
    """All that a setup asks for."""
    folder.mkdir()
    for name, files in CONTENT.items():
        make_wheel(folder, name, files)
    return folder
