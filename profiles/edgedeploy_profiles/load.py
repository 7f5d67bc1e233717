# SPDX-License-Identifier: Apache-2.0
"""From TOML files to frozen values: boards, cores, back ends and runtimes by name.

A file in the user's folder (``$XDG_CONFIG_HOME/edgedeploy/<kind>/``, by default ``~/.config``) is found before the
one of the same name that ships with the package. A board may also be given as a path.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from edgedeploy_profiles import local
from edgedeploy_profiles.errors import ProfileError
from edgedeploy_profiles.schema import (
    RATE_SUFFIXES,
    Backend,
    Board,
    Core,
    KernelCosts,
    Kernels,
    Quantity,
    Rate,
    Runtime,
    Switched,
    Value,
)

ASSUMED = "assumed:"
_NO_SOURCE = f"expected a key of [sources] or '{ASSUMED} why', got {{!r}}"
_MOST = 1e9  # of any quantity but sizes, and the least of one that others are divided by: no time overflows
_MOST_MEMORY = 2**40
_LEAST_RATE = 1e-6
_MOST_BYTES = 1 << 20
_OWN_BACKENDS = ("cpu", "neon")
_OWN = Path(str(resources.files("edgedeploy_profiles")))

V = TypeVar("V", bound=Value)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_AT = re.compile(r"(?P<problem>.*) - at `(?:key in )?\$\.?(?P<path>.*)`", re.DOTALL)


def load_board(name_or_path: str | os.PathLike[str]) -> Board:
    """The board profile with that name, or in that ``.toml`` file. ``local`` has the CPUs of this machine.

    Raises :class:`ProfileError`.
    """
    given = os.fspath(name_or_path)
    is_path = given.endswith(".toml") or "/" in given
    file = Path(given).absolute() if is_path else _find("boards", given)
    board = _load(file, Board)
    if board.name == "local":
        board = local.with_this_machine(board, arm_cores())
    _check_references(file, board)
    return board


def load_core(name: str) -> Core:
    """The CPU core type ``cores/<name>.toml``. Raises :class:`ProfileError`."""
    return _load(_find("cores", name), Core)


def arm_cores() -> dict[int, str]:
    """Arm's part number -> the core profile that names it."""
    cores = {name: load_core(name) for name in _names("cores")}
    return {core.arm_part: name for name, core in cores.items() if core.arm_part is not None}


def load_kernel_costs(name: str = "cpu-kernels") -> KernelCosts:
    """What the stock runtime's CPU kernels cost, ``costs/<name>.toml``. Raises :class:`ProfileError`."""
    return _load(_find("costs", name), KernelCosts)


def load_backend(name: str) -> Backend:
    """The support table ``backends/<name>.toml``. Raises :class:`ProfileError`."""
    file = _find("backends", name)
    if name in _OWN_BACKENDS:
        raise _wrong(file, "", f"{name} is a back end of edgedeploy's own: choose another name")
    backend = _load(file, Backend)
    if backend.name != name:
        raise _wrong(file, "name", f"expected {name!r}, as the file is called, got {backend.name!r}")
    return backend


def load_kernels(file: Path) -> Kernels:
    """The manifest of the C kernels in ``file``. Raises :class:`ProfileError`."""
    return _load(file, Kernels)


def load_runtime(name: str, version: str) -> Runtime:
    """The census ``runtimes/<name>-<version>.toml``. Raises :class:`ProfileError`."""
    if f"{name}-{version}" not in _names("runtimes"):
        raise ProfileError(f"no runtime '{name}=={version}'; known: {', '.join(runtime_names())}")
    return _load(_find("runtimes", f"{name}-{version}"), Runtime)


def load_switched(name: str, version: str) -> Switched:
    """The census ``switched/<name>-<version>.toml``, of XNNPACK as ``libedgedeploy.so`` applies it in that runtime.

    Raises :class:`ProfileError`.
    """
    if f"{name}-{version}" not in _names("switched"):
        raise ProfileError(f"no census of '{name}=={version}' switched; known: {', '.join(switched_names())}")
    return _load(_find("switched", f"{name}-{version}"), Switched)


def runtime_names() -> tuple[str, ...]:
    """Every runtime with a census, as ``NAME==VERSION``, sorted."""
    return tuple("==".join(name.rsplit("-", 1)) for name in _names("runtimes"))


def switched_names() -> tuple[str, ...]:
    """Those of them that a plan can switch XNNPACK's 8-bit kernels on in."""
    return tuple("==".join(name.rsplit("-", 1)) for name in _names("switched"))


def board_names() -> tuple[str, ...]:
    """Every board that can be named, the user's own included, sorted."""
    return _names("boards")


def backend_names() -> tuple[str, ...]:
    """Every NPU with a table, the user's own included, sorted."""
    return _names("backends")


def board_sha256(board: Board) -> str:
    """SHA-256 of ``board``, the profiles of its cores and the CPU kernels' costs: of what they say, not of comments.

    Raises :class:`ProfileError` if a core has no profile.
    """
    return _sha256(board, *(load_core(cluster.core) for cluster in board.clusters), load_kernel_costs())


