# SPDX-License-Identifier: Apache-2.0
"""What cannot be done on an emulated arm64 board, each with exit code 4 and one line; nothing is left of it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from edgedeploy.measure.errors import AgentError
from edgedeploy.measure.session import Settings
from edgedeploy.measure.targets import reach
from support.accounts import Account, Answer
from support.board import another_server
from support.ready import Ready
from support.remains import left
from support.sshd import make_key

pytestmark = pytest.mark.board

KWS = Path(__file__).parents[2] / "examples" / "dscnn_kws.int8.tflite"
BENCH = ("bench", str(KWS), "--on", "pi", "--threads", "1", "--runs", "3")
BIND = "--bind {0} {0} && mount -o remount,bind"
FINGERPRINT = r"SHA256:[\w+/]{43}"


def is_refused(answer: Answer, words: str) -> bool:
    """With exit code 4 and one line, which starts with ``words``."""
    assert re.match(f"edgedeploy: error: pi: {words}", answer.err), answer.err
    return (answer.code, answer.out, len(answer.err.splitlines())) == (4, "", 1)


def test_a_board_with_another_key_than_before(user: Account, tmp_path: Path) -> None:
    known = user.known_hosts.read_text()
    other = make_key(tmp_path / "other").with_suffix(".pub").read_text().split()[1]
    user.knows(known.replace(known.split()[2], other))
    refused = user.types(*BENCH)
    words = rf".*127\.0\.0\.1\]:\d+.*{FINGERPRINT}.*{FINGERPRINT}.*ssh-keygen -R"
    assert is_refused(refused, words)
    assert other in user.known_hosts.read_text()
    user.knows("")
    assert is_refused(user.types(*BENCH), rf".*{FINGERPRINT}.*edgedeploy device probe pi --accept-new")
    assert user.known_hosts.read_text() == ""


def test_a_client_with_another_token(user: Account) -> None:
    del user
    with reach("pi") as session:
        own, session._metadata = session._metadata, (("token", "0" * 64),)
        for call in (
            session.probe,
            lambda: session.run(Settings(KWS), {}),
            lambda: list(session.measure(Settings(KWS))),
        ):
            with pytest.raises(AgentError, match=r"^pi: wrong token$") as refused:
                call()
            assert refused.value.exit_code == 4
        session._metadata = own
        assert session.probe().architecture == "aarch64"


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        ("-t tmpfs -o size=8m,mode=755 tmpfs {}", r"no space in .*/edgedeploy: needs \d+ MiB, free are [78]\.\d+ MiB;"),
        (f"{BIND},noexec {{0}}", r"it lacks .*programs cannot be run from it \(mounted noexec\)"),
        (f"{BIND},ro {{0}}", r"it lacks .*cannot be written"),
    ],
    ids=["full", "noexec", "readonly"],
)  # fmt: skip
def test_a_board_whose_disk_is_of_no_use(there: Ready, user: Account, tmp_path: Path, mount: str, words: str) -> None:
    folder = tmp_path / "server"
    (folder / "home").mkdir(parents=True)
    mounts = f"mount {mount.format(shlex.quote(str(folder / 'home')))}"
    try:
        with another_server(there.programs, folder, user.key, mounts=mounts) as server:
            user.configure(f"Host board\n HostName 127.0.0.1\n Port {server.port}\n")
            user.knows(server.known_hosts_line)
            assert user.types("device", "remove", "pi").code == 0
            assert user.types("device", "add", "pi", "board", "--remote-dir", "~/here").code == 0
            refused = user.types("device", "setup", "pi", "-q")
            assert left(server, there.programs) == []
    except LookupError as error:
        pytest.skip(f"nothing can be mounted here: {error}")
    assert is_refused(refused, words)
    assert not list((folder / "home").iterdir())
