# SPDX-License-Identifier: Apache-2.0
"""The calls of the protocol. Each that runs a model does so in worker processes."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from edgedeploy_agent import __version__
from edgedeploy_agent.children import Worker
from edgedeploy_agent.clusters import choose, clusters
from edgedeploy_agent.exclusive import Taken, alone
from edgedeploy_agent.files import Files
from edgedeploy_agent.governor import NotSet, governed
from edgedeploy_agent.machine import Machine
from edgedeploy_agent.probe import probe
from edgedeploy_protos import PROTOCOL, agent_pb2, agent_pb2_grpc

_DEADLINE_S = 60.0
_BATCH_S = 0.25
_KIB = 1024


class Service(agent_pb2_grpc.AgentServicer):
    """One client's session. ``stop`` is called when it asks to end the agent, ``busy()`` is open while it works."""

    def __init__(
        self,
        machine: Machine,
        folder: str,
        stop: Callable[[], None],
        busy: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        self._machine = machine
        self._files = Files(folder)
        self._stop = stop
        self._busy = busy
        self._client = "another client"
        self._workers: set[Worker] = set()
        self._one = threading.Lock()
        self._ending = False

    def Hello(self, request: Any, context: Any) -> Any:  # noqa: N802 - the names of the protocol
        if (request.version, request.protocol) != (__version__, PROTOCOL):
            context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"the agent is {__version__} (protocol {PROTOCOL}), "
                f"the client {request.version} (protocol {request.protocol})",
            )
        self._client = request.client or self._client
        return agent_pb2.HelloReply(version=__version__, protocol=PROTOCOL)

    def Probe(self, request: Any, context: Any) -> Any:  # noqa: N802
        del context
        software = [_software(each) for each in request.software]
        return agent_pb2.Device(**_present(probe(self._machine, software)))

    def Prepare(self, request: Any, context: Any) -> Any:  # noqa: N802
        try:
            with self._busy():  # hashing a large file takes a while
                missing = [f.sha256 for f in request.files if not self._files.find(f.sha256, f.size, f.path)]
                free_bytes = self._files.make_room() if missing else None
        except ValueError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except OSError as error:
            context.abort(grpc.StatusCode.INTERNAL, f"cannot keep files in {self._files.folder}: {error.strerror}")
        return agent_pb2.PrepareReply(missing=missing, folder=self._files.folder, free_bytes=free_bytes)

    def Measure(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        task = self._task(request.settings, context)
        task.update(
            warmup=request.warmup,
            most_runs=request.most_runs,
            most_s=request.most_s,
            batch_s=request.batch_s or _BATCH_S,
            first=request.first.hex(),
            cool_c=request.cool_c if request.HasField("cool_c") else None,
            cooling_s=request.cooling_s,
        )
        with self._turn(request.settings, context), contextlib.ExitStack() as held:
            if request.governor:
                try:
                    held.enter_context(governed(self._machine, request.governor, task["cpus"]))
                except NotSet as error:
                    context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"--set-governor: {error}")
            for mode in ("examine", "measure"):  # a process each: looking into the runtime leaves traces
                failed = False
                for event in self._events({**task, "mode": mode}, b"", context):
                    failed = "failure" in event
                    if failed or "done" not in event or mode == "measure":
                        yield agent_pb2.MeasureEvent(**_present(event))
                if failed:
                    return

    def Run(self, requests: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        first: Any = next(requests, agent_pb2.RunRequest())
        if first.WhichOneof("part") != "settings":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first part of a run is its settings")
        task = {**self._task(first.settings, context), "mode": "run"}
        tensors: list[dict[str, Any]] = []
        payload = bytearray()
        with self._busy():  # a slow connection is no idle client
            for part in requests:
                if part.chunk.HasField("tensor"):
                    t = part.chunk.tensor
                    tensors.append({"name": t.name, "dtype": t.dtype, "shape": list(t.shape)})
                payload += part.chunk.data
        with self._turn(first.settings, context):
            for event in self._events({**task, "tensors": tensors}, bytes(payload), context):
                yield agent_pb2.RunEvent(**_present(event))

    def Stop(self, request: Any, context: Any) -> Any:  # noqa: N802
        del request, context
        self._stop()
        return agent_pb2.StopReply()

    def end(self) -> None:
        """End every worker; what becomes of its model is no answer any more."""
        self._ending = True
        for worker in tuple(self._workers):
            worker.kill()

    def _events(self, task: dict[str, Any], payload: bytes, context: Any) -> Iterator[dict[str, Any]]:
        """What a worker says; it ends with the call, however that ends."""
        isa = sorted({flag for each in clusters(self._machine) for flag in each["isa"]})
        worker = Worker(task, payload, cpu_features=" ".join(isa))
        self._workers.add(worker)
        try:
            if not context.add_callback(worker.kill):
                return  # the call is over already
            for event in worker.events():
                if self._ending:
                    context.abort(grpc.StatusCode.ABORTED, "the agent was told to end")
                yield event
        finally:
            self._workers.discard(worker)
            worker.close()

    @contextlib.contextmanager
    def _turn(self, settings: Any, context: Any) -> Iterator[None]:
        """While no other client measures; a call of this one that is just ending is waited for."""
        try:
            with self._busy(), self._one, alone(self._client, wait=settings.wait, goes_on=context.is_active):
                yield
        except Taken as taken:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(taken))

    def _task(self, settings: Any, context: Any) -> dict[str, Any]:
        """What every worker is told."""
        try:
            model = self._files.path(settings.model)
            inputs, delegate, plan = (
                self._files.path(sha256) if sha256 else ""
                for sha256 in (settings.inputs, settings.delegate, settings.plan)
            )
            cpus = choose(settings.cpus, clusters(self._machine), os.sched_getaffinity(0))
        except KeyError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"no such file was prepared: {error.args[0]}")
        except ValueError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return {
            "root": self._machine.root,
            "model": model,
            "inputs": inputs,
            "delegate": delegate,
            "plan": plan,
            "cpus": cpus,
            "threads": settings.threads or len(cpus),
            "xnnpack": not settings.without_xnnpack,
            "deadline_s": settings.deadline_s or _DEADLINE_S,
            "memory_bytes": settings.memory_bytes or self._available_bytes(model),
            "signature": settings.signature,
            "shapes": [[each.tensor, list(each.dims)] for each in settings.shapes],
        }

    def _available_bytes(self, model: str) -> int | None:
        """What a model may map where nothing is said: what is free, and its own file, which takes none of that."""
        free = self._machine.fields("proc/meminfo").get("MemAvailable")
        return int(free.split()[0]) * _KIB + os.path.getsize(model) if free else None


def _software(asked: Any) -> dict[str, Any]:
    """The protocol's Software as a value."""
    lists = {name: list(getattr(asked, name)) for name in ("nodes", "drivers", "driver_versions")}
    libraries = [{"name": each.name, "version": each.version} for each in asked.libraries]
    return {"backend": asked.backend, **lists, "libraries": libraries}


def _present(value: Any) -> Any:
    """Without the fields that are None, which is how a message leaves them out."""
    if isinstance(value, dict):
        return {key: _present(each) for key, each in value.items() if each is not None}
    return [_present(each) for each in value] if isinstance(value, list) else value
