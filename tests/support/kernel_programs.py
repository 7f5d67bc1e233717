# SPDX-License-Identifier: Apache-2.0
"""The C tests of the kernels, built and run; and the cases that they make, as models for the stock runtime.

The C programs make the cases, by seed. Python only reads them, so a new kind of case is written once, in C.
"""

from __future__ import annotations

import fcntl
import functools
import importlib.util
import io
import json
import math
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from edgedeploy_partitioner.model.build import Model, per_tensor
from edgedeploy_partitioner.model.graph import Quantization
from support import stock_child
from support.runtimes import HERE, ROOT, Runtime

SOURCES = ROOT / "kernels_neon"
RESOLVERS = {"xnnpack": "AUTO", "builtin": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "ref": "BUILTIN_REF"}
"""By ``numerics``, the resolver of the stock path."""
_TYPES = {1: "float32", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16", 9: "int8"}
_DEADLINE_S = 900

Array = NDArray[Any]


# --- programs ----------


def simde() -> Path:
    """Where SIMDe's headers are. Raises LookupError if they are not."""
    found = importlib.util.find_spec("simde_py")
    if found is None or found.origin is None:
        raise LookupError("simde-py is not installed: make test installs it")
    return Path(found.origin).parent / "simde"


@functools.cache
def programs(kind: str) -> Path:
    """The folder with the C tests: ``plain`` or ``simde`` (with sanitizers) for this machine, ``aarch64``.

    Raises LookupError if the compiler is not there.
    """
    zig = f"{sys.executable} -m ziglang cc"
    if kind == "aarch64":
        options = [f"CC={zig} -target aarch64-linux-gnu.2.17", "MACHINE=aarch64"]
        if importlib.util.find_spec("ziglang") is None:
            raise LookupError("ziglang is not installed: make test installs it")
    else:
        options = ["CC=gcc"]
        if shutil.which("gcc") is None:
            raise LookupError("gcc is not installed: make system-deps")
    if kind == "simde":
        options += [f"SIMDE={simde()}", "SANITIZE=address,undefined"]
    build = f"build/tests-{kind}"
    (SOURCES / "build").mkdir(exist_ok=True)
    with (SOURCES / build.replace("/", "/.lock-")).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several workers one builds and the others find it built
        done = subprocess.run(
            ["make", "-C", str(SOURCES), f"BUILD={build}", *options, "tests"],
            capture_output=True, text=True, check=False, timeout=_DEADLINE_S,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return SOURCES / build


# --- cases ----------


@dataclass(frozen=True, slots=True)
class Operand:
    type: str
    shape: tuple[int, ...]
    scale: float
    zero_point: int
    is_constant: bool

    @staticmethod
    def read(value: dict[str, Any]) -> Operand:
        return Operand(
            _TYPES[value["type"]], tuple(value["shape"]), value.get("scale", 0.0), value.get("zero_point", 0),
            value["constant"],
        )  # fmt: skip

    @property
    def quantization(self) -> Quantization | None:
        return per_tensor(self.scale, self.zero_point) if self.scale else None

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def byte_count(self) -> int:
        return self.elements * np.dtype(self.type).itemsize

    def take(self, stream: IO[bytes]) -> Array:
        return np.frombuffer(stream.read(self.byte_count), self.type).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Host:
    """The op before, of a kernel that computes both: it makes the first input."""

    op: str
    options: dict[str, Any]
    result: Operand


@dataclass(frozen=True)
class KernelCase:
    """An op with what it is fed, and what the scalar kernel makes of it; ``reason`` says why the kernel refuses it."""

    op: str
    options: dict[str, Any]
    seed: int
    reason: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    fed: tuple[Array, ...]
    made: tuple[Array, ...]
    host: Host | None

    @property
    def type(self) -> str:
        """Of the data, which no constant is."""
        return next(operand.type for operand in self.inputs if not operand.is_constant)

    @functools.cached_property
    def model(self) -> bytes:
        model = Model()
        g = model.subgraph()
        ids = [self._operand(g, operand, value) for operand, value in zip(self.inputs, self.fed, strict=True)]
        if self.host is not None:
            read, made = ids[0], self.host.result
            ids[0] = g.tensor(made.shape, made.type, made.quantization)
            g.op(self.host.op, [read], [ids[0]], op_version=1, **self.host.options)
        results = [g.tensor(o.shape, o.type, o.quantization) for o in self.outputs]
        code, _, custom_code = self.op.partition(":")
        options = dict(self.options)
        if custom_code:
            options |= {"custom_code": custom_code, "custom_options": bytes.fromhex(options["custom_options"])}
        elif code.startswith("edgedeploy."):  # no op of TFLite
            code, options = "CUSTOM", {"custom_code": code}
        g.op(code, ids, results, op_version=1, **options)
        g.outputs(*results)
        return model.build()

    @staticmethod
    def _operand(g: Any, operand: Operand, value: Array) -> int:
        if operand.is_constant:
            return int(g.constant(value, operand.type, operand.quantization))
        return int(g.input(operand.shape, operand.type, operand.quantization))

    @property
    def to_feed(self) -> list[Array]:
        return [v for operand, v in zip(self.inputs, self.fed, strict=True) if not operand.is_constant]

    def __str__(self) -> str:
        operands = [*self.inputs, *self.outputs]
        told = (f"{o.type}{list(o.shape)} {o.scale:.9g}/{o.zero_point}" for o in operands)
        return f"{self.op} {self.options} {', '.join(told)} (seed {self.seed})"


def cases(kernel: str, seed: int, count: int) -> list[KernelCase]:
    """Cases of every op that the kernel takes, those that it refuses too."""
    with tempfile.TemporaryFile() as file:
        subprocess.run(
            [programs("plain") / "write_cases", kernel, str(seed), str(count)],
            stdout=file, check=True, timeout=_DEADLINE_S,
        )  # fmt: skip
        file.seek(0)
        return list(_read(file))


def typical(kernel: str, op: str, dtype: str, shape: str) -> KernelCase:
    """The case that stands for an op in the benchmark; of no kernel in particular if none is named."""
    words = [kernel or "flip_sign", op, str(type_number(dtype)), shape]
    done = subprocess.run(
        [programs("plain") / "write_cases", *words], stdout=subprocess.PIPE, check=True, timeout=_DEADLINE_S
    )
    [case] = _read(io.BytesIO(done.stdout))
    return case


def type_number(name: str) -> int:
    """The ``TfLiteType`` of an element type."""
    return next(number for number, known in _TYPES.items() if known == name)


def _read(stream: IO[bytes]) -> Iterator[KernelCase]:
    while line := stream.readline():
        head = json.loads(line)
        inputs, outputs = (tuple(map(Operand.read, head[key])) for key in ("inputs", "outputs"))
        fed = tuple(operand.take(stream) for operand in inputs)
        made = () if head["reason"] else tuple(operand.take(stream) for operand in outputs)
        its = head.get("host")
        host = Host(its["op"], its["options"], Operand.read(its["result"])) if its else None
        yield KernelCase(head["op"], head["options"], head["seed"], head["reason"], inputs, outputs, fed, made, host)


# --- the stock runtime ----------


def stock(found: Sequence[KernelCase], numerics: str, runtime: Runtime = HERE) -> list[list[Array] | str]:
    """What the stock path of that name makes of each case, or what it says when it refuses."""
    jobs = [(case.model, case.to_feed) for case in found]
    with tempfile.TemporaryDirectory() as folder:
        given, answers = Path(folder, "jobs"), Path(folder, "answers")
        given.write_bytes(pickle.dumps((RESOLVERS[numerics], jobs), protocol=4))
        command, environment = runtime.start(str(Path(stock_child.__file__)), str(given), str(answers))
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=_DEADLINE_S
        )
        assert done.returncode == 0, done.stderr[-2000:]
        found_answers: list[list[Array] | str] = pickle.loads(answers.read_bytes())
    return found_answers
