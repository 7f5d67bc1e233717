# SPDX-License-Identifier: Apache-2.0
"""``edgedeploy memory --html``: the page holds everything, as text only, and is written whole."""

from __future__ import annotations

import os
import stat
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from edgedeploy import arenaview
from edgedeploy.report import memory_html
from edgedeploy_partitioner.errors import InputError
from support import handmade
from support.memory_runs import EXAMPLES, HOSTILE, TINY, plan_of, run
from support.plans import sample


class _Page(HTMLParser):
    """Collects tags and text; complains of tags that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def _checked(page: str) -> _Page:
    parsed = _Page()
    parsed.feed(page)
    parsed.close()
    assert parsed.open == []
    assert {tag for tag, _ in parsed.tags} <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "b", "table", "tr", "th", "td", "svg",
        "rect", "line", "text",
    }  # fmt: skip
    names = {name for _, attributes in parsed.tags for name in attributes}
    assert not [name for name in names if name.startswith("on") or name in ("href", "src", "xlink:href")]
    assert "url(" not in page
    page.encode()
    return parsed


@pytest.mark.parametrize("name", ["t{}" + HOSTILE, "\ud800{}", "n" * 100_000 + "{}"])
def test_names_in_a_page_are_only_text(name: str) -> None:
    plan, graph = sample(["builtin", "builtin"], tensor_name=name)
    step = replace(handmade.plan().memory.timeline[1], op=1, live_bytes=9)
    plan = replace(plan, memory=replace(plan.memory, timeline=(step,), peak_tensors=(0, 1)))
    plan = replace(plan, inputs=replace(plan.inputs, model=replace(plan.inputs.model, name=HOSTILE)))
    page = memory_html.memory_page(plan, graph, None, None)
    shown = _checked(page).text
    assert len(page) < 20_000
    assert "<script>alert(1)</script>" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_page_holds_every_step_and_every_tensor(path: Path) -> None:
    plan, graph = plan_of(path)
    page = memory_html.memory_page(plan, graph, None, None)
    assert page == memory_html.memory_page(plan, graph, None, None)
    parsed = _checked(page)
    boxes = [attributes for tag, attributes in parsed.tags if tag == "rect"]
    placed = len(arenaview.main_arena(plan, graph).blocks)
    assert len(boxes) == len(plan.memory.timeline) + placed
    for box in boxes:
        x, y, width, height = (float(box[name] or "") for name in ("x", "y", "width", "height"))
        assert memory_html.LEFT <= x <= x + width <= memory_html.WIDTH + 0.1
        assert -0.1 <= y <= y + height <= memory_html.ARENA_HEIGHT + 0.1
    assert str(plan.memory.peak_bytes) in parsed.text
    subgraph = plan.memory.peak_op[0] if plan.memory.peak_op else 0
    assert all(arenaview.ArenaView(plan, graph).name(subgraph, t) in parsed.text for t in plan.memory.peak_tensors)


def test_the_page_is_written_whole_and_replaces_only_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "memory.html"
    arguments = (TINY, "--board", "rk3588", "--html", file, "-q")
    assert run(capsys, *arguments)[::2] == (0, "")
    first = file.read_text()
    assert "What would lower it" in first
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~_umask()
    assert run(capsys, *arguments)[0] == 0
    assert file.read_text() == first
    model = tmp_path / "model.tflite"
    model.write_bytes(TINY.read_bytes())
    for place in (tmp_path, tmp_path / "none" / "x.html", model, Path("/dev/null")):
        code, out, err = run(capsys, TINY, "--board", "rk3588", "--html", place)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
        assert "--html" in err
    assert model.read_bytes() == TINY.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memory.html", "model.tflite"]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_page_that_cannot_be_put_in_place_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "memory.html"
    memory_html.write_page(file, f"{memory_html.START}old")
    link = tmp_path / "link.html"
    link.symlink_to(file)

    def fail(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(InputError, match="No space left"):
            memory_html.write_page(file, f"{memory_html.START}new")
    assert file.read_text().endswith("old")
    memory_html.write_page(link, f"{memory_html.START}new")
    assert link.is_symlink()
    assert file.read_text().endswith("new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.html", "memory.html"]
