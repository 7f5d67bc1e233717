# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

import edgedeploy_kernels
import edgedeploy_profiles
from edgedeploy import bundle, output
from edgedeploy_partitioner import edp
from edgedeploy_partitioner.errors import InputError
from edgedeploy_partitioner.plan import BackendUse, Plan, Warn, from_json, to_json
from support.plans import sample

MODEL = bytes(range(256)) * 8
FILES = {"manifest.json", "model.tflite", "plan.json", "plan.edp"}


@pytest.fixture(autouse=True)
def not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a clone: whether somebody built the library makes no difference here."""
    monkeypatch.setattr(edgedeploy_kernels, "library", lambda _: None)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, built for what plans here are for and for nothing else."""
    file = tmp_path_factory.mktemp("lib") / "libedgedeploy.so"
    file.write_bytes(b"the library")
    monkeypatch.setattr(edgedeploy_kernels, "library", lambda machine: file if machine == "x86_64" else None)
    return file


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


def test_a_stock_delegate_needs_the_library_that_holds_it_to_its_ops() -> None:
    plan = _plan("rknn", "xnnpack", "rknn")
    stock = replace(
        plan,
        inputs=replace(plan.inputs, tables={}),
        backends=(BackendUse("teflon", "libteflon.so", {}, None), BackendUse("cpu", None, {}, None)),
        segments=tuple(replace(s, backend="teflon" if s.backend == "rknn" else "cpu") for s in plan.segments),
        partitions=tuple(replace(p, delegate=p.delegate.replace("edgedeploy", "teflon")) for p in plan.partitions),
    )
    assert bundle.missing_files(stock) == ("libedgedeploy.so",)


@pytest.mark.parametrize(("artifact", "files"), [(".hef", ("segment-0.hef",)), ("", ())])
def test_the_table_says_what_a_compiled_segment_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, artifact: str, files: tuple[str, ...]
) -> None:
    own = Path(edgedeploy_profiles.__file__).parent / "backends" / "rknn.toml"
    table = tmp_path / "edgedeploy" / "backends" / "rknn.toml"
    table.parent.mkdir(parents=True)
    table.write_text(own.read_text().replace('artifact = ".rknn"', f'artifact = "{artifact}"'))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert bundle.missing_files(_plan("rknn")) == ("libedgedeploy.so", *files)


@pytest.mark.usefixtures("built")
def test_the_library_for_the_board_is_put_into_the_bundle(tmp_path: Path) -> None:
    plan = _plan()
    written = bundle.write_bundle(plan, MODEL, tmp_path / "out", overwrite=False)
    assert set(_snapshot(tmp_path / "out")) == {*FILES, "libedgedeploy.so"}
    [entry] = [entry for entry in written.manifest.files if entry.role == "library"]
    assert (entry.path, entry.bytes) == ("libedgedeploy.so", 11)
    assert written.manifest.missing == ("segment-0.rknn", "segment-2.rknn")
    other = replace(plan, inputs=replace(plan.inputs, runtime=replace(plan.inputs.runtime, machine="aarch64")))
    assert bundle.contents(other, MODEL)[0].missing == ("libedgedeploy.so", "segment-0.rknn", "segment-2.rknn")


