# SPDX-License-Identifier: Apache-2.0
"""Make the Python code of agent.proto again: ``python protos/generate.py [FOLDER]``.

Generated code runs with the protobuf of its own major version and of the next one, of the same release or newer
(protobuf.dev/support/cross-version-runtime-guarantee). Python 3.9 has protobuf 6 at most and newer ones have 7, so the
generator is one of protobuf 6. It is installed for this run only.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

GENERATOR = ("grpcio-tools==1.72.2", "setuptools")
PROTOS = Path(__file__).resolve().parent
SOURCE = "edgedeploy_protos/agent.proto"


def generate(folder: Path) -> None:
    """Write the generated files under ``folder``. Raises CalledProcessError where the generator cannot be had."""
    with tempfile.TemporaryDirectory() as environment:
        venv.create(environment, with_pip=True)
        python = Path(environment, "bin/python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *GENERATOR], check=True)
        outputs = [f"--{kind}_out={folder}" for kind in ("python", "pyi", "grpc_python")]
        subprocess.run([python, "-m", "grpc_tools.protoc", f"-I{PROTOS}", *outputs, SOURCE], check=True)


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if sys.argv[1:] else PROTOS)
