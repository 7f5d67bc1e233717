# SPDX-License-Identifier: Apache-2.0
"""What is to be run on a device: a model, or the model of a bundle with its plan; and from where, in what shapes."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgedeploy import api
from edgedeploy.bundle import MANIFEST, OWN_LIBRARY, lacking, needs_library, read_manifest
from edgedeploy.measure.errors import ModelFailed
from edgedeploy.text import printable
from edgedeploy_partitioner.errors import InputError, NotDeployable
from edgedeploy_partitioner.model.graph import Graph, Tensor
from edgedeploy_partitioner.model.shapes import entry_point
from edgedeploy_partitioner.plan import Plan


@dataclass(frozen=True, slots=True)
class Subject:
    """``plan`` and ``plan_sha256`` are those of a bundle.

    ``graph`` is the model in the shapes that it runs in, ``subgraph`` the one that runs: that of ``signature``, whose
    key is None where nobody had to choose. ``input_shapes`` are those asked for, by the name that was given.
    """

    name: str
    file: Path
    sha256: str
    graph: Graph
    subgraph: int
    key: str = ""
    """Of the signature that the runtime is asked to run; empty where its first subgraph is the one."""
    signature: str | None = None
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    shapes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Input tensor -> shape, where that is not the file's."""
    plan: Plan | None = None
    plan_sha256: str | None = None
    delegate: Path | None = None
    """The bundle's ``libedgedeploy.so``, and the ``edp`` that it reads; None where the plan needs none."""
    edp: Path | None = None

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        runs = self.graph.subgraphs[self.subgraph]
        return tuple(runs.tensors[i] for i in runs.inputs)

    @property
    def open_inputs(self) -> tuple[Tensor, ...]:
        """Inputs without a fixed shape, which run in the one that the file has stored."""
        return tuple(tensor for tensor in self.inputs if tensor.is_dynamic)


def subject(
    path: Path, signature: str | None = None, input_shapes: Mapping[str, tuple[int, ...]] | None = None
) -> Subject:
    """Raises InputError; NotDeployable for a bundle that lacks what it needs to run."""
    if not path.is_dir():
        return _entered(path.name, path, api.read_model(path), signature, input_shapes or {})
    if signature is not None or input_shapes:
        what = "--input-shape" if input_shapes else "--signature"
        raise InputError(f"{what}: {printable(str(path))} is a bundle, which runs as it was planned: plan it again")
    manifest = read_manifest(path)
    if manifest is None:
        raise InputError(f"{printable(str(path))}: {MANIFEST} is missing or not of schema edgedeploy.bundle/1")
    if manifest.missing:
        raise NotDeployable(f"{printable(str(path))}: the bundle is not complete, missing: {lacking(manifest)}")
    if not manifest.runnable:
        raise NotDeployable(f"{printable(str(path))}: the runtime does not take the model; its plan.json says why")
    file = path / "model.tflite"
    graph = api.read_model(file)
    if graph.sha256 != manifest.model_sha256:
        raise InputError(f"{printable(str(file))} is not the model of {MANIFEST}: make the bundle again")
    plan = api.read_plan(path)
    if hashlib.sha256((path / "plan.json").read_bytes()).hexdigest() != manifest.plan_sha256:
        raise InputError(f"{printable(str(path / 'plan.json'))} is not the plan of {MANIFEST}: make the bundle again")
    found = _entered(path.name, file, graph, plan.inputs.options.signature, {})
    delegate, edp = (path / OWN_LIBRARY, path / "plan.edp") if needs_library(plan) else (None, None)
    return replace(found, plan=plan, plan_sha256=manifest.plan_sha256, delegate=delegate, edp=edp)


def with_shapes_of(found: Subject, inputs: Mapping[str, tuple[int, ...]]) -> Subject:
    """``found`` in the shapes of the given inputs, by tensor name, where they are not the file's.

    Raises InputError where they contradict what was asked for, or what a bundle was planned for.
    """
    named = {tensor.name: tensor for tensor in found.inputs}  # a name that is no input's is the device's to refuse
    other = {name: shape for name, shape in inputs.items() if name in named and named[name].shape != shape}
    for name, shape in other.items():
        if found.plan is not None or named[name].id in found.shapes:
            wanted = "the bundle was planned for" if found.plan is not None else "--input-shape says"
            raise InputError(f"--inputs: {name!r} has the shape {list(shape)}, {wanted} {list(named[name].shape)}")
    if not other:
        return found
    graph = api.read_model(found.file)
    return _entered(found.name, found.file, graph, found.signature, {**found.input_shapes, **other})


def _entered(
    name: str, file: Path, graph: Graph, signature: str | None, input_shapes: Mapping[str, tuple[int, ...]]
) -> Subject:
    index, entry = entry_point(graph, signature)
    sized = api.with_input_shapes(graph, input_shapes, signature) if input_shapes else graph
    before, after = graph.subgraphs[index], sized.subgraphs[index]
    changed = {i: after.tensors[i].shape for i in before.inputs if after.tensors[i].shape != before.tensors[i].shape}
    key = entry.key if index and entry else ""
    return Subject(name, file, graph.sha256, sized, index, key, signature, dict(input_shapes), changed)


@contextlib.contextmanager
def with_advice(found: Subject) -> Iterator[None]:
    """Where a model is refused whose inputs are open, say that their shapes can be set."""
    try:
        yield
    except ModelFailed as error:
        if error.kind == "refused" and found.open_inputs and found.plan is None:
            names = ", ".join(repr(tensor.name) for tensor in found.open_inputs)
            advice = f"its file leaves the shape of {names} open: --input-shape sets it"
            raise replace(error, message="; ".join(filter(None, (error.message, advice)))) from None
        raise


def entry_json(found: Subject) -> dict[str, Any]:
    """Of ``edgedeploy.bench/1`` and ``edgedeploy.verify/1``: the entry point, and its inputs in the shapes they had."""
    inputs = [
        {"name": tensor.name, "dtype": tensor.dtype.value, "shape": list(tensor.shape), "open": tensor.is_dynamic}
        for tensor in found.inputs
    ]
    return {"signature": found.signature, "inputs": inputs}
