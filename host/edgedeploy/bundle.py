# SPDX-License-Identifier: Apache-2.0
"""A folder to ship, schema ``edgedeploy.bundle/1``: whole or not there, the same inputs give the same bytes."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from edgedeploy.text import printable, size
from edgedeploy_partitioner import edp
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.plan import Plan, to_json
from edgedeploy_partitioner.plan import Value as JsonValue

SCHEMA = "edgedeploy.bundle/1"
MANIFEST = "manifest.json"
LIBRARY = "libedgedeploy.so"
UNRUNNABLE = ("no_runtime_kernel", "runtime_rejects")
"""Warnings of a plan whose model the runtime will not load."""


class File(JsonValue, frozen=True):
    path: str
    sha256: str
    bytes: int
    role: str


class Runtime(JsonValue, frozen=True):
    name: str
    version: str
    xnnpack: str


class Manifest(JsonValue, frozen=True):
    """``op_index_map[subgraph][given] = [shipped, ...]``, null when the shipped model has the same ops."""

    schema: str
    files: tuple[File, ...]
    model_sha256: str
    plan_sha256: str
    runtime: Runtime
    op_index_map: dict[str, dict[str, tuple[int, ...]]] | None
    runnable: bool
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """``changed`` is False when the folder already held exactly this bundle."""

    path: Path
    manifest: Manifest
    changed: bool


def contents(plan: Plan, model: bytes | memoryview) -> tuple[Manifest, dict[str, bytes | memoryview]]:
    """The manifest and every file of the bundle by its path. ``model`` is what will be shipped."""
    plan_json = to_json(plan)
    files: dict[str, tuple[str, bytes | memoryview]] = {
        "model.tflite": ("model", model),
        "plan.json": ("plan", plan_json),
        "plan.edp": ("plan_edp", edp.encode(plan)),
    }
    missing = missing_files(plan)
    manifest = Manifest(
        schema=SCHEMA,
        files=tuple(File(path, _sha256(data), len(data), role) for path, (role, data) in files.items()),
        model_sha256=_sha256(model),
        plan_sha256=_sha256(plan_json),
        runtime=Runtime(plan.inputs.runtime.name, plan.inputs.runtime.version, plan.inputs.runtime.xnnpack),
        op_index_map=None,
        runnable=not missing and not any(w.code in UNRUNNABLE for w in plan.warnings),
        missing=missing,
    )
    return manifest, {path: data for path, (_, data) in files.items()}


def missing_files(plan: Plan) -> tuple[str, ...]:
    """What a later step must add before the bundle runs: the delegate's library and the NPU's compiled parts."""
    if all(p.delegate == edp.XNNPACK for p in plan.partitions):
        return ()
    return (LIBRARY, *(f"segment-{s.id}.rknn" for s in plan.segments if s.backend == "rknn"))


def write_bundle(plan: Plan, model: bytes | memoryview, folder: str | os.PathLike[str], *, overwrite: bool) -> Written:
    """Write the bundle to ``folder``, atomically: a neighbour folder is filled, synced and renamed into place.

    A folder that already holds this very bundle is left alone; anything else there is replaced only if it is a bundle
    or empty, and ``overwrite`` is given. Raises InputError, OSError; whatever happens, ``folder`` is what it was or
    the whole bundle.
    """
    target = Path(folder)
    manifest, files = contents(plan, model)
    whole = {**files, MANIFEST: to_json(manifest)}
    if _holds(target, whole):
        return Written(target, manifest, changed=False)
    _check_replaceable(target, overwrite)
    try:
        with tempfile.TemporaryDirectory(
            prefix=f".{target.name}.", dir=target.parent, ignore_cleanup_errors=True
        ) as work:
            _put(Path(work, "new"), whole)
            _swap(Path(work, "new"), target, Path(work, "old"))
    except OSError as error:
        raise _clearer(error, target, whole) from None
    return Written(target, manifest, changed=True)


def _check_replaceable(target: Path, overwrite: bool) -> None:
    shown = printable(str(target))
    if not target.parent.is_dir():
        raise InputError(f"-o {shown}: there is no folder {printable(str(target.parent))}")
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise InputError(f"-o {shown}: it exists and is not a folder")
    if not target.exists() or not any(target.iterdir()):
        return
    if not (target / MANIFEST).is_file():
        raise InputError(f"-o {shown}: the folder holds something that is not a bundle")
    if not overwrite:
        raise InputError(f"-o {shown}: another bundle is there; --overwrite replaces it")


def _holds(folder: Path, files: dict[str, bytes | memoryview]) -> bool:
    """Whether ``folder`` has exactly these files with exactly these bytes."""
    try:
        there = {str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir()}
        return there == set(files) and all(_same(folder / path, data) for path, data in files.items())
    except OSError:
        return False


def _same(path: Path, data: bytes | memoryview) -> bool:
    return path.stat().st_size == len(data) and path.read_bytes() == data


def _put(folder: Path, files: dict[str, bytes | memoryview]) -> None:
    folder.mkdir()
    for path, data in files.items():
        with open(folder / path, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


def _swap(new: Path, target: Path, old: Path) -> None:
    """Rename ``new`` to ``target``; what was there goes to ``old`` and comes back if that fails."""
    try:
        if target.exists():
            target.rename(old)
        new.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise


def _clearer(error: OSError, target: Path, files: dict[str, bytes | memoryview]) -> Exception:
    if error.errno != errno.ENOSPC:
        return error
    need = sum(len(data) for data in files.values())
    free = shutil.disk_usage(target.parent).free
    return InputError(f"-o {printable(str(target))}: no space left there: need {size(need)}, free {size(free)}")


def _sha256(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()
