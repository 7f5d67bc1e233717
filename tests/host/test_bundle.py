# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import hashlib
import json
import os
import resource
from pathlib import Path

import pytest
from msgspec.structs import replace

from edgedeploy import bundle
from edgedeploy_partitioner import edp
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.plan import Plan, Warn, from_json
from support.plans import sample

MODEL = bytes(range(256)) * 8
FILES = {"manifest.json", "model.tflite", "plan.json", "plan.edp"}


def _plan(*backends: str) -> Plan:
    return sample(backends or ("rknn", "rknn", "xnnpack", "builtin", "rknn"))[0]


def _snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_bundle_says_what_it_holds(tmp_path: Path) -> None:
    plan = _plan()
    written = bundle.write_bundle(plan, MODEL, tmp_path / "out", overwrite=False)
    files = _snapshot(tmp_path / "out")
    manifest = json.loads(files["manifest.json"])
    assert written.changed
    assert set(files) == FILES
    assert manifest["schema"] == "edgedeploy.bundle/1"
    listed = {entry["path"]: (entry["sha256"], entry["bytes"]) for entry in manifest["files"]}
    assert listed == {
        path: (hashlib.sha256(data).hexdigest(), len(data)) for path, data in files.items() if path != "manifest.json"
    }
    assert manifest["model_sha256"] == hashlib.sha256(MODEL).hexdigest()
    assert manifest["plan_sha256"] == hashlib.sha256(files["plan.json"]).hexdigest()
    assert from_json(files["plan.json"]) == plan
    assert {op.index for op in edp.decode(files["plan.edp"]).ops} == {0, 1, 4}
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_claims_need_the_library_and_the_compiled_parts() -> None:
    manifest, _ = bundle.contents(_plan(), MODEL)
    assert manifest.missing == ("libedgedeploy.so", "segment-0.rknn", "segment-2.rknn")
    assert not manifest.runnable


def test_a_plan_that_claims_nothing_runs_as_it_is() -> None:
    manifest, _ = bundle.contents(_plan("xnnpack", "builtin"), MODEL)
    assert manifest.missing == ()
    assert manifest.runnable


def test_a_model_that_the_runtime_rejects_is_not_runnable() -> None:
    plan = replace(_plan("xnnpack"), warnings=(Warn("runtime_rejects", "tensor 33 ..."),))
    assert not bundle.contents(plan, MODEL)[0].runnable


def test_names_that_are_not_unicode_survive() -> None:
    plan = _plan("builtin")
    plan = replace(plan, ops=(replace(plan.ops[0], custom_code="bad\udcff", op="CUSTOM"),))
    assert from_json(bytes(bundle.contents(plan, MODEL)[1]["plan.json"])) == plan


def test_the_same_bundle_is_left_alone(tmp_path: Path) -> None:
    bundle.write_bundle(_plan(), MODEL, tmp_path / "out", overwrite=False)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir()}
    assert not bundle.write_bundle(_plan(), MODEL, tmp_path / "out", overwrite=False).changed
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir()} == before


def test_another_bundle_is_replaced_only_when_asked(tmp_path: Path) -> None:
    out = tmp_path / "out"
    bundle.write_bundle(_plan(), MODEL, out, overwrite=False)
    before = _snapshot(out)
    with pytest.raises(InputError, match="--overwrite"):
        bundle.write_bundle(_plan("rknn"), MODEL, out, overwrite=False)
    assert _snapshot(out) == before
    assert bundle.write_bundle(_plan("rknn"), MODEL, out, overwrite=True).changed
    assert from_json(_snapshot(out)["plan.json"]) == _plan("rknn")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_is_not_a_bundle_is_never_replaced(tmp_path: Path, overwrite: bool) -> None:
    out = tmp_path / "precious"
    out.mkdir()
    (out / "thesis.txt").write_text("all of it")
    with pytest.raises(InputError, match="not a bundle"):
        bundle.write_bundle(_plan(), MODEL, out, overwrite=overwrite)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="not a folder"):
        bundle.write_bundle(_plan(), MODEL, tmp_path / "file", overwrite=overwrite)
    with pytest.raises(InputError, match="no folder"):
        bundle.write_bundle(_plan(), MODEL, tmp_path / "no" / "where", overwrite=overwrite)
    assert _snapshot(tmp_path) == {"precious/thesis.txt": b"all of it", "file": b"x"}


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    bundle.write_bundle(_plan(), MODEL, tmp_path / "out", overwrite=False)
    assert set(_snapshot(tmp_path / "out")) == FILES


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.rename"])
@pytest.mark.parametrize(("failure", "error"), [(_interrupted, KeyboardInterrupt), (_full, InputError)])
@pytest.mark.parametrize("at", range(4))
def test_it_is_whole_or_not_there(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    existing: bool,
    call: str,
    failure: object,
    error: type[BaseException],
    at: int,
) -> None:
    """Whichever write or rename fails: the folder is what it was or the whole new one, and nothing lies beside it."""
    out = tmp_path / "out"
    if existing:
        bundle.write_bundle(_plan("rknn"), MODEL, out, overwrite=False)
    before = _snapshot(tmp_path)
    done, real = [0], {"os.fsync": os.fsync, "pathlib.Path.rename": Path.rename}[call]

    def failing(*arguments: object) -> object:
        done[0] += 1
        if done[0] == at + 1:
            failure()  # type: ignore[operator]
        return real(*arguments)  # type: ignore[operator]

    monkeypatch.setattr(call, failing)
    failed = False
    try:
        bundle.write_bundle(_plan(), MODEL, out, overwrite=True)
    except error:
        failed = True
    monkeypatch.undo()
    assert failed == (done[0] > at)
    if failed:
        assert _snapshot(tmp_path) == before
    else:
        assert from_json(_snapshot(out)["plan.json"]) == _plan()
    assert [p.name for p in tmp_path.iterdir()] == (["out"] if existing or not failed else [])


def test_a_full_disk_says_how_much_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", _full)
    with pytest.raises(InputError, match=r"no space left there: need .* free"):
        bundle.write_bundle(_plan(), MODEL, tmp_path / "out", overwrite=False)


def test_a_write_that_really_fails_leaves_nothing(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(MODEL) - 1, hard))
    try:
        with pytest.raises(OSError, match="large"):
            bundle.write_bundle(_plan(), MODEL, tmp_path / "out", overwrite=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())
