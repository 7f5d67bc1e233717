# SPDX-License-Identifier: Apache-2.0
"""Which TFLite runtime a device gets. A runtime is one row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from edgedeploy.devices.probe import Facts, Python, Unusable
from edgedeploy.link import LinkError

Version = tuple[int, int]


class Runtime(NamedTuple):
    """A release, the CPython versions that it has wheels for, and the C library that its libraries need.

    The tags of the wheels promise less: ai-edge-litert 2.3.0 says manylinux_2_27, but its libraries import symbols of
    glibc 2.34 (read from the aarch64 wheels with ``objdump -T``).
    """

    name: str
    version: str
    oldest_python: Version
    newest_python: Version
    glibc: Version
    module: str
    numpy: str = "numpy"

    @property
    def requirements(self) -> tuple[str, ...]:
        """What the agent imports, and no more: these are taken without what their metadata asks for."""
        return (f"{self.name}=={self.version}", self.numpy, "grpcio", "protobuf", "typing_extensions")

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"

    def takes(self, python: Python, glibc: tuple[int, ...]) -> bool:
        return self.oldest_python <= python.version[:2] <= self.newest_python and glibc >= self.glibc


RUNTIMES = (  # the first that fits
    Runtime("ai-edge-litert", "2.3.0", (3, 10), (3, 14), (2, 34), "ai_edge_litert.interpreter"),
    Runtime("ai-edge-litert", "2.1.0", (3, 9), (3, 13), (2, 30), "ai_edge_litert.interpreter"),
    Runtime("tflite-runtime", "2.14.0", (3, 9), (3, 11), (2, 27), "tflite_runtime.interpreter", "numpy<2"),
)


class UnknownRuntime(LinkError):
    """No runtime has that name."""

    exit_code = 2


def choose(facts: Facts, wish: str | None = None) -> tuple[Runtime, Python]:
    """The runtime and interpreter for a device; ``wish`` is ``NAME[==VERSION]``. Raises Unusable, UnknownRuntime."""
    rows = list(_wished(wish))
    pythons = sorted((p for p in facts.pythons if p.is_usable), key=lambda p: p.version, reverse=True)
    for runtime in rows:
        for python in pythons:
            if runtime.takes(python, facts.libc_version):
                return runtime, python
    have = ", ".join(_dotted(python.version[:2]) for python in pythons) or "none"
    raise Unusable(
        f"no runtime fits Python {have} with glibc {_dotted(facts.libc_version) or '?'}: {'; '.join(map(_needs, rows))}"
    )


def _wished(wish: str | None) -> Iterator[Runtime]:
    if wish is None:
        return iter(RUNTIMES)
    rows = [row for row in RUNTIMES if wish in (row.name, str(row))]
    if not rows:
        raise UnknownRuntime(f"runtime {wish!r} is not among {', '.join(map(str, RUNTIMES))}")
    return iter(rows)


def _needs(runtime: Runtime) -> str:
    oldest, newest = _dotted(runtime.oldest_python), _dotted(runtime.newest_python)
    return f"{runtime} needs Python {oldest} to {newest} and glibc {_dotted(runtime.glibc)}"


def _dotted(version: Iterable[int]) -> str:
    return ".".join(map(str, version))
