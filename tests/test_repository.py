# SPDX-License-Identifier: Apache-2.0
"""The rules of this repository that no linter knows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SKIPPED = {"build", "dist", "examples", "node_modules", "__pycache__"}
BUDGET = {".py": 400, ".c": 300, ".h": 300}
"""Longest file by kind, in lines: longer ones do more than one thing."""
COMMENTED = {".py": "#", ".toml": "#", ".sh": "#", ".c": "//", ".h": "//", ".proto": "//"}
GENERATED = re.compile(r"_pb2(_grpc)?\.pyi?$")
SYSTEM = "bin|dev|etc|lib|path/to|proc|run|sys|usr|var"
"""Folders that every Linux machine has, and the one that stands for any."""
ABSOLUTE = re.compile(rf"(?<![\w./~<>*)\]}}%$:-])/(?:(?!(?:{SYSTEM})\b)\w[\w.-]*/\w|(?:home|root|tmp)\b)[\w./-]*")
OUTSIDE = re.compile(r"(?<![\w/.])(?:\.\./)+\w[\w./-]*")
MARKERS = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK")) + r")\b")


def _files() -> Iterator[Path]:
    for folder in sorted(p for p in ROOT.iterdir() if p.name not in SKIPPED and not p.name.startswith(".")):
        for path in [folder] if folder.is_file() else sorted(folder.rglob("*")):
            hidden = any(part in SKIPPED or part.startswith(".") for part in path.relative_to(ROOT).parts[:-1])
            if path.is_file() and not hidden:
                yield path


FILES = tuple(_files())
TEXTS = tuple(
    path for path in FILES if path.suffix in {*COMMENTED, ".md", ".txt"} or path.name in ("Makefile", "constraints.txt")
)


def _names(paths: tuple[Path, ...]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def test_files_are_found() -> None:
    assert {"README.md", "Makefile", "host/edgedeploy/cli.py", "tests/test_repository.py"} <= set(_names(FILES))


@pytest.mark.parametrize("suffix", BUDGET)
def test_no_file_is_too_long(suffix: str) -> None:
    lengths = {
        path: len(path.read_text().splitlines())
        for path in FILES
        if path.suffix == suffix and not GENERATED.search(path.name)
    }
    assert not {str(path): length for path, length in lengths.items() if length > BUDGET[suffix]}


@pytest.mark.parametrize("suffix", COMMENTED)
def test_source_starts_with_its_licence(suffix: str) -> None:
    wanted = f"{COMMENTED[suffix]} SPDX-License-Identifier: Apache-2.0"
    sources = [path for path in FILES if path.suffix == suffix and not GENERATED.search(path.name)]
    heads = {path: path.read_text().splitlines()[:2] for path in sources if path.stat().st_size}
    assert not [str(path) for path, head in heads.items() if wanted not in head]


def _foreign(text: str, folder: Path) -> list[str]:
    """Paths in ``text`` that only one machine has: absolute ones, and those that lead from ``folder`` out of here."""
    outside = (match[0] for match in OUTSIDE.finditer(text))
    return [match[0] for match in ABSOLUTE.finditer(text)] + [
        path for path in outside if not (folder / path).resolve().is_relative_to(ROOT)
    ]


def test_no_path_of_one_machine() -> None:
    written = [path for path in TEXTS if not GENERATED.search(path.name)]
    found = {str(path): _foreign(path.read_text(), path.parent) for path in written}
    assert not {path: paths for path, paths in found.items() if paths}


@pytest.mark.parametrize("parts", [("home", "me"), ("root",), ("tmp", "x"), ("data", "models", "a.tflite")])
def test_paths_of_one_machine_are_found(parts: tuple[str, ...]) -> None:
    path = "/" + "/".join(parts)
    assert _foreign(f'open("{path}")', ROOT) == [path]
    assert _foreign(f"see {path}, please", ROOT) == [path]
    assert _foreign("/".join(("..", *parts)), ROOT)
    assert not _foreign("/".join(("..", *parts)), ROOT / "docs")


@pytest.mark.parametrize("text", ["/proc/self/maps", "/path/to/python", "https://a.b/home/c", "a/b/c", "64 / 2"])
def test_other_slashes_are_not(text: str) -> None:
    assert not _foreign(text, ROOT)


def test_nothing_is_left_to_do() -> None:
    found = {path: MARKERS.search(path.read_text()) for path in TEXTS}
    assert not {str(path): match[0] for path, match in found.items() if match}


def test_every_pinned_version_is_one_line() -> None:
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert pins
    assert not [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)]


def test_example_models_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in (ROOT / "examples").iterdir()}
    assert sizes
    assert sum(sizes.values()) < 4 << 20
