# SPDX-License-Identifier: Apache-2.0
"""What the agent finds of NPUs, by what their tables say: in folders that look like a board's. No NPU was asked."""

from __future__ import annotations

import os
import random
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

from edgedeploy.devices.details import software
from edgedeploy.measure.messages import plain
from edgedeploy_agent import npu
from edgedeploy_agent.machine import Machine
from edgedeploy_profiles import backend_names, load_backend
from support.fake_machine import link, rk3588, write

RKNN = plain(software("rknn"))


@pytest.fixture
def board(tmp_path: Path) -> Path:
    return rk3588(tmp_path / "root")


def parts(folder: Path, wanted: dict[str, Any] = RKNN) -> dict[str, dict[str, Any]]:
    """By path."""
    return {part["path"]: part for part in npu.npu_parts(Machine(str(folder)), wanted)}


def test_a_vendor_s_board(board: Path) -> None:
    assert parts(board) == {
        "/dev/dri/renderD129": {
            "backend": "rknn", "kind": "node", "path": "/dev/dri/renderD129", "driver": "RKNPU", "iommu": True,
        },
        "/sys/module/rknpu": {
            "backend": "rknn", "kind": "driver", "path": "/sys/module/rknpu", "driver": "rknpu", "version": "0.9.8",
            "source": "/sys/module/rknpu/version",
        },
        "/usr/lib/librknnrt.so": {
            "backend": "rknn", "kind": "library", "path": "/usr/lib/librknnrt.so", "version": "2.3.2",
            "source": "/usr/lib/librknnrt.so",
        },
    }  # fmt: skip


def test_a_driver_built_in_says_its_version_elsewhere(board: Path) -> None:
    (board / "sys/module/rknpu/version").unlink()
    assert "tells no version" in parts(board)["/sys/module/rknpu"]["problem"]
    write(board, "sys/kernel/debug/rknpu/version", "RKNPU driver: v0.9.3")
    found = parts(board)["/sys/module/rknpu"]
    assert (found["version"], found["source"]) == ("0.9.3", "/sys/kernel/debug/rknpu/version")


def test_what_cannot_be_read_is_not_absent(board: Path) -> None:
    (board / "sys/module/rknpu/version").unlink()
    (board / "sys/kernel/debug/rknpu/version").mkdir(parents=True)  # not even root can read that
    found = parts(board)["/sys/module/rknpu"]
    assert found["problem"] == "/sys/kernel/debug/rknpu/version: Is a directory"
    assert "version" not in found
    (board / "usr/lib/librknnrt.so").unlink()
    (board / "usr/lib/librknnrt.so").mkdir()
    assert parts(board)["/usr/lib/librknnrt.so"]["problem"] == "/usr/lib/librknnrt.so: Is a directory"


def test_closed_folders_are_told() -> None:
    with tempfile.TemporaryDirectory() as folder:
        board = rk3588(Path(folder))
        (board / "sys/module/rknpu/version").unlink()
        write(board, "sys/kernel/debug/rknpu/version", "RKNPU driver: v0.9.3")
        board.chmod(0o755)
        (board / "sys/kernel/debug").chmod(0)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:  # root may read all: as somebody else
            try:
                if os.getuid() == 0:
                    os.setuid(65534)
                os.write(writer, parts(board)["/sys/module/rknpu"]["problem"].encode())
            finally:
                os._exit(0)
        os.close(writer)
        said = os.read(reader, 1000).decode()
        os.waitpid(child, 0)
        (board / "sys/kernel/debug").chmod(0o755)
    assert said == "/sys/kernel/debug/rknpu/version: Permission denied"


def test_a_node_without_an_iommu(board: Path) -> None:
    (board / "sys/devices/platform/fdab0000.npu/iommu_group").unlink()
    assert parts(board)["/dev/dri/renderD129"]["iommu"] is False


def test_a_mainline_board_shows_another_driver(board: Path) -> None:
    write(board, "dev/accel/accel0", "")
    write(board, "sys/devices/platform/fdab0000.npu/uevent", "DRIVER=rocket")
    link(board, "sys/class/accel/accel0/device", "sys/devices/platform/fdab0000.npu")
    found = parts(board, plain(software("teflon-rocket")))
    assert (found["/dev/accel/accel0"]["driver"], found["/dev/accel/accel0"]["iommu"]) == ("rocket", True)
    assert found["/sys/module/rocket"]["problem"] == "it tells no version: that of the kernel is its own"
    assert "/dev/dri/renderD129" not in parts(board)


@pytest.mark.parametrize("name", backend_names())
def test_what_a_table_says_is_found(name: str, tmp_path: Path) -> None:
    wanted = load_backend(name).software
    for place in (*wanted.nodes, *wanted.driver_versions):
        write(tmp_path, place[1:].replace("*", "0"), "v1.2.3 of it")
    for place in wanted.nodes:
        device = "sys/devices/platform/1000.npu"
        write(tmp_path, f"{device}/uevent", f"DRIVER={wanted.drivers[0]}")
        link(tmp_path, f"sys/class/some/{Path(place.replace('*', '0')).name}/device", device)
    library = load_backend(name).library
    write(tmp_path, f"opt/vendor/lib/{library}", "")
    found = npu.npu_parts(Machine(str(tmp_path)), plain(software(name)))
    assert {part["kind"] for part in found} == {"node", "driver", "library"}
    [driver] = [part for part in found if part["kind"] == "driver"]
    assert driver.get("version") == ("1.2.3" if wanted.driver_versions else None)


def test_libraries_are_found_where_the_loader_looks_each_once(board: Path) -> None:
    (board / "usr/lib/librknnrt.so").rename(board / "moved")
    write(board, "etc/ld.so.conf.d/vendor.conf", "# a comment\n/var/npu\n")
    write(board, "var/npu/librknnrt.so.2.3", "")
    for alias in ("librknnrt.so", "librknnrt.so.2"):
        link(board, f"var/npu/{alias}", "var/npu/librknnrt.so.2.3")
    for other in ("librknnrt.so.bak", "librknnrt_api.so", "librknnrt.sock"):
        write(board, f"var/npu/{other}", "")
    libraries = {path: part for path, part in parts(board).items() if part["kind"] == "library"}
    [(path, part)] = libraries.items()
    assert path.startswith("/var/npu/librknnrt.so")
    assert (part["version"], part["source"]) == ("2.3", "librknnrt.so.2.3")


def test_a_library_without_a_version_says_so(board: Path) -> None:
    write(board, "usr/lib/librknnrt.so", "nothing to see")
    assert parts(board)["/usr/lib/librknnrt.so"]["problem"] == "no version is in it"


def test_a_pipe_of_a_library_s_name_stops_nobody(board: Path) -> None:
    (board / "usr/lib/librknnrt.so").unlink()
    os.mkfifo(board / "usr/lib/librknnrt.so")
    assert parts(board)["/usr/lib/librknnrt.so"]["problem"] == "no version is in it"


def test_versions_are_found_wherever_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npu, "_PIECE", 64)
    pattern = re.compile(rb"version: ([\w.]+)")
    seeded = random.Random(7)
    for _ in range(500):
        content = b"." * seeded.randrange(300) + b"version: " + b"1" * seeded.randrange(1, 40)
        content += seeded.choice([b"", b" ", b" " * 300])
        (tmp_path / "x").write_bytes(content)
        match = pattern.search(content)
        assert match is not None
        assert npu._version_in(str(tmp_path / "x"), pattern) == match[1].decode()
