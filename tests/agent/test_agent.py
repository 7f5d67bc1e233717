# SPDX-License-Identifier: Apache-2.0
"""The agent on this machine: models that do harm, clients that go away, and that nothing is left of either."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from edgedeploy.measure.errors import AgentError, BadRequest, Busy, ModelFailed, VersionMismatch
from edgedeploy.measure.session import Session, Settings, session
from edgedeploy_agent import __version__
from edgedeploy_partitioner.model.build import Model
from support import agents, hostile, processes

EXAMPLES = Path(__file__).parents[2] / "examples"
KWS = Settings(EXAMPLES / "dscnn_kws.int8.tflite")

Events = Generator[Any, None, None]


def written(folder: Path, model: Model) -> Path:
    path = folder / "model.tflite"
    path.write_bytes(model.build())
    return path


def until_it_measures(events: Events) -> None:
    next(event for event in events if event.WhichOneof("event") == "batch")


def runs(opened: Session) -> bool:
    outputs, runtime = opened.run(KWS, {})
    return [value.shape for value in outputs.values()] == [(1, 12)] and runtime["name"] == "ai-edge-litert"


def fails(opened: Session, settings: Settings, how: str) -> ModelFailed:
    with pytest.raises(ModelFailed) as failed:
        opened.run(settings, {})
    assert failed.value.exit_code == 6
    assert (failed.value.kind, "\n" in str(failed.value)) == (how, False)
    return failed.value


# --- models --------------------------------------------------------------


def test_a_model_that_does_harm_is_a_result_and_the_next_one_runs(
    opened: Session, link: agents.Watched, tmp_path: Path
) -> None:
    path = written(tmp_path, hostile.crashing())
    assert fails(opened, Settings(path), "crashed").message.startswith("killed by SIG")
    for number in (signal.SIGABRT, signal.SIGSEGV):
        path = written(tmp_path, hostile.crashing_by(number))
        assert fails(opened, Settings(path), "crashed").message.startswith(f"killed by {number.name}")
    path = written(tmp_path, hostile.endless())
    begun = time.monotonic()
    assert "1 s" in fails(opened, Settings(path, deadline_s=1), "timeout").message
    assert time.monotonic() - begun < 5
    path = written(tmp_path, hostile.huge())
    assert fails(opened, Settings(path, memory_bytes=1 << 28), "out-of-memory").stage == "allocate"
    failure = fails(opened, Settings(EXAMPLES / "custom_erf.int8.tflite"), "refused")
    assert (failure.stage, "unresolved custom op: Erf" in failure.message) == ("allocate", True)
    assert processes.ends(*processes.children(link.agent))
    assert runs(opened)


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [(signal.SIGKILL, "out-of-memory", "SIGKILL"), (signal.SIGABRT, "crashed", "SIGABRT"),
     (signal.SIGILL, "crashed", "that this CPU does not have")],
)  # fmt: skip
def test_a_worker_that_is_killed_is_a_result(
    opened: Session, link: agents.Watched, number: signal.Signals, kind: str, words: str
) -> None:
    events = opened.measure(KWS)
    until_it_measures(events)
    [worker] = processes.children(link.agent)
    os.kill(worker, number)
    with pytest.raises(ModelFailed) as failed:
        list(events)
    assert (failed.value.kind, failed.value.stage) == (kind, "measure")
    assert words in failed.value.message
    assert runs(opened)


def test_a_measurement_says_what_it_was_taken_with(opened: Session) -> None:
    cpu = min(os.sched_getaffinity(0))
    found = list(
        opened.measure(
            Settings(KWS.model, cpus=str(cpu), threads=3), most_runs=7, first=KWS.model.read_bytes(), warmup=2
        )
    )
    events = {event.WhichOneof("event"): event for event in found}
    assert list(events["effective"].effective.cpus) == [cpu]
    assert events["effective"].effective.threads == 3
    assert (events["runtime"].runtime.xnnpack_ops, events["runtime"].runtime.ops) == (11, 12)
    assert [len(e.batch.samples_ns) for e in found if e.HasField("batch")] == [7]
    memory = events["memory"].memory
    assert memory.baseline_bytes < memory.after_allocate_bytes <= memory.peak_bytes
    assert events["start"].start.load_ns > 0
    off = [e for e in opened.measure(Settings(KWS.model, xnnpack=False), most_runs=1) if e.HasField("runtime")]
    assert off[0].runtime.xnnpack_ops == 0


# --- who goes away ---------------------------------------------------------


def _closed(link: agents.Watched, events: Events) -> None:
    del link
    events.close()


def _agent_killed(link: agents.Watched, events: Events) -> None:
    processes.kill(link.agent)
    with pytest.raises(AgentError, match="local: the agent is gone: it was killed by SIGKILL"):
        list(events)


def _host_gone(link: agents.Watched, events: Events) -> None:
    link.started[-1].close_stdin()  # as when the host, or its SSH session, is killed
    with pytest.raises(AgentError):
        list(events)


@pytest.mark.parametrize("go", [_closed, _agent_killed, _host_gone])
def test_nothing_is_left_when_a_measurement_ends_early(
    tmp_path: Path, link: agents.Watched, go: Callable[[agents.Watched, Events], None]
) -> None:
    with agents.agent(tmp_path, link=link) as opened:
        events = opened.measure(KWS)
        until_it_measures(events)
        [worker] = processes.children(link.agent)
        go(link, events)
        assert processes.ends(worker)
        if go is not _closed:
            assert processes.ends(link.agent)
        with agents.agent(tmp_path) as other:  # the lock is free
            assert runs(other)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, None])
def test_a_model_that_hangs_ends_with_its_agent(
    tmp_path: Path, link: agents.Watched, end: signal.Signals | None
) -> None:
    path = written(tmp_path, hostile.endless())
    with agents.agent(tmp_path, link=link) as opened:
        events = opened.measure(Settings(path))
        next(event for event in events if event.progress.stage == "invoke")
        [worker] = processes.children(link.agent)
        if end is None:
            link.started[-1].close_stdin()
        else:
            os.kill(link.agent, end)
        assert processes.ends(worker, link.agent)
        with pytest.raises(AgentError):
            list(events)


def test_an_agent_without_calls_ends(tmp_path: Path) -> None:
    with subprocess.Popen(agents.command(tmp_path), shell=True, stdin=-1, stdout=-1) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdin.write(b'{"token": "t", "idle_s": 0.1, "version": ""}\n')
        started.stdin.flush()
        assert json.loads(started.stdout.readline()).keys() == {"port", "version", "protocol"}
        assert started.wait(10) == 0


def test_an_agent_whose_client_is_gone_before_it_spoke_ends(tmp_path: Path) -> None:
    done = subprocess.run(agents.command(tmp_path), shell=True, stdin=subprocess.DEVNULL, timeout=20, check=False)
    assert done.returncode == 1


# --- who may call ------------------------------------------------------------


def test_without_the_token_nothing_is_answered(opened: Session, tmp_path: Path) -> None:
    opened._metadata = (("token", "0" * 64),)
    for call in (opened.probe, lambda: opened.run(KWS, {}), lambda: list(opened.measure(KWS))):
        with pytest.raises(AgentError, match="wrong token") as refused:
            call()
        assert refused.value.exit_code == 4
    opened._metadata = (("other", "0"),)
    with pytest.raises(AgentError, match="wrong token"):
        opened.probe()
    assert not (tmp_path / "store").exists()


def test_a_second_client_is_told_who_measures_or_waits(opened: Session, tmp_path: Path) -> None:
    with agents.agent(tmp_path) as other:
        events = opened.measure(KWS)
        until_it_measures(events)
        with pytest.raises(Busy, match=rf"\(process {os.getpid()}\) measures there, for \d+ s now") as busy:
            list(other.measure(KWS))
        assert busy.value.exit_code == 4
        with pytest.raises(Busy):
            other.run(KWS, {})
        ending = threading.Timer(0.5, events.close)
        ending.start()
        begun = time.monotonic()
        list(other.measure(Settings(KWS.model, wait=True), most_runs=1))
        ending.join()
        assert time.monotonic() - begun > 0.4


@pytest.mark.parametrize("said", [b"[]", b"nothing", b'{"client": "' + bytes(1 << 20), b""])
def test_whoever_holds_the_lock_is_not_believed(opened: Session, tmp_path: Path, said: bytes) -> None:
    """Any program of the machine may take its name, and say anything, for ever."""
    name = subprocess.run(
        [sys.executable, "-c", "from edgedeploy_agent.exclusive import _name; print(_name()[1:])"],
        env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip

    def tell() -> None:
        with contextlib.suppress(OSError):
            asker, _ = holder.accept()
            with asker:
                asker.sendall(said)

    with socket.socket(socket.AF_UNIX) as holder:
        holder.bind(f"\0{name}")
        holder.listen()
        teller = threading.Thread(target=tell, daemon=True)
        teller.start()
        with pytest.raises(Busy, match="another client measures there"):
            opened.run(KWS, {})
        teller.join()


def test_another_version_is_refused_with_both(tmp_path: Path, opened: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedeploy.measure.session.__version__", "9.9")
    with (
        pytest.raises(VersionMismatch, match=rf"is {__version__} .*this program 9\.9 .*device setup") as refused,
        agents.agent(tmp_path),
    ):
        pass
    assert refused.value.exit_code == 4
    with pytest.raises(BadRequest, match=rf"the agent is {__version__} .*the client 9\.9"):
        opened.hello()


def test_an_agent_that_does_not_start_says_why(tmp_path: Path) -> None:
    for command, words in (
        (f"{sys.executable} -m edgedeploy_agent.none", "No module named edgedeploy_agent.none"),
        ("exec /usr/no-such-python", "not found"),
        ("echo hello", "does not start"),
    ):
        with pytest.raises(AgentError, match=words), session(agents.Watched(), command):
            pass
    del tmp_path


# --- the governor ----------------------------------------------------------------


def machine_with_governors(folder: Path, *, shared: bool) -> Path:
    """With a governor for each CPU, or one for all, as clusters have it."""
    for cpu in sorted(os.sched_getaffinity(0)):
        policy = folder / f"sys/devices/system/cpu/cpu{cpu}/cpufreq"
        policy.parent.mkdir(parents=True)
        if shared:
            policy.symlink_to(folder / "sys/devices/system/cpu/cpufreq/policy0")
            policy = policy.resolve()
        policy.mkdir(parents=True, exist_ok=True)
        (policy / "scaling_governor").write_text("schedutil\n")
        (policy / "scaling_available_governors").write_text("schedutil performance\n")
    (folder / "sys/devices/system/cpu/online").write_text(",".join(map(str, os.sched_getaffinity(0))))
    return folder


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("end", ["closed", "killed", "keeper killed"])
def test_the_governor_is_set_meanwhile_and_restored(
    tmp_path: Path, link: agents.Watched, end: str, *, shared: bool
) -> None:
    root = machine_with_governors(tmp_path / "root", shared=shared)
    policies = sorted(root.glob("sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"))

    def governors() -> set[str]:
        return {file.read_text().strip() for file in policies}

    with session(link, agents.command(tmp_path, root=root), shares_files=True) as opened:
        list(opened.measure(KWS, most_runs=1))
        assert governors() == {"schedutil"}
        events = opened.measure(KWS, governor="performance")
        until_it_measures(events)
        assert governors() == {"performance"}
        if end == "killed":
            processes.kill(link.agent)
        if end == "keeper killed":
            [keeper] = [p for p in processes.children(link.agent) if "governor" in processes.command_line(p)]
            processes.kill(keeper)
            assert governors() == {"performance"}
        with contextlib.suppress(AgentError):
            events.close()
        until = time.monotonic() + 5
        while governors() != {"schedutil"} and time.monotonic() < until:
            time.sleep(0.01)
        assert governors() == {"schedutil"}
        if end == "closed":
            with pytest.raises(BadRequest, match="no governor 'fast', but schedutil performance"):
                list(opened.measure(KWS, governor="fast"))


def test_it_waits_until_the_machine_is_cool(tmp_path: Path) -> None:
    root = tmp_path / "root"
    zone = root / "sys/class/thermal/thermal_zone0"
    zone.mkdir(parents=True)
    (zone / "temp").write_text("70000")
    with session(agents.Watched(), agents.command(tmp_path, root=root), shares_files=True) as opened:
        stages = []
        for event in opened.measure(Settings(KWS.model, cpus="0"), most_runs=1, cool_c=60.0, cooling_s=30.0):
            stages.append(event.progress.stage)
            if stages.count("cool down") == 2:
                (tmp_path / "cooler").write_text("59000")
                (tmp_path / "cooler").replace(zone / "temp")  # in one step: a file that is empty has no temperature
            if event.HasField("start"):
                assert [each.celsius for each in event.start.before.temperatures] == [59]
        assert 2 <= stages.count("cool down") <= 4
        late = [e.progress.stage for e in opened.measure(Settings(KWS.model), most_runs=1, cool_c=50.0, cooling_s=0.3)]
        assert "cool down" in late
        assert "measure" in late


@pytest.mark.parametrize("line", ["", "{}\n", '{"token": ""}\n'])
def test_an_agent_without_a_token_does_not_serve(line: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "edgedeploy_agent.server", "--folder", str(tmp_path)]
    done = subprocess.run(command, input=line, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (1, "")
