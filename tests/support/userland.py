# SPDX-License-Identifier: Apache-2.0
"""The software of an ARM board, run on this machine: an arm64 Debian with Python and a TFLite runtime, under QEMU.

QEMU emulates one process at a time (user mode): the instructions are ARM's, the kernel is this machine's, so times and
resident memory mean nothing and the heap means all. A program is started with its root as QEMU's library prefix:
paths that are there lead into it, all others to this machine's files. Nothing is mounted and nobody needs to be root.

The root is unpacked, never configured: no program of it runs while it is made. It lies in ``.board/``, under a hash of
all that it is made from. ``make board`` makes it; so does the first test that wants it.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from edgedeploy_partitioner.planning.request import cpu_cost
from edgedeploy_profiles import board_names, load_board, load_core
from edgedeploy_profiles.schema import Core
from support.runtimes import AGENT, ROOT, Runtime
from support.runtimes import OTHERS as OTHER_RUNTIMES

_FOLDER = ROOT / ".board"
CACHE = _FOLDER / "cache"
"""For what else is got from elsewhere, and should be got once."""
_CONSTRAINTS = ROOT / "constraints.txt"
_QEMU = "qemu-aarch64-static"
_CORES = 4  # that a board appears to have
_WITH = {"tflite-runtime": ("numpy==1.26.4",)}  # the newest that it runs with
_DEADLINE_S = 600  # of a step that downloads

# The first row whose extensions a core has names the CPU that QEMU emulates for it.
_CPUS = (
    ({"i8mm"}, "max,sve=off,sme=off"),
    ({"dotprod"}, "cortex-a76"),
    ({"asimd"}, "cortex-a53"),
)
_FEATURES = {"asimd": "fp asimd aes pmull sha1 sha2 crc32 cpuid", "fp16": "fphp asimdhp", "dotprod": "asimddp"}


@dataclass(frozen=True, slots=True)
class Release:
    """A Debian release, the Python and the C library that it has, and what is unpacked beside them."""

    suite: str
    python: str
    glibc_minor: int
    packages: tuple[str, ...] = (
        "base-files", "coreutils", "dash", "libc-bin", "libstdc++6", "python3", "sed",
    )  # fmt: skip
    wheels: tuple[str, ...] = ("ai-edge-litert", "numpy")

    @property
    def platforms(self) -> Iterator[str]:
        """Tags of wheels that run on it."""
        yield "manylinux2014_aarch64"
        yield from (f"manylinux_2_{minor}_aarch64" for minor in range(17, self.glibc_minor + 1))


BOOKWORM = Release("bookworm", "3.11", 36)
OTHERS = (Release("bullseye", "3.9", 31, wheels=()), Release("trixie", "3.13", 41, wheels=()))
"""For boards of which only the system matters; ``make board-matrix`` makes them."""


@dataclass(frozen=True, slots=True)
class Userland:
    """A root that is there, and what runs in it."""

    release: Release
    root: Path

    def command(self, core: Core, program: str = "") -> tuple[str, ...]:
        """The start of a command line: ``program`` of the root, its Python if none is named, on a board of ``core``."""
        cpu = next(name for wanted, name in _CPUS if wanted <= set(core.isa))
        path = self.root / (program or f"usr/bin/python{self.release.python}")
        return (_QEMU, "-cpu", cpu, "-L", str(self._seen_from(core)), str(path))

    def runtime(self, core: Core) -> Runtime:
        """The TFLite runtime on a board of ``core``."""
        name = self.release.wheels[0]
        pins = (line.partition("==") for line in _CONSTRAINTS.read_text().splitlines())
        version = next(version for pinned, _, version in pins if pinned == name)
        environment = {"PYTHONPATH": str(AGENT), "PYTHONNOUSERSITE": "1"}
        return Runtime(name, version, "aarch64", _board_with(core), self.command(core), environment)

    def other(self, core: Core, name: str, version: str, *, make: bool = False) -> Runtime:
        """Another runtime than its own. Raises LookupError if it is not there and not to be made."""
        folder = _FOLDER / f"{self.root.parent.name}-{name}-{version}"
        if not make and not folder.exists():
            raise LookupError(f"{name} {version} for the emulated board is not there: make board-matrix")

        def unpack(into: Path) -> None:
            _unpack(self.release, (f"{name}=={version}", *_WITH.get(name, ())), into, "--no-deps")
            own = self.release.wheels[0].replace("-", "_")
            if own not in {found.name for found in into.iterdir()}:  # the root has it, and it is asked for first
                (into / own).mkdir()
                (into / own / "__init__.py").write_text('raise ImportError("another runtime is wanted")\n')

        here, runtime = _made_once(folder, unpack), self.runtime(core)
        environment = {**runtime.environment, "PYTHONPATH": os.pathsep.join((str(here), str(AGENT)))}
        return replace(runtime, name=name, version=version, environment=environment)

    def _seen_from(self, core: Core) -> Path:
        """The root as a program sees it: with files of /proc and /sys that say which cores there are.

        XNNPACK reads them: without the first it may crash, without the others it is silently not used.
        """

        def make(view: Path) -> None:
            for name in ("etc", "lib", "usr"):
                (view / name).symlink_to(Path("..", self.root.name, name))
            cpus = view / "sys" / "devices" / "system" / "cpu"
            for folder in (view / "proc", cpus):
                folder.mkdir(parents=True)
            (view / "proc" / "cpuinfo").write_text("".join(_cpuinfo(core, i) for i in range(_CORES)))
            for name in ("online", "possible", "present"):
                (cpus / name).write_text(f"0-{_CORES - 1}\n")

        return _made_once(self.root.parent / core.name, make)


def _board_with(core: Core) -> str:
    """A board that plans for ``core`` unless it is told otherwise; empty if no board has it."""
    boards = ((name, cpu_cost(load_board(name), None, 1)[0].core.name) for name in board_names())
    return next((board for board, name in boards if name == core.name), "")


def _cpuinfo(core: Core, number: int) -> str:
    lines = {
        "processor": f"{number}",
        "Features": " ".join(_FEATURES.get(extension, extension) for extension in core.isa),
        "CPU implementer": "0x41",
        "CPU architecture": "8",
        "CPU variant": "0x1",
        "CPU part": f"{core.arm_part or 0:#x}",
        "CPU revision": "0",
    }
    return "".join(f"{key}\t: {value}\n" for key, value in lines.items()) + "\n"


def core_of(name: str) -> Core:
    """Of the profiles; and one with matrix products, which no board of ours has."""
    if name != "cortex-a710":
        return load_core(name)
    a78 = load_core("cortex-a78")
    return structs.replace(a78, name=name, arm_part=0xD47, isa=(*a78.isa, "i8mm"))


@functools.cache
def userland(release: Release = BOOKWORM, *, make: bool = True) -> Userland:
    """The root of ``release``; if it is not there it is made now, or not. Raises LookupError if it cannot be used."""
    if not shutil.which(_QEMU):
        raise LookupError(f"{_QEMU} is not installed: make system-deps")
    made_from = repr(release).encode() + _CONSTRAINTS.read_bytes() + Path(__file__).read_bytes()
    folder = _FOLDER / f"{release.suite}-{hashlib.sha256(made_from).hexdigest()[:16]}"
    if not make and not folder.exists():
        raise LookupError(f"the userland of Debian {release.suite} is not there: make board-matrix")
    return Userland(release, _made_once(folder, functools.partial(_make, release)) / "root")


def _make(release: Release, folder: Path) -> None:
    root = folder / "root"
    if not shutil.which("mmdebstrap"):
        raise LookupError("mmdebstrap is not installed: make system-deps")
    options = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "locale", "man")]
    options.append('--setup-hook=sed -i "\\|security|d" "$1"/etc/apt/sources.list')  # old releases have none any more
    _run(
        "mmdebstrap", "--quiet", "--arch=arm64", "--variant=extract", f"--include={','.join(release.packages)}",
        '--aptopt=Acquire::Languages "none"', *options, release.suite, str(root), scratch=folder,
    )  # fmt: skip
    if release.wheels:
        packages = root / "usr" / "local" / "lib" / f"python{release.python}" / "dist-packages"
        _unpack(release, release.wheels, packages, "--constraint", str(_CONSTRAINTS))


def _unpack(release: Release, wanted: tuple[str, ...], packages: Path, *options: str) -> None:
    """Wheels for ``release``: pip installs nothing for another machine's Python."""
    wheels = packages.with_name(f"{packages.name}.wheels")
    python = str(Path(sys.base_prefix, "bin", "python3"))  # this environment need not have pip
    _run(
        python, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--dest", str(wheels),
        *options, "--python-version", release.python,
        *(f"--platform={platform}" for platform in release.platforms), *wanted, scratch=packages.parent,
    )  # fmt: skip
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    shutil.rmtree(wheels)


def _run(*command: str, scratch: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(scratch), "PIP_NO_CACHE_DIR": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=_DEADLINE_S)
    if done.returncode:
        raise LookupError(f"{Path(command[0]).name}: {done.stderr.strip().rpartition(chr(10))[2]}")


def _made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """``folder``; if it is not there ``make`` fills it, and it appears whole or not at all."""
    _FOLDER.mkdir(exist_ok=True)
    with (_FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several workers one makes it and the others wait
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=_FOLDER) as scratch:
                made = Path(scratch, folder.name)
                made.mkdir()
                make(made)
                made.rename(folder)
    return folder


if __name__ == "__main__":
    try:
        print((board := userland()).root)
        if "--all" in sys.argv:
            for wanted in OTHERS:
                print(userland(wanted).root)
            for name, version in OTHER_RUNTIMES:
                print(board.other(core_of("cortex-a76"), name, version, make=True).title)
    except LookupError as error:
        sys.exit(str(error))
