# SPDX-License-Identifier: Apache-2.0
"""A folder to ship, schema ``edgedeploy.bundle/1``: whole or not there, the same inputs give the same bytes."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

import edgedeploy_kernels
from edgedeploy.planview import claimed_partitions, unrunnable
from edgedeploy.text import printable, size
from edgedeploy_partitioner import edp
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.plan import Plan, to_json
from edgedeploy_partitioner.plan import Value as JsonValue
from edgedeploy_profiles import load_backend

MANIFEST = "manifest.json"
OWN_LIBRARY = edgedeploy_kernels.LIBRARY
BUILD_LIBRARY = "in a clone of edgedeploy, make kernels && pip install ."
LONGEST_PREFIX = 40
"""Characters of the folder's name that the temporary one beside it has, so that no longest name is too long."""
AT_FDCWD, RENAME_EXCHANGE = -100, 2
"""Of ``linux/fcntl.h`` and ``linux/fs.h``."""


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

    schema: Literal["edgedeploy.bundle/1"]
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
    library = edgedeploy_kernels.library(plan.inputs.runtime.machine)
    if library and needs_library(plan):
        files[OWN_LIBRARY] = ("library", library.read_bytes())
    missing = tuple(path for path in missing_files(plan) if path not in files)
    manifest = Manifest(
        schema="edgedeploy.bundle/1",
        files=tuple(File(path, _sha256(data), len(data), role) for path, (role, data) in files.items()),
        model_sha256=_sha256(model),
        plan_sha256=_sha256(plan_json),
        runtime=Runtime(plan.inputs.runtime.name, plan.inputs.runtime.version, plan.inputs.runtime.xnnpack),
        op_index_map=None,
        runnable=not missing,
        missing=missing,
    )
    return manifest, {path: data for path, (_, data) in files.items()}


def missing_files(plan: Plan) -> tuple[str, ...]:
    """What a bundle needs besides the model and the plan: our library, the NPU's compiled parts, the CPU's kernels."""
    own = (OWN_LIBRARY,) if needs_library(plan) else ()
    return tuple(dict.fromkeys((*own, *_artifacts(plan), *unrunnable(plan))))


def lacking(manifest: Manifest) -> str:
    """What is missing, and how to build what this project builds."""
    how = {OWN_LIBRARY: f"{OWN_LIBRARY} (to build it: {BUILD_LIBRARY})"}
    return ", ".join(how.get(path, path) for path in manifest.missing)


def needs_library(plan: Plan) -> bool:
    """The delegate to load: it makes the claims, or tells the runtime to use XNNPACK. The stock delegates that it holds
    to their claims are the board's own."""
    return bool(claimed_partitions(plan)) or plan.inputs.runtime.xnnpack == "switch"


def _artifacts(plan: Plan) -> Iterator[str]:
    """The compiled segments of the back ends with a support table that says it compiles."""
    ending = {name: load_backend(name).artifact for name in plan.inputs.tables}
    return (f"segment-{s.id}{ending[s.backend]}" for s in plan.segments if ending.get(s.backend))


def write_bundle(plan: Plan, model: bytes | memoryview, folder: str | os.PathLike[str], *, overwrite: bool) -> Written:
    """Write the bundle to ``folder``: a hidden neighbour folder is filled, its files synced, and then takes its place.

    A folder that already holds this very bundle is left alone; anything else there is replaced only if it is empty, or
    a bundle with no other files and ``overwrite`` is given. Raises InputError.

    ``folder`` is what it was or the whole bundle at every moment, a kill included, which may leave the neighbour
    behind. Where the system cannot exchange two folders (not Linux, some network file systems), a bundle is replaced
    by two renames: an exception between them is undone, a kill between them leaves the old bundle in the neighbour.
    """
    target = Path(folder)
    manifest, files = contents(plan, model)
    whole = {**files, MANIFEST: to_json(manifest)}
    if target.name in ("", ".."):
        raise InputError(f"-o {target}: give the bundle a folder of its own, for example -o bundle")
    if _holds(target, whole):
        return Written(target, manifest, changed=False)
    try:
        _check_replaceable(target, overwrite)
        with tempfile.TemporaryDirectory(
            prefix=f".{target.name[:LONGEST_PREFIX]}.", dir=target.parent, ignore_cleanup_errors=True
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
    listed = _listed(target)
    if listed is None:
        raise InputError(f"-o {shown}: the folder holds something that is not a bundle")
    if others := sorted(_files(target) - listed):
        raise InputError(f"-o {shown}: the folder also holds {printable(others[0])}, which is not of the bundle there")
    if not overwrite:
        raise InputError(f"-o {shown}: another bundle is there; --overwrite replaces it")


def _listed(folder: Path) -> set[str] | None:
    """The files of the bundle that ``folder`` says it is; None if it does not say so."""
    manifest = read_manifest(folder)
    return {MANIFEST, *(entry.path for entry in manifest.files)} if manifest else None


def read_manifest(folder: Path) -> Manifest | None:
    """What ``folder`` says it holds; None if it does not say so in this schema."""
    file = folder / MANIFEST
    if not file.is_file():
        return None
    try:
        return msgspec.convert(json.loads(file.read_bytes()), type=Manifest, strict=True)
    except (ValueError, RecursionError):
        return None


def _files(folder: Path) -> set[str]:
    """All that is not a folder, by its path in ``folder``; links are not followed."""
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_symlink() or not p.is_dir()}


def _holds(folder: Path, files: dict[str, bytes | memoryview]) -> bool:
    """Whether ``folder`` has exactly these files with exactly these bytes."""
    try:
        return _files(folder) == set(files) and all(_same(folder / path, data) for path, data in files.items())
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
    """Put ``new`` at ``target``; what was there ends at ``new`` or ``old``."""
    if target.exists() and _exchange(new, target):
        return
    try:
        if target.exists():
            target.rename(old)
        new.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise


def _exchange(a: Path, b: Path) -> bool:
    """Exchange two folders in one step (renameat2 of Linux); False where the system or the file system cannot."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if renameat2(AT_FDCWD, os.fsencode(a), AT_FDCWD, os.fsencode(b), RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code), str(b))


def _clearer(error: OSError, target: Path, files: dict[str, bytes | memoryview]) -> InputError:
    """What the system said, with the folder that was asked for: its own words name no file or a temporary one."""
    words = (error.strerror or str(error)).lower()
    if error.errno == errno.ENOSPC:
        need = sum(len(data) for data in files.values())
        words = f"no space left there: need {size(need)}, free {size(shutil.disk_usage(target.parent).free)}"
    return InputError(f"-o {target}: {words}")


def _sha256(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()
