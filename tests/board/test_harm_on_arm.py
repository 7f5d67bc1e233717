# SPDX-License-Identifier: Apache-2.0
"""Models on an emulated arm64 board that end the runtime, each in its way: exit 6, one line, and the next one runs."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from edgedeploy.measure.errors import ModelFailed
from edgedeploy.measure.session import Settings
from edgedeploy.measure.targets import reach
from edgedeploy_partitioner.model.build import Model
from edgedeploy_profiles.load import load_core
from support import hostile
from support.accounts import Account, soon
from support.board import another_server, programs
from support.ready import Ready
from support.remains import left, processes
from support.userland import Userland

pytestmark = pytest.mark.board

KWS = Path(__file__).parents[2] / "examples" / "dscnn_kws.int8.tflite"
ON = ("--on", "pi", "--threads", "1", "--runs", "3")

FAILURES = {
    "aborts": (hostile.crashing_by(signal.SIGABRT), r"crashed \(stage: invoke\): killed by SIGABRT\b"),
    "segfaults": (hostile.crashing_by(signal.SIGSEGV), r"crashed \(stage: (allocate|invoke)\): killed by SIGSEGV\b"),
    "damages its heap": (hostile.crashing(), r"crashed \(stage: invoke\): killed by SIG(ABRT|SEGV)\b"),
    "wants too much": (hostile.huge(1 << 20, 1 << 20), r"ran out of memory \(stage: allocate\): "),
    "hangs": (hostile.endless(), r"hung \(stage: invoke\): no sign of life within 30 s$"),
}


def test_a_model_that_ends_the_runtime_is_a_result_and_the_next_one_runs(
    there: Ready, user: Account, tmp_path: Path
) -> None:
    for model, words in FAILURES.values():
        failed = user.types("bench", str(written(tmp_path, model)), *ON, "--deadline", "30")
        assert (failed.code, failed.out) == (6, "")
        assert len(failed.err.splitlines()) == 1
        assert re.match(rf"edgedeploy: error: pi: the model {words}", failed.err), failed.err
        assert left(there.server, there.programs) == []
    assert user.types("bench", str(KWS), *ON).code == 0


def test_an_agent_survives_every_model_that_does_not(there: Ready, user: Account, tmp_path: Path) -> None:
    del user
    with reach("pi") as session:
        for model, words in FAILURES.values():
            with pytest.raises(ModelFailed, match=f"^pi: the model {words}"):
                session.run(Settings(written(tmp_path, model), threads=1, deadline_s=30), {})
        assert soon(lambda: not processes(there.programs, "edgedeploy_agent.worker"), within_s=30)
        outputs, _ = session.run(Settings(KWS, threads=1), {})
        assert [value.shape for value in outputs.values()] == [(1, 12)]


# As a runtime that was built for newer CPUs: a dot product (SDOT V0.4S, V1.16B, V2.16B, and RET) in every run.
DOT_PRODUCT = """
import sys

if "edgedeploy_agent.worker" in sys.orig_argv:
    import ctypes, mmap
    from ai_edge_litert import interpreter

    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\\x20\\x94\\x82\\x4e\\xc0\\x03\\x5f\\xd6")
    dot_product = ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    own = interpreter.Interpreter.invoke
    interpreter.Interpreter.invoke = lambda self: (dot_product(), own(self))[1]
"""


@pytest.mark.parametrize(("core", "runs"), [("cortex-a53", False), ("cortex-a76", True)])
def test_an_instruction_that_the_cpu_lacks_is_explained(
    board: Userland, there: Ready, user: Account, tmp_path: Path, core: str, runs: bool
) -> None:
    folder = tmp_path / "board"
    folder.mkdir()
    (folder / "home").symlink_to(there.server.home)  # where all is set up already
    made = programs(board, load_core(core), folder)
    packages = folder / f"view/usr/local/lib/python{board.release.python}/dist-packages"
    (packages / "newer_runtime.py").write_text(DOT_PRODUCT)
    (packages / "newer_runtime.pth").write_text("import newer_runtime\n")
    with another_server(made, folder, user.key) as server:
        user.configure(f"Host board\n HostName 127.0.0.1\n Port {server.port}\n")
        user.knows(server.known_hosts_line)
        registry = user.home / "config/edgedeploy/devices.json"  # knows the other board's Python
        registry.write_text(registry.read_text().replace(str(there.programs), str(made)))
        found = user.types("bench", str(KWS), *ON)
        assert left(server, made) == []
    if runs:
        assert found.code == 0, found.err
        return
    assert (found.code, found.out) == (6, "")
    assert len(found.err.splitlines()) == 1
    assert "pi: the model crashed (stage: invoke): killed by SIGILL, an instruction that this CPU does not" in found.err
    assert "(it has asimd)" in found.err


def written(folder: Path, model: Model) -> Path:
    path = folder / "model.tflite"
    path.write_bytes(model.build())
    return path
