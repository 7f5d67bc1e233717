# SPDX-License-Identifier: Apache-2.0
"""What the agent reads of a machine, from a folder that looks like a board's /proc and /sys."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from edgedeploy.devices.details import software
from edgedeploy.measure.messages import plain
from edgedeploy_agent.clusters import choose, clusters
from edgedeploy_agent.conditions import Observer
from edgedeploy_agent.machine import Machine, parse_cpus
from edgedeploy_agent.probe import probe
from edgedeploy_agent.service import _present
from edgedeploy_profiles import backend_names
from edgedeploy_protos import agent_pb2
from support.fake_machine import CPU, rk3588, stat, write

EVERY = set(range(8))


@pytest.fixture
def board(tmp_path: Path) -> Path:
    return rk3588(tmp_path)


def test_a_board_is_what_its_kernel_says(board: Path) -> None:
    found = probe(Machine(str(board)), [plain(software("rknn"))])
    assert (found["name"], found["compatible"]) == ("Radxa ROCK 5B", ["radxa,rock-5b", "rockchip,rk3588"])
    assert found["kernel"] == "6.1.43-rockchip"
    assert found["ram"] == {
        "total_bytes": 8_192_000_000, "available_bytes": 7_168_000_000, "swap_bytes": 1 << 20,
        "swap_free_bytes": 1 << 19, "cma_bytes": 1 << 28, "cma_free_bytes": 1 << 26, "dma_heaps": ["system"],
    }  # fmt: skip
    assert found["iommu"] == {"units": ["fdab9000.iommu"], "groups": 1}
    assert found["throttles"] == [{"name": "thermal-cpufreq-0", "state": 0, "most": 5, "count": 17}]
    assert found["temperatures"] == [
        {"zone": "soc-thermal", "celsius": 41.25}, {"zone": "bigcore0-thermal", "celsius": 43.0},
    ]  # fmt: skip
    assert [part["kind"] for part in found["npus"]] == ["node", "driver", "library"]
    assert found["load_average"] == 0.25
    assert found["runtime"]["name"] == "ai-edge-litert"


def test_every_field_says_where_it_comes_from(board: Path) -> None:
    found = probe(Machine(str(board)), [plain(software("rknn"))])
    fields = {field for field, value in found.items() if value} - {"sources"}
    assert {source["field"] for source in found["sources"]} == fields
    origins = {source["origin"] for source in found["sources"]}
    assert {
        "/proc/meminfo",
        "/sys/class/thermal/thermal_zone*/temp",
        f"/{CPU}/cpu*/cpufreq/scaling_governor",
    } <= origins
    for source in found["sources"]:
        if source["origin"].startswith("/"):
            assert list(board.glob(source["origin"][1:])), source
        assert source["problem"] == ""


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("proc/meminfo", "ram"),
        ("proc/device-tree/model", "name"),
        (f"{CPU}/cpu6/cpufreq/scaling_cur_freq", "clusters"),
        ("sys/class/thermal/thermal_zone0/temp", "temperatures"),
        ("sys/class/thermal/cooling_device0/cur_state", "throttles"),
        ("proc/loadavg", "load_average"),
    ],
)
def test_what_cannot_be_read_is_said_and_the_rest_is_there(board: Path, name: str, field: str) -> None:
    whole = probe(Machine(str(board)))
    (board / name).unlink()
    absent = probe(Machine(str(board)))
    assert not [source for source in absent["sources"] if source["problem"]]
    (board / name).mkdir()
    found = probe(Machine(str(board)))
    assert [source for source in found["sources"] if source["problem"]] == [
        {"field": field, "origin": f"/{name}", "problem": "Is a directory"}
    ]
    same = [each for each in whole if each not in (field, "sources")]
    assert [found[each] for each in same] == [whole[each] for each in same]
    assert found[field] == absent[field] != whole[field]


def test_cores_that_share_a_clock_are_a_cluster_the_fastest_last(board: Path) -> None:
    found = clusters(Machine(str(board)))
    assert [each["cpus"] for each in found] == [[0, 1, 2, 3], [4, 5], [6, 7]]
    assert [each["core"] for each in found] == ["0x41:0xd05", "0x41:0xd0b", "0x41:0xd0b"]
    assert found[0]["isa"] == ["asimd", "asimddp", "asimdhp", "fphp"]
    assert (found[1]["min_khz"], found[1]["max_khz"], found[1]["now_khz"]) == (408_000, 2_400_000, 1_200_000)
    assert {each["governor"] for each in found} == {"schedutil"}


def test_words_and_lists_choose_cpus(board: Path) -> None:
    found = clusters(Machine(str(board)))
    assert choose("", found, EVERY) == choose("big", found, EVERY) == [6, 7]
    assert choose("little", found, EVERY) == [0, 1, 2, 3]
    assert choose("4,6-7", found, EVERY) == [4, 6, 7]
    assert choose("big", found, {2, 3, 4}) == [4]  # what a container leaves
    assert choose("", [], {1, 3}) == [1, 3]
    for wrong in ("8", "a", "1-", ",", "3-1"):
        with pytest.raises(ValueError, match="--cpus"):
            choose(wrong, found, EVERY)


def test_a_machine_that_tells_nothing_is_probed_too(tmp_path: Path) -> None:
    found = probe(Machine(str(tmp_path)))
    assert (found["name"], found["ram"], found["npus"], found["load_average"]) == ("", {"dma_heaps": []}, [], None)
    assert (found["iommu"], found["throttles"]) == ({"units": [], "groups": None}, [])
    assert not [source for source in found["sources"] if source["origin"].startswith("/")]
    assert [each["cpus"] for each in found["clusters"]] == [[0]]
    assert Observer(Machine(str(tmp_path)), [0]).look()["load"] is None


def test_this_machine_fits_the_protocol() -> None:
    found = probe(Machine(), [plain(software(name)) for name in backend_names()])
    assert agent_pb2.Device(**_present(found)).python == found["python"]
    cpus = sorted(cpu for each in found["clusters"] for cpu in each["cpus"])
    assert os.sched_getaffinity(0) <= set(cpus)
    assert found["ram"]["available_bytes"] <= found["ram"]["total_bytes"]


def test_the_load_is_what_others_do_on_the_cpus_in_use(board: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, own = [100.0], [7.0]
    monkeypatch.setattr("edgedeploy_agent.conditions.time.monotonic", lambda: now[0])
    monkeypatch.setattr("edgedeploy_agent.conditions._own_s", lambda: own[0])
    ticks = os.sysconf("SC_CLK_TCK")
    observer = Observer(Machine(str(board)), [6, 7])
    now[0], own[0] = 110.0, 12.0
    write(board, "proc/stat", stat({**dict.fromkeys(range(6), 99 * ticks), 6: 8 * ticks, 7: 4 * ticks}))
    assert observer.look()["load"] is None  # nothing was counted before: no time of the machine's start is known
    now[0], own[0] = 120.0, 17.0
    write(board, "proc/stat", stat({**dict.fromkeys(range(6), 999 * ticks), 6: 16 * ticks, 7: 8 * ticks}))
    assert observer.look()["load"] == pytest.approx((12 - 5) / 10)
    now[0], own[0] = 130.0, 27.0
    assert observer.look()["load"] == 0
    now[0] = 130.001  # a tick of the kernel's in a thousandth of a second are no ten CPUs
    write(board, "proc/stat", stat({**dict.fromkeys(range(6), 0), 6: 16 * ticks + 1, 7: 8 * ticks}))
    assert observer.look()["load"] is None
    now[0], own[0] = 140.0, 28.0
    write(board, "proc/stat", stat({**dict.fromkeys(range(6), 0), 6: 19 * ticks, 7: 8 * ticks}))
    assert observer.look()["load"] == pytest.approx((3 - 1) / 10)  # since it last told


def test_what_throttles_is_named(board: Path) -> None:
    machine = Machine(str(board))
    observer = Observer(machine, [0])
    assert observer.look()["throttled"] == []
    write(board, "sys/class/thermal/cooling_device0/cur_state", "2")
    assert observer.look()["throttled"] == ["cooling by thermal-cpufreq-0"]
    write(board, "sys/class/thermal/cooling_device0/cur_state", "0")
    write(board, "sys/devices/platform/soc/soc:firmware/get_throttled", "50000")
    assert observer.look()["throttled"] == []  # it was, some time before
    write(board, "sys/devices/platform/soc/soc:firmware/get_throttled", "50005")
    assert "low voltage (0x50005)" in observer.look()["throttled"][0]
    write(board, "sys/devices/platform/soc/soc:firmware/get_throttled", "0")
    for count in (3, 3, 5):
        write(board, f"{CPU}/cpu0/thermal_throttle/core_throttle_count", str(count))
        seen = observer.look()["throttled"]
        assert seen == (["the CPU throttled 2 times"] if count == 5 else [])


def test_lists_of_cpus() -> None:
    assert parse_cpus("0-3,8 10-11,2") == [0, 1, 2, 3, 8, 10, 11]
    assert parse_cpus("") == []
    for wrong in ("a-b", "0-9999999999", "1_0", "\u0661", "-1"):
        with pytest.raises(ValueError, match=re.escape(wrong)):
            parse_cpus(wrong)
