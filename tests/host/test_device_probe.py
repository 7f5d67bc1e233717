# SPDX-License-Identifier: Apache-2.0
"""What an agent tells of its device, as the report and the doctor say it: of a folder that looks like a board's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgedeploy.devices.details import details
from edgedeploy.devices.doctor import npu_checks
from edgedeploy.link.local import LocalLink
from edgedeploy.report.machine import machine_sheet
from edgedeploy.report.page import Style, render
from edgedeploy_profiles import load_board
from support import agents
from support.accounts import Account
from support.fake_machine import CPU, rk3588, write


@pytest.fixture
def board(tmp_path: Path) -> Path:
    return rk3588(tmp_path / "root")


def told(board: Path) -> dict[str, Any]:
    """Asked as a device is: through an agent."""
    return details(LocalLink("pi"), agents.command(board.parent, root=board))


def sheet(board: Path) -> str:
    return render(Style(width=120), machine_sheet(told(board)))


def checks(board: Path, name: str = "rk3588", stack: str = "rknn") -> list[tuple[bool | None, str]]:
    found = [(check.ok, check.detail) for check in npu_checks(load_board(name), told(board))]
    return [(ok, detail) for ok, detail in found if stack in detail]


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_sheet_says_what_and_from_where(board: Path) -> None:
    shown = lines(sheet(board))
    for line in (
        "hottest 43 C bigcore0-thermal, 41 C soc-thermal /sys/class/thermal/thermal",
        "throttling thermal-cpufreq-0: state 0 of 5, changed 17 times since it started",
        "swap 1.00 MiB, 512 KiB free /proc/meminfo",
        "CMA 256 MiB, 64.0 MiB free /proc/meminfo",
        "rknn driver rknpu, 0.9.8 /sys/module/rknpu/version",
        "rknn /usr/lib/librknnrt.so, 2.3.2 /usr/lib/librknnrt.so",
        "rknn /dev/dri/renderD129, of driver RKNPU, behind an IOMMU",
    ):
        assert any(each.startswith(line) for each in shown), line
    assert any(each.startswith("CPUs 6-7: Arm Cortex-A76, 0.41 to 2.40 GHz, now 1.20, schedutil") for each in shown)
    assert "unreadable" not in sheet(board)


def test_a_sheet_says_what_cannot_be_read(board: Path) -> None:
    (board / "proc/meminfo").unlink()
    (board / "proc/meminfo").mkdir()
    shown = lines(sheet(board))
    assert "unreadable /proc/meminfo: Is a directory ram" in shown
    assert any(each.startswith("CMA the kernel tells none") for each in shown)


def test_a_machine_without_an_npu(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    shown = lines(sheet(tmp_path / "root"))
    assert "NPU no device file, driver or library of one /dev, /sys and libraries" in shown
    assert "IOMMU the kernel has none" in shown


def test_a_doctor_looks_for_what_the_board_s_stacks_need(board: Path) -> None:
    assert checks(board) == [(True, "rknn: /sys/module/rknpu 0.9.8, /usr/lib/librknnrt.so 2.3.2")]
    [(ok, detail)] = checks(board, stack="rocket")
    assert (ok, detail) == (None, "its teflon-rocket stack has no device file, no library")
    write(board, "usr/lib/librknnrt.so", "librknnrt version: 2.0.0b0 (35a6907d79@2024-03-24)")
    assert checks(board)[1] == (
        None,
        "rknn: librknnrt.so there is 2.0.0b0, plans are made for 2.3.2",
    )
    (board / "usr/lib/librknnrt.so").unlink()
    assert checks(board) == [(None, "its rknn stack has no library; it has /sys/module/rknpu 0.9.8")]


def test_a_doctor_knows_a_library_by_its_name(board: Path) -> None:
    write(board, "dev/galcore", "")
    write(board, "usr/lib/libGAL.so", "$VERSION$6.4.3:398061:d3dac3f35d$")
    [(ok, detail)] = checks(board, "imx8mp", "vx")
    assert (ok, detail) == (None, "its vx stack has no libvx_delegate.so; it has /usr/lib/libGAL.so 6.4.3:398061")
    write(board, "usr/lib/libvx_delegate.so", "")
    [(ok, detail)] = checks(board, "imx8mp", "vx")
    assert ok is True
    assert "/usr/lib/libvx_delegate.so (version unknown)" in detail


def test_memory_that_no_iommu_maps_is_told(board: Path) -> None:
    (board / "sys/devices/platform/fdab0000.npu/iommu_group").unlink()
    assert (None, "rknn: no IOMMU maps its memory, so all of it comes from CMA, 256 MiB") in checks(board)


def test_cpus_slowed_down_and_governors_are_notes(board: Path) -> None:
    from edgedeploy.devices import doctor
    from edgedeploy.devices.registry import Device, Setup

    write(board, "sys/class/thermal/cooling_device0/cur_state", "2")
    (board / f"{CPU}/cpu0/cpufreq/scaling_cur_freq").unlink()
    (board / f"{CPU}/cpu0/cpufreq/scaling_cur_freq").mkdir()
    setup = Setup("/d", "/usr/bin/python3", "x==1", ("a",), agents.command(board.parent, root=board))
    found = {check.name: check for check in doctor._agent(LocalLink("pi"), Device("h", "rk3588", None, setup))}
    assert found["agent"].ok is True
    assert found["throttling"].detail == "its CPUs are slowed down now: thermal-cpufreq-0"
    assert found["clocks"].detail == "governor schedutil: times vary more"
    assert found["unreadable"].detail == f"/{CPU}/cpu0/cpufreq/scaling_cur_freq, for clusters: Is a directory"
    broken = Setup("/d", "/usr/bin/python3", "x==1", ("a",), "echo gone >&2; exit 1")
    [check] = doctor._agent(LocalLink("pi"), Device("h", "rk3588", None, broken))
    assert (check.ok, check.detail) == (False, "pi: the agent does not start: gone")


def test_this_machine_is_probed_by_its_agent(user: Account) -> None:
    probed = user.types("device", "probe", "local", "--json")
    assert (probed.code, probed.json["agent_problem"]) == (0, None)
    assert probed.json["agent"]["kernel"] == probed.json["facts"]["kernel"]
    shown = user.types("device", "probe", "local")
    assert (shown.code, "/proc/meminfo" in shown.out) == (0, True)
    assert "agent" not in user.types("device", "show", "local", "--json").json