def runtime_sha256(runtime: Runtime) -> str:
    """SHA-256 of what ``runtime`` says."""
    return _sha256(runtime)


def kernels_sha256(kernels: Kernels) -> str:
    """SHA-256 of what the kernels' manifest says."""
    return _sha256(kernels)


def table_sha256(backend: Backend) -> str:
    """SHA-256 of what a back end's support table says (not of its comments)."""
    return _sha256(backend)


def _sha256(*values: Value) -> str:
    return hashlib.sha256(msgspec.json.encode(values, order="deterministic")).hexdigest()


# --- finding files ----------


def _folders(kind: str) -> tuple[Path, ...]:
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # as it is where there is no home
    return Path(config, "edgedeploy", kind), _OWN / kind


def _names(kind: str) -> tuple[str, ...]:
    files = {file.name for folder in _folders(kind) if folder.is_dir() for file in folder.iterdir()}
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


def _find(kind: str, name: str) -> Path:
    if _NAME.fullmatch(name):
        for folder in _folders(kind):
            file = folder / f"{name}.toml"
            if file.is_file():
                return file
    known = _names(kind)
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known) or 'none'}"
    raise ProfileError(f"no {kind.removesuffix('s')} {name!r}; {hint}")


def _check_references(file: Path, board: Board) -> None:
    """Cores and back ends that the board names can be loaded."""
    where = ""
    try:
        for i, cluster in enumerate(board.clusters):
            where = f"clusters[{i}].core"
            load_core(cluster.core)
        for key, stack in board.stacks.items():
            where = f"stacks.{key}.backend"
            socs = load_backend(stack.backend).socs
            where = f"stacks.{key}.soc"
            if stack.soc not in socs:
                raise ProfileError(f"{stack.backend} has no table for {stack.soc!r}, only for {', '.join(socs)}")
    except ProfileError as error:
        raise _wrong(file, where, error.message) from None


# --- reading one file ----------


def _load(file: Path, kind: type[V]) -> V:
    value = _parse(file, kind)
    assert isinstance(value, kind)
    return value


def _read(file: Path) -> bytes:
    """All of a regular file: not a pipe or device, which may never end."""
    found = file.stat()
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):  # reading a folder fails by itself
        raise _wrong(file, "", "not a regular file")
    if found.st_size > _MOST_BYTES:
        raise _wrong(file, "", f"{found.st_size} bytes is too large for a profile")
    return file.read_bytes()


@cache
def _parse(file: Path, kind: type[Value]) -> Value:
    try:
        raw = tomllib.loads(_read(file).decode())
    except OSError as error:
        raise _wrong(file, "", error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise _wrong(file, "", f"not UTF-8 text at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise _wrong(file, "", f"not TOML: {error}") from None
    try:
        value = msgspec.convert(raw, type=kind, strict=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _wrong(file, *_where(str(error))) from None
    sources = raw.get("sources", {})
    for path, part in _parts(value):
        source = getattr(part, "source", None)
        if isinstance(source, str) and source not in sources and not source.startswith(ASSUMED):
            raise _wrong(file, f"{path}.source".lstrip("."), _NO_SOURCE.format(source))
        if isinstance(part, Quantity):
            is_rate = isinstance(part, Rate) or (path.startswith("stacks.") and path.endswith(RATE_SUFFIXES))
            least = _LEAST_RATE if is_rate else 0
            most = _MOST_MEMORY if path.startswith("stacks.") and ".memory." in path else _MOST
            if not least <= part.lowest <= part.value <= part.highest <= most:  # never true of nan
                wanted = f"{least:g} <= low <= value <= high <= {most:g}"
                raise _wrong(file, path, f"expected {wanted}, got {part.low}, {part.value}, {part.high}")
    return value


def _where(message: str) -> tuple[str, str]:
    """Split msgspec's message into key path and problem; a missing or unknown key joins the path."""
    at = _AT.fullmatch(message)
    path, problem = (at["path"], at["problem"]) if at else ("", message)
    for start, told in (("missing required", "missing"), ("contains unknown", "unknown key")):
        if key := re.fullmatch(rf"Object {start} field `(.*)`", problem):
            return f"{path}.{key[1]}".lstrip("."), told
    return path, problem[:1].lower() + problem[1:]


def _parts(value: Any, path: str = "") -> Iterator[tuple[str, Value]]:
    """(key path, value) of a profile and every value in it."""
    if isinstance(value, Value):
        yield path, value
        steps = [(f".{name}", getattr(value, name)) for name in value.__struct_fields__]
    elif isinstance(value, dict):
        steps = [(f".{key}", item) for key, item in value.items()]
    elif isinstance(value, tuple):
        steps = [(f"[{i}]", item) for i, item in enumerate(value)]
    else:
        return
    for step, item in steps:
        yield from _parts(item, (path + step).lstrip("."))


def _wrong(file: Path, where: str, problem: str) -> ProfileError:
    """One line; a file of the package is called by its place in it, e.g. ``boards/rk3588.toml``."""
    name = str(file).removeprefix(f"{_OWN}{os.sep}")
    return ProfileError(": ".join(part for part in (name, where, " ".join(problem.split())) if part))
