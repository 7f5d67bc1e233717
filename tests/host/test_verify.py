# SPDX-License-Identifier: Apache-2.0
"""``check`` of a bundle: whatever is changed in it is told, and either model will do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgedeploy import api
from edgedeploy.__main__ import main
from edgedeploy.bundle import write_bundle

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "examples" / "dscnn_kws.int8.tflite"
UNET = ROOT / "examples" / "unet_128.int8.tflite"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good") / "bundle"
    plan = api.partition(UNET, "rk3588")
    write_bundle(plan, UNET.read_bytes(), folder, overwrite=False)
    return folder


def _in_manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    def edit(folder: Path) -> None:
        file = folder / "manifest.json"
        manifest = json.loads(file.read_bytes())
        change(manifest)
        file.write_text(json.dumps(manifest))

    return edit


def _flip_last_byte(name: str) -> Callable[[Path], object]:
    def edit(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[-1] ^= 1
        (folder / name).write_bytes(data)

    return edit


def _other_edp(folder: Path) -> None:
    """A readable plan.edp of another plan, listed as it is."""
    plan = (folder / "plan.json").read_bytes()
    other = api.partition(UNET, "rk3588", force=("1=cpu",))
    (folder / "loop").unlink()
    write_bundle(other, UNET.read_bytes(), folder, overwrite=True)
    (folder / "plan.json").write_bytes(plan)


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda f: (f / "manifest.json").unlink(), "manifest.json is missing"),
        (lambda f: (f / "manifest.json").write_text("{}"), "manifest.json is missing or not of schema"),
        (lambda f: (f / "model.tflite").unlink(), "model.tflite is missing"),
        (lambda f: (f / "plan.edp").unlink(), "plan.edp is missing"),
        (lambda f: (f / "model.tflite").write_bytes(b""), "model.tflite has 0 bytes"),
        (_flip_last_byte("model.tflite"), "model.tflite is not the file that manifest.json lists"),
        (_flip_last_byte("plan.edp"), "plan.edp is not the file that manifest.json lists"),
        (_flip_last_byte("plan.edp"), "bundle: plan.edp: "),
        (_other_edp, "plan.edp is not what plan.json encodes to"),
        (_in_manifest(lambda m: m["files"].pop(0)), "manifest.json does not list model.tflite"),
        (_in_manifest(lambda m: m["files"].append(m["files"][0])), "lists model.tflite twice"),
        (_in_manifest(lambda m: m["files"][0].update(path="../bundle2")), "../bundle2 is missing"),
        (_in_manifest(lambda m: m["files"][0].update(path="a\0")), "a\\x00 is missing"),
        (_in_manifest(lambda m: m["files"][0].update(path="\ud800")), "\\ud800 is missing"),
        (_in_manifest(lambda m: m["files"][0].update(path="a" * 300)), "aaa is missing"),
        (_in_manifest(lambda m: m["files"][0].update(path="loop")), "loop is missing"),
        (_in_manifest(lambda m: m.update(model_sha256="0" * 64)), "two SHA-256 of model.tflite"),
        (_in_manifest(lambda m: m.update(model_sha256="0" * 64)), "model.tflite is not the model of plan.json"),
        (_in_manifest(lambda m: m.update(plan_sha256="0" * 64)), "two SHA-256 of plan.json"),
        (_in_manifest(lambda m: m["runtime"].update(version="1")), "different runtimes"),
    ],
)
def test_what_is_changed_in_a_bundle_is_told(
    good: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    edit: Callable[[Path], object],
    told: str,
) -> None:
    folder = tmp_path / "bundle"
    shutil.copytree(good, folder)
    shutil.copy(UNET, tmp_path / "bundle2")
    (folder / "loop").symlink_to("loop")
    assert main(["check", str(folder), str(UNET)]) == 0
    edit(folder)
    capsys.readouterr()
    assert main(["check", str(folder), str(UNET)]) == 1
    shown = capsys.readouterr().out
    assert told in shown
    assert shown.startswith("bundle: ")


def test_the_given_and_the_shipped_model_both_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    plan = ["partition", str(TINY), "--board", "rpi5", "--input-shape", "0=2,49,10,1", "-o", out, "-q"]
    assert main(plan) == 0
    shipped = tmp_path / "out" / "model.tflite"
    assert shipped.read_bytes() != TINY.read_bytes()
    for model in (TINY, shipped):
        assert main(["check", out, str(model)]) == 0
    capsys.readouterr()
    assert main(["check", f"{out}/plan.json", str(shipped)]) == 1, "a plan alone does not know what is shipped"
    assert capsys.readouterr().out.startswith("model: ")


def test_another_model_is_a_fault_and_not_a_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    assert main(["partition", str(TINY), "--board", "rpi5", "--input-shape", "0=2,49,10,1", "-o", out, "-q"]) == 0
    capsys.readouterr()
    other = str(ROOT / "examples" / "lstm_kws.fp32.tflite")
    assert main(["check", out, other]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("model: ")
    assert lines[0].isascii()


def test_many_faults_are_told_by_their_number(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(good), str(TINY), "--json"]) == 1
    count = len(json.loads(capsys.readouterr().out)["faults"])
    assert count > 22
    assert main(["check", str(good), str(TINY)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("model: ")
    assert len(lines) == 22
    assert lines[-1] == f"and {count - 21} more"
