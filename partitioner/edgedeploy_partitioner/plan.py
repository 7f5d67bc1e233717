# SPDX-License-Identifier: Apache-2.0
"""The plan, schema ``edgedeploy.plan/1``: frozen values and their JSON, byte for byte the same every time.

Times are integer nanoseconds here (``_ns``) and microseconds with three decimals in JSON (``_us``),
so sums are exact on both sides. Tensors are ids, ops are indices in the file as given.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from edgedeploy_partitioner.errors import InputError

SCHEMA = "edgedeploy.plan/1"
XNNPACK = "xnnpack"
"""The delegate that takes what no other claims; limits and gates do not count its partitions."""
ON_ARM = ("cpu", "neon")
"""Back ends that run on the ARM cores: the stock runtime's kernels and our own."""

_BEYOND_INTEGERS = 2**63
_MOST_NS = 2**53
"""Up to here microseconds with three decimals are exact in JSON's numbers."""

Status = Literal["supported", "refused", "unknown"]
Provenance = Literal["measured", "calibrated", "analytical"]
Bound = Literal["compute", "memory", "overhead"]
XnnpackMode = Literal["default", "off", "switch"]
Machine = Literal["aarch64", "x86_64"]
Kind = Literal["exact", "modelled", "assumed"]
"""How a memory line is known: replayed or counted; computed by a model with known errors; taken from elsewhere."""


def _json_name(name: str) -> str:
    return name[:-3] + "_us" if name.endswith("_ns") else name


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename=_json_name):
    """Base of everything in a plan."""


class Tool(Value, frozen=True):
    version: str


class ModelInput(Value, frozen=True):
    name: str
    sha256: str
    bytes: int
    dtype_class: str
    fingerprints: tuple[str, ...]
    """One per subgraph of the model to ship."""


class BoardInput(Value, frozen=True):
    name: str
    profile_sha256: str
    stack: str | None


class RuntimeInput(Value, frozen=True):
    name: str
    version: str
    sha256: str
    """Of the runtime's profile: which ops XNNPACK takes, and which have a kernel."""
    xnnpack: XnnpackMode
    machine: Machine
    """What it is built for: the same release allocates otherwise."""


class TableInput(Value, frozen=True):
    sha256: str
    sdk_version: str


class Options(Value, frozen=True):
    threads: int
    cpus: str
    memory_limit_bytes: int | None
    max_partitions: int | None
    force: tuple[str, ...]
    forbid: tuple[str, ...]
    assume_unknown: Literal["refused", "supported"]
    signature: str | None
    input_shapes: dict[str, tuple[int, ...]]


class Inputs(Value, frozen=True):
    """Everything the plan depends on: the same inputs give the same bytes."""

    model: ModelInput
    board: BoardInput
    runtime: RuntimeInput
    tables: dict[str, TableInput]
    kernels_sha256: str
    measurements_sha256: str | None
    options: Options


class Solver(Value, frozen=True):
    """``optimal``: the plan equals the program's bound on ``order`` and is a fixed point of solve and replay."""

    status: Literal["optimal", "bounded"]
    objective_ns: int
    lower_bound_ns: int
    order: str
    orders_tried: tuple[str, ...]


class Predicted(Value, frozen=True):
    latency_ns: int
    low_ns: int
    high_ns: int | None
    cold_start_ns: int | None
    optimistic_ns: int | None
    """Latency of the plan if every unknown verdict turned out supported; None when there is none."""
    ops_to_probe: tuple[tuple[int, int], ...]
    """(subgraph, op) whose unknown verdict would change the plan."""


class Baseline(Value, frozen=True):
    latency_ns: int
    peak_bytes: int | None
    partitions: int


class Baselines(Value, frozen=True):
    all_cpu: Baseline
    stock_delegate: Baseline | None
    without_limit: Baseline | None = None
    """The plan without the memory limit, where there is one: what the limit costs."""


class BackendUse(Value, frozen=True):
    name: str
    library: str | None
    options: dict[str, str]
    sdk_version: str | None
    max_partitions: int | None = None
    """The back end's own limit."""


class CandidateEntry(Value, frozen=True):
    """One way to run an op, with the verdict on it."""

    backend: str
    kernel: str
    layout: str
    verdict: Status
    reason: str
    rule: str
    source: str
    sdk_version: str | None
    predicted_ns: int | None
    low_ns: int | None
    high_ns: int | None
    provenance: Provenance | None
    fused_ns: int | None = None
    """What it takes inside the op that makes its operand; None where it cannot run there."""
    fused_low_ns: int | None = None
    fused_high_ns: int | None = None
    fusion_required: bool = False
    """It cannot run by itself."""


class OpEntry(Value, frozen=True):
    subgraph: int
    index: int
    op: str
    custom_code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    folded: bool
    backend: str
    kernel: str
    variant: str | None
    layout: str
    partition: int | None
    segment: int | None
    predicted_ns: int
    low_ns: int
    high_ns: int | None
    provenance: Provenance
    bound: Bound
    macs: int
    bytes: int
    candidates: tuple[CandidateEntry, ...]
    fused_into: int | None = None
    """The op of the same subgraph and segment inside which this one runs; its times are then what it adds."""


