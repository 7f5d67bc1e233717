# SPDX-License-Identifier: Apache-2.0
"""The agent: serves one client on this machine's loopback, for as long as that client is there.

    python -m edgedeploy_agent.server [--folder DIR] [--root DIR]

One line of JSON on stdin, ``{"token": "...", "idle_s": 60, "version": "..."}``, one on stdout,
``{"port": N, "version": "...", "protocol": N}``. Every call has to carry the token as metadata. The agent ends when its
stdin does (its SSH session, or its parent, is gone), after ``idle_s`` without a call, or on Stop.
"""

from __future__ import annotations

import argparse
import contextlib
import hmac
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # workers are started by exec

import grpc

from edgedeploy_agent import __version__
from edgedeploy_agent.machine import Machine
from edgedeploy_agent.service import Service
from edgedeploy_protos import PROTOCOL, agent_pb2_grpc

_THREADS = 8
_GRACE_S = 1.0
_LOOK_S = 0.5
_IDLE_S = 60.0


class Activity:
    """When the client was last heard of."""

    def __init__(self) -> None:
        self._running = 0
        self._last = time.monotonic()
        self._lock = threading.Lock()

    def touch(self, change: int = 0) -> None:
        with self._lock:
            self._running += change
            self._last = time.monotonic()

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        self.touch(1)
        try:
            yield
        finally:
            self.touch(-1)

    @property
    def idle_s(self) -> float:
        return 0.0 if self._running else time.monotonic() - self._last


class Gate(grpc.ServerInterceptor):  # type: ignore[misc]
    """Lets in only the calls that carry the token."""

    def __init__(self, token: str, activity: Activity) -> None:
        self._token = token.encode()
        self._activity = activity

    def intercept_service(self, continuation: Any, details: Any) -> Any:
        given = next((value for key, value in details.invocation_metadata if key == "token"), "")
        if not hmac.compare_digest(str(given).encode(), self._token):
            return grpc.unary_unary_rpc_method_handler(_refuse)  # before any message is read
        self._activity.touch()
        return continuation(details)


def _refuse(request: Any, context: Any) -> None:
    del request
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong token")


def main(arguments: list[str] | None = None) -> int:
    """Serve until the client is gone."""
    options = _parser().parse_args(arguments)
    asked = json.loads(sys.stdin.buffer.readline() or b"{}")
    if not asked.get("token"):  # an empty one would let anybody in
        return 1
    ended = threading.Event()
    activity = Activity()
    service = Service(Machine(os.path.abspath(options.root)), os.path.abspath(options.folder), ended.set, activity.busy)
    # a second agent must not get the port of the first
    server = grpc.server(
        futures.ThreadPoolExecutor(_THREADS),
        interceptors=[Gate(asked["token"], activity)],
        options=[("grpc.so_reuseport", 0)],
    )
    agent_pb2_grpc.add_AgentServicer_to_server(service, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(json.dumps({"port": port, "version": __version__, "protocol": PROTOCOL}), flush=True)
    threading.Thread(target=_wait_for_end_of_input, args=(ended,), daemon=True).start()
    limit_s = float(asked.get("idle_s", _IDLE_S))
    while not ended.wait(_LOOK_S) and activity.idle_s < limit_s:
        pass
    service.end()
    server.stop(_GRACE_S).wait()
    return 0


def _wait_for_end_of_input(ended: threading.Event) -> None:
    while os.read(0, 1 << 12):
        pass
    ended.set()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m edgedeploy_agent.server", description="Serve one client.")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    parser.add_argument("--folder", default=os.path.join(cache, "edgedeploy"), help="where files are put")
    parser.add_argument("--root", default="/", help="whose /proc and /sys are read")
    return parser


if __name__ == "__main__":
    sys.exit(main())
