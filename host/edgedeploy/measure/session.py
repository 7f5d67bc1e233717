# SPDX-License-Identifier: Apache-2.0
"""A session with the agent on a device: it is started for the session and ends with it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import socket
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from edgedeploy import user
from edgedeploy.link import Link, LinkLost, Process
from edgedeploy.measure.claims import read_report
from edgedeploy.measure.errors import (
    AgentError,
    BadRequest,
    Busy,
    Garbled,
    ModelFailed,
    NoRuntime,
    NoSpace,
    VersionMismatch,
)
from edgedeploy.measure.messages import plain
from edgedeploy.text import size
from edgedeploy_agent import __version__
from edgedeploy_protos import PROTOCOL, agent_pb2, agent_pb2_grpc

START_S = 60.0
_IDLE_S = 300.0
_CALL_S = 60.0
_END_S = 3.0  # from the end of its connections to that of the agent
_SLOWEST_BYTES_S = 10 << 20  # that a device reads and hashes
_SPARE_BYTES = 16 << 20  # left free on the device
_CHUNK = 1 << 20

Tensors = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class Settings:
    """How to run a model (the protocol's Settings). Files are paths on this machine."""

    model: Path
    inputs: Path | None = None
    delegate: Path | None = None
    """``libedgedeploy.so``, and the ``plan`` that it carries out."""
    plan: Path | None = None
    threads: int = 0
    cpus: str = ""
    xnnpack: bool = True
    deadline_s: float = 60.0
    memory_bytes: int = 0
    wait: bool = False
    signature: str = ""
    """Key of the entry point; empty for the first subgraph."""
    shapes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Of inputs, by the index of the tensor, where they are not those of the file."""


class Session:
    """Calls to the agent, made by :func:`session`."""

    def __init__(
        self,
        link: Link,
        stub: Any,
        token: str,
        *,
        shares_files: bool,
        tell: Callable[[str], None] = lambda _: None,
        why_gone: Callable[[float], str] = lambda _: "",
    ) -> None:
        self.device = link.name
        self._link = link
        self._stub = stub
        self._metadata = (("token", token),)
        self._shares_files = shares_files
        self._tell = tell
        self._why_gone = why_gone
        self._events_run = False

    def hello(self) -> None:
        client = f"{user.name()}@{socket.gethostname()} (process {os.getpid()})"
        request = agent_pb2.HelloRequest(version=__version__, protocol=PROTOCOL, client=client)
        self._call(self._stub.Hello, request)

    def probe(self, software: Sequence[Any] = ()) -> Any:
        """The protocol's Device; ``software``, as its Software, is what to look for of NPUs."""
        return self._call(self._stub.Probe, agent_pb2.ProbeRequest(software=software))

    def measure(self, settings: Settings, **asked: Any) -> Generator[Any, None, None]:
        """The events of one measurement; ``asked`` are the other fields of MeasureRequest. Closing it ends the run.

        Raises ModelFailed, Busy, BadRequest.
        """
        request = agent_pb2.MeasureRequest(settings=self._settings(settings), **asked)
        yield from self._events(self._stub.Measure(request, metadata=self._metadata))

    def run(self, settings: Settings, inputs: Tensors) -> tuple[Tensors, dict[str, Any]]:
        """Run once: the outputs by name, and the fields of the protocol's Runtime, with the ``report`` of Claims if the
        model ran with a plan. Raises as :meth:`measure` does."""
        prepared = self._settings(settings)
        call = self._stub.Run(_requests(prepared, inputs), metadata=self._metadata)
        received: list[tuple[Any, bytearray]] = []
        runtime: dict[str, Any] = {}
        for event in self._events(call):
            kind = event.WhichOneof("event")
            if kind == "runtime":
                runtime |= plain(event.runtime)
            elif kind == "claims":
                try:
                    runtime["report"] = read_report(event.claims.report)
                except ValueError:
                    raise Garbled(self.device) from None
            elif kind == "chunk":
                if event.chunk.HasField("tensor"):
                    received.append((event.chunk.tensor, bytearray()))
                if not received:
                    raise Garbled(self.device)
                received[-1][1].extend(event.chunk.data)
        if not runtime or (settings.delegate is not None and "report" not in runtime):
            raise Garbled(self.device)
        outputs: Tensors = {}
        for tensor, data in received:
            name = tensor.name if tensor.name not in outputs else f"{tensor.name} ({len(outputs)})"
            try:
                outputs[name] = np.frombuffer(data, np.dtype(tensor.dtype)).reshape(tensor.shape)
            except (TypeError, ValueError, OverflowError):
                raise Garbled(self.device) from None
        return outputs, runtime

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """The agent does not end meanwhile for want of calls, however long files are on their way."""
        over = threading.Event()

        def call() -> None:
            while not over.wait(_IDLE_S / 4):
                if not self._events_run:  # then it is not idle, and not to be disturbed
                    with contextlib.suppress(AgentError, BadRequest, ValueError):  # one that is closed
                        self.hello()

        caller = threading.Thread(target=call, daemon=True)
        caller.start()
        try:
            yield
        finally:
            over.set()

    def stop(self) -> None:
        with contextlib.suppress(grpc.RpcError):
            self._stub.Stop(agent_pb2.StopRequest(), metadata=self._metadata, timeout=1)

    def _settings(self, settings: Settings) -> Any:
        """In the protocol's words, with the files on the device."""
        files = (settings.model, settings.inputs, settings.delegate, settings.plan)
        hashes = iter(self._prepared([file for file in files if file is not None]))
        model, inputs, delegate, plan = ("" if file is None else next(hashes) for file in files)
        return agent_pb2.Settings(
            model=model,
            inputs=inputs,
            delegate=delegate,
            plan=plan,
            threads=settings.threads,
            cpus=settings.cpus,
            without_xnnpack=not settings.xnnpack,
            deadline_s=settings.deadline_s,
            memory_bytes=settings.memory_bytes,
            wait=settings.wait,
            signature=settings.signature,
            shapes=[agent_pb2.Shape(tensor=index, dims=dims) for index, dims in settings.shapes.items()],
        )

    def _prepared(self, paths: Sequence[Path]) -> list[str]:
        """Hashes of the files, which the agent has now; only what it lacks is sent."""
        named = [_sha256(path) for path in paths]
        hashes = dict(zip(named, paths, strict=True))
        files = [
            agent_pb2.File(sha256=sha256, size=path.stat().st_size, path=self._shared(path))
            for sha256, path in hashes.items()
        ]
        hashing_s = sum(file.size for file in files) / _SLOWEST_BYTES_S
        for _ in range(2):
            reply = self._call(self._stub.Prepare, agent_pb2.PrepareRequest(files=files), more_s=hashing_s)
            if not reply.missing:
                return named
            if not hashes.keys() >= set(reply.missing):
                raise Garbled(self.device)
            self._send({sha256: hashes[sha256] for sha256 in reply.missing}, reply)
        raise AgentError(f"{self.device}: files do not arrive whole in {reply.folder}")

    def _shared(self, path: Path) -> str:
        """Where the agent finds a file, on a machine that sees this one's files and under a name that can be told."""
        absolute = path.absolute()
        try:
            return os.fsencode(absolute).decode() if self._shares_files else ""
        except UnicodeDecodeError:
            return ""

    def _send(self, files: Mapping[str, Path], reply: Any) -> None:
        """Push files into the agent's folder, if all have room. Raises NoSpace, LinkError."""
        need = sum(path.stat().st_size for path in files.values()) + _SPARE_BYTES
        if reply.HasField("free_bytes") and need > reply.free_bytes:
            raise NoSpace(
                f"{self.device}: no space in {reply.folder}: needs {size(need)}, free are {size(reply.free_bytes)}; "
                f"free some, or name another folder: edgedeploy device setup {self.device} --remote-dir DIR"
            )
        for sha256, path in files.items():
            whole = path.stat().st_size

            def told(sent: int, name: str = path.name, whole: int = whole) -> None:
                self._tell(f"sending {name} to {self.device}: {100 * sent // whole}% of {size(whole)}")

            self._link.push(path, f"{reply.folder}/{sha256}", told)
        self._tell("")

    def _call(self, method: Callable[..., Any], request: Any, *, more_s: float = 0) -> Any:
        with self._explained():
            return method(request, metadata=self._metadata, timeout=_CALL_S + more_s)

    def _events(self, call: Any) -> Iterator[Any]:
        self._events_run = True
        try:
            with self._explained():
                for event in call:
                    if event.WhichOneof("event") == "failure":
                        failure = event.failure
                        if failure.kind == "inputs":
                            raise BadRequest(f"{self.device}: {failure.message}")
                        if failure.kind == "no-runtime":
                            fix = "" if self._shares_files else f": edgedeploy device setup {self.device}"
                            raise NoRuntime(f"{self.device}: {failure.message}{fix}")
                        raise ModelFailed(self.device, failure.kind, failure.stage, failure.message)
                    yield event
        finally:
            self._events_run = False
            call.cancel()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Say a failed call in this program's words."""
        try:
            yield
        except grpc.RpcError as error:
            code, words = error.code(), error.details()
            kind: type[Exception] = {
                grpc.StatusCode.RESOURCE_EXHAUSTED: Busy,
                grpc.StatusCode.INVALID_ARGUMENT: BadRequest,
                grpc.StatusCode.FAILED_PRECONDITION: BadRequest,
            }.get(code, AgentError)
            if code == grpc.StatusCode.UNAVAILABLE:
                words = f"the agent is gone: {self._why_gone(_END_S) or words}"
            raise kind(f"{self.device}: {words}") from None


@contextlib.contextmanager
def session(
    link: Link, command: str, *, shares_files: bool = False, tell: Callable[[str], None] = lambda _: None
) -> Iterator[Session]:
    """Start the agent by ``command``, shake hands, and end it afterwards, whatever happens.

    ``shares_files``: the machine sees this machine's files, and need not be sent them. ``tell`` is told how far a file
    is that is sent, and nothing when it is there. Raises AgentError, LinkError.
    """
    token = secrets.token_hex(32)
    process = link.start(command)
    try:
        port = _started(link, process, token)
        with grpc.insecure_channel(f"127.0.0.1:{link.forward(port)}", options=_OPTIONS) as channel:
            stub = agent_pb2_grpc.AgentStub(channel)  # type: ignore[no-untyped-call]
            made = Session(link, stub, token, shares_files=shares_files, tell=tell, why_gone=process.why_ended)
            made.hello()
            with made.kept():
                yield made
            made.stop()
    finally:
        process.stop()


_OPTIONS = (
    ("grpc.enable_http_proxy", 0),  # the address is this machine's loopback
    ("grpc.keepalive_time_ms", 20_000),
)


def _started(link: Link, process: Process, token: str) -> int:
    """The agent's port."""
    asked = {"token": token, "idle_s": _IDLE_S, "version": __version__}
    try:
        process.write(json.dumps(asked).encode() + b"\n")
        answer = json.loads(process.read_line(START_S))
        version, protocol, port = answer["version"], answer["protocol"], int(answer["port"])
    except (LinkLost, ValueError, TypeError, KeyError):
        said = process.stderr_tail().strip().splitlines()
        why = f": {said[-1]}" if said else ""
        raise AgentError(f"{link.name}: the agent does not start{why}") from None
    if (version, protocol) != (__version__, PROTOCOL):
        raise VersionMismatch(
            f"{link.name}: the agent there is {version} (protocol {protocol}), this program "
            f"{__version__} (protocol {PROTOCOL}); 'edgedeploy device setup {link.name}' brings them together"
        )
    return port


def _requests(settings: Any, inputs: Tensors) -> Iterable[Any]:
    yield agent_pb2.RunRequest(settings=settings)
    for name, value in inputs.items():
        data = np.ascontiguousarray(value).tobytes()
        tensor = agent_pb2.Tensor(name=name, dtype=value.dtype.str, shape=value.shape)
        for start in range(0, max(len(data), 1), _CHUNK):
            piece = data[start : start + _CHUNK]
            chunk = agent_pb2.Chunk(data=piece) if start else agent_pb2.Chunk(tensor=tensor, data=piece)
            yield agent_pb2.RunRequest(chunk=chunk)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
