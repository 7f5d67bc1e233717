# SPDX-License-Identifier: Apache-2.0
"""A model of 200 MB on its way to an emulated arm64 board: seen, once, and whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pty
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgedeploy.devices.reach import reached
from edgedeploy.link import ssh_process
from edgedeploy.link.ssh import SshLink
from edgedeploy.measure import session
from support.accounts import Account, soon
from support.board import another_server
from support.hostile import large
from support.processes import command_line, descendants, kill
from support.ready import COMMAND, Ready
from support.remains import left, processes

pytestmark = pytest.mark.board

SIZE = 200_000_000
EARLY = 10_000_000
AGAIN = "; nothing is kept of it, the next try starts again\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "large.tflite"
    path.write_bytes(large(SIZE).build())
    return path


@pytest.fixture
def name(there: Ready, model: Path) -> Iterator[str]:
    """Of the model on the board, where it is not; and is not afterwards."""
    with model.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    assert sha256 not in there.files()
    yield sha256
    (there.store / "files" / sha256).unlink(missing_ok=True)


def bench(model: Path) -> tuple[str, ...]:
    return ("bench", str(model), "--on", "pi", "--threads", "1", "--runs", "3")


def seen_in_a_terminal(command: tuple[str, ...], environment: dict[str, str]) -> tuple[int, str]:
    """The exit code, and what is shown on stderr."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=theirs) as started:
        os.close(theirs)
        shown = bytearray()
        with contextlib.suppress(OSError):  # which is how a terminal ends
            while more := os.read(ours, 1 << 16):
                shown += more
        os.close(ours)
    return started.returncode, shown.decode()


def test_it_is_sent_once_and_one_sees_how_far_it_is(
    there: Ready, user: Account, model: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, shown = seen_in_a_terminal((*COMMAND, *bench(model)), {**there.environment, "TERM": "xterm"})
    assert code == 0, shown
    told = [int(percent) for percent in re.findall(r"sending large\.tflite to pi: (\d+)% of 191 MiB", shown)]
    assert told == sorted(told)
    assert len(set(told)) > 2
    assert (there.store / "files" / name).stat().st_size == model.stat().st_size
    before = there.files()
    pushed: list[object] = []
    monkeypatch.setattr(SshLink, "push", lambda *arguments: pushed.append(arguments))
    again = user.types(*bench(model), "--json")
    assert (again.code, again.json["model"]["sha256"], pushed) == (0, name, [])
    assert there.files() == before


def when_some_is_sent(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Let ``act`` happen once in the midst of the next transfer."""
    original = SshLink.push
    done: list[int] = []

    def push(self: SshLink, source: Path, target: str, progress: Callable[[int], None] | None = None) -> None:
        def told(sent: int) -> None:
            if progress:
                progress(sent)
            if sent > EARLY and not done:
                done.append(sent)
                act()

        original(self, source, target, told)

    monkeypatch.setattr(SshLink, "push", push)


def signal_to_the_session(there: Ready, number: signal.Signals) -> None:
    for process in descendants(there.server.process.pid):
        if "sshd: " in command_line(process):
            kill(process, number)


def test_a_connection_that_is_cut_leaves_no_part(
    there: Ready, user: Account, model: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    when_some_is_sent(monkeypatch, lambda: signal_to_the_session(there, signal.SIGKILL))
    cut = user.types(*bench(model))
    assert (cut.code, cut.out) == (4, "")
    assert re.fullmatch(rf"edgedeploy: error: pi: the connection was lost, \d+ bytes were sent{AGAIN}", cut.err)
    assert left(there.server, there.programs) == []
    assert name not in there.files()


def test_a_connection_that_stalls_is_given_up_and_leaves_no_part(
    there: Ready, user: Account, model: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = SshLink.push

    def push(self: SshLink, *arguments: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ssh_process, "_STALL_S", 5.0)
            original(self, *arguments)

    monkeypatch.setattr(SshLink, "push", push)
    when_some_is_sent(monkeypatch, lambda: signal_to_the_session(there, signal.SIGSTOP))
    try:
        stalled = user.types(*bench(model))
    finally:
        signal_to_the_session(there, signal.SIGCONT)
    assert (stalled.code, stalled.out) == (4, "")
    assert re.fullmatch(rf"edgedeploy: error: pi: nothing moved for 5 s, \d+ bytes were sent{AGAIN}", stalled.err)
    assert left(there.server, there.programs) == []
    assert name not in there.files()


def parts(there: Ready) -> list[Path]:
    return [part for part in (there.store / "files").glob("*.part-*") if part.stat().st_size > EARLY // 2]


def test_a_command_that_is_killed_leaves_no_part(there: Ready, user: Account, model: Path, name: str) -> None:
    del user
    with subprocess.Popen((*COMMAND, *bench(model)), env=there.environment) as started:
        assert soon(lambda: bool(parts(there)), within_s=60)
        kill(started.pid)
    assert left(there.server, there.programs) == []
    assert name not in there.files()


def test_a_part_that_nobody_could_remove_is_removed_by_the_next_use(
    there: Ready, user: Account, model: Path, name: str, tmp_path: Path
) -> None:
    """As when the board loses its power."""

    def kill_all() -> None:
        for process in processes(there.programs):
            kill(process)

    with pytest.MonkeyPatch.context() as patch:
        when_some_is_sent(patch, kill_all)
        assert user.types(*bench(model)).code == 4
    [part] = parts(there)
    small = tmp_path / "small.tflite"
    small.write_bytes(large(8192).build())
    again = user.types(*bench(small))
    assert again.code == 0, again.err
    assert not part.exists()
    assert name not in there.files()


def test_a_board_without_room_is_told_so_and_keeps_no_part(
    there: Ready, user: Account, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = there.store / "files"
    folder = tmp_path / "full"
    folder.mkdir()
    (folder / "home").symlink_to(there.server.home)
    mounts = f"mount -t tmpfs -o size=64m,mode=700 tmpfs '{files}'"
    try:
        with another_server(there.programs, folder, user.key, mounts=mounts) as server:
            user.configure(f"Host board\n HostName 127.0.0.1\n Port {server.port}\n")
            user.knows(server.known_hosts_line)
            early = user.types(*bench(model))
            monkeypatch.setattr(session, "_SPARE_BYTES", -SIZE)  # it fills up meanwhile
            late = user.types(*bench(model))
            with reached("pi") as (link, _):
                assert link.run(f"ls -A '{files}'").stdout == b""
            assert left(server, there.programs) == []
    except LookupError as error:
        pytest.skip(f"nothing can be mounted here: {error}")
    assert (early.code, late.code) == (4, 4)
    words = (
        rf"no space in {re.escape(str(files))}: needs 207 MiB, free are 64\.0 MiB; free some, or name another folder"
    )
    assert re.match(rf"edgedeploy: error: pi: {words}", early.err), early.err
    assert re.match(r"edgedeploy: error: pi: cannot write .*: .*No space left on device$", late.err), late.err
    assert {len(answer.err.splitlines()) for answer in (early, late)} == {1}
