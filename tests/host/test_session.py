# SPDX-License-Identifier: Apache-2.0
"""What this program makes of a device whose agent does not keep to the protocol."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedeploy.link.local import LocalLink
from edgedeploy.measure.bench import Extent, bench
from edgedeploy.measure.errors import AgentError, Garbled, NoRuntime
from edgedeploy.measure.session import Session, Settings, session
from edgedeploy.measure.subject import subject
from edgedeploy_agent import __version__
from edgedeploy_protos import PROTOCOL
from edgedeploy_protos import agent_pb2 as pb

KWS = Path(__file__).parents[2] / "examples" / "dscnn_kws.int8.tflite"
SETTINGS = Settings(KWS)


@pytest.mark.parametrize(
    "line",
    ["[]", "1", "null", '"x"', "{}", '{"port": null, "version": "1", "protocol": 1}', '{"port": [1]}', "no JSON", "",
     f'{{"port": "x", "version": "{__version__}", "protocol": {PROTOCOL}}}'],
)  # fmt: skip
def test_a_first_line_that_is_none(line: str) -> None:
    command = shlex.join([sys.executable, "-c", f"input(); print({line!r})"])
    with pytest.raises(AgentError, match="the agent does not start"), session(LocalLink("pi"), command):
        pass


class Calls:
    """Stands for the agent: answers what it is told to."""

    def __init__(self, events: Sequence[Any], missing: Sequence[str] = ()) -> None:
        self._events, self._missing = events, missing

    def Prepare(self, request: Any, **_: Any) -> Any:  # noqa: N802 - the names of the protocol
        del request
        return pb.PrepareReply(missing=self._missing, folder="/f")

    def _call(self, request: Any, **_: Any) -> Any:
        del request
        return Events(iter(self._events))

    Measure = Run = _call


class Events:
    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[Any]:
        return self._events

    def cancel(self) -> None:
        pass


def answering(*events: Any, missing: Sequence[str] = ()) -> Session:
    return Session(LocalLink("pi"), Calls(events, missing), "", shares_files=False)


def chunk(dtype: str, shape: Sequence[int], data: bytes) -> Any:
    return pb.RunEvent(chunk=pb.Chunk(tensor=pb.Tensor(name="x", dtype=dtype, shape=shape), data=data))


RUNTIME = pb.RunEvent(runtime=pb.Runtime(name="r", version="1"))
CONDITIONS = pb.Conditions(temperatures=[pb.Temperature(zone="z", celsius=40)], load=0.1)


@pytest.mark.parametrize(
    "events",
    [
        (),
        (chunk("<f4", [1], bytes(4)),),
        (RUNTIME, pb.RunEvent(chunk=pb.Chunk(data=b"x"))),
        (RUNTIME, chunk("<f4", [2], bytes(4))),
        (RUNTIME, chunk("<f4", [1], bytes(3))),
        (RUNTIME, chunk("|O", [1], bytes(8))),
        (RUNTIME, chunk("<f4,O", [1], bytes(12))),
        (RUNTIME, chunk("|S0", [1], b"")),
        (RUNTIME, chunk("no type", [1], b"")),
        (RUNTIME, chunk("<f4", [1 << 63, 2], bytes(4))),
    ],
)
def test_outputs_that_are_none(events: Sequence[Any]) -> None:
    with pytest.raises(Garbled, match="pi: its agent answers what this program does not understand"):
        answering(*events).run(SETTINGS, {})


def test_outputs_that_are_some() -> None:
    outputs, runtime = answering(RUNTIME, chunk("<f4", [1], bytes(4))).run(SETTINGS, {})
    assert (runtime["name"], outputs["x"]) == ("r", np.zeros(1))


def _whole() -> dict[str, Any]:
    return {
        "effective": pb.MeasureEvent(effective=pb.Effective(threads=1, cpus=[0])),
        "runtime": pb.MeasureEvent(runtime=pb.Runtime(name="r", version="1")),
        "start": pb.MeasureEvent(start=pb.Start(load_ns=1, first_run_ns=1, before=CONDITIONS)),
        "batch": pb.MeasureEvent(batch=pb.Batch(samples_ns=[1, 2], after=CONDITIONS)),
        "done": pb.MeasureEvent(done=pb.Done()),
    }


@pytest.mark.parametrize("lacks", ["effective", "runtime", "start", "batch"])
def test_a_measurement_that_lacks_something(lacks: str) -> None:
    events = {name: event for name, event in _whole().items() if name != lacks}
    with pytest.raises(Garbled):
        bench(answering(*events.values()), subject(KWS), SETTINGS, Extent(runs=2))
    assert bench(answering(*_whole().values()), subject(KWS), SETTINGS, Extent(runs=2)).samples == [1, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        pb.MeasureEvent(start=pb.Start(load_ns=1, first_run_ns=1)),
        pb.MeasureEvent(batch=pb.Batch(samples_ns=[1])),
        pb.MeasureEvent(batch=pb.Batch(samples_ns=[1], after=pb.Conditions(load=float("nan")))),
        pb.MeasureEvent(
            batch=pb.Batch(samples_ns=[1], after=pb.Conditions(temperatures=[pb.Temperature(celsius=float("inf"))]))
        ),
    ],
)
def test_a_measurement_with_an_event_that_is_none(wrong: Any) -> None:
    with pytest.raises(Garbled):
        bench(answering(*_whole().values(), wrong), subject(KWS), SETTINGS, Extent(runs=2))


def test_a_device_without_a_runtime_is_not_usable() -> None:
    failure = pb.Failure(kind="no-runtime", stage="start", message="no TFLite runtime")
    with pytest.raises(NoRuntime, match=r"^pi: no TFLite runtime: edgedeploy device setup pi$") as found:
        answering(pb.RunEvent(failure=failure)).run(SETTINGS, {})
    assert found.value.exit_code == 4


def test_a_device_is_sent_only_what_was_asked_for() -> None:
    with pytest.raises(Garbled):
        answering(missing=["0" * 64]).run(SETTINGS, {})
