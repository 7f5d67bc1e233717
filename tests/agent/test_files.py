# SPDX-License-Identifier: Apache-2.0
"""Files on their way to the agent of this machine, and in its folder."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgedeploy.measure.errors import NoSpace
from edgedeploy.measure.session import Session, Settings
from edgedeploy_agent import files
from support import agents

KWS = Settings(Path(__file__).parents[2] / "examples" / "dscnn_kws.int8.tflite")


def runs(opened: Session) -> bool:
    outputs, _ = opened.run(KWS, {})
    return [value.shape for value in outputs.values()] == [(1, 12)]


def test_files_move_once_and_what_is_broken_is_sent_again(tmp_path: Path) -> None:
    class Counting(agents.Watched):
        pushed = 0

        def push(self, *arguments: Any, **more: Any) -> None:
            self.pushed += 1
            super().push(*arguments, **more)

    for stored, expected in ((None, 1), (None, 0), (b"cut", 1), (bytes(KWS.model.stat().st_size), 1)):
        if stored is not None:
            [file] = (tmp_path / "store").iterdir()
            file.write_bytes(stored)
        link = Counting()
        with agents.agent(tmp_path, link=link, shares_files=False) as opened:
            assert runs(opened)
        assert link.pushed == expected
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700


class Slow(agents.Watched):
    """Takes its time to push, for which ``meanwhile`` is done."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    def push(self, source: Path, target: str, progress: Callable[[int], None] | None = None) -> None:
        self._meanwhile()
        super().push(source, target, progress)


def test_an_agent_outlives_a_transfer_that_takes_longer_than_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgedeploy.measure.session._IDLE_S", 1.0)
    with agents.agent(tmp_path, link=Slow(lambda: time.sleep(3)), shares_files=False) as opened:
        assert runs(opened)


def test_files_need_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = Slow(lambda: pytest.fail("sent"))
    with agents.agent(tmp_path, link=link, shares_files=False) as opened:
        monkeypatch.setattr("edgedeploy.measure.session._SPARE_BYTES", 1 << 60)
        with pytest.raises(
            NoSpace, match=r"local: no space in .*/store: needs .* GiB, free are .*--remote-dir"
        ) as full:
            opened.run(KWS, {})
    assert full.value.exit_code == 4


def test_what_transfers_have_left_is_removed_when_they_are_gone(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    parts = [tmp_path / f"{'0' * 64}.part-{pid}" for pid in (gone.pid, os.getpid())]
    for part in parts:
        part.write_bytes(b"cut")
    assert files.Files(str(tmp_path)).make_room() > 0
    assert [part.exists() for part in parts] == [False, True]


def test_a_file_is_read_once_and_again_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = files._hash

    def noted(path: str) -> str:
        read.append(path)
        return original(path)

    monkeypatch.setattr(files, "_hash", noted)
    content = b"model"
    sha256 = hashlib.sha256(content).hexdigest()
    stored, found = tmp_path / sha256, files.Files(str(tmp_path))
    stored.write_bytes(content)
    assert [found.find(sha256, len(content), "") for _ in range(3)] == [True] * 3
    assert (read, found.path(sha256)) == ([str(stored)], str(stored))
    stored.write_bytes(content[::-1])
    os.utime(stored, ns=(1, 1))
    assert not found.find(sha256, len(content), "")
    assert not stored.exists()
