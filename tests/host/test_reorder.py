# SPDX-License-Identifier: Apache-2.0
"""``edgedeploy reorder``: a file only where the arena shrinks and both models compute the same bits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from edgedeploy import reorder
from edgedeploy.__main__ import main
from edgedeploy.report.page import Style
from edgedeploy.trial import Trial, try_model
from edgedeploy_partitioner.errors import NotDeployable
from edgedeploy_partitioner.memory.reordering import reordering
from edgedeploy_partitioner.model.build import Model, Subgraph
from edgedeploy_partitioner.model.graph import Graph
from edgedeploy_partitioner.model.read import read_bytes, read_model
from edgedeploy_partitioner.model.reorder import CONTROL_DEPENDENCIES, with_order_written
from edgedeploy_profiles import load_runtime

EXAMPLES = Path(__file__).parents[2] / "examples"
RUNTIME = load_runtime("ai-edge-litert", "2.3.0")


def branches(g: Subgraph, count: int = 5) -> None:
    """``count`` wide results that are each narrowed again, all widened first: XNNPACK leaves these ops."""
    x = g.input((1, 4, 4, 8))
    g.outputs(narrowed(g, [x] * count))


def narrowed(g: Subgraph, sources: Sequence[int]) -> int:
    copies, axes = g.constant(np.array([1, 4, 4, 1], np.int32)), g.constant(np.array([1], np.int32))
    wide = [g.apply("TILE", [x, copies], (1, 16, 16, 8)) for x in sources]
    small = [g.apply("REDUCE_PROD", [t, axes], (1, 1, 16, 8), keep_dims=True) for t in wide]
    return g.apply("CONCATENATION", small, (1, 1, 16, 8 * len(small)), axis=3)


def saved(folder: Path, model: Model) -> Path:
    path = folder / "model.tflite"
    path.write_bytes(model.build())
    return path


def simple(folder: Path) -> Path:
    model = Model()
    branches(model.subgraph())
    return saved(folder, model)


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = main(["reorder", *map(str, arguments)])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("xnnpack", ["on", "off"])
def test_a_gain_is_written_and_measured(xnnpack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = simple(tmp_path), tmp_path / "out.tflite"
    code, shown, err = run(capsys, model, "-o", out, "--xnnpack", xnnpack, "--json")
    assert (code, err) == (0, "")
    said = json.loads(shown)
    assert said["schema"] == "edgedeploy.reorder/1"
    [entry] = said["entries"]
    assert entry["new_arena_bytes"] < entry["arena_bytes"] / 2
    proof = said["proof"]
    assert (proof["arena_bytes"], proof["new_arena_bytes"]) == (entry["arena_bytes"], entry["new_arena_bytes"])
    graph, back = read_model(model), read_model(out)
    [subgraph] = said["subgraphs"]
    old_ops = graph.subgraphs[0].ops
    assert [op.outputs for op in back.subgraphs[0].ops] == [old_ops[i].outputs for i in subgraph["order"]]
    assert (said["written"]["sha256"], said["written"]["bytes"]) == (back.sha256, back.size)
    assert left_in(tmp_path) == ["model.tflite", "out.tflite"]
    assert out.stat().st_mode & 0o777 == model.stat().st_mode & 0o777


def test_the_text_says_by_how_much(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = simple(tmp_path), tmp_path / "out.tflite"
    code, shown, err = run(capsys, model, "-o", out)
    assert (code, err) == (0, "")
    lines = shown.splitlines()
    assert lines[0] == "model.tflite, ai-edge-litert 2.3.0 with XNNPACK, 1 thread"
    assert lines[1] == "arena 41.6 KiB -> 11.6 KiB (72.2 % less)"
    assert "same outputs to the bit in 3 runs of ai-edge-litert" in lines[3]
    assert lines[4] == "arena there, as measured: 41.6 KiB -> 11.6 KiB"
    assert lines[5].endswith("ops moved")
    assert lines[6] == f"wrote {out}"
    assert max(map(len, lines[:-1])) <= 80
    again, shown, _ = run(capsys, out, "-o", tmp_path / "third.tflite")
    assert (again, shown.splitlines()[-1]) == (0, "nothing to gain: no file written")


def test_nothing_to_gain_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.tflite"
    out.write_bytes(b"mine")
    code, shown, err = run(capsys, EXAMPLES / "dscnn_kws.int8.tflite", "-o", out, "--overwrite")
    assert (code, err) == (0, "")
    assert shown.endswith("nothing to gain: no file written\n")
    assert out.read_bytes() == b"mine"
    said = json.loads(run(capsys, EXAMPLES / "unet_128.int8.tflite", "-o", tmp_path / "b.tflite", "--json")[1])
    assert said["written"] is said["proof"] is None
    assert left_in(tmp_path) == ["out.tflite"]


def test_a_file_is_replaced_only_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = simple(tmp_path)
    before = model.read_bytes()
    code, shown, err = run(capsys, model, "-o", model)
    assert (code, shown) == (2, "")
    assert "--overwrite" in err
    assert model.read_bytes() == before
    assert run(capsys, model, "-o", tmp_path / "no" / "x.tflite")[0] == 2
    assert run(capsys, model, "-o", tmp_path, "--overwrite")[0] == 2
    assert run(capsys, model, "-o", model, "--overwrite")[0] == 0
    assert model.read_bytes() != before


def test_signatures_and_state_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two entry points, the second the one that gains: it is run through its signature."""
    model = Model()
    g = model.subgraph()
    x = g.input((1, 8))
    g.outputs(g.apply("ABS", [x], (1, 8)))
    second = model.subgraph("second")
    branches(second)
    model.signature("first", {"x": x}, {"y": g.value.outputs[0]})
    model.signature("second", {"x": 0}, {"y": second.value.outputs[0]}, subgraph=1)
    path, out = saved(tmp_path, model), tmp_path / "out.tflite"
    said = json.loads(run(capsys, path, "-o", out, "--json")[1])
    assert [e["new_arena_bytes"] < e["arena_bytes"] for e in said["entries"]] == [False, True]
    digests = try_model(path, digests=2).digests
    assert len(set(digests)) == len(digests) == 6
    assert try_model(out, digests=2).digests == digests
    assert try_model(path, digests=2, xnnpack=False).digests == digests


