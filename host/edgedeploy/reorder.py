# SPDX-License-Identifier: Apache-2.0
"""A model with its ops in another order: found, written beside its place, run against the old one, put in place."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgedeploy.report.page import Style, render, text
from edgedeploy.text import plural, printable, size
from edgedeploy.trial import Trial, try_model
from edgedeploy_partitioner.errors import InputError, NotDeployable
from edgedeploy_partitioner.memory.reordering import Arranged, Reordering
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.reorder import with_order_written
from edgedeploy_profiles.schema import Runtime

SCHEMA = "edgedeploy.reorder/1"
RUNS = 3
"""Runs of each entry point, on different inputs."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Both models gave the same bits. The arenas are as measured, those of all changed subgraphs together; None where
    the runtime is not the one asked for, or does not show them: it frees those of control flow after use."""

    runtime: str
    runs: int
    different: int
    """How many different outputs the runs gave: with only one, that they are equal says little."""
    arena_bytes: int | None
    new_arena_bytes: int | None

    @property
    def shrinks(self) -> bool:
        """Is there no measurement that says otherwise?"""
        return self.arena_bytes is None or self.new_arena_bytes is None or self.new_arena_bytes < self.arena_bytes


@dataclass(frozen=True, slots=True)
class Written:
    path: Path
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class How:
    """How the program will run the model."""

    runtime: Runtime
    xnnpack: bool
    threads: int

    def __str__(self) -> str:
        using = "with" if self.xnnpack else "without"
        return f"{self.runtime.name} {self.runtime.version} {using} XNNPACK, {plural(self.threads, 'thread')}"


def check_free(out: Path, *, overwrite: bool) -> None:
    """Raise :class:`InputError` if a file cannot be put at ``out``, before any work is done."""
    shown = printable(str(out))
    if not out.parent.is_dir():
        raise InputError(f"-o {shown}: there is no folder {printable(str(out.parent))}")
    if out.is_dir() or (out.exists() and not out.is_file()):
        raise InputError(f"-o {shown}: it exists and is not a file")
    if out.exists() and not overwrite:
        raise InputError(f"-o {shown}: a file is there; --overwrite replaces it")


def write_reordered(model: Path, graph: Graph, found: Reordering, out: Path, how: How) -> tuple[Proof, Written | None]:
    """Write the file in the new order to ``out``, whole or not at all, after both models gave the same bits.

    Nothing is written if the arena as measured is not smaller. Raises :class:`NotDeployable` where the outputs differ
    or a model does not run, :class:`InputError` where the file cannot be written.
    """
    data = with_order_written(graph.source, graph, found.orders)
    try:
        descriptor, beside = tempfile.mkstemp(prefix=f".{out.name[:40]}.", suffix=".tflite", dir=out.parent)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            proof = _proof(model, Path(beside), found, how)
            if not proof.shrinks:
                return proof, None
            os.chmod(beside, 0o666 & ~_umask())
            os.replace(beside, out)
        finally:
            Path(beside).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"-o {out}: {(error.strerror or str(error)).lower()}") from None
    return proof, Written(out, hashlib.sha256(data).hexdigest(), len(data))


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _proof(old: Path, new: Path, found: Reordering, how: How) -> Proof:
    def ran(path: Path, *, digests: int = 0, arenas: bool = False) -> Trial:
        trial = try_model(path, xnnpack=how.xnnpack, threads=how.threads, digests=digests, arenas=arenas)
        if trial.outcome == "no-runtime":
            raise NotDeployable("no file written: the outputs cannot be compared, there is no TFLite runtime here")
        if not trial.ok:
            which = "as it is" if path == old else "re-ordered"
            where = f"{trial.outcome} at {trial.stage}" + (f" in {trial.runtime}" if trial.runtime else "")
            raise NotDeployable(f"no file written: the model {which} does not run: {where}: {trial.message}")
        return trial

    first, second = ran(old, digests=RUNS), ran(new, digests=RUNS)
    if first.digests != second.digests:
        if ran(old, digests=RUNS).digests != first.digests:
            raise NotDeployable("no file written: the model's own outputs differ from run to run on the same inputs")
        raise NotDeployable(f"no file written: the re-ordered model gives other outputs in {second.runtime}")
    before = after = None
    if first.runtime == f"{how.runtime.name} {how.runtime.version}":
        before, after = (_measured(ran(path, arenas=True), found) for path in (old, new))
    unsure = not all(each.is_exact for each in found.subgraphs if each.is_changed)
    if unsure and (before is None or after is None):
        raise NotDeployable("no file written: the arena is not predicted exactly and cannot be measured here")
    return Proof(first.runtime, len(first.digests), len({*first.digests}), before, after)


def _measured(trial: Trial, found: Reordering) -> int | None:
    """The arenas of the changed subgraphs together; None if one of them is not there any more."""
    changed = [(trial.arena_bytes or ())[i : i + 1] for i in found.orders]
    return sum(size for (size,) in changed) if all(map(any, changed)) else None


# --- what is said of it ---


def as_json(
    name: str, graph: Graph, how: How, found: Reordering, proof: Proof | None, written: Written | None
) -> Mapping[str, Any]:
    runtime = {"name": how.runtime.name, "version": how.runtime.version, "xnnpack": how.xnnpack, "threads": how.threads}
    return {
        "schema": SCHEMA,
        "model": {"name": name, "sha256": graph.sha256, "bytes": graph.size},
        "runtime": runtime,
        "entries": [asdict(entry) for entry in found.entries],
        "subgraphs": [asdict(each) for each in found.subgraphs],
        "proof": None if proof is None else asdict(proof),
        "written": None if written is None else asdict(written) | {"path": str(written.path)},
    }


def as_text(
    name: str, how: How, found: Reordering, proof: Proof | None, written: Written | None, style: Style | None = None
) -> str:
    """With a ``depth`` below zero only the model and the first entry point. The path is never folded."""
    style = style or Style()
    lines = [*_predicted(name, how, found), *_done(found, proof, written)]
    if style.depth < 0:
        return render(style, *map(text, lines[:2]))
    path = f"wrote {printable(str(written.path))}\n" if written else ""
    return render(style, *map(text, lines)) + path


def _predicted(name: str, how: How, found: Reordering) -> Iterator[str]:
    yield f"{name}, {how}"
    several = len(found.subgraphs) > 1
    for entry in found.entries:
        where = f"subgraph {entry.subgraph} with what it runs: " if several else ""
        yield f"{where}arena {_change(entry.arena_bytes, entry.new_arena_bytes)}"
    for each in found.subgraphs:
        where = f"subgraph {each.subgraph}: {_change(each.arena_bytes, each.new_arena_bytes)}; " if several else ""
        kind = "" if each.is_exact else "; not exact: an op's scratch memory or size is not known beforehand"
        yield f"{where}{_bound(each, how.xnnpack)}{kind}"


def _done(found: Reordering, proof: Proof | None, written: Written | None) -> Iterator[str]:
    if proof is not None:
        yield f"same outputs to the bit in {proof.runs} runs of {proof.runtime} on this machine"
        if proof.arena_bytes is not None:
            yield f"arena there, as measured: {_sizes(proof.arena_bytes, proof.new_arena_bytes)}"
        if proof.different == 1:
            yield "all runs gave the same outputs, whatever the inputs: that proves little"
    if written is None:
        yield "nothing to gain: no file written"
    else:
        changed = [each for each in found.subgraphs if each.is_changed]
        moved = sum(new != old for each in changed for new, old in enumerate(each.order))
        yield f"{moved} of {sum(len(e.order) for e in changed)} ops moved"


def _change(before: int, after: int) -> str:
    if before == after:
        return size(before)
    return f"{_sizes(before, after)} ({100 * (before - after) / before:.1f} % less)"


def _sizes(before: int | None, after: int | None) -> str:
    return f"{size(before)} -> {size(after)}"


def _bound(each: Arranged, xnnpack: bool) -> str:
    if len(each.order) < 2:
        return "there is no other order"
    order = "no order that keeps XNNPACK's partitions" if xnnpack else "no order of the ops"
    if each.new_arena_bytes <= each.bound_bytes:
        return f"{order} has a smaller one"
    return f"{order} has one below {size(each.bound_bytes)}"
