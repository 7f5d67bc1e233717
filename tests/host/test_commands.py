# SPDX-License-Identifier: Apache-2.0
"""The commands on real models, from the command line to what they print."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

import edgedeploy
import edgedeploy_kernels
from edgedeploy import api
from edgedeploy.__main__ import main
from edgedeploy.bundle import MANIFEST
from edgedeploy_partitioner import edp
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.plan import from_json
from edgedeploy_profiles import board_names, load_board
from support.dfl_model import MEAN, SOFTMAX, dfl_model

ROOT = Path(__file__).resolve().parents[2]
TINY = str(ROOT / "examples" / "dscnn_kws.int8.tflite")
UNET = str(ROOT / "examples" / "unet_128.int8.tflite")
CUSTOM = str(ROOT / "examples" / "custom_erf.int8.tflite")


class Shell:
    """Runs commands in this process; each call gives exit code, stdout and stderr."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: str | Path) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        shown = self.capsys.readouterr()
        return code, shown.out, shown.err

    def json(self, *arguments: str | Path) -> Any:
        code, out, err = self(*arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


# --- partition ----------


def test_the_report_says_where_ops_run(shell: Shell) -> None:
    code, out, err = shell("partition", UNET, "--board", "rk3588")
    assert (code, err) == (0, "")
    assert "predicted latency" in out
    assert "not run on hardware" in out
    assert "rknn + neon by edgedeploy" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("model", ["lstm_kws.fp32", "mnv1_025_128.int8", "unet_128.int8"])
def test_the_report_is_one_screen(shell: Shell, model: str) -> None:
    out = shell("partition", ROOT / "examples" / f"{model}.tflite", "--board", "rk3588")[1]
    assert 20 < len(out.splitlines()) <= 49


def test_quiet_is_the_headline(shell: Shell) -> None:
    code, out, err = shell("partition", TINY, "--board", "rpi5", "-q")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 2


def test_json_is_the_plan_and_the_same_twice(shell: Shell) -> None:
    first, second = (shell("partition", UNET, "--board", "rk3588", "--json") for _ in range(2))
    assert first == second
    assert first[0] == 0
    plan = from_json(first[1])
    assert plan == api.partition(UNET, "rk3588")
    assert plan.inputs.model.name == "unet_128.int8.tflite"


def test_options_reach_the_plan(shell: Shell) -> None:
    plan = shell.json(
        *("partition", UNET, "--board", "rk3588", "--runtime", "ai-edge-litert==2.3.0", "--xnnpack", "off"),
        *("--threads", "2", "--cpus", "little", "--memory-limit", "1GiB", "--max-partitions", "3"),
        *("--force", "0=cpu", "--forbid", "SOFTMAX=rknn", "--assume-unknown", "supported"),
    )
    inputs = plan["inputs"]
    runtime = {"name": "ai-edge-litert", "version": "2.3.0", "xnnpack": "off", "machine": "aarch64"}
    assert inputs["runtime"] == {"sha256": inputs["runtime"]["sha256"], **runtime}
    assert inputs["options"] == {
        "threads": 2, "cpus": "0,1,2,3", "memory_limit_bytes": 2**30, "max_partitions": 3, "force": ["0=cpu"],
        "forbid": ["SOFTMAX=rknn"], "assume_unknown": "supported", "signature": None, "input_shapes": {},
    }  # fmt: skip
    assert shell.json("partition", UNET, "--board", "rk3588", "--npu", "none")["inputs"]["board"]["stack"] is None


def test_xnnpack_that_is_on_cannot_be_switched_on(shell: Shell) -> None:
    code, out, err = shell("partition", TINY, "--board", "rpi5", "--xnnpack", "switch")
    assert (code, out) == (2, "")
    assert "applies XNNPACK by itself" in err


def test_a_wish_is_the_reason(shell: Shell) -> None:
    out = shell("partition", UNET, "--board", "rk3588", "--force", "20=cpu", "--forbid", "19=rknn")[1]
    assert "SOFTMAX: kept on the CPU by --force 20=cpu" in out
    assert "CONV_2D: kept on the CPU by --forbid 19=rknn" in out


def test_a_board_may_be_a_file(shell: Shell, tmp_path: Path) -> None:
    board = tmp_path / "mine.toml"
    text = (ROOT / "profiles/edgedeploy_profiles/boards/rpi5.toml").read_text()
    board.write_text(text.replace('name = "rpi5"', 'name = "mine"', 1))
    inputs = shell.json("partition", TINY, "--board", board)["inputs"]["board"]
    assert inputs["name"] == "mine"
    assert (
        inputs["profile_sha256"]
        != shell.json("partition", TINY, "--board", "rpi5")["inputs"]["board"]["profile_sha256"]
    )


def test_several_boards(shell: Shell) -> None:
    code, out, _ = shell("partition", TINY, "--board", "rk3588,rpi5")
    assert code == 0
    assert {"rk3588", "rpi5"} <= set(out.split())
    plans = shell.json("partition", TINY, "--board", "all")
    boards = [load_board(name) for name in board_names()]
    expected = [(board.name, stack) for board in boards for stack in board.stacks or (None,)]
    assert [(plan["inputs"]["board"]["name"], plan["inputs"]["board"]["stack"]) for plan in plans] == expected
    assert any(len(board.stacks) > 1 for board in boards), "every stack of a board"
    assert "predicted latency" in shell("partition", TINY, "--board", "rk3588,rpi5", "-v")[1]


def test_a_board_that_cannot_take_the_model_does_not_stop_the_others(shell: Shell) -> None:
    arguments = ("partition", TINY, "--board", "rk3588,rpi5", "--memory-limit", "1")
    code, out, err = shell(*arguments, "--json")
    assert code == 3
    assert [entry["exit_code"] for entry in json.loads(out)] == [3, 3]
    assert err.count("\n") == 2
    code, out, err = shell("partition", TINY, "--board", "rpi5", "--memory-limit", "1")
    assert (code, out) == (3, "")
    assert err.startswith("edgedeploy: error: ")


def test_a_board_that_is_unknown_does_not_stop_the_others(shell: Shell) -> None:
    code, out, err = shell("partition", TINY, "--board", "nope,rpi5", "--json")
    assert code == 2
    failed, planned = json.loads(out)
    assert (failed["schema"], failed["board"], failed["exit_code"]) == ("edgedeploy.error/1", "nope", 2)
    assert "no board 'nope'" in failed["error"]
    assert planned["inputs"]["board"]["name"] == "rpi5"
    assert err.count("\n") == 1
    code, out, _ = shell("partition", TINY, "--board", "rpi5,nope")
    assert code == 2
    assert "no board 'nope'" in out


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("latency_us", "1" + "0" * 400), ("latency_us", "1e400"), ("latency_us", "-1e400"), ("latency_us", "NaN"),
        ("latency_us", "Infinity"), ("latency_us", "1e13"), ("latency_us", "true"), ("latency_us", '"1"'),
        ("peak_bytes", "1" + "0" * 400), ("peak_bytes", str(2**63)), ("peak_bytes", "9" * 5000),
        ("peak_bytes", "1e400"),
    ],
)  # fmt: skip
def test_a_number_that_is_none_is_bad_input(shell: Shell, tmp_path: Path, key: str, number: str) -> None:
    plan = tmp_path / "plan.json"
    given = shell("partition", TINY, "--board", "rpi5", "--json")[1]
    plan.write_text(re.sub(rf'("{key}": )[\d.]+', rf"\g<1>{number}", given, count=1))
    for arguments in (("check", plan, TINY), ("diff", plan, plan)):
        code, out, err = shell(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert len(err) < 300


@pytest.mark.parametrize(
    ("gate", "options", "code", "said"),
    [
        ("fallback", ("--force", "0-20=rknn"), 0, ""),
        ("fallback", ("--force", "0-19=rknn", "--force", "20=cpu"), 1, "1 op on the CPU (op 20)"),
        ("refused", ("--force", "20=cpu"), 0, ""),
        ("partitions:1", (), 0, ""),
        ("partitions:1", ("--force", "10=cpu"), 1, "2 partitions, more than 1"),
    ],
)
def test_gates(shell: Shell, tmp_path: Path, gate: str, options: tuple[str, ...], code: int, said: str) -> None:
    out = tmp_path / "bundle"
    got, shown, err = shell("partition", UNET, "--board", "rk3588", "--fail-on", gate, "-o", out, *options)
    assert got == code
    assert said in err
    assert shown, "the report is shown whatever the gate says"
    assert out.exists() == (code == 0)


def test_refused_ops_fail_the_gate(shell: Shell) -> None:
    code, _, err = shell("partition", CUSTOM, "--board", "rk3588", "--fail-on", "refused", "-q")
    assert code == 1
    assert "does not take (op 1)" in err


# --- bundle, check, diff ----------


def test_a_bundle_checks_and_compares(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edgedeploy_kernels, "library", lambda _: None)
    bundle, other = tmp_path / "a", tmp_path / "b"
    code, _, err = shell("partition", UNET, "--board", "rk3588", "-o", bundle)
    assert code == 0
    assert "still missing: libedgedeploy.so (to build it: in a clone of edgedeploy, make kernels && pip" in err
    again = shell("partition", UNET, "--board", "rk3588", "-q", "-o", bundle)[2]
    assert again == err.replace("wrote", "already there:")
    assert "make kernels" in shell("bench", bundle, "--on", "local")[2]
    assert (bundle / "model.tflite").read_bytes() == Path(UNET).read_bytes()
    plan = from_json((bundle / "plan.json").read_bytes())
    assert edp.decode((bundle / "plan.edp").read_bytes()).ops
    assert shell("partition", UNET, "--board", "rk3588", "-o", bundle)[2].startswith("edgedeploy: already there")
    assert shell("partition", UNET, "--board", "rpi5", "-o", bundle)[0] == 2
    assert from_json((bundle / "plan.json").read_bytes()) == plan

    assert shell("check", bundle, UNET) == (0, "the plan is sound\n", "")
    assert shell.json("check", bundle, UNET) == {"ok": True, "faults": []}
    assert shell("partition", UNET, "--board", "rk3588", "--force", "SOFTMAX=rknn", "-o", other)[0] == 0
    code, out, _ = shell("diff", bundle, other)
    assert code == 0
    assert "SOFTMAX" in out
    assert "--force SOFTMAX=rknn" in out
    found = shell.json("diff", bundle, other)
    assert found["schema"] == "edgedeploy.diff/1"
    assert [move["op"] for move in found["moved"]][-1] == "SOFTMAX"
    latency_us = json.loads((bundle / "plan.json").read_bytes())["predicted"]["latency_us"]
    assert (found["latency"][0]["key"], found["latency"][0]["before"]) == ("predicted.latency_us", latency_us)
    assert shell("diff", bundle, bundle)[1] == "the plans are the same\n"


def test_a_bundle_being_written_is_cleaned_up_when_the_program_is_ended(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda _: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(SystemExit) as ended:
        shell("partition", TINY, "--board", "rpi5", "-o", tmp_path / "out", "-q")
    assert ended.value.code == 143
    assert not list(tmp_path.iterdir())


def test_a_plan_of_another_model_is_faulty(shell: Shell, tmp_path: Path) -> None:
    assert shell("partition", TINY, "--board", "rpi5", "-o", tmp_path / "out", "-q")[0] == 0
    code, out, err = shell("check", tmp_path / "out", UNET)
    assert code == 1
    assert out.startswith("model: ")
    assert err.endswith(("faults\n", "fault\n"))
    code, out, _ = shell("check", tmp_path / "out" / "plan.json", UNET, "--json")
    assert code == 1
    assert not json.loads(out)["ok"]


def test_a_cpu_plan_ships_complete(shell: Shell, tmp_path: Path) -> None:
    code, _, err = shell("partition", TINY, "--board", "local", "-o", tmp_path / "out")
    assert code == 0
    assert "missing" not in err
    assert shell("partition", TINY, "--board", "local", "-q", "-o", tmp_path / "quiet")[2] == ""
    assert json.loads((tmp_path / "out" / MANIFEST).read_bytes())["runnable"]


def test_a_given_shape_is_written_into_the_shipped_model(shell: Shell, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, _, _ = shell("partition", TINY, "--board", "rpi5", "--input-shape", "0=2,49,10,1", "-o", out, "-q")
    assert code == 0
    shipped = api.read_model(out / "model.tflite").subgraphs[0]
    assert shipped.tensors[shipped.inputs[0]].shape == (2, 49, 10, 1)
    assert shell("check", out, TINY)[0] == 0


# --- explain, inspect, boards ----------


def test_explain_says_inside_which_op_another_runs(shell: Shell, tmp_path: Path) -> None:
    model = tmp_path / "head.tflite"
    model.write_bytes(dfl_model())
    out = shell("explain", model, "--board", "rpi4", "--op", str(MEAN))[1]
    assert re.search(rf"op {MEAN} CONV_2D: neon/dfl, \S+ us inside op {SOFTMAX}\n", out)


def test_explain_gives_every_verdict_with_its_source(shell: Shell) -> None:
    code, out, _ = shell("explain", CUSTOM, "--board", "rk3588", "--op", "1")
    assert code == 0
    assert "op 1 Erf" in out
    assert "refused" in out
    assert "Sources\n  [1]" in out
    found = shell.json("explain", CUSTOM, "--board", "rk3588")
    assert found["schema"] == "edgedeploy.explain/1"
    assert [op["index"] for op in found["ops"]] == [0, 1, 2]
    assert all(c["source"] for op in found["ops"] for c in op["candidates"] if c["backend"] == "rknn")
    assert shell("explain", CUSTOM, "--board", "rk3588", "--op", "3")[0] == 2


def test_an_op_index_is_of_the_signature(shell: Shell, tmp_path: Path) -> None:
    model = Model()
    for key, code in (("encode", "RELU"), ("decode", "TANH")):
        g = model.subgraph(key)
        x = g.input((1, 4))
        y = g.apply(code, [x], (1, 4))
        g.outputs(y)
        model.signature(key, {"x": x}, {"y": y}, g.index)
    path = tmp_path / "m.tflite"
    path.write_bytes(model.build())
    arguments = ("explain", path, "--board", "rpi5", "--signature", "decode", "--op")
    assert [op["op"] for op in shell.json(*arguments, "0")["ops"]] == ["TANH"]
    assert [op["op"] for op in shell.json(*arguments, "0:0")["ops"]] == ["RELU"]
    assert "op 0 TANH" in shell(*arguments, "0")[1]
    assert "op 0:0 RELU" in shell(*arguments, "0:0")[1]


def test_inspect_counts_what_the_ops_do(shell: Shell) -> None:
    facts = shell.json("inspect", TINY)
    assert facts["schema"] == "edgedeploy.model/1"
    assert facts["dtype_class"] == "int8"
    first = facts["subgraphs"][0]["ops"][0]
    # 25x5 outputs of 64 channels, each from a 10x4 window of one channel
    assert (first["op"], first["macs"]) == ("CONV_2D", 25 * 5 * 64 * 10 * 4)
    graph = api.read_model(TINY).subgraphs[0]
    for told, op in zip(facts["subgraphs"][0]["ops"], graph.ops, strict=True):
        assert [t["id"] if t else -1 for t in told["inputs"]] == list(op.inputs)
    code, out, _ = shell("inspect", TINY)
    assert code == 0
    assert "int8/ch" in out
    assert facts["trial"] is None


def test_inspect_tries_the_model_in_a_child(shell: Shell) -> None:
    facts = shell.json("inspect", TINY, "--run")
    assert facts["trial"]["outcome"] == "ran"
    assert "it runs" in shell("inspect", TINY, "--run")[1]
    assert "refused" in shell("inspect", CUSTOM, "--run")[1]


def test_boards_names_the_source_of_every_number(shell: Shell) -> None:
    code, out, _ = shell("boards")
    assert code == 0
    assert tuple(line.split()[0] for line in out.splitlines() if not line.startswith(" ")) == board_names()
    assert {"local", "rk3588", "rpi5"} <= set(board_names())
    code, out, _ = shell("boards", "rk3588")
    assert "sbc-bench" in out
    [board] = shell.json("boards", "rk3588")["boards"]
    assert board["clusters"][0]["clock_ghz"]["source"] in board["sources"]


def test_python_has_the_verbs_and_the_errors() -> None:
    assert set(edgedeploy.__all__) == set(dir(edgedeploy))
    with pytest.raises(edgedeploy.InputError):
        edgedeploy.read_plan("none")
    with pytest.raises(edgedeploy.ProfileError):
        edgedeploy.load_board("none")
    with pytest.raises(edgedeploy.NotDeployable):
        edgedeploy.partition(TINY, "rpi5", memory_limit_bytes=1)
    plan = edgedeploy.partition(edgedeploy.read_model(TINY), edgedeploy.load_board("rpi5"), threads=1)
    assert plan.inputs.options.threads == 1
    assert edgedeploy.check(plan, edgedeploy.read_model(TINY)) == ()
    assert edgedeploy.diff(plan, plan).same
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        edgedeploy.nonsense  # noqa: B018


def test_a_broken_file_does_not_hide_the_other_boards(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "edgedeploy" / "boards"
    folder.mkdir(parents=True)
    (folder / "broken.toml").write_text("schema = 1")
    code, out, err = shell("boards")
    assert code == 2
    assert "rk3588" in out
    assert err.startswith("edgedeploy: error: ")
    assert err.count("\n") == 1