def test_the_body_of_a_loop_is_reordered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Model()
    main_, condition, body = (model.subgraph(name) for name in ("main", "condition", "body"))

    def state(g: Subgraph) -> list[int]:
        return [g.input((1,), "int32"), g.input((1, 4, 4, 8))]

    given = state(main_)
    results = [main_.tensor((1,), "int32"), main_.tensor((1, 4, 4, 8))]
    main_.op("WHILE", given, results, cond_subgraph_index=1, body_subgraph_index=2)
    main_.outputs(*results)
    count, _ = state(condition)
    condition.outputs(condition.apply("LESS", [count, condition.constant(np.array([3], np.int32))], (1,), "bool"))
    count, x = state(body)
    step = body.apply("ADD", [count, body.constant(np.array([1], np.int32))], (1,), "int32")
    shape = body.constant(np.array([1, 1, 1, 8], np.int32))
    pieces = [narrowed(body, [x] * 4), body.constant(np.zeros(4, np.int32)), shape]
    body.outputs(step, body.apply("ADD", [x, body.apply("SLICE", pieces, (1, 1, 1, 8))], (1, 4, 4, 8)))
    path, out = saved(tmp_path, model), tmp_path / "out.tflite"
    code, shown, err = run(capsys, path, "-o", out)
    assert (code, err) == (0, "")
    assert "subgraph 0 with what it runs: arena 34.3 KiB -> 11.8 KiB (" in shown
    assert "subgraph 2: 33.1 KiB -> 10.6 KiB" in shown
    assert try_model(out, digests=1).digests == try_model(path, digests=1).digests


def test_outputs_that_never_change_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Model()
    g = model.subgraph()
    branches(g)
    pieces = [g.value.outputs.pop(), g.constant(np.zeros((1, 1, 16, 40), np.float32))]
    g.outputs(g.apply("LESS", [g.apply("ABS", [pieces[0]], (1, 1, 16, 40)), pieces[1]], (1, 1, 16, 40), "bool"))
    shown = run(capsys, saved(tmp_path, model), "-o", tmp_path / "out.tflite")[1]
    assert "all runs gave the same outputs, whatever the inputs" in shown


# --- refused ----------


def refused(folder: Path, capsys: pytest.CaptureFixture[str], model: Model) -> str:
    path = saved(folder, model)
    code, shown, err = run(capsys, path, "-o", folder / "out.tflite", "--xnnpack", "off")
    assert (code, shown) == (3, "")
    assert err.count("\n") == 1
    assert left_in(folder) == ["model.tflite"]
    return err


def test_a_model_that_does_not_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Model()
    g = model.subgraph()
    branches(g)
    g.outputs(g.tensor((1,)))
    g.op("CUSTOM", [0], [g.value.outputs[-1]], custom_code="Nope")
    assert "the model as it is does not run: refused at allocate" in refused(tmp_path, capsys, model)


def test_outputs_that_differ_by_themselves_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Model()
    g = model.subgraph()
    branches(g)
    g.outputs(g.apply("RANDOM_UNIFORM", [g.constant(np.array([8], np.int32))], (8,)))
    assert "own outputs differ from run to run" in refused(tmp_path, capsys, model)