@pytest.mark.usefixtures("built")
def test_a_bundle_that_needs_no_library_has_none() -> None:
    plan = _plan("xnnpack", "builtin")
    assert set(bundle.contents(plan, MODEL)[1]) | {"manifest.json"} == FILES
    switched = replace(plan, inputs=replace(plan.inputs, runtime=replace(plan.inputs.runtime, xnnpack="switch")))
    manifest, files = bundle.contents(switched, MODEL)
    assert (manifest.runnable, files["libedgedeploy.so"]) == (True, b"the library")
    assert [b.options for b in edp.decode(files["plan.edp"]).backends] == [(("xnnpack", "switch"),)]


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


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param('{"manifest_version": 3, "name": "extension"}', id="extension"),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param("\xff", id="not text"),
        pytest.param("", id="empty"),
        pytest.param("[]", id="list"),
    ],
)
def test_a_manifest_of_something_else_is_no_bundle(tmp_path: Path, overwrite: bool, manifest: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.js").write_text("all of it")
    (tmp_path / "manifest.json").write_text(manifest, "latin-1")
    before = _snapshot(tmp_path)
    with pytest.raises(InputError, match="not a bundle"):
        bundle.write_bundle(_plan(), MODEL, tmp_path, overwrite=overwrite)
    assert _snapshot(tmp_path) == before


def test_a_manifest_of_another_schema_is_no_bundle(tmp_path: Path) -> None:
    out = tmp_path / "out"
    manifest = bundle.write_bundle(_plan(), MODEL, out, overwrite=False).manifest
    (out / "manifest.json").write_bytes(to_json(manifest).replace(b"edgedeploy.bundle/1", b"edgedeploy.bundle/2"))
    with pytest.raises(InputError, match="not a bundle"):
        bundle.write_bundle(_plan("rknn"), MODEL, out, overwrite=True)


@pytest.mark.parametrize("other", ["notes.txt", "src/app.js", "link"])
def test_a_bundle_with_other_files_in_it_is_never_replaced(tmp_path: Path, other: str) -> None:
    out = tmp_path / "out"
    bundle.write_bundle(_plan(), MODEL, out, overwrite=False)
    (out / other).parent.mkdir(exist_ok=True)
    if other == "link":
        (out / other).symlink_to(tmp_path, target_is_directory=True)
    else:
        (out / other).write_text("mine")
    before = _snapshot(out)
    with pytest.raises(InputError, match=f"also holds {other}"):
        bundle.write_bundle(_plan("rknn"), MODEL, out, overwrite=True)
    assert _snapshot(out) == before


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    bundle.write_bundle(_plan(), MODEL, tmp_path / "out", overwrite=False)
    assert set(_snapshot(tmp_path / "out")) == FILES


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _cannot_exchange(*_: object) -> bool:
    return False


@pytest.mark.parametrize("exchange", [False, True])
@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.rename"])
@pytest.mark.parametrize(("failure", "error"), [(_interrupted, KeyboardInterrupt), (_full, InputError)])
@pytest.mark.parametrize("at", range(4))
def test_it_is_whole_or_not_there(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    exchange: bool,
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
    if not exchange:
        monkeypatch.setattr(bundle, "_exchange", _cannot_exchange)
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


KILLED = """
import os, signal, sys
from pathlib import Path
import edgedeploy_kernels
from edgedeploy import bundle
from edgedeploy_partitioner.plan import from_json

edgedeploy_kernels.library = lambda _: None

def killed(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

target = Path(sys.argv[1])
exchange = bundle._exchange
bundle._exchange = lambda *both: exchange(*both) and killed()
Path.rename = killed
bundle.write_bundle(from_json(sys.stdin.buffer.read()), bytes(range(256)) * 8, target, overwrite=True)
"""


def test_a_kill_never_leaves_neither(tmp_path: Path) -> None:
    """Killed right after the exchange: the new bundle is there, whole, and the old one still beside it."""
    out, probe = tmp_path / "out", (tmp_path / "a", tmp_path / "b")
    for folder in probe:
        folder.mkdir()
    if not bundle._exchange(*probe):
        pytest.skip("this system cannot exchange folders")
    for folder in probe:
        folder.rmdir()
    bundle.write_bundle(_plan("rknn"), MODEL, out, overwrite=False)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(out)], input=to_json(_plan()), capture_output=True, check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert set(_snapshot(out)) == FILES
    assert from_json(_snapshot(out)["plan.json"]) == _plan()
    [left] = (p for p in tmp_path.iterdir() if p != out)
    assert left.name.startswith(".out.")
    assert from_json((left / "new" / "plan.json").read_bytes()) == _plan("rknn")


def test_an_exchange_that_fails_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        bundle._exchange(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize("folder", ["", ".", "..", "a/.."])
def test_a_bundle_needs_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"-o .*folder of its own"):
        bundle.write_bundle(_plan(), MODEL, folder, overwrite=False)
    assert not list(tmp_path.iterdir())


def test_the_longest_name_will_do_and_a_longer_one_is_told(tmp_path: Path) -> None:
    assert bundle.write_bundle(_plan(), MODEL, tmp_path / ("n" * 255), overwrite=False).changed
    with pytest.raises(InputError, match=r"-o .*/m{256}: file name too long"):
        bundle.write_bundle(_plan(), MODEL, tmp_path / ("m" * 256), overwrite=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_program_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setattr("os.fsync", lambda _: os.kill(os.getpid(), number))
    with pytest.raises(SystemExit) as ended, output.stoppable():
        bundle.write_bundle(_plan(), MODEL, tmp_path / "out", overwrite=False)
    assert ended.value.code == 128 + number
    assert not list(tmp_path.iterdir())
    assert signal.getsignal(number) == signal.SIG_DFL


def test_a_full_disk_says_how_much_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", _full)
    with pytest.raises(InputError, match=r"no space left there: need .* free"):
        bundle.write_bundle(_plan(), MODEL, tmp_path / "out", overwrite=False)


def test_a_write_that_really_fails_leaves_nothing(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(MODEL) - 1, hard))
    try:
        with pytest.raises(InputError, match=r"-o .*/out: file too large"):
            bundle.write_bundle(_plan(), MODEL, tmp_path / "out", overwrite=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())
