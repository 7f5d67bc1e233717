# SPDX-License-Identifier: Apache-2.0
"""What an agent is given: tensors, files, options and limits; and that it waits for a client that takes its time."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedeploy.measure import session as session_module
from edgedeploy.measure.errors import BadRequest
from edgedeploy.measure.session import Session, Settings, session
from edgedeploy_agent.worker import Task
from edgedeploy_partitioner.model.build import Model
from edgedeploy_protos import agent_pb2
from support import agents

EXAMPLES = Path(__file__).parents[2] / "examples"
KWS = Settings(EXAMPLES / "dscnn_kws.int8.tflite")


def written(folder: Path, model: Model) -> Path:
    path = folder / "model.tflite"
    path.write_bytes(model.build())
    return path


def runs(opened: Session) -> bool:
    outputs, runtime = opened.run(KWS, {})
    return [value.shape for value in outputs.values()] == [(1, 12)] and runtime["name"] == "ai-edge-litert"


def test_large_tensors_arrive_whole(opened: Session, tmp_path: Path) -> None:
    model = Model()
    g = model.subgraph()
    x, y = g.input((2, 700_000), name="x"), g.input((3,), "int32", name="y")
    g.outputs(g.apply("NEG", [x], (2, 700_000)), g.apply("NEG", [y], (3,), "int32"))
    random = np.random.default_rng(3)
    values = {"y": np.array([1, -2, 3], np.int32), "x": random.normal(size=(2, 700_000)).astype(np.float32)}
    first, second = opened.run(Settings(written(tmp_path, model)), values)[0].values()
    assert np.array_equal(first, -values["x"])
    assert np.array_equal(second, -values["y"])


def test_inputs_that_do_not_fit_are_said_to(opened: Session, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="no input 'nose'"):
        opened.run(KWS, {"nose": np.zeros(1), "mouth": np.zeros(1)})
    with pytest.raises(BadRequest, match="Cannot set tensor"):
        opened.run(KWS, {"anything": np.zeros((1, 49, 10, 1), np.float32)})
    np.savez(tmp_path / "x.npz", anything=np.zeros((1, 49, 10, 1), np.int8))
    assert list(opened.measure(Settings(KWS.model, tmp_path / "x.npz"), most_runs=1))[-1].HasField("done")
    with pytest.raises(BadRequest, match=r"does not take 'input' of shape \[2, 3\], not \[1, 49, 10, 1\]: "):
        opened.run(KWS, {"input": np.zeros((2, 3), np.int8)})
    for broken in (b"PK no archive", b"", b"\x93NUMPY", (tmp_path / "x.npz").read_bytes()[:-30]):
        (tmp_path / "x.npz").write_bytes(broken)
        with pytest.raises(BadRequest, match=r"no \.npz file"):
            list(opened.measure(Settings(KWS.model, tmp_path / "x.npz")))


@pytest.mark.parametrize("dtype", ["V0", "S0", "O"])
def test_a_tensor_that_is_none_is_said_to_be(opened: Session, dtype: str) -> None:
    with pytest.raises(BadRequest, match="'input'"):
        opened.run(KWS, {"input": np.empty((1, 49), np.dtype(dtype))})


def test_a_model_without_inputs_says_that_it_has_none(opened: Session, tmp_path: Path) -> None:
    model = Model()
    g = model.subgraph()
    g.outputs(g.apply("NEG", [g.constant(np.ones(3, np.float32))], (3,)))
    path = written(tmp_path, model)
    assert [value.tolist() for value in opened.run(Settings(path), {})[0].values()] == [[-1, -1, -1]]
    with pytest.raises(BadRequest, match="no input 'x', it has none"):
        opened.run(Settings(path), {"x": np.zeros(1)})


def test_many_warm_ups_are_no_hang(opened: Session) -> None:
    events = opened.measure(dataclasses.replace(KWS, deadline_s=10), warmup=1 << 31, most_runs=1)
    signs = (event for event in events if event.progress.stage == "warm-up")
    assert [next(signs).progress.stage for _ in range(4)]
    events.close()


def test_a_listener_that_takes_its_time_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's own deadline counts what it does, not for how long nobody reads."""
    monkeypatch.setattr("edgedeploy_agent.worker._LATE_S", 0)
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as answer, os.fdopen(reader, "rb") as heard:
        slow = threading.Timer(2.5, heard.read, [1 << 20])
        slow.start()
        Task({"deadline_s": 1}, answer).say({"chunk": {}}, bytes(1 << 18))  # more than a pipe holds
        signal.alarm(0)
        answer.close()
        slow.join()


def test_limits_that_were_set_before_stay(tmp_path: Path) -> None:
    # A file that is cut at the limit must not be one that Python compiles.
    command = (
        f"export PYTHONDONTWRITEBYTECODE=1; ulimit -c 0; ulimit -f 10; ulimit -v 8000000; {agents.command(tmp_path)}"
    )
    with session(agents.Watched(), command, shares_files=True) as opened:
        assert runs(opened)
        assert opened.run(dataclasses.replace(KWS, memory_bytes=1 << 40), {})


def test_a_path_that_cannot_be_is_no_file(opened: Session) -> None:
    file = agent_pb2.File(sha256="0" * 64, size=1, path="a\0b")
    reply = opened._stub.Prepare(agent_pb2.PrepareRequest(files=[file]), metadata=opened._metadata)
    assert list(reply.missing) == ["0" * 64]


def test_cpus_that_are_not_there_are_refused(opened: Session) -> None:
    for cpus in ("4096", "fast", "3-1", "-1", "0-9999999999", "1_0", "\u0661"):
        with pytest.raises(BadRequest, match="--cpus"):
            opened.run(Settings(KWS.model, cpus=cpus), {})


def test_an_agent_stays_while_a_file_is_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedeploy.measure.session._IDLE_S", 1.0)

    class Slow(agents.Watched):
        def push(self, source: Path, target: str, progress: Callable[[int], None] | None = None) -> None:
            assert progress
            for sent in range(20):
                time.sleep(0.15)
                progress(sent)
            super().push(source, target, progress)

    with agents.agent(tmp_path, link=Slow(), shares_files=False) as opened:
        assert runs(opened)


def test_an_agent_stays_while_inputs_are_on_their_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedeploy.measure.session._IDLE_S", 1.0)
    parts = session_module._requests

    def slowly(*arguments: Any) -> Generator[Any, None, None]:
        for part in parts(*arguments):
            yield part
            time.sleep(2.5)

    with agents.agent(tmp_path) as opened:
        assert runs(opened)
        monkeypatch.setattr("edgedeploy.measure.session._requests", slowly)
        assert opened.run(KWS, {"input": np.zeros((1, 49, 10, 1), np.int8)})
