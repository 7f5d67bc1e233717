# SPDX-License-Identifier: Apache-2.0
"""Exit codes and the one line on stderr, whatever happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgedeploy import api, output
from edgedeploy.__main__ import main
from edgedeploy_partitioner.errors import InputError, NotDeployable
from edgedeploy_profiles import ProfileError

ROOT = Path(__file__).resolve().parents[2]
MODEL = str(ROOT / "examples" / "dscnn_kws.int8.tflite")
COMMANDS = ("bench", "boards", "check", "diff", "explain", "inspect", "partition", "verify")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["--version"], *([name, "--help"] for name in COMMANDS)])
def test_help_and_version(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    shown = capsys.readouterr()
    assert shown.out
    assert shown.out.isascii()
    assert not shown.err


def test_the_help_lists_every_command_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in COMMANDS)
    assert all(f"\n    {code} " in shown for code in (0, 1, 2, 3, 4, 5, 6, 70, 130, 141))
    assert "..." not in shown.partition("Commands:")[2], "a command's help is too long for its line"


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["partition"],
        ["partition", MODEL],
        ["partition", MODEL, "--board"],
        ["partition", MODEL, "--board", "no-such-board"],
        ["partition", MODEL, "--board", "rk3588,,rpi5"],
        ["partition", MODEL, "--board", "rk3588", "--threads", "0"],
        ["partition", MODEL, "--board", "rk3588", "--threads", "many"],
        ["partition", MODEL, "--board", "rk3588", "--memory-limit", "0"],
        ["partition", MODEL, "--board", "rk3588", "--memory-limit", "64 apples"],
        ["partition", MODEL, "--board", "rk3588", "--input-shape", "x"],
        ["partition", MODEL, "--board", "rk3588", "--input-shape", "x=1,-1"],
        ["partition", MODEL, "--board", "rk3588", "--input-shape", "x=1", "--input-shape", "x=2"],
        ["partition", MODEL, "--board", "rk3588", "--fail-on", "rain"],
        ["partition", MODEL, "--board", "rk3588", "--fail-on", "partitions:"],
        ["partition", MODEL, "--board", "rk3588", "--fail-on", f"partitions:{'9' * 5000}"],
        ["partition", MODEL, "--board", "rk3588", "--input-shape", f"0={'9' * 5000}"],
        ["partition", MODEL, "--board", "rk3588", "--input-shape", f"0={'9' * 10},49,10,1"],
        ["partition", MODEL, "--board", "rk3588,rpi5", "-o", "bundle"],
        ["partition", MODEL, "--board", "rk3588", "--assume-unknown", "maybe"],
        ["partition", "no-such-file.tflite", "--board", "rk3588"],
        ["inspect", "no-such-file.tflite"],
        ["inspect", "/"],
        ["inspect", "/dev/null"],
        ["inspect", __file__],
        ["inspect", "evil\x1b[2J\n.tflite"],
        ["check", "no-such-plan.json", MODEL],
        ["check", __file__, MODEL],
        ["diff", __file__, __file__],
        ["boards", "[red]no[/red]"],
        ["boards", "no/such/file.toml"],
        ["boards", __file__],
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert shown.err.startswith("edgedeploy: error: ")
    assert shown.err.count("\n") == 1
    assert shown.err.rstrip("\n").isprintable()
    assert not list(tmp_path.iterdir())


def _raised_from(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (InputError("a [bold]b[/bold]\x07"), 2, r"error: a [bold]b[/bold]\x07"),
        (NotDeployable("no"), 3, "error: no"),
        (ProfileError("no"), 2, "error: no"),
        (PermissionError(13, "Permission denied", "a\nb"), 2, r"error: a\nb: Permission denied"),
        (MemoryError(), 2, "error: not enough memory on this machine"),
        (ZeroDivisionError("1/0"), 70, "error: this is a bug in edgedeploy, please report it: ZeroDivisionError: 1/0"),
        (KeyboardInterrupt(), 130, None),
        (output.PipeClosed(), 141, None),
        (BrokenPipeError(), 141, None),
        (_raised_from(ImportError("numpy"), KeyboardInterrupt()), 130, None),
        (_raised_from(ImportError("numpy"), _raised_from(ImportError("core"), KeyboardInterrupt())), 130, None),
        (_raised_from(ImportError("numpy"), ValueError()), 70, "error: this is a bug in edgedeploy"),
    ],
)
def test_exit_codes(
    raised: BaseException,
    code: int,
    said: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise raised

    monkeypatch.setattr(api, "read_model", fail)
    assert main(["inspect", MODEL]) == code
    shown = capsys.readouterr().err
    assert shown == "" if said is None else shown.startswith(f"edgedeploy: {said}")
    assert "Traceback" not in shown


def test_a_bug_shows_its_traceback_when_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(api, "read_model", fail)
    for arguments in (["inspect", MODEL, "-v"], ["-v", "inspect", MODEL]):
        assert main(arguments) == 70
        assert "Traceback" in capsys.readouterr().err


def test_a_board_that_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.toml")
    (tmp_path / "endless.toml").symlink_to("/dev/zero")
    (tmp_path / "large.toml").write_text("#" * (1 << 20) + "\n")
    for name, told in (("fifo", "regular file"), ("endless", "regular file"), ("large", "too large")):
        done = _run("boards", str(tmp_path / f"{name}.toml"), stdout=subprocess.DEVNULL)
        assert done.returncode == 2
        assert told in done.stderr
        assert done.stderr.count("\n") == 1


def _run(*arguments: str, stdout: int, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgedeploy", *arguments]
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=60, **options
    )


@pytest.mark.parametrize("command", ["boards", "--help"])
def test_a_closed_pipe_is_quiet(command: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = _run(command, stdout=write_end)
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_full_device_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = _run("boards", stdout=full.fileno())
    assert done.returncode == 2
    assert done.stderr == "edgedeploy: error: No space left on device\n"


@pytest.mark.parametrize(
    ("arguments", "code"), [(["inspect", "none.tflite"], 2), (["frobnicate"], 2), (["inspect", "-v", "none.tflite"], 2)]
)
@pytest.mark.parametrize("stderr", ["full", "gone"])
def test_an_error_that_nobody_can_read_keeps_its_code(arguments: list[str], code: int, stderr: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "edgedeploy", *arguments]
        where = full.fileno() if stderr == "full" else write_end
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=where, check=False, timeout=60)
    os.close(write_end)
    assert done.returncode == code


@pytest.mark.parametrize("number", ["\u00b2", "9" * 5000, "9" * 4000])
def test_a_width_that_is_none_is_ignored(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", number)
    monkeypatch.setenv("LINES", number)
    assert main(["boards"]) == 0
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert main(["inspect", MODEL, "--run", "-q"]) == 0
    with output.progress("waiting", quiet=False):
        pass


def test_an_interrupt_outside_a_command_is_quiet(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("edgedeploy.__main__._run", interrupted)
    assert main(["--help"]) == 130
    assert capsys.readouterr() == ("", "")


def test_any_encoding_of_stdout_will_do(tmp_path: Path) -> None:
    model = tmp_path / "größe.tflite"
    model.write_bytes(Path(MODEL).read_bytes())
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = _run("inspect", str(model), "-q", stdout=subprocess.PIPE, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(r"gr\xf6\xdfe.tflite, ")
    done = _run("inspect", str(model), "--json", stdout=subprocess.PIPE, env=environment)
    assert done.returncode == 0
    assert json.loads(done.stdout)["name"] == "größe.tflite"
