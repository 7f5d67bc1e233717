# SPDX-License-Identifier: Apache-2.0
"""``device`` and ``doctor`` against real OpenSSH servers on this machine; the wheels are small stand-ins."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgedeploy.devices.reach import reached
from support.accounts import Account
from support.sshd import Sshd, make_key, sshd
from support.wheels import CONTENT, make_wheel, make_wheels

TREES = len(CONTENT)  # one release of the runtime, and the agent


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``wheels``, which no test changes, and what was made of them."""
    folder = tmp_path_factory.mktemp("shared")
    make_wheels(folder / "wheels")
    return folder


@pytest.fixture(autouse=True)
def _cache(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared / "cache"))


@pytest.fixture
def server(key: Path, tmp_path: Path) -> Iterator[Sshd]:
    with sshd(tmp_path / "server", key) as running:
        yield running


@pytest.fixture
def wheels(shared: Path) -> str:
    return str(shared / "wheels")


@pytest.fixture
def own_wheels(tmp_path: Path) -> str:
    """Wheels to be changed."""
    return str(make_wheels(tmp_path / "wheels"))


def add(user: Account, server: Sshd, *options: str) -> None:
    added = user.types("device", "add", "pi", server.target, "--accept-new", *options)
    assert added.code == 0, added.err


def stored(server: Sshd) -> list[str]:
    return sorted(str(path.relative_to(server.home)) for path in server.home.rglob("*") if path.is_file())


def imports(what: str, command: str) -> str:
    """The command that starts the agent, made to import something else."""
    assert "-m edgedeploy_agent.server" in command
    return command.replace("-m edgedeploy_agent.server", f"-c 'import {what}'")


def test_from_nothing_to_ready_and_back(user: Account, server: Sshd, wheels: str) -> None:
    added = user.types("device", "add", "pi", server.target, "--board", "rpi4", "--accept-new", "--json")
    assert added.code == 0, added.err
    assert (added.json["schema"], added.json["board"]) == ("edgedeploy.device/1", "rpi4")
    assert added.json["facts"]["missing"] == []
    assert "accepted the host key" in added.err
    assert "not set up" in user.types("device", "list").out
    assert stored(server) == []

    first = user.types("device", "setup", "pi", "--wheels", wheels, "--json")
    assert first.code == 0, first.err
    assert len(first.json["sent"]) == TREES
    assert {tree["sha256"] for tree in first.json["sent"]} == set(first.json["setup"]["trees"])
    there = stored(server)
    assert all(path.startswith(".local/share/edgedeploy/") for path in there)
    again = user.types("device", "setup", "pi", "--wheels", wheels, "--json")
    assert (again.code, again.json["sent"]) == (0, [])
    assert again.json["setup"] == first.json["setup"]
    assert stored(server) == there

    command = imports("numpy, grpc; print(numpy.stand_in)", first.json["setup"]["command"])
    assert subprocess.run(["sh", "-c", command], capture_output=True, check=True, cwd="/").stdout == b"True\n"
    listed = user.types("device", "list", "--json").json
    assert [device["name"] for device in listed["devices"]] == ["local", "pi"]
    assert "PRIVATE" not in (user.home / "config/edgedeploy/devices.json").read_text()

    tree = server.home / ".local/share/edgedeploy" / first.json["setup"]["trees"][1]
    tree.rename(tree.with_name("moved"))
    gone = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    assert (gone.returncode, gone.stderr) == (1, b"what was put on it is gone: edgedeploy device setup pi\n")

    assert user.types("device", "clean", "pi", "--json").json["removed"] == first.json["setup"]["folder"]
    assert stored(server) == []
    assert user.types("device", "remove", "pi").code == 0
    kept = user.types("device", "remove", "local")
    assert (kept.code, "'local' is this machine and always there" in kept.err) == (2, True)
    unknown = user.types("device", "show", "pi")
    assert (unknown.code, unknown.out) == (2, "")
    assert "no device 'pi'" in unknown.err


def test_an_agent_of_another_version_is_replaced_when_the_device_is_used(
    user: Account, server: Sshd, wheels: str
) -> None:
    add(user, server)
    assert user.types("device", "setup", "pi", "--wheels", wheels, "-q").code == 0
    registry = user.home / "config/edgedeploy/devices.json"
    described = json.loads(registry.read_text())
    (agent, *_) = described["devices"]["pi"]["setup"]["trees"]
    old = "0" * 64
    (server.home / ".local/share/edgedeploy" / agent).rename(server.home / ".local/share/edgedeploy" / old)
    registry.write_text(registry.read_text().replace(agent, old))
    with reached("pi") as (link, command):
        assert agent in command
        assert old not in command
        done = link.run(imports("edgedeploy_agent as a; print(a.__file__)", command))
    assert agent.encode() in done.stdout
    assert json.loads(registry.read_text()) == described


