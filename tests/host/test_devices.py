# SPDX-License-Identifier: Apache-2.0
"""Devices without a network: the registry, what a shell tells, the runtime that fits, the store."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import IO

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedeploy.devices.boards import board_of
from edgedeploy.devices.probe import Facts, Python, Unusable, parse, probe
from edgedeploy.devices.registry import BadRegistry, Device, Registry, Setup, UnknownDevice, check_name
from edgedeploy.devices.runtimes import RUNTIMES, UnknownRuntime, choose
from edgedeploy.devices.store import Store
from edgedeploy.devices.wheels import NoWheels, Tree, agent_tree, wheel_tree, wheel_trees
from edgedeploy.link import Finished
from edgedeploy.link.local import LocalLink
from edgedeploy_agent.unpack import unpack
from support.wheels import CONTENT, make_wheel, make_wheels

BOARD = """system=Linux
machine=aarch64
kernel=6.1.0
user=0
bits=64
libc=glibc 2.36
model=Radxa ROCK 5B
compatible=radxa,rock-5b rockchip,rk3588
memory_kib=8000000
python=3.11.2 64 - - glibc-2.36 /usr/bin/python3
folder=ok 1000 /usr/share/edgedeploy
folder=noexec 2000 /var/tmp/edgedeploy-0
"""
NO_TREES = b'{"folder": "/f", "python": "p", "runtime": "r", "trees": [], "command": "c"}'


def told(*changes: tuple[str, str]) -> Facts:
    text = BOARD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse(text)


def test_what_a_board_tells() -> None:
    facts = told()
    assert (facts.machine, facts.libc, facts.libc_version, facts.memory_bytes) == (
        "aarch64",
        "glibc",
        (2, 36),
        8192 * 10**6,
    )
    assert facts.pythons == (Python("/usr/bin/python3", (3, 11, 2), 64, "", ()),)
    assert [(folder.state, folder.free_bytes) for folder in facts.folders] == [("ok", 1024000), ("noexec", 2048000)]
    assert (facts.problem, facts.missing) == ("", ())
    assert board_of(facts.compatible) == "rk3588"
    assert board_of(["acme,thing"]) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((("machine=aarch64", "machine=armv7l"),), "its processor is armv7l"),
        ((("machine=aarch64", "machine=riscv64"),), "riscv64"),
        ((("libc=glibc 2.36", "libc=musl"),), "its C library is musl"),
        ((("system=Linux", "system=FreeBSD"),), "runs FreeBSD"),
        ((("3.11.2 64 -", "3.11.2 32 -"), ("bits=64", "bits=32")), "32-bit under a 64-bit aarch64 kernel"),
    ],
)
def test_machines_that_are_refused(changes: tuple[tuple[str, str], ...], words: str) -> None:
    problem = told(*changes).problem
    assert words in problem
    assert "\n" not in problem


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "python=3.11.2 64 - - glibc-2.36 /usr/bin/python3",
            "python=",
            "Python 3.9 or later with its standard library",
        ),
        ("3.11.2", "3.7.3", "/usr/bin/python3 is 3.7.3"),
        ("3.11.2 64 - -", "3.11.2 64 - ctypes,gzip", "(3.11.2) lacks ctypes, gzip"),
        ("3.11.2 64 -", "3.13.1 64 t", "(3.13.1) is a build without the GIL"),
        ("folder=ok", "folder=readonly", "/var/tmp/edgedeploy-0 programs cannot be run from it"),
    ],
)
def test_what_is_missing_is_said(old: str, new: str, words: str) -> None:
    facts = told((old, new))
    assert facts.problem == ""
    assert words in " ".join(facts.missing)


@given(st.data())
def test_a_device_may_answer_anything(data: st.DataObject) -> None:
    lines = BOARD.splitlines()
    for index in data.draw(st.lists(st.integers(0, len(lines) - 1), max_size=4)):
        line = lines[index]
        cut = data.draw(st.integers(0, len(line)))
        lines[index] = line[:cut] + data.draw(st.sampled_from(["", " ", "-", "x", "9" * 5000, "\u0663", "=", "\t/"]))
    facts = parse("\n".join(lines))
    assert isinstance(facts.problem, str)
    assert all(folder.path.startswith("/") for folder in facts.folders)


def test_a_file_system_that_does_not_tell_its_space_is_usable() -> None:
    assert [folder.free_bytes for folder in told(("folder=ok 1000", "folder=ok -")).folders] == [None, 2048000]


def test_a_python_of_32_bits_beside_another_one_does_no_harm() -> None:
    facts = told(("python=3.11.2 64", "python=3.12.1 32 - - - /usr/lib/python\npython=3.11.2 64"))
    assert (facts.problem, facts.missing) == ("", ())
    assert choose(facts)[1].path == "/usr/bin/python3"


def test_python_tells_the_library_where_the_system_does_not() -> None:
    facts = told(("libc=glibc 2.36", "libc="))
    assert (facts.libc, facts.libc_version) == ("glibc", (2, 36))


def test_this_machine_is_asked_with_its_shell_alone(plain_path: None) -> None:
    del plain_path
    facts = probe(LocalLink(), "~/x")
    assert facts.machine in ("x86_64", "aarch64")
    assert facts.libc == "glibc"
    assert any(python.is_usable for python in facts.pythons)
    assert facts.folders[0].path == str(Path.home() / "x" / "edgedeploy")
    assert facts.problem == ""


@pytest.fixture
def plain_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")


def test_folders_are_tried(plain_path: None, tmp_path: Path) -> None:
    del plain_path
    (tmp_path / "file").write_text("")
    (tmp_path / "a b").mkdir()
    states = {}
    for place in ("new/deeper", "a b", "file"):
        facts = probe(LocalLink(), str(tmp_path / place))
        states[place] = facts.folders[0].state
        assert facts.folders[0].free_bytes
    assert states == {"new/deeper": "ok", "a b": "ok", "file": "ok"}
    assert probe(LocalLink(), "/nowhere").folders[0].state == "absent"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a b", "file"]


def test_variables_of_the_device_need_not_be_paths(plain_path: None, monkeypatch: pytest.MonkeyPatch) -> None:
    del plain_path
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    monkeypatch.setenv("TMPDIR", "here")
    assert all(folder.path.startswith("/") for folder in probe(LocalLink()).folders)


def test_a_shell_that_is_none_is_told() -> None:
    class Router(LocalLink):
        def run(self, command: str, **_: object) -> Finished:
            return super().run(f"echo bad command >&2; exit 1 # {command[:4]}")

    with pytest.raises(Unusable, match="router: its shell is none that a program can use; it says: bad command"):
        probe(Router("router"))


@pytest.mark.parametrize(
    ("python", "glibc", "runtime"),
    [
        ("3.11.2", "2.36", "ai-edge-litert==2.3.0"),
        ("3.13.5", "2.41", "ai-edge-litert==2.3.0"),
        ("3.9.2", "2.31", "ai-edge-litert==2.1.0"),
        ("3.10.4", "2.31", "ai-edge-litert==2.1.0"),
        ("3.9.16", "2.28", "tflite-runtime==2.14.0"),
    ],
)
def test_the_runtime_fits_python_and_the_c_library(python: str, glibc: str, runtime: str) -> None:
    chosen, interpreter = choose(told(("3.11.2", python), ("libc=glibc 2.36", f"libc=glibc {glibc}")))
    assert str(chosen) == runtime
    assert ".".join(map(str, interpreter.version)) == python


def test_a_wish_counts_and_is_refused_in_words() -> None:
    assert choose(told(), "tflite-runtime")[0].requirements[:2] == ("tflite-runtime==2.14.0", "numpy<2")
    assert str(choose(told(), "ai-edge-litert==2.1.0")[0]) == "ai-edge-litert==2.1.0"
    with pytest.raises(Unusable, match=r"needs Python 3.9 to 3.11 and glibc 2.27"):
        choose(told(("3.11.2", "3.13.1")), "tflite-runtime")
    with pytest.raises(UnknownRuntime, match=r"is not among ai-edge-litert==2.3.0"):
        choose(told(), "onnx")
    with pytest.raises(Unusable, match=r"no runtime fits Python 3.12 with glibc 2.28"):
        choose(told(("3.11.2", "3.12.0"), ("libc=glibc 2.36", "libc=glibc 2.28")))


def test_every_runtime_is_chosen_for_somebody() -> None:
    for runtime in RUNTIMES:
        assert choose(told(), str(runtime))[0] == runtime


def test_devices_are_kept(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "config" / "edgedeploy")
    assert registry.devices() == {}
    setup = Setup("/d", "/usr/bin/python3", "x==1", ("a",), "run")
    registry.put("pi", Device("root@10.0.0.1", "rpi4", None, setup))
    registry.put("a", Device("b"))
    assert list(registry.devices()) == ["a", "pi"]
    assert registry.get("pi").setup == setup
    assert json.loads(registry.path.read_text())["schema"] == "edgedeploy.devices/1"
    registry.remove("a")
    with pytest.raises(UnknownDevice, match="known are local, pi"):
        registry.get("a")
    with pytest.raises(UnknownDevice):
        registry.remove("a")
    assert sorted(path.name for path in registry.folder.iterdir()) == ["devices.json", "devices.lock"]


def test_many_programs_can_name_devices_at_once(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    threads = [threading.Thread(target=registry.put, args=(f"d{i}", Device(f"h{i}"))) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(registry.devices()) == 20


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b'{"schema": "edgedeploy.devices/2", "devices": {}}', b"\xff",
     b'{"schema": "edgedeploy.devices/1", "devices": {"a": {"target": "h", "setup": ' + NO_TREES + b"}}}",
     b"[" * 100_000, b'{"schema": "\xff'],
)  # fmt: skip
def test_a_broken_registry_is_told_and_kept(content: bytes, tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.path.write_bytes(content)
    with pytest.raises(BadRegistry, match=r"devices.json is no list of devices"):
        registry.put("a", Device("b"))
    assert registry.path.read_bytes() == content


@pytest.mark.parametrize("name", ["local", "", "-x", "a,b", "a b", "../x", "é"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(ValueError):
        check_name(name)


def test_a_wheel_becomes_the_same_tree_each_time(tmp_path: Path) -> None:
    wheels = make_wheels(tmp_path / "wheels")
    trees: list[Tree] = []
    for scratch in ("a", "b"):
        (tmp_path / scratch).mkdir()
        trees += (wheel_tree(wheel, tmp_path / scratch) for wheel in sorted(wheels.glob("[gnp]*.whl")))
    assert [tree.sha256 for tree in trees[:3]] == [tree.sha256 for tree in trees[3:]]
    names = [tarfile.open(tree.packed).getnames() for tree in trees[:3]]  # noqa: SIM115
    assert "grpc/__init__.py" in names[0]
    assert not [name for name in names[0] if "tool" in name]
    assert not [name for name in names[1] if "tests" in name]
    assert "google/protobuf/__init__.py" in names[2]


def test_what_is_no_wheel_is_told(tmp_path: Path) -> None:
    (tmp_path / "x-1-py3-none-any.whl").write_bytes(b"<html>")
    with pytest.raises(NoWheels, match="is no wheel"):
        wheel_tree(tmp_path / "x-1-py3-none-any.whl", tmp_path)


def test_wheels_of_a_folder_need_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wheels = make_wheels(tmp_path / "wheels")
    asked = ("ai-edge-litert==2.3.0", "numpy", "protobuf")
    trees = wheel_trees(asked, (3, 11), "aarch64", (2, 36), offline=wheels)
    assert [tree.title for tree in trees] == ["ai_edge_litert-2.3.0", "numpy-2.4.6", "protobuf-6.33.0"]
    assert all(hashlib.sha256(unpacked(tree)).hexdigest() == tree.sha256 for tree in trees)
    with pytest.raises(NoWheels, match=r"pip found no wheels for the device: .*scipy"):
        wheel_trees(("scipy",), (3, 11), "aarch64", (2, 36), offline=wheels)


def unpacked(tree: Tree) -> bytes:
    import gzip

    return gzip.decompress(tree.packed.read_bytes())


class Fake(LocalLink):
    """This machine as a device; counts what is sent, and has as much room as it is told."""

    def __init__(self, free_kib: int | None = None) -> None:
        super().__init__("pi")
        self.sent = 0
        self.free_kib = free_kib

    def run(self, command: str, *, input: bytes = b"", timeout_s: float = 30) -> Finished:  # noqa: A002
        df = f"df() {{ echo head; echo dev 1 1 {self.free_kib} 1%; }}\n" if self.free_kib is not None else ""
        return super().run(df + command, input=input, timeout_s=timeout_s)

    def stream(self, command: str, content: IO[bytes], progress: object = None) -> Finished:
        del progress
        self.sent += 1
        return super().run(command, input=content.read())


@pytest.fixture
def trees(tmp_path: Path) -> list[Tree]:
    wheels = make_wheels(tmp_path / "wheels")
    return [wheel_tree(wheel, tmp_path) for wheel in sorted(wheels.glob("*.whl"))]


def test_what_is_there_is_not_sent_again(trees: list[Tree], tmp_path: Path) -> None:
    link = Fake()
    store = Store(link, str(tmp_path / "it's here" / "edgedeploy"))
    for expected in (len(CONTENT), 0):
        missing, free = store.missing(trees)
        assert len(missing) == expected
        assert free
        store.put(missing, free, sys.executable, lambda _: None)
    assert link.sent == len(CONTENT)
    assert Path(store.path(trees[-1]), "typing_extensions.py").exists()
    store.clean()
    assert not Path(store.folder).exists()


def test_too_little_space_is_said_before_anything_is_sent(trees: list[Tree], tmp_path: Path) -> None:
    link = Fake(free_kib=1000)
    store = Store(link, str(tmp_path / "edgedeploy"))
    missing, free = store.missing(trees)
    with pytest.raises(
        Unusable, match=r"pi: no space in .*edgedeploy: needs 16\.\d MiB, free are 0\.98 MiB; .*clean pi"
    ):
        store.put(missing, free, sys.executable, lambda _: None)
    assert link.sent == 0


def test_parts_of_programs_that_are_gone_are_removed(trees: list[Tree], tmp_path: Path) -> None:
    store = Store(Fake(), str(tmp_path / "edgedeploy"))
    store.missing(trees)
    ended = subprocess.Popen(["true"])
    ended.wait()
    running = subprocess.Popen(["sleep", "100"])
    for pid in (ended.pid, running.pid):
        Path(store.folder, f"x.part-{pid}").mkdir()
        Path(store.files, f"y.part-{pid}").write_text("")
    store.missing(trees)
    left = [path.name for path in Path(store.folder).rglob("*.part-*")]
    running.kill()
    running.wait()
    assert sorted(left) == [f"x.part-{running.pid}", f"y.part-{running.pid}"]


def test_only_its_own_folder_is_removed(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="is no folder of edgedeploy"):
        Store(Fake(), str(tmp_path)).clean()


@pytest.mark.parametrize("damage", ["cut", "changed", "none"])
def test_a_tree_appears_whole_or_not_at_all(damage: str, trees: list[Tree], tmp_path: Path) -> None:
    tree = max(trees, key=lambda each: each.unpacked_bytes)
    store = tmp_path / "store"
    store.mkdir()
    content = tree.packed.read_bytes()
    content = content[: len(content) // 2] if damage == "cut" else content
    wanted = "0" * 64 if damage == "changed" else tree.sha256
    assert bool(unpack(io.BytesIO(content), str(store), wanted)) == (damage != "none")
    assert [path.name for path in store.iterdir()] == ([tree.sha256] if damage == "none" else [])


def test_two_that_send_the_same_do_not_mind(trees: list[Tree], tmp_path: Path) -> None:
    for _ in range(2):
        assert unpack(io.BytesIO(trees[0].packed.read_bytes()), str(tmp_path), trees[0].sha256) == ""


def test_paths_that_lead_out_are_refused(tmp_path: Path) -> None:
    if not hasattr(tarfile, "data_filter"):
        pytest.skip("this Python's tarfile has no filters")
    store = tmp_path / "store"
    store.mkdir()
    tree = wheel_tree(make_wheel(tmp_path, "x-1", {"../../out": b"x"}), tmp_path)
    assert unpack(io.BytesIO(tree.packed.read_bytes()), str(store), tree.sha256)
    assert not list(store.iterdir())
    assert not (tmp_path / "out").exists()


def test_the_agent_s_tree_is_the_agent(tmp_path: Path) -> None:
    names = tarfile.open(agent_tree(tmp_path).packed).getnames()  # noqa: SIM115
    assert {"edgedeploy_agent/__init__.py", "edgedeploy_agent/unpack.py", "edgedeploy_protos/__init__.py"} <= set(names)
    assert not [name for name in names if name.endswith(".pyc")]


def test_records_without_a_setup_are_short() -> None:
    assert msgspec.json.encode(Device("h")) == b'{"target":"h"}'
