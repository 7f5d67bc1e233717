# SPDX-License-Identifier: Apache-2.0
"""What is to be run on a device: a model, or the model of a bundle with its plan."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from edgedeploy import api
from edgedeploy.bundle import MANIFEST, read_manifest
from edgedeploy.text import printable
from edgedeploy_partitioner.errors import InputError, NotDeployable
from edgedeploy_partitioner.plan import Plan


@dataclass(frozen=True, slots=True)
class Subject:
    """``plan`` and ``plan_sha256`` are those of a bundle."""

    name: str
    file: Path
    sha256: str
    plan: Plan | None = None
    plan_sha256: str | None = None


def subject(path: Path) -> Subject:
    """Raises InputError; NotDeployable for a bundle that lacks what it needs to run."""
    if not path.is_dir():
        return Subject(path.name, path, hashlib.sha256(_content(path)).hexdigest())
    manifest = read_manifest(path)
    if manifest is None:
        raise InputError(f"{printable(str(path))}: {MANIFEST} is missing or not of schema edgedeploy.bundle/1")
    if manifest.missing:
        raise NotDeployable(
            f"{printable(str(path))}: the bundle is not complete, missing: {', '.join(manifest.missing)}"
        )
    if not manifest.runnable:
        raise NotDeployable(f"{printable(str(path))}: the runtime does not take the model; its plan.json says why")
    file = path / "model.tflite"
    return Subject(path.name, file, manifest.model_sha256, api.read_plan(path), manifest.plan_sha256)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{printable(str(path))}: {error.strerror}") from None
