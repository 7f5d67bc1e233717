# SPDX-License-Identifier: Apache-2.0
"""Wheels for another machine, got with pip on this one, and packed as trees for the device's store."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

import msgspec

from edgedeploy import user
from edgedeploy.link import LinkError

_DOWNLOAD_S = 900
_INDEX = "trees.json"
_SKIPPED = {"__pycache__", "tests"}
_DATA = re.compile(r"[^/]+\.data/(?:purelib|platlib)/")


class NoWheels(LinkError):
    """The wheels for a device cannot be had."""


class Tree(msgspec.Struct, frozen=True):
    """A folder to be, packed. ``sha256`` is that of the tar file, unpacked, and its name in the store."""

    title: str
    sha256: str
    unpacked_bytes: int
    files: int
    packed: Path
    """Its .tar.gz."""


def wheel_trees(
    requirements: Sequence[str], python: tuple[int, int], machine: str, glibc: tuple[int, ...], *, offline: Path | None
) -> tuple[Tree, ...]:
    """Wheels from the package index, or from the folder ``offline``, as trees. A set is made once. Raises NoWheels."""
    version = f"{python[0]}.{python[1]}"
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(17, glibc[1] + 1)] + [f"manylinux2014_{machine}"]
    options = [
        "--only-binary=:all:", "--no-deps", "--implementation", "cp", "--python-version", version,
        *(f"--abi={abi}" for abi in (f"cp{version.replace('.', '')}", "abi3", "none")),
        *(f"--platform={tag}" for tag in tags),
        *(("--no-index", "--find-links", str(offline.absolute())) if offline else ()),
    ]  # fmt: skip
    there = sorted(offline.glob("*.whl")) if offline else ()
    states = [f"{path.stat().st_size} {path.stat().st_mtime_ns} {path.name}" for path in there]
    made_from = "\n".join([*requirements, *options, *states, Path(__file__).read_text()]).encode()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or user.home() / ".cache", "edgedeploy", "wheels")
    folder = cache / hashlib.sha256(made_from).hexdigest()[:16]
    if not folder.is_dir():
        with _new_folder(folder) as made, tempfile.TemporaryDirectory() as scratch:
            _pip("download", "--quiet", "--disable-pip-version-check", "--dest", scratch, *options, *requirements)
            trees = [wheel_tree(wheel, made) for wheel in sorted(Path(scratch).glob("*.whl"))]
            trees = [msgspec.structs.replace(tree, packed=folder / tree.packed.name) for tree in trees]
            (made / _INDEX).write_bytes(msgspec.json.encode(trees, enc_hook=str))
    return msgspec.json.decode(
        (folder / _INDEX).read_bytes(), type=tuple[Tree, ...], dec_hook=lambda kind, text: kind(text)
    )


def wheel_tree(wheel: Path, scratch: Path) -> Tree:
    """A wheel as the folder that a Python path can name; its tests stay here. Raises NoWheels."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            files = {
                name: archive.read(info)
                for info in archive.infolist()
                if (name := _DATA.sub("", info.filename))
                and not info.is_dir()
                and ".data/" not in name
                and _is_kept(name)
            }
    except (OSError, zipfile.BadZipFile) as error:
        raise NoWheels(f"{wheel} is no wheel: {error}") from error
    return _packed("-".join(wheel.name.split("-")[:2]), files, scratch)


def agent_tree(scratch: Path) -> Tree:
    """The agent and the protocol, as they are on this machine."""
    files: dict[str, bytes] = {}
    for package in ("edgedeploy_agent", "edgedeploy_protos"):
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        folder = Path(spec.origin).parent
        files |= {
            f"{package}/{path.relative_to(folder).as_posix()}": path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and _is_kept(str(path.relative_to(folder)))
        }
    return _packed("edgedeploy-agent", files, scratch)


def _is_kept(name: str) -> bool:
    return _SKIPPED.isdisjoint(name.split("/"))


def _packed(title: str, files: dict[str, bytes], scratch: Path) -> Tree:
    """The same files give the same bytes, whenever and wherever they are packed."""
    content = BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            archive.addfile(info, BytesIO(data))
    digest = hashlib.sha256(content.getbuffer()).hexdigest()
    packed = scratch / f"{digest}.tar.gz"
    with gzip.open(packed, "wb", compresslevel=1) as stream:  # libraries shrink to a third
        stream.write(content.getbuffer())
    return Tree(title, digest, sum(map(len, files.values())), len(files), packed)


@contextlib.contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which then takes the place of ``folder``."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            made = Path(scratch, "made")
            made.mkdir()
            yield made
            if folder.exists():
                folder.rename(Path(scratch, "old"))
            made.rename(folder)
    except OSError as error:
        raise NoWheels(f"cannot keep wheels in {folder.parent}: {error.strerror}") from error


def _pip(*arguments: str) -> None:
    command = [*pip_command(), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_S, check=False)
    except subprocess.TimeoutExpired:
        raise NoWheels(f"pip did not end within {_DOWNLOAD_S} s") from None
    if done.returncode:
        lines = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        why = next((line for line in lines if "No matching" in line), (lines or done.stderr.splitlines() or ["?"])[-1])
        raise NoWheels(f"pip found no wheels for the device: {why}; get them elsewhere and give them with --wheels DIR")


def pip_command() -> tuple[str, ...]:
    """A pip of this machine: this environment need not have one. Raises NoWheels."""
    if importlib.util.find_spec("pip"):
        return sys.executable, "-m", "pip"
    for python in (str(Path(sys.base_prefix, "bin", "python3")), shutil.which("python3")):
        if python and subprocess.run([python, "-c", "import pip"], capture_output=True, check=False).returncode == 0:
            return python, "-m", "pip"
    if pip := shutil.which("pip3") or shutil.which("pip"):
        return (pip,)
    raise NoWheels("there is no pip on this machine: apt-get install python3-pip")