def test_local_is_always_there(user: Account) -> None:
    assert user.types("device", "list", "--json").json == {
        "schema": "edgedeploy.devices/1",
        "devices": [{"name": "local"}],
    }
    probed = user.types("device", "probe", "local", "--json")
    assert (probed.code, probed.json["facts"]["system"]) == (0, "Linux")
    for arguments in (("add", "local", "h"), ("setup", "local")):
        refused = user.types("device", *arguments)
        assert refused.code == 2
        assert "this machine" in refused.err


def test_the_command_that_accepts_a_key_is_the_one_that_is_told(user: Account, server: Sshd) -> None:
    refused = user.types("device", "add", "pi", server.target, "--board", "rpi4")
    assert refused.code == 4
    assert user.types("device", "list", "--json").json["devices"] == [{"name": "local"}]
    command = shlex.split(refused.err.rpartition("then: ")[2])
    assert command[0] == "edgedeploy"
    assert user.types(*command[1:]).code == 0
    user.knows()
    refused = user.types("device", "probe", "pi")
    assert refused.code == 4
    assert user.types(*shlex.split(refused.err.rpartition("then: ")[2])[1:]).code == 0


def test_a_changed_host_key_is_one_line_with_what_to_do(user: Account, server: Sshd, tmp_path: Path) -> None:
    add(user, server)
    other = make_key(tmp_path / "other").with_suffix(".pub").read_text()
    user.knows(server.known_hosts_line.replace(server.public_key, " ".join(other.split()[:2])))
    refused = user.types("device", "setup", "pi")
    assert (refused.code, refused.out, refused.err.count("\n")) == (4, "", 1)
    assert refused.err.count("SHA256:") == 2
    assert f"ssh-keygen -R '[127.0.0.1]:{server.port}' -f {user.known_hosts}" in refused.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("add", "x", "h:0"), 2, "0 is no port"),
        (("add", "a b", "h"), 2, "is no name for a device"),
        (("add", "x", "127.0.0.1:1"), 4, "cannot connect to [127.0.0.1]:1: Connection refused"),
        (("add", "x", "127.0.0.1:1", "--board", "nonesuch"), 2, "nonesuch"),
        (("setup", "nobody"), 2, "no device 'nobody'"),
        (("remove", "nobody"), 2, "no device 'nobody'"),
        (("add", "x", "a..b"), 4, "no host 'a..b' is known"),
        (("add", "x", "h" * 64), 4, "is known: it is no name"),
        (("show", "-x"), 2, "No such option"),
        (("setup", "local", "--wheels", "/dev/nowhere"), 2, "does not exist"),
    ],
)
def test_what_is_wrong_is_one_line(arguments: tuple[str, ...], code: int, words: str, user: Account) -> None:
    answer = user.types("device", *arguments)
    assert (answer.code, answer.out, answer.err.count("\n")) == (code, "", 1)
    assert words in answer.err


def test_a_runtime_that_is_none_is_bad_usage(user: Account, server: Sshd) -> None:
    add(user, server)
    answer = user.types("device", "setup", "pi", "--runtime", "onnx")
    assert (answer.code, answer.out, "runtime 'onnx' is not among ai-edge-litert==" in answer.err) == (2, "", True)


@pytest.mark.parametrize("folder", ["", "here", "~other/here", "~other", "a\nb", "/a\nb"])
def test_a_folder_on_the_device_is_told_from_its_root(user: Account, server: Sshd, folder: str) -> None:
    answer = user.types("device", "add", "pi", server.target, "--accept-new", "--remote-dir", folder)
    assert (answer.code, answer.out, "begins with / or ~/" in answer.err) == (2, "", True)
    assert user.types("device", "show", "pi").code == 2


def test_the_folder_may_have_any_name(user: Account, server: Sshd, wheels: str, tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s $(touch here); a "folder"'
    folder.mkdir()
    add(user, server, "--remote-dir", str(folder))
    done = user.types("device", "setup", "pi", "--wheels", wheels, "--json")
    assert (done.code, done.json["setup"]["folder"]) == (0, f"{folder}/edgedeploy"), done.err
    checks = {check["name"]: check for check in user.types("doctor", "pi", "--json").json["checks"]["pi"]}
    assert checks["setup"]["ok"]
    command = imports("numpy", done.json["setup"]["command"])
    assert subprocess.run(["sh", "-c", command], check=True).returncode == 0
    assert user.types("device", "clean", "pi").code == 0
    assert list(folder.iterdir()) == []
    assert not list(tmp_path.rglob("here"))


def test_what_another_user_put_in_its_place_is_not_run(user: Account, server: Sshd, wheels: str) -> None:
    if os.getuid():
        pytest.skip("only root can give files away")
    add(user, server)
    done = user.types("device", "setup", "pi", "--wheels", wheels, "--json")
    setup = done.json["setup"]
    command = imports("numpy; print(numpy.stand_in)", setup["command"])
    assert subprocess.run(["sh", "-c", command], capture_output=True, check=False).stdout == b"True\n"
    os.chown(f"{setup['folder']}/{setup['trees'][1]}", 12345, 12345)
    answer = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout, "device setup pi" in answer.stderr) == (1, "", True)
    os.chown(setup["folder"], 12345, 12345)
    refused = user.types("device", "setup", "pi", "--wheels", wheels, "--remote-dir", "~/.local/share")
    assert (refused.code, "another user" in refused.err) == (4, True)


