# SPDX-License-Identifier: Apache-2.0
"""Is a bundle what its manifest says, and do its files say the same?"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from edgedeploy.bundle import MANIFEST, Manifest, read_manifest
from edgedeploy_partitioner import edp
from edgedeploy_partitioner.checker import Fault
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.plan import Plan

EVERY_BUNDLE = ("model.tflite", "plan.json", "plan.edp")


def bundle_faults(folder: Path, plan: Plan) -> Iterator[Fault]:
    """What is wrong with the files of ``folder``, whose plan.json is ``plan``, each as a fault ``bundle``."""
    manifest = read_manifest(folder)
    if manifest is None:
        yield Fault("bundle", f"{MANIFEST} is missing or not of schema edgedeploy.bundle/1")
        return
    faults = [*_files(folder, manifest), *_agreement(manifest, plan), *_edp(folder, plan)]
    yield from (Fault("bundle", words) for words in faults)


def as_given(graph: Graph, plan: Plan, folder: Path) -> Graph:
    """``graph``, or where it is the bundle's own model with the plan's input shapes in it, what it was made from.

    Only the manifest knows the one from the other; the plan's fingerprints, which the checker recomputes, are of both.
    """
    manifest = read_manifest(folder) if folder.is_dir() and plan.inputs.options.input_shapes else None
    if manifest is None or manifest.model_sha256 != graph.sha256:
        return graph
    return dataclasses.replace(graph, sha256=plan.inputs.model.sha256, size=plan.inputs.model.bytes)


def _files(folder: Path, manifest: Manifest) -> Iterator[str]:
    """The files that the manifest lists are there, and are what it lists."""
    listed = [entry.path for entry in manifest.files]
    yield from (f"{MANIFEST} does not list {path}" for path in EVERY_BUNDLE if path not in listed)
    yield from (f"{MANIFEST} lists {path} twice" for path in sorted({p for p in listed if listed.count(p) > 1}))
    for entry in manifest.files:
        file = _inside(folder, entry.path)
        if file is None:
            yield f"{entry.path} is missing"
        elif (found := file.stat().st_size) != entry.bytes:
            yield f"{entry.path} has {found} bytes, {MANIFEST} says {entry.bytes}"
        elif _sha256(file) != entry.sha256:
            yield f"{entry.path} is not the file that {MANIFEST} lists: its SHA-256 is another"


def _inside(folder: Path, path: str) -> Path | None:
    """The file ``path`` of ``folder``; None if there is none, or it is a way out."""
    try:
        file = Path(os.path.realpath(folder / path))
        return file if file.is_relative_to(os.path.realpath(folder)) and file.is_file() else None
    except (OSError, ValueError):  # a name that no file can have
        return None


def _agreement(manifest: Manifest, plan: Plan) -> Iterator[str]:
    """The manifest says the same as its list of files and as the plan."""
    of = {entry.path: entry.sha256 for entry in manifest.files}
    for path, sha256 in (("model.tflite", manifest.model_sha256), ("plan.json", manifest.plan_sha256)):
        if path in of and of[path] != sha256:
            yield f"{MANIFEST} has two SHA-256 of {path}"
    if not plan.inputs.options.input_shapes and manifest.model_sha256 != plan.inputs.model.sha256:
        yield "model.tflite is not the model of plan.json"
    runtime, told = plan.inputs.runtime, manifest.runtime
    if (told.name, told.version, told.xnnpack) != (runtime.name, runtime.version, runtime.xnnpack):
        yield f"{MANIFEST} and plan.json name different runtimes"


def _edp(folder: Path, plan: Plan) -> Iterator[str]:
    """plan.edp is plan.json in the form for the board."""
    file = folder / "plan.edp"
    if not file.is_file():
        return
    data = file.read_bytes()
    try:
        edp.decode(data)
        if data != edp.encode(plan):
            yield "plan.edp is not what plan.json encodes to"
    except InputError as error:
        yield error.message


def _sha256(file: Path) -> str:
    with open(file, "rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
