# SPDX-License-Identifier: Apache-2.0
"""A board's /proc and /sys in a folder, as an RK3588 with Linux 6.1 has them."""

from __future__ import annotations

from pathlib import Path

CPU = "sys/devices/system/cpu"
A55, A76 = "0xd05", "0xd0b"
FEATURES = "fp asimd evtstrm aes crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp"


def rk3588(folder: Path) -> Path:
    """Four A55 and two pairs of A76, each with a clock of its own."""
    cpuinfo = [
        f"processor\t: {cpu}\nFeatures\t: {FEATURES}\nCPU implementer\t: 0x41\nCPU part\t: {A55 if cpu < 4 else A76}\n"
        for cpu in range(8)
    ]
    write(folder, "proc/cpuinfo", "\n".join(cpuinfo) + "\nSerial\t\t: 1234\n")
    write(folder, f"{CPU}/online", "0-7")
    for cpus, most_khz in (((0, 1, 2, 3), 1_800_000), ((4, 5), 2_400_000), ((6, 7), 2_400_000)):
        for cpu in cpus:
            policy = f"{CPU}/cpu{cpu}/cpufreq"
            write(folder, f"{policy}/related_cpus", " ".join(map(str, cpus)))
            write(folder, f"{policy}/scaling_governor", "schedutil")
            for name, khz in (("scaling_min_freq", 408_000), ("scaling_max_freq", most_khz),
                              ("cpuinfo_max_freq", most_khz), ("scaling_cur_freq", 1_200_000)):  # fmt: skip
                write(folder, f"{policy}/{name}", str(khz))
            write(folder, f"{CPU}/cpu{cpu}/cpu_capacity", "530" if cpu < 4 else "1024")
    write(folder, "proc/device-tree/model", "Radxa ROCK 5B\0")
    write(folder, "proc/device-tree/compatible", "radxa,rock-5b\0rockchip,rk3588\0")
    write(
        folder,
        "proc/meminfo",
        "MemTotal: 8000000 kB\nMemAvailable: 7000000 kB\nSwapTotal: 1024 kB\nSwapFree: 512 kB\n"
        "CmaTotal: 262144 kB\nCmaFree: 65536 kB",
    )
    write(folder, "proc/loadavg", "0.25 0.10 0.05 1/200 4242")
    write(folder, "proc/stat", stat(dict.fromkeys(range(8), 0)))
    write(folder, "proc/sys/kernel/osrelease", "6.1.43-rockchip")
    for number, (zone, temperature) in enumerate((("soc-thermal", 41_250), ("bigcore0-thermal", 43_000))):
        write(folder, f"sys/class/thermal/thermal_zone{number}/type", zone)
        write(folder, f"sys/class/thermal/thermal_zone{number}/temp", str(temperature))
    write(folder, "sys/class/thermal/cooling_device0/type", "thermal-cpufreq-0")
    write(folder, "sys/class/thermal/cooling_device0/cur_state", "0")
    write(folder, "sys/class/thermal/cooling_device0/max_state", "5")
    write(folder, "sys/class/thermal/cooling_device0/stats/total_trans", "17")
    rknpu(folder)
    return folder


def rknpu(folder: Path) -> None:
    """The NPU as the vendor's kernel shows it, a GPU beside it, and Rockchip's runtime."""
    for node, device, driver, group in (("renderD128", "fb000000.gpu", "panthor", None),
                                        ("renderD129", "fdab0000.npu", "RKNPU", 14)):  # fmt: skip
        write(folder, f"dev/dri/{node}", "")
        write(folder, f"sys/devices/platform/{device}/uevent", f"DRIVER={driver}\nOF_NAME={device[9:]}")
        if group:
            write(folder, f"sys/kernel/iommu_groups/{group}/type", "DMA")
            link(folder, f"sys/devices/platform/{device}/iommu_group", f"sys/kernel/iommu_groups/{group}")
        link(folder, f"sys/class/drm/{node}/device", f"sys/devices/platform/{device}")
    write(folder, "sys/class/iommu/fdab9000.iommu/uevent", "")
    write(folder, "dev/dma_heap/system", "")
    write(folder, "sys/module/rknpu/version", "0.9.8")
    write(folder, "usr/lib/librknnrt.so", "\x7fELF" + "." * 5000 + "librknnrt version: 2.3.2 (429f97ae6b@2025-04-09)\0")


def stat(ticks: dict[int, int]) -> str:
    """/proc/stat of CPUs that were busy so long, in user mode."""
    lines = [f"cpu{cpu} {busy} 0 0 100000 7 0 0 0 0 0" for cpu, busy in ticks.items()]
    return "\n".join([f"cpu {sum(ticks.values())} 0 0 800000 0 0 0 0 0 0", *lines, "ctxt 1"])


def write(folder: Path, name: str, content: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def link(folder: Path, name: str, target: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(folder / target)