class Partition(Value, frozen=True):
    """One delegate node of TFLite."""

    id: int
    subgraph: int
    delegate: str
    segments: tuple[int, ...]
    handover_ns: int


class Segment(Value, frozen=True):
    """A run of ops on one backend inside a partition; ``ops`` in execution order."""

    id: int
    partition: int
    backend: str
    layout: str
    ops: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    handover_ns: int


class Transition(Value, frozen=True):
    subgraph: int
    tensor: int
    kind: Literal["enter", "leave", "internal"]
    partition: int
    layout_from: str
    layout_to: str
    bytes: int
    predicted_ns: int
    low_ns: int
    high_ns: int | None
    provenance: Provenance
    path: str = ""
    """Which of several ways the tensor goes, e.g. ``native``; empty where there is only one."""


class SubgraphUse(Value, frozen=True):
    """How a subgraph counts in the sum: ``times`` per inference (0: the cheaper branch, run once, or unused)."""

    index: int
    name: str
    role: Literal["main", "branch", "condition", "body", "call_once", "decomposition", "unused"]
    times: int
    order: tuple[int, ...]
    """Op indices in execution order, folded ops left out unless the runtime runs them."""


class TimelineStep(Value, frozen=True):
    subgraph: int
    op: int | None
    partition: int | None
    live_bytes: int


class Memory(Value, frozen=True):
    """Named lines; a line that is not modelled is null. ``peak_bytes`` is their sum without ``baseline_bytes``, less
    ``unwritten_bytes``: room in the arenas that no kernel writes to, so that it takes no memory.

    ``kinds`` and ``bounds`` (low, high) have the lines that are not null; a high bound that is not known is null.
    """

    arena_bytes: int
    arena_exact: bool
    persistent_bytes: int | None
    packed_bytes: int | None
    delegate_internal_bytes: int | None
    npu_pool_bytes: int | None
    handover_bytes: int | None
    model_bytes: int
    peak_bytes: int
    peak_low_bytes: int
    peak_high_bytes: int | None
    baseline_bytes: int | None
    peak_op: tuple[int, int] | None
    peak_tensors: tuple[int, ...]
    lowest_arena_bytes: int | None
    timeline: tuple[TimelineStep, ...]
    interpreter_bytes: int | None = 0
    unwritten_bytes: int = 0
    kinds: dict[str, Kind] = {}
    bounds: dict[str, tuple[int, int | None]] = {}


class Warn(Value, frozen=True):
    code: str
    message: str
    op: tuple[int, int] | None = None


class Advice(Value, frozen=True):
    """A change to the model that is worth it, and the latency of the plan if it were made."""

    code: Literal["support", "transpose_pair", "quantised_border", "quantise"]
    message: str
    ops: tuple[tuple[int, int], ...]
    latency_ns: int


class Plan(Value, frozen=True):
    schema: Literal["edgedeploy.plan/1"]
    tool: Tool
    inputs: Inputs
    solver: Solver
    predicted: Predicted
    baselines: Baselines
    backends: tuple[BackendUse, ...]
    subgraphs: tuple[SubgraphUse, ...]
    ops: tuple[OpEntry, ...]
    partitions: tuple[Partition, ...]
    segments: tuple[Segment, ...]
    transitions: tuple[Transition, ...]
    overhead_ns: int
    memory: Memory
    warnings: tuple[Warn, ...]
    advice: tuple[Advice, ...] = ()

    @property
    def main(self) -> int:
        """The subgraph of the planned signature: what an op index without a subgraph is in."""
        return next((use.index for use in self.subgraphs if use.role == "main"), 0)


def to_json(plan: Value) -> bytes:
    """The plan (or any part of it) as indented JSON with a final newline. Deterministic."""
    text = json.dumps(builtins(plan), indent=1, ensure_ascii=False, allow_nan=False)
    # What is not Unicode (names in a file may be any bytes) becomes a JSON escape.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def builtins(value: Value) -> Any:
    """``value`` as dicts, lists and numbers, times in microseconds."""
    return _scale(msgspec.to_builtins(value), lambda ns: ns / 1000)


def from_json(data: bytes | str, where: str = "plan") -> Plan:
    """Read a plan. Raises :class:`InputError` naming the key that is missing, unknown or of the wrong type."""
    try:
        raw = json.loads(data, parse_int=_integer, parse_constant=float)
        return msgspec.convert(_scale(raw, _nanoseconds), type=Plan, strict=True)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise InputError(f"{where}: not a plan of schema {SCHEMA}: {error}") from None


def _integer(digits: str) -> int:
    value = int(digits)
    if abs(value) >= _BEYOND_INTEGERS:
        raise ValueError(f"a number of {len(digits)} digits is too large")
    return value


def _nanoseconds(us: float) -> int:
    if not abs(us) * 1000 <= _MOST_NS:  # never true of nan
        raise ValueError(f"{us:g} us is not a time")
    return round(us * 1000)


def _scale(value: Any, convert: Callable[[Any], Any], key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _scale(v, convert, str(k)) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_scale(v, convert) for v in value]
    if key.endswith("_us") and isinstance(value, int | float) and not isinstance(value, bool):
        return convert(value)
    return value
