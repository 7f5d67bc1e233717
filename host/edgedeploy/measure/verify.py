# SPDX-License-Identifier: Apache-2.0
"""Does a model compute on a device what it should? Its outputs beside those of the runtime's own kernels."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgedeploy.measure.claims import runtime_json
from edgedeploy.measure.compare import Comparison, Tolerance, compare_all
from edgedeploy.measure.errors import BadRequest
from edgedeploy.measure.session import Session, Settings, Tensors
from edgedeploy.measure.subject import Subject, entry_json
from edgedeploy.text import printable
from edgedeploy_agent.arrays import BadInputs, read_arrays
from edgedeploy_agent.trial import sample
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.model.graph import DType

SCHEMA = "edgedeploy.verify/1"
_PLAIN = frozenset(DType(name) for name in (
    "float32", "float16", "float64", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reference:
    """What the device's outputs were compared with."""

    name: str
    runtime: dict[str, Any]
    outputs: tuple[Comparison, ...]

    @property
    def ok(self) -> bool:
        return all(output.ok for output in self.outputs)


@dataclass(frozen=True, slots=True)
class Verified:
    device: str
    subject: Subject
    runtime: dict[str, Any]
    tolerance: Tolerance
    seed: int | None
    """None where the inputs were given."""
    references: tuple[Reference, ...]

    @property
    def ok(self) -> bool:
        return all(reference.ok for reference in self.references)


def seeded_inputs(what: Subject, seed: int) -> Tensors:
    """Random inputs by name, of the types that NumPy has; the rest is the device's to choose, by a seed of its own."""
    random = np.random.default_rng(seed)
    found: Tensors = {}
    for tensor in what.inputs:
        if tensor.dtype in _PLAIN:
            found[tensor.name] = sample(random, np.dtype(tensor.dtype.value), tensor.shape)
    return found


def given_inputs(file: Path) -> Tensors:
    """The arrays of an .npz file. Raises InputError."""
    try:
        return dict(read_arrays(os.fspath(file)))
    except BadInputs as error:
        raise InputError(f"--inputs {printable(str(file))}: {error}") from None


def verify(
    session: Session,
    subject: Subject,
    settings: Settings,
    inputs: Tensors,
    tolerance: Tolerance,
    *,
    seed: int | None = None,
    host: Session | None = None,
) -> Verified:
    """Run on the device as a program would, and again with the runtime's own kernels; with ``host`` there, too.

    Raises what :meth:`Session.run` does, and BadRequest for a model without outputs.
    """
    plain = dataclasses.replace(settings, xnnpack=False, threads=1, cpus="", delegate=None, plan=None)
    found, runtime = session.run(settings, inputs)
    if not found:
        raise BadRequest(f"{session.device}: the model has no outputs, so there is nothing to compare")
    asked = [("the runtime's own kernels", session, plain)]
    if host is not None:
        asked.append(("this machine", host, plain))
    references = []
    for name, where, how in asked:
        expected, its_runtime = where.run(how, inputs)
        references.append(Reference(name, its_runtime, compare_all(expected, found, tolerance)))
    return Verified(session.device, subject, runtime, tolerance, seed, tuple(references))


def verify_json(found: Verified) -> dict[str, Any]:
    """``edgedeploy.verify/1``."""
    return {
        "schema": SCHEMA,
        "device": found.device,
        "model": {"name": found.subject.name, "sha256": found.subject.sha256},
        "plan_sha256": found.subject.plan_sha256,
        **entry_json(found.subject),
        "runtime": runtime_json(found.runtime, found.subject.plan),
        "seed": found.seed,
        "tolerance": dataclasses.asdict(found.tolerance),
        "references": [
            {"name": each.name, "runtime": each.runtime, "ok": each.ok, "outputs": [_output(o) for o in each.outputs]}
            for each in found.references
        ],
        "ok": found.ok,
    }


def _output(found: Comparison) -> dict[str, Any]:
    """``max_lsb`` is null for what is not quantised; infinite differences are null, as JSON has no such number."""
    whole = found.whole
    return {
        "name": found.name,
        "dtype": found.dtype,
        "shape": list(found.shape),
        "ok": found.ok,
        "problem": found.problem or None,
        **({} if whole is None else _numbers(whole)),
        "max_lsb": int(whole.max_abs) if whole is not None and found.in_lsb else None,
        "rows": [_numbers(row) for row in found.rows],
    }


def _numbers(found: Any) -> dict[str, Any]:
    return {
        key: None if isinstance(value, float) and not np.isfinite(value) else value
        for key, value in dataclasses.asdict(found).items()
    }