def test_files_of_the_user_on_the_device_are_not_imported(user: Account, server: Sshd, wheels: str) -> None:
    """Before 3.11 Python cannot be told to leave out the folder that it is started in: so it is none of the user's."""
    add(user, server)
    setup = user.types("device", "setup", "pi", "--wheels", wheels, "--json").json["setup"]
    (server.home / "numpy.py").write_text("raise SystemExit(3)")
    command = imports("numpy; print(numpy.stand_in)", setup["command"]).replace("PYTHONSAFEPATH=1", "")
    found = subprocess.run(["sh", "-c", command], capture_output=True, check=False, cwd=server.home)
    assert found.stdout == b"True\n"


def test_somebody_without_a_name_or_a_home(user: Account, server: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(number: int) -> None:
        raise KeyError(number)

    host = server.target.partition("@")[2]
    monkeypatch.setattr("pwd.getpwuid", nobody)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    added = user.types("device", "add", "pi", host, "--accept-new")
    assert (added.code, f"{os.getuid()}@[127.0.0.1]" in added.err) == (4, True)  # no such name there
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name)
    for arguments in (("device", "list"), ("device", "add", "pi", "h"), ("doctor",)):
        answer = user.types(*arguments)
        assert (answer.code, answer.err) == (2, "edgedeploy: error: this user has no home folder: set HOME\n")
    model = Path(__file__).parents[2] / "examples" / "dscnn_kws.int8.tflite"
    assert user.types("bench", str(model), "--on", "local", "--runs", "1").code == 0


def test_wheels_that_are_not_there_are_named(user: Account, server: Sshd, own_wheels: str) -> None:
    add(user, server)
    for wheel in Path(own_wheels).glob("grpcio*"):
        wheel.unlink()
    answer = user.types("device", "setup", "pi", "--wheels", own_wheels)
    assert (answer.code, answer.err.count("\n")) == (4, 1)
    assert "pi: pip found no wheels for the device: No matching distribution found for grpcio" in answer.err
    assert stored(server) == []


def test_a_library_that_does_not_load_is_told(user: Account, server: Sshd, own_wheels: str) -> None:
    add(user, server)
    make_wheel(Path(own_wheels), "grpcio-1.80.0", {"grpc/__init__.py": "raise ImportError('libstdc++.so.6: no such')"})
    answer = user.types("device", "setup", "pi", "--wheels", own_wheels, "-q")
    assert answer.code == 4
    assert "pi: ai-edge-litert==2.3.0 does not load there: ImportError: libstdc++.so.6: no such" in answer.err
    assert "not set up" in user.types("device", "list").out


def test_a_device_without_python_is_added_and_told(user: Account, key: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    tools = ("sh", "cat", "chmod", "df", "getconf", "id", "mkdir", "rm", "tr", "uname", "wc")
    for tool in tools:
        (bare / tool).symlink_to(Path("/usr/bin") / tool if Path("/usr/bin", tool).exists() else Path("/bin") / tool)
    with sshd(tmp_path / "server", key, path=str(bare)) as server:
        if Path("/usr/local/bin/python3").exists():
            pytest.skip("Python is in /usr/local/bin here, where a device's is looked for")
        add(user, server)
        shown = user.types("device", "probe", "pi")
        assert "lacks         Python 3.9 or later with its standard library" in shown.out
        refused = user.types("device", "setup", "pi")
        assert refused.code == 4
        assert "pi: it lacks Python 3.9 or later" in refused.err


def test_another_machine_is_refused(user: Account, key: Path, tmp_path: Path) -> None:
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / "uname").write_text('#!/bin/sh\n[ "$1" = -m ] && echo armv7l || exec /bin/uname "$@"\n')
    (fake / "uname").chmod(0o755)
    with sshd(tmp_path / "server", key, path=f"{fake}:/usr/bin:/bin") as server:
        refused = user.types("device", "add", "pi", server.target, "--accept-new")
    assert refused.code == 4
    assert "pi: its processor is armv7l; only 64-bit ARM and x86-64 are supported" in refused.err
    assert "pi" not in user.types("device", "list").out


