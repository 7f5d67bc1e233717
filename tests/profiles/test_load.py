# SPDX-License-Identifier: Apache-2.0
"""Finding profiles, and what is said about those that are missing or wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

import edgedeploy_profiles as profiles
from edgedeploy_partitioner.cost import CpuCost, npu_cost
from edgedeploy_profiles import ProfileError, load
from edgedeploy_profiles.schema import RATE_SUFFIXES, Quantity
from support import single_op

PACKAGE = Path(profiles.__file__).parent
RPI5 = (PACKAGE / "boards/rpi5.toml").read_text()
RKNN = (PACKAGE / "backends/rknn.toml").read_text()


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Writes a file into the user's configuration folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def write(name: str, text: str) -> Path:
        file = tmp_path / "edgedeploy" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return write


Own = Callable[[str, str], Path]
BOUNDS = "clusters[0].clock_ghz: expected 1e-06 <= low <= value <= high <= 1e+09, "


def message(name: str | Path) -> str:
    with pytest.raises(ProfileError) as caught:
        profiles.load_board(name)
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 2
    return caught.value.message


def sha256(name: str | Path) -> str:
    return profiles.board_sha256(profiles.load_board(name))


# --- finding ----------


def test_an_unknown_board_lists_the_near_names() -> None:
    assert message("rk3589").startswith("no board 'rk3589'; did you mean rk3588 or ")
    assert message("RK3588").startswith("no board 'RK3588'; did you mean rk3588 or ")
    assert message("imx8") == "no board 'imx8'; did you mean imx8mp or imx93?"
    known = message("zzz").removeprefix("no board 'zzz'; known: ").split(", ")
    assert known == sorted(profiles.board_names())


@pytest.mark.parametrize("name", ["", ".", "..", "rpi5\0", "a b", "ä"])
def test_a_name_that_is_no_file_name_is_unknown(name: str) -> None:
    assert message(name).startswith("no board ")


def test_a_board_by_path(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(RPI5.replace("Raspberry Pi 5 (", "My Pi ("))
    assert profiles.load_board(file).title.startswith("My Pi")
    assert profiles.load_board(str(file)) == profiles.load_board(file)
    assert sha256(file) != sha256("rpi5")


def test_a_board_in_the_users_folder_is_named_like_the_others(own: Own) -> None:
    own("boards/mine.toml", RPI5.replace('"rpi5"', '"mine"'))
    assert profiles.load_board("mine").name == "mine"
    assert "mine" in profiles.board_names()
    assert message("mina") == "no board 'mina'; did you mean mine?"


def test_the_users_file_comes_before_the_packages(own: Own) -> None:
    own("boards/rpi5.toml", RPI5.replace("Raspberry Pi 5 (", "Overclocked ("))
    assert profiles.load_board("rpi5").title.startswith("Overclocked")


def test_an_npu_is_one_file_and_a_stack_of_a_board(own: Own) -> None:
    own("backends/other.toml", RKNN.replace('name = "rknn"', 'name = "other"'))
    stack = '[stacks.x]\nbackend = "other"\nsoc = "rk3588"\ndevice_nodes = []\ncosts = {}\n'
    own("boards/mine.toml", RPI5.replace("stacks = {}", "") + stack)
    assert profiles.load_board("mine").stacks["x"].backend == "other"
    assert profiles.load_backend("other").rules == profiles.load_backend("rknn").rules


def test_core_backend_runtime_and_costs_are_found_by_name_too() -> None:
    assert profiles.load_core("cortex-a76").name == "cortex-a76"
    with pytest.raises(ProfileError, match="no core 'cortex-a77'; did you mean cortex-a7"):
        profiles.load_core("cortex-a77")
    with pytest.raises(ProfileError, match="no backend 'rkn'; did you mean rknn"):
        profiles.load_backend("rkn")
    with pytest.raises(ProfileError, match=r"no runtime 'nope==1'; known: .*\bai-edge-litert==2\.3\.0"):
        profiles.load_runtime("nope", "1")
    with pytest.raises(ProfileError, match=r"no census of 'nope==1' switched; known: tflite-runtime==2\.14\.0"):
        profiles.load_switched("nope", "1")
    with pytest.raises(ProfileError, match="no cost 'gpu'"):
        profiles.load_kernel_costs("gpu")


# --- wrong files ----------


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('soc = "BCM2712"\n', "", "soc: missing"),
        ('soc = "BCM2712"', "soc = 5", "soc: expected `str`, got `int`"),
        ('soc = "BCM2712"', 'soc = "a"\ncolour = "red"', "colour: unknown key"),
        ("edgedeploy.board/1", "edgedeploy.board/2", "schema: invalid enum value 'edgedeploy.board/2'"),
        ("value = 2.4", 'value = "2.4"', "clusters[0].clock_ghz.value: expected `float`, got `str`"),
        ("clock_ghz = { value = 2.4, ", "clock_ghz = { ", "clusters[0].clock_ghz.value: missing"),
        ("value = 2.4", "value = nan", BOUNDS + "got None, nan, None"),
        ("value = 2.4", "value = inf", BOUNDS + "got None, inf, None"),
        ("value = 2.4", "value = -1", BOUNDS + "got None, -1.0, None"),
        ("value = 2.4", "value = 0", BOUNDS + "got None, 0.0, None"),
        ("value = 2.4", "low = 0, value = 2.4", BOUNDS + "got 0.0, 2.4, None"),
        ("value = 2.4", "high = inf, value = 2.4", BOUNDS + "got None, 2.4, inf"),
        ("value = 2.4", "value = 2, low = 3", BOUNDS + "got 3.0, 2.0, None"),
        ("cpus = [0, 1, 2, 3]", "cpus = []", "clusters[0]: expected distinct CPU numbers in cpus, got []"),
        ("cpus = [0, 1, 2, 3]", "cpus = [1, 1]", "clusters[0]: expected distinct CPU numbers in cpus, got [1, 1]"),
        ("[[clusters]]", "[[cluster]]", "cluster: unknown key"),
        (
            'clock_ghz = { value = 2.4, source = "sbc-bench"',
            'clock_ghz = { value = 2.4, source = "bench"',
            "clusters[0].clock_ghz.source: expected a key of [sources] or 'assumed: why', got 'bench'",
        ),
        (
            'core = "cortex-a76"',
            'core = "cortex-x1"',
            "clusters[0].core: no core 'cortex-x1'; did you mean cortex-a78 or cortex-a76 or cortex-a73?",
        ),
        (
            "stacks = {}",
            'stacks = { n = { backend = "rkn", soc = "x", device_nodes = [], costs = {} } }',
            "stacks.n.backend: no backend 'rkn'; did you mean rknn?",
        ),
        (
            "stacks = {}",
            'stacks = { n = { backend = "rknn", soc = "x", device_nodes = [], costs = {} } }',
            "stacks.n.soc: rknn has no table for 'x', only for rk3588, rk3576, rk3568, rk3566, rk3562",
        ),
    ],
)  # fmt: skip
def test_a_wrong_board_is_told_by_file_and_key(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in RPI5
    file = tmp_path / "mine.toml"
    file.write_text(RPI5.replace(old, new, 1))
    assert message(file) == f"{file}: {said}"


def test_two_clusters_cannot_share_a_cpu(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    cluster = RPI5[RPI5.index("[[clusters]]") : RPI5.index("[sources]")]
    file.write_text(RPI5.replace("[sources]", cluster + "[sources]"))
    assert message(file) == f"{file}: expected at least one cluster, and no CPU in two of them"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", ": schema: missing"),
        (b"schema = ", ": not TOML: "),
        (b"\xff\xfe", ": not UTF-8 text at byte 0"),
        (b"a = " + b"[" * 5000, ": not TOML: "),
        (b"TFL3\0\0", ": not TOML: "),
    ],
)
def test_what_is_no_profile(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_bytes(content)
    assert message(file).startswith(f"{file}{said}")


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    assert message(tmp_path / "no.toml") == f"{tmp_path}/no.toml: No such file or directory"
    assert message(f"{tmp_path}/") == f"{tmp_path}: Is a directory"


def test_a_wrong_file_of_the_package_is_called_by_its_place_in_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("edgedeploy_profiles.load._OWN", tmp_path)
    (tmp_path / "boards").mkdir()
    (tmp_path / "boards/broken.toml").write_text(RPI5.replace("2.4", "true", 1))
    assert message("broken") == "boards/broken.toml: clusters[0].clock_ghz.value: expected `float`, got `bool`"


def test_a_constant_of_a_stack_that_is_divided_by_is_not_0(tmp_path: Path) -> None:
    rk3588 = (PACKAGE / "boards/rk3588.toml").read_text()
    refused = set()
    for name in profiles.load_board("rk3588").stacks["rknn"].costs:
        file = tmp_path / f"{name}.toml"
        zero = f'{name} = {{ value = 0, source = "assumed: for this test" }}'
        file.write_text(re.sub(rf"^{name} = .*$", zero, rk3588, count=1, flags=re.M))
        try:
            profiles.load_board(file)
        except ProfileError as error:
            refused.add(error.message)
    wanted = "expected 1e-06 <= low <= value <= high <= 1e+09, got None, 0.0, None"
    divisors = [n for n in profiles.load_board("rk3588").stacks["rknn"].costs if n.endswith(RATE_SUFFIXES)]
    assert {"npu_clock_ghz", "compute_efficiency", "input_channel_block", "npu_bandwidth_gb_s"} <= set(divisors)
    assert refused == {f"{tmp_path / name}.toml: stacks.rknn.costs.{name}: {wanted}" for name in divisors}


@pytest.mark.parametrize(
    ("board", "stack"),
    [(name, stack) for name in profiles.board_names() for stack in profiles.load_board(name).stacks],
)
def test_no_constant_of_a_stack_can_break_a_cost_model(board: str, stack: str) -> None:
    """Each at the least value that a board may give it."""
    loaded = profiles.load_board(board)
    model = single_op.conv(size=64)
    own = loaded.stacks[stack]
    cluster = loaded.clusters[0]
    cpu = CpuCost(loaded, cluster, profiles.load_core(cluster.core), profiles.load_kernel_costs(), 1, 1)
    for name in own.costs:
        least = Quantity(1e-6 if name.endswith(RATE_SUFFIXES) else 0.0, "assumed: for this test")
        changed = structs.replace(own, costs={**own.costs, name: least})
        npu = npu_cost(profiles.load_backend(own.backend).cost_model, changed, cpu)
        cost = npu.op(*model, "npu", "NHWC")
        assert cost.high_ns is None or 0 <= cost.low_ns <= cost.ns <= cost.high_ns, name


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (r"^ipc = { value = [\d.]+, low = [\d.]+", "ipc = { value = 1, low = 0", "ipc: expected 1e-06 <= low"),
        (r"^ipc = .*\n", "", "ipc: missing"),
        (r"^op_overhead_us.builtin = .*\n", "", "op_overhead_us.builtin: missing"),
        (r"xnnpack", "xnn", "op_overhead_us.xnnpack: missing"),
        (r"^\[macs_per_cycle.builtin.(.*)\]", r"[macs_per_cycle.own.\1]", "macs_per_cycle.builtin: missing"),
        (r"^\[macs_per_cycle.builtin.conv\]", "[macs_per_cycle.builtin.other]", "macs_per_cycle.builtin.conv: missing"),
        (
            r"^(\[macs_per_cycle.xnnpack.depthwise\])[^[]*",
            r"\1\n",
            "macs_per_cycle.xnnpack.depthwise: expected a rate of at least one type",
        ),
        (
            r"^(\[macs_per_cycle.xnnpack.conv\]\nint8 = { value =) [\d.]+, low = [\d.]+",
            r"\1 0",
            "macs_per_cycle.xnnpack.conv.int8: expected 1e-06 <= low",
        ),
    ],
)
def test_a_core_has_all_that_ops_are_priced_by(own: Own, old: str, new: str, said: str) -> None:
    text = (PACKAGE / "cores/cortex-a76.toml").read_text()
    wrong, count = re.subn(old, new, text, flags=re.M)
    assert count
    file = own("cores/cortex-a76.toml", wrong)
    assert message("rpi5").startswith(f"boards/rpi5.toml: clusters[0].core: {file}: {said}")


@pytest.mark.parametrize("kernel", ["xnnpack", "builtin"])
def test_kernel_costs_have_a_row_for_any_other_op(own: Own, kernel: str) -> None:
    text = (PACKAGE / "costs/cpu-kernels.toml").read_text()
    for old, new, said in [
        (rf"^{kernel} = .*\n", "", f"threaded.{kernel}: missing"),
        (rf"^\[instructions.{kernel}\.", "[instructions.own.", f"instructions.{kernel}: missing"),
        (rf"^(\[instructions.{kernel}.)other", r"\1rest", f"instructions.{kernel}.other: missing"),
        (rf"^(\[instructions.{kernel}.other\]\n)any", r"\1some", f"instructions.{kernel}.other.any: missing"),
    ]:
        wrong, count = re.subn(old, new, text, flags=re.M)
        assert count, old
        file = own(f"costs/{said.split(':')[0]}.toml", wrong)
        with pytest.raises(ProfileError) as caught:
            profiles.load_kernel_costs(file.stem)
        assert caught.value.message == f"{file}: {said}"


# --- hashes ----------


def test_a_hash_is_of_what_is_said_not_of_how(tmp_path: Path) -> None:
    file, again = tmp_path / "a.toml", tmp_path / "b.toml"
    file.write_text(RPI5)
    again.write_text("# a comment\n" + RPI5.replace("value = 2.4,", "value   = 2.40,"))
    assert sha256(file) == sha256(again) == sha256("rpi5")
    again = tmp_path / "c.toml"
    again.write_text(RPI5.replace("value = 2.4,", "value = 2.41,"))
    assert sha256(file) != sha256(again)


def test_the_cores_of_a_board_are_in_its_hash(own: Own) -> None:
    before = sha256("rpi5")
    own(
        "cores/cortex-a76.toml",
        (PACKAGE / "cores/cortex-a76.toml").read_text().replace("ipc = { value = 2.5", "ipc = { value = 2.6"),
    )
    assert sha256("rpi5") != before


def test_a_board_that_was_changed_after_loading_has_another_hash() -> None:
    board = profiles.load_board("rpi5")
    assert profiles.board_sha256(msgspec.structs.replace(board, soc="x")) != profiles.board_sha256(board)


def test_a_runtime_is_hashed_by_what_it_says() -> None:
    runtime = profiles.load_runtime("ai-edge-litert", "2.3.0")
    changed = msgspec.structs.replace(runtime, census=runtime.census[:-1])
    assert profiles.runtime_sha256(runtime) == profiles.runtime_sha256(msgspec.structs.replace(runtime))
    assert profiles.runtime_sha256(changed) != profiles.runtime_sha256(runtime)


def test_an_arm_core_is_known_by_the_number_in_its_file(own: Own) -> None:
    text = (PACKAGE / "cores/cortex-a76.toml").read_text()
    shipped = load.arm_cores()
    assert shipped[0xD0B] == "cortex-a76"
    own("cores/cortex-a77.toml", text.replace("0xd0b", "0xd0d"))
    assert load.arm_cores() == {**shipped, 0xD0D: "cortex-a77"}


def test_the_table_has_its_own_hash(own: Own) -> None:
    before = profiles.table_sha256(profiles.load_backend("rknn"))
    own("backends/rknn.toml", RKNN.replace("kernel = [1, 31]", "kernel = [1, 30]", 1))
    assert profiles.table_sha256(profiles.load_backend("rknn")) != before


def test_the_board_in_the_documentation_loads(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/adding-a-board.md").read_text()
    file = tmp_path / "my-board.toml"
    file.write_text(text.split("```toml\n")[1].split("```")[0])
    assert profiles.load_board(file).name == "my-board"
