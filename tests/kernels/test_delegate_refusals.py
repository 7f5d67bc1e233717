# SPDX-License-Identifier: Apache-2.0
"""What libedgedeploy.so refuses, each in one line that says what, where and what to do."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedeploy_partitioner.edp import EdpBackend, decode, encode, pack
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.model.fingerprint import fingerprints
from edgedeploy_partitioner.model.read import read_bytes
from support.delegates import TEST_KERNELS, Job, Ran, library, planned, run, same, stand_in

SHAPE = (1, 4, 4, 4)


def chain(*codes: str, dtype: str = "float32", shape: tuple[int, ...] = SHAPE) -> bytes:
    model = Model()
    g = model.subgraph()
    t = g.input(shape, dtype)
    for code in codes:
        t = g.apply(code, [t], shape, dtype)
    g.outputs(t)
    return model.build()


MODEL = chain("ABS", "SIN", "NEG")
FORCED = ("0=neon", "2=neon")
PLAN = encode(planned(MODEL, force=FORCED))


def one(model: bytes, plan: bytes | None, **options: Any) -> Ran:
    [ran] = run([Job(model, plan, **options)])
    assert ran.signal == 0
    return ran


def changed(**fields: Any) -> bytes:
    """The plan with other values in every op that runs."""
    edp = decode(PLAN)
    return pack(replace(edp, ops=tuple(replace(op, **fields) for op in edp.ops)))


def test_the_plan_as_it_is_runs() -> None:
    ran = one(MODEL, PLAN)
    assert (ran.error, ran.delegate_nodes) == ("", [[0], [2]])


def test_a_report_that_is_a_link_is_written_through(tmp_path: Path) -> None:
    """To replace what the link is for, a file that a program holds open, would be no report."""
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("something longer than what was there before " * 20)
    link.symlink_to(file)
    assert one(MODEL, PLAN, options={"report": str(link)}).error == ""
    assert link.is_symlink()
    assert json.loads(file.read_text())["schema"] == "edgedeploy.report/1"
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["file", "link"]
    full = one(MODEL, PLAN, options={"report": "/dev/full"})
    assert full.line == "report=/dev/full: cannot be written: No space left on device"


def test_another_model_is_refused() -> None:
    ran = one(chain("ABS", "SIN", "NEG", shape=(1, 4, 4, 5)), PLAN)
    assert ran.line == (
        "the plan is for another model: subgraph 0 differs; use the model of the plan's bundle, or plan this one"
    )
    assert ran.report is None


def test_a_model_with_more_subgraphs_is_refused() -> None:
    model = Model()
    for _ in range(2):
        g = model.subgraph()
        g.outputs(g.apply("ABS", [g.input(SHAPE, "float32")], SHAPE))
    edp = decode(encode(planned(model.build(), force=("0=neon",))))
    less = pack(replace(edp, subgraphs=edp.subgraphs[:1]))
    assert one(model.build(), less).line == "the plan is for another model: it has other subgraphs"


def test_a_damaged_plan_is_refused_with_its_path() -> None:
    for at in (0, 8, 12, 60, len(PLAN) - 1):
        damaged = bytearray(PLAN)
        damaged[at] ^= 1
        line = one(MODEL, bytes(damaged)).line
        assert line.startswith("plan=/"), line
        assert any(s in line for s in ("not a plan.edp", "version", "bytes, its header says", "wrong checksum")), line


def test_a_plan_that_is_not_there() -> None:
    ran = one(MODEL, None, options={"plan": "nowhere/plan.edp"})
    assert ran.line == "plan=nowhere/plan.edp: No such file or directory"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"log": "1"}, "unknown option log: there are plan, report, threads, strict and times"),
        ({"threads": "many"}, "threads=many: expected 1 to 256"),
        ({"strict": "2"}, "strict=2: expected 0 or 1"),
        (
            {"report": "nowhere/report.json"},
            "report=nowhere/report.json: cannot be written: No such file or directory",
        ),
    ],
)
def test_options(options: dict[str, str], line: str) -> None:
    assert one(MODEL, PLAN, options=options).line == line


def test_without_a_plan() -> None:
    assert one(MODEL, None, options={"threads": "1"}).line == "give it a plan: plan=/path/to/plan.edp"


def test_a_kernel_that_the_library_has_not() -> None:
    [ran] = run([Job(MODEL, PLAN)], library_path=library())
    assert ran.line == (
        "op 0:0 needs kernel test_unary, which this library has not: use the library that the plan was made for"
    )


def test_a_kernel_that_does_not_take_the_op() -> None:
    never = changed(kernel="test_never")
    assert one(MODEL, never).line == "partition 0: op 0:0, kernel test_never (scalar): it takes no op 101"


def test_rknn_is_refused_until_there_is_a_runner() -> None:
    edp = decode(PLAN)
    backends = (EdpBackend("rknn", "libedgedeploy.so", ()),)
    ops = tuple(replace(op, backend="rknn", kernel="npu", layout="NC1HWC2/16") for op in edp.ops)
    ran = one(MODEL, pack(replace(edp, backends=backends, ops=ops)))
    assert ran.line == "op 0:0 is planned on rknn, which this library does not run yet: plan with --npu none"


def test_other_back_ends_and_layouts_in_its_own_partitions() -> None:
    edp = decode(PLAN)
    ops = tuple(replace(op, backend="elsewhere") for op in edp.ops)
    other = pack(replace(edp, backends=(EdpBackend("elsewhere", None, ()),), ops=ops))
    assert one(MODEL, other).line == "op 0:0 is planned on elsewhere, which this library does not run"
    assert one(MODEL, changed(layout="NC1HWC2/16")).line == (
        "op 0:0 is planned in layout NC1HWC2/16; this library runs NHWC"
    )


def test_a_library_that_is_not_there_or_is_no_delegate() -> None:
    edp = decode(PLAN)
    partitions = tuple(replace(p, delegate="vx") for p in edp.partitions)
    for name, said in (
        (None, "the plan names no library for vx"),
        ("libnowhere.so", "cannot load the delegate of vx: libnowhere.so: cannot open shared object file"),
        ("libm.so.6", "libm.so.6 is no external delegate of TFLite"),
        (str(stand_in()), f"the plan's library for vx is '{stand_in()}', not a bare name"),
        ("./libstock.so", "the plan's library for vx is './libstock.so', not a bare name"),
        ("", "the plan's library for vx is '', not a bare name"),
    ):
        ops = tuple(replace(op, backend="vx") for op in edp.ops)
        other = pack(replace(edp, backends=(EdpBackend("vx", name, ()),), partitions=partitions, ops=ops))
        assert one(MODEL, other).line.startswith(said)


def test_it_wants_to_be_the_first_delegate() -> None:
    ran = one(MODEL, PLAN, before=(str(stand_in()), {"behave": "first"}))
    assert ran.line == "another delegate was applied before: give edgedeploy's delegate first"


def test_an_input_of_another_size_is_refused_and_the_planned_one_runs() -> None:
    resized = one(MODEL, PLAN, resize={0: (1, 8, 8, 4)})
    assert resized.line == (
        "partition 0: tensor 0 has another shape than planned: plan again with --input-shape, or keep the shapes"
    )
    assert one(MODEL, PLAN, resize={0: SHAPE}).error == ""


def test_a_tensor_inside_a_partition_that_gets_another_size_is_refused() -> None:
    """Its place among the others inside is settled when the plan is applied."""
    model = chain("ABS", "NEG", "ABS")
    plan = encode(planned(model, force=("0-2=neon",)))
    inside = read_bytes(model).subgraphs[0].ops[0].outputs[0]
    ran = one(model, plan, resize={inside: (1, 64, 64, 64)})
    assert ran.line.startswith(f"partition 0: tensor {inside} has another shape than planned")


def forced(model: bytes, kernel: str) -> bytes:
    """A plan that no planner makes: op 0 by that kernel, whatever it is."""
    edp = decode(PLAN)
    [fingerprint] = fingerprints(read_bytes(model))
    op = replace(edp.ops[0], kernel=kernel, variant="scalar")
    subgraph = replace(edp.subgraphs[0], fingerprint=fingerprint)
    return pack(replace(edp, subgraphs=(subgraph,), partitions=edp.partitions[:1], ops=(op,)))


def test_outputs_that_a_kernel_would_write_beyond_are_refused() -> None:
    def run_topk(*shape: int) -> Ran:
        model = Model()
        g = model.subgraph()
        x = g.input((4, 256), "float32")
        values, indices = g.tensor(shape, "float32"), g.tensor(shape, "int32")
        g.op("TOPK_V2", [x, g.constant(np.array(64, np.int32))], [values, indices])
        g.outputs(values, indices)
        return one(model.build(), forced(model.build(), "topk"))

    assert run_topk(4, 64).error == ""
    for shape in ((1, 1), (4, 63), (0,), ()):
        assert run_topk(*shape).line == "partition 0: op 0:0, kernel topk (scalar): expected outputs of 4 rows of 64"


def test_a_constant_of_fewer_bytes_than_its_shape_says_is_refused() -> None:
    """The runtime does not check that of a sparse one."""
    model = Model()
    g = model.subgraph()
    sparse = g.sparse_constant(np.eye(64, dtype=np.float32))
    g.outputs(g.apply("CONCATENATION", [g.input((1, 64), "float32"), sparse], (65, 64), axis=0))
    ran = one(model.build(), forced(model.build(), "join"))
    assert ran.line.endswith("is not one to compute with: it has 256 bytes, its dimensions say 16384")


def test_a_folded_op_without_its_constant_is_refused() -> None:
    model = Model()
    g = model.subgraph()
    y = g.apply("DEQUANTIZE", [-1], SHAPE)
    z = g.apply("ABS", [y], SHAPE)
    g.input(SHAPE, "float32")
    g.outputs(z)
    edp = decode(forced(model.build(), "test_unary"))
    [op] = edp.ops
    folded = replace(op, segment=None, backend=None, kernel=None, variant=None, layout=None)
    ran = one(model.build(), pack(replace(edp, ops=(folded, replace(op, index=1)))))
    assert ran.line == "partition 0: op 0:0 unpacks no constant"


def test_a_tensor_without_a_size_is_not_claimed() -> None:
    """The plan is one that no planner makes: strings have a size of their own for every run."""
    model = Model()
    g = model.subgraph()
    x = g.input((2, 2), "float32")
    y = g.apply("ABS", [x], (2, 2))
    text = g.input((2,), "string")
    index = g.constant(np.array([0], np.int32))
    z = g.apply("GATHER", [text, index], (1,), "string", axis=0)
    g.outputs(y, z)
    edp = decode(encode(planned(model.build(), force=("0=neon",))))
    [abs_] = edp.ops
    wrong = pack(replace(edp, ops=(abs_, replace(abs_, index=1))))
    ran = one(model.build(), wrong, runs=0)
    assert ran.error == ""
    assert ran.line == (
        "warning: partition 0 of subgraph 0: planned one delegate node of ops 0-1; got 1: 0; left to others: 1"
    )
    assert one(model.build(), wrong, runs=0, options={"strict": "1"}).line == ran.line.removeprefix("warning: ")


def test_a_mutant_with_a_right_checksum_never_crashes() -> None:
    """Plans that hold together and are not this model's: refused or carried out as far as they can be."""
    rng = np.random.default_rng(3)
    jobs = []
    for _ in range(60):
        mutant = bytearray(PLAN)
        for _ in range(int(rng.integers(1, 3))):
            at = 80 + 4 * int(rng.integers((len(PLAN) - 88) // 4))
            mutant[at : at + 4] = struct.pack("<I", int(rng.choice([0, 1, 2, 3, 8, 16, 24, 0xFFFFFFFF])))
        mutant[-4:] = struct.pack("<I", zlib.crc32(bytes(mutant[:-4])))
        jobs.append(Job(MODEL, bytes(mutant)))
    ran = run(jobs)
    assert not any(r.signal for r in ran)
    assert 0 < sum(not r.error for r in ran) < len(ran)
    [stock] = run([Job(MODEL)])
    assert all(same(r.outputs, stock.outputs) for r in ran if not r.error and "warning" not in r.stderr)


def test_the_manifest_of_the_tests_is_the_library_s() -> None:
    assert {k.name for k in TEST_KERNELS.kernels} == {"test_unary", "test_binary", "test_reshape"}