def test_ops_that_are_named_by_their_place_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Model()
    branches(model.subgraph())
    model.metadata(CONTROL_DEPENDENCIES, b"\x01")
    code, _, err = run(capsys, saved(tmp_path, model), "-o", tmp_path / "out.tflite")
    assert code == 2
    assert CONTROL_DEPENDENCIES in err


Change = Callable[[bytes], bytes]
HOW = reorder.How(RUNTIME, xnnpack=False, threads=1)


def attempt(folder: Path, monkeypatch: pytest.MonkeyPatch, change: Change) -> str:
    """What is said of a new file that ``change`` damages."""

    def damaged(data: bytes, graph: Graph, orders: Mapping[int, Sequence[int]]) -> bytes:
        return change(with_order_written(data, graph, orders))

    path = simple(folder)
    graph = read_model(path)
    monkeypatch.setattr(reorder, "with_order_written", damaged)
    with pytest.raises(NotDeployable) as caught:
        reorder.write_reordered(path, graph, reordering(graph, RUNTIME, xnnpack=False), folder / "out.tflite", HOW)
    assert left_in(folder) == ["model.tflite"]
    return str(caught.value)


def test_other_outputs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other_parts(data: bytes) -> bytes:
        """The product is over another axis: the runtime makes something else of the same ops."""
        graph = read_bytes(data)
        axes = next(t.data for t in graph.subgraphs[0].tensors if t.data and t.shape == (1,))
        other = bytearray(data)
        other[axes.start : axes.start + 4] = np.array([2], np.int32).tobytes()
        return bytes(other)

    assert attempt(tmp_path, monkeypatch, other_parts).startswith("no file written: ")


def test_an_order_that_computes_nonsense_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def result_first(data: bytes) -> bytes:
        graph = read_bytes(data)
        count = len(graph.subgraphs[0].ops)
        return with_order_written(data, graph, {0: (count - 1, *range(count - 1))})

    assert "the re-ordered model gives other outputs" in attempt(tmp_path, monkeypatch, result_first)


def test_an_arena_that_does_not_shrink_is_no_gain(tmp_path: Path) -> None:
    """As it is where the prediction does not know an op's scratch memory: what was measured decides."""
    path = simple(tmp_path)
    graph = read_model(path)
    found = reordering(graph, RUNTIME, xnnpack=False)
    [arranged] = found.subgraphs
    same = replace(arranged, order=(1, 0, *range(2, len(arranged.order))))
    proof, written = reorder.write_reordered(
        path, graph, replace(found, subgraphs=(same,)), tmp_path / "out.tflite", HOW
    )
    assert written is None
    assert proof.arena_bytes == proof.new_arena_bytes == arranged.arena_bytes
    assert left_in(tmp_path) == ["model.tflite"]
    shown = reorder.as_text("m", HOW, found, proof, written)
    assert "as measured: 41.6 KiB -> 41.6 KiB\nnothing to gain: no file written\n" in shown


def test_a_long_line_is_folded(tmp_path: Path) -> None:
    found = reordering(read_model(simple(tmp_path)), RUNTIME, xnnpack=False)
    unsure = replace(found, subgraphs=tuple(replace(each, is_exact=False) for each in found.subgraphs))
    shown = reorder.as_text(f"{'m' * 90}\n", HOW, unsure, None, None)
    assert "not exact: an op's" in shown
    assert max(map(len, shown.splitlines())) <= 80
    brief = reorder.as_text("m" * 90, HOW, unsure, None, None, Style(depth=-1))
    assert brief.startswith("m" * 80)
    assert brief.splitlines()[-1].startswith("arena ")


def test_another_runtime_is_not_measured(tmp_path: Path) -> None:
    """Its outputs count, its arena does not."""
    path = simple(tmp_path)
    graph = read_model(path)
    found = reordering(graph, RUNTIME, xnnpack=False)
    how = replace(HOW, runtime=structs.replace(RUNTIME, version="9.9"))
    proof, written = reorder.write_reordered(path, graph, found, tmp_path / "out.tflite", how)
    assert written is not None
    assert proof.arena_bytes is proof.new_arena_bytes is None
    unsure = replace(found, subgraphs=tuple(replace(each, is_exact=False) for each in found.subgraphs))
    with pytest.raises(NotDeployable, match="not predicted exactly and cannot be measured"):
        reorder.write_reordered(path, graph, unsure, tmp_path / "second.tflite", how)


def test_without_a_runtime_nothing_is_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_runtime(*_: Any, **__: Any) -> Trial:
        return Trial("no-runtime", "start", "nothing is installed")

    monkeypatch.setattr(reorder, "try_model", no_runtime)
    assert "there is no TFLite runtime here" in attempt(tmp_path, monkeypatch, bytes)