def test_a_disk_that_is_full_leaves_nothing(user: Account, key: Path, tmp_path: Path, own_wheels: str) -> None:
    big = os.urandom(12 << 20)
    make_wheel(Path(own_wheels), "numpy-2.4.6", {"numpy/__init__.py": "", "numpy/data": big})
    home = tmp_path / "server" / "home"
    mounts = f"mount -t tmpfs -o size=8m,mode=755 tmpfs {shlex.quote(str(home))}"
    try:
        with sshd(tmp_path / "server", key, mounts=mounts) as server:
            add(user, server, "--remote-dir", "~/here")
            early = user.types("device", "setup", "pi", "--wheels", own_wheels, "-q")
            late = _without_asking_for_space(user, own_wheels)
            left = user.types("device", "probe", "pi", "--json").json["facts"]["folders"][0]["free_bytes"]
    except LookupError as error:
        pytest.skip(f"nothing can be mounted here: {error}")
    assert (early.code, late[0]) == (4, 4)
    assert "no space in" in early.err
    assert "free are 8.0" in early.err or "free are 7.9" in early.err
    assert "cannot unpack numpy-2.4.6" in late[1]
    assert "No space left on device" in late[1]
    assert left > 7 << 20


def _without_asking_for_space(user: Account, wheels: str) -> tuple[int, str]:
    """As on a device whose ``df`` tells nothing, or that fills up meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgedeploy.devices.store._kib", lambda _: None)
        answer = user.types("device", "setup", "pi", "--wheels", wheels, "-q")
    return answer.code, answer.err


def test_folders_without_exec_are_passed_over(user: Account, key: Path, tmp_path: Path, wheels: str) -> None:
    home = shlex.quote(str(tmp_path / "server" / "home"))
    mounts = f"mount --bind {home} {home} && mount -o remount,bind,noexec {home}"
    other = tmp_path / "elsewhere"
    other.mkdir()
    try:
        with sshd(tmp_path / "server", key, mounts=mounts) as server:
            add(user, server)
            probed = user.types("device", "probe", "pi", "--json").json["facts"]["folders"]
            refused = user.types("device", "setup", "pi", "--wheels", wheels, "--remote-dir", "~/x", "-q")
            done = user.types("device", "setup", "pi", "--wheels", wheels, "--remote-dir", str(other), "-q", "--json")
            assert user.types("device", "clean", "pi").code == 0
    except LookupError as error:
        pytest.skip(f"nothing can be mounted here: {error}")
    assert probed[0]["state"] == "noexec"
    assert refused.code == 4
    assert "programs cannot be run from it (mounted noexec)" in refused.err
    assert (done.code, done.json["setup"]["folder"]) == (0, f"{other}/edgedeploy")
    assert list(other.iterdir()) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paramiko forgets its socket
def test_an_ssh_agent_that_hangs_up_is_told(user: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))

    def hang_up() -> None:
        connection, _ = listener.accept()
        connection.recv(1)
        connection.close()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "agent"))
        listener.listen()
        threading.Thread(target=hang_up, daemon=True).start()
        answer = user.types("doctor")
    assert (answer.code, "the ssh agent does not answer: " in answer.out) == (0, True)


def test_a_doctor_finds_what_is_missing(user: Account, server: Sshd, wheels: str, key: Path, tmp_path: Path) -> None:
    healthy = user.types("doctor", "--json")
    assert (healthy.code, healthy.json["schema"]) == (0, "edgedeploy.doctor/1")
    [library] = [check for check in healthy.json["checks"]["host"] if check["name"] == "library"]
    assert library["ok"] or "make kernels" in library["fix"]
    add(user, server)
    assert "edgedeploy device setup pi" in user.types("doctor", "pi").out
    assert user.types("device", "setup", "pi", "--wheels", wheels, "-q").code == 0
    checks = {check["name"]: check for check in user.types("doctor", "pi", "--json").json["checks"]["pi"]}
    assert checks["setup"]["ok"]
    assert checks["forwarding"]["ok"]
    (server.home / ".local/share/edgedeploy").rename(server.home / "moved")
    ill = user.types("doctor", "pi")
    assert ill.code == 4
    assert "FAIL  setup" in ill.out
    with sshd(tmp_path / "closed", key, "AllowTcpForwarding no") as closed:
        assert user.types("device", "add", "closed", closed.target, "--accept-new").code == 0
        assert "FAIL  forwarding" in user.types("doctor", "closed").out
    gone = user.types("doctor", "closed", "--json")
    assert gone.code == 4
    assert [check["ok"] for check in gone.json["checks"]["closed"]] == [False]
