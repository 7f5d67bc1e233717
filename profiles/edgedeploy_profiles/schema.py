# SPDX-License-Identifier: Apache-2.0
"""What a profile file says, as frozen values. Every number carries its source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import msgspec

KERNELS = ("xnnpack", "builtin")
"""The CPU kernels of the stock runtime: every core and the kernel costs have a row for each."""
MAC_CLASSES = ("conv", "depthwise")
RATE_SUFFIXES = ("_gb_s", "_ghz", "_macs_per_cycle", "efficiency", "fraction")
"""Constants of a stack that are named like this are rates."""


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of everything in a profile; an unknown key is an error."""


class Quantity(Value, frozen=True):
    """A number with bounds and source. In TOML: ``{ value = 2.4, low = 2.2, high = 2.4, source = "sbc-bench" }``.

    ``source`` is a key of the file's ``[sources]`` table, or ``assumed: why``. Without ``low`` and ``high`` the
    value is taken as exact. The loader wants 0 <= low <= value <= high, all finite.
    """

    value: float
    source: str
    low: float | None = None
    high: float | None = None

    @property
    def lowest(self) -> float:
        return self.value if self.low is None else self.low

    @property
    def highest(self) -> float:
        return self.value if self.high is None else self.high


class Rate(Quantity, frozen=True):
    """A quantity that others are divided by: never 0."""


# --- cores/*.toml: what one kind of CPU core does per cycle ----------


class Core(Value, frozen=True):
    """One CPU core type.

    Ops that multiply are priced by ``macs_per_cycle[kernel][op_class][dtype]`` (one thread, large shapes), all
    others by instructions per output element (``costs/cpu-kernels.toml``) and ``ipc``. ``kernel`` is ``xnnpack`` or
    ``builtin``.
    """

    schema: Literal["edgedeploy.core/1"]
    name: str
    title: str
    sources: dict[str, str]
    ipc: Rate
    """Instructions per cycle on vector code that hits the cache."""
    op_overhead_us: dict[str, Quantity]
    """Fixed time per op, by kernel."""
    thread_efficiency: Quantity
    """n threads run 1 + (n - 1) * efficiency times as fast."""
    macs_per_cycle: dict[str, dict[str, dict[str, Rate]]]
    arm_part: int | None = None
    """Arm's part number of the core in MIDR_EL1, as ``/proc/cpuinfo`` has it."""

    def __post_init__(self) -> None:
        _require(self.op_overhead_us, "op_overhead_us", KERNELS)
        _require(self.macs_per_cycle, "macs_per_cycle", KERNELS)
        for kernel in KERNELS:
            _require(self.macs_per_cycle[kernel], f"macs_per_cycle.{kernel}", MAC_CLASSES)
            for op_class in MAC_CLASSES:
                if not self.macs_per_cycle[kernel][op_class]:
                    raise ValueError(f"macs_per_cycle.{kernel}.{op_class}: expected a rate of at least one type")


class KernelCosts(Value, frozen=True):
    """CPU kernels of the stock runtime: ``instructions[kernel][op or class][dtype]`` per output element."""

    schema: Literal["edgedeploy.kernel-costs/1"]
    sources: dict[str, str]
    classes: dict[str, tuple[str, ...]]
    """Op class -> TFLite ops, for ops without a row of their own."""
    per_input: tuple[str, ...]
    """Ops whose work goes with the elements of their largest input."""
    threaded: dict[str, tuple[str, ...]]
    """Ops that use more than one thread, by kernel; ``*`` is all."""
    instructions: dict[str, dict[str, dict[str, Quantity]]]

    def __post_init__(self) -> None:
        _require(self.threaded, "threaded", KERNELS)
        _require(self.instructions, "instructions", KERNELS)
        for kernel in KERNELS:
            _require(self.instructions[kernel], f"instructions.{kernel}", ("other",))
            _require(self.instructions[kernel]["other"], f"instructions.{kernel}.other", ("any",))


def _require(table: Mapping[str, Any], path: str, keys: tuple[str, ...]) -> None:
    for key in keys:
        if key not in table:
            raise ValueError(f"{path}.{key}: missing")


# --- boards/*.toml ----------


class Cluster(Value, frozen=True):
    name: str
    core: str
    """Name of a ``cores/*.toml`` file."""
    cpus: tuple[int, ...]
    clock_ghz: Rate
    bandwidth_gb_s: Rate
    """What one core of the cluster can move, read plus written bytes."""
    l1d_bytes: int | None = None
    l2_bytes: int | None = None

    def __post_init__(self) -> None:
        if not self.cpus or min(self.cpus) < 0 or len(set(self.cpus)) < len(self.cpus):
            raise ValueError(f"expected distinct CPU numbers in cpus, got {list(self.cpus)}")


class Ram(Value, frozen=True):
    bandwidth_gb_s: Rate
    """What all cores together can move."""


class Stack(Value, frozen=True):
    """One NPU software stack of a board: its back end, table section and costs."""

    backend: str
    """Name of a ``backends/*.toml`` file."""
    soc: str
    """The section of the table that applies, e.g. ``rk3588``."""
    device_nodes: tuple[str, ...]
    costs: dict[str, Quantity]
    """Constants of the back end's cost model, by name; the model says which it needs. Those whose name ends like one
    of :data:`RATE_SUFFIXES` are divided by, and never 0."""


class Board(Value, frozen=True):
    schema: Literal["edgedeploy.board/1"]
    name: str
    title: str
    soc: str
    sources: dict[str, str]
    clusters: tuple[Cluster, ...]
    """Fastest first; the first is the default for ``--cpus``."""
    ram: Ram
    overhead_us: Quantity
    """Time of one ``Invoke`` with no op in it."""
    partition_handover_us: Quantity
    """Time to call one delegate node that does nothing."""
    stacks: dict[str, Stack]
    """In order of preference; the first is the default for ``--npu``."""
    default_runtime: str
    """``NAME==VERSION`` of a ``runtimes/*.toml`` file."""
    software: dict[str, str] = {}
    """Usual OS, kernel, Python and libc, for people."""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        cpus = [cpu for cluster in self.clusters for cpu in cluster.cpus]
        if not cpus or len(set(cpus)) < len(cpus):
            raise ValueError("expected at least one cluster, and no CPU in two of them")


# --- backends/*.toml: support tables ----------


class Requirement(Value, frozen=True):
    """What must hold for every op of the back end: predicates by name with their numbers."""

    require: dict[str, Any]
    source: str
    otherwise: Literal["refused", "unknown"] = "refused"
    """What to say when it does not hold; ``unknown`` where nobody has written it down."""
    kernels: tuple[str, ...] = ()
    """Only for these kernels; empty for all."""


class Rule(Value, frozen=True):
    """One row of a support table: TFLite ops and what must hold for them.

    ``maps_to`` is what each op becomes on the NPU, e.g. ``{ CONV_2D = "Conv" }``; ``kernel`` which of the back end's
    kernels runs it; ``require`` are predicates by name with their numbers, all of which must hold. Several rows of
    one op are alternatives, tried in order until one is supported.
    """

    maps_to: dict[str, str]
    source: str
    kernel: str = "npu"
    require: dict[str, Any] = {}
    verdict: Literal["supported", "unknown"] = "supported"
    """What to say when everything holds; ``unknown`` where the table gives no limits."""
    note: str = ""
    """Why the row does not support more; shown with every verdict on it that is not ``supported``."""
    sdk_version: str = ""
    """The version this row was seen on, when it is not the table's."""
    socs: tuple[str, ...] = ()
    """Only for these SoCs; empty for all of the table."""


class Refusal(Value, frozen=True):
    """Ops that are known not to run, with the reason in words."""

    ops: tuple[str, ...]
    reason: str
    source: str
    sdk_version: str = ""
    socs: tuple[str, ...] = ()


class TransposeBound(Value, frozen=True):
    """One bound on one permutation, in the vendor's axis order: the product of the sizes of the named axes is
    ``less_than`` a number or a ``multiple_of`` one. A permutation without a row is not supported."""

    perm: tuple[int, ...]
    product: str = ""
    less_than: int | None = None
    multiple_of: int | None = None
    dtype: str = ""
    """Only for this computed type; empty for all."""


class Backend(Value, frozen=True):
    schema: Literal["edgedeploy.backend/1"]
    name: str
    title: str
    """How people call it; reasons say "<title> needs …"."""
    sdk_version: str
    sources: dict[str, str]
    delegate: str
    """Who claims the ops in TFLite: ``edgedeploy`` for libedgedeploy.so, or the stock delegate's name."""
    library: str
    cost_model: str
    """Name of the cost model that prices this back end."""
    kernels: tuple[str, ...]
    """The first is the NPU itself."""
    layouts: dict[str, str]
    """Native layout by computed type, e.g. ``int8 = "NC1HWC2/16"``."""
    socs: tuple[str, ...]
    rules: tuple[Rule, ...]
    every_op: tuple[Requirement, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    computes_as: dict[str, str] = {}
    """Type the NPU computes in, where it is not the tensor's own, e.g. ``float32 = "float16"``."""
    vendor_axes: str = "NHWC"
    """Axis order the vendor's rules are written in, e.g. ``NCHW``."""
    transposes: tuple[TransposeBound, ...] = ()
    artifact: str = ""
    """What the file of a compiled segment ends with, e.g. ``.rknn``; empty where nothing is compiled beforehand."""

    def __post_init__(self) -> None:
        if sorted(self.vendor_axes) != sorted("NHWC"):
            raise ValueError(f"expected vendor_axes to order N, H, W and C, got {self.vendor_axes!r}")
        if not self.kernels:
            raise ValueError("expected at least one kernel")
        for i, rule in enumerate(self.rules):
            if rule.kernel not in self.kernels:
                raise ValueError(f"rules[{i}].kernel {rule.kernel!r} is not in kernels {list(self.kernels)}")


# --- runtimes/*.toml: what XNNPACK takes ----------


Allowed = tuple[bool | int | str, ...] | dict[Literal["min", "max"], float]
"""Values of a feature, or the ends of a range; an end that is missing is open."""


class CensusRow(Value, frozen=True):
    """What XNNPACK does with one op in some circumstances, generalised from single-op models it was shown.

    ``takes``: claims and runs; ``fails``: claims, then refuses to prepare or run, and the model with it;
    ``unpacks``: turns a constant into a constant by itself. Where no row fits, it does not claim the op.

    ``types``: element types of operands, ``float32 int8 -> float32`` with repetitions written once and ``-`` for an
    absent one; empty for any. ``when``: by feature of the op either the values or ``{min, max}`` that were seen;
    a feature that is not named makes no difference. The first row that fits decides.
    """

    op: str
    verdict: Literal["takes", "fails", "unpacks"]
    types: tuple[str, ...] = ()
    when: dict[str, Allowed] = {}


class Runtime(Value, frozen=True, dict=True):
    schema: Literal["edgedeploy.runtime/1"]
    name: str
    version: str
    sources: dict[str, str]
    xnnpack_default: bool
    """XNNPACK applies without being asked."""
    taken_on: str
    """Machine architecture the census was taken on, and how."""
    census: tuple[CensusRow, ...]
    builtin_kernels: tuple[str, ...]
    """Builtin ops the runtime has a kernel for."""
    custom_kernels: tuple[str, ...]
    """Custom ops the runtime registers by itself."""
    source: str = ""
    """Where all this comes from: a key of ``sources``."""
    tried: tuple[str, ...] = ()
    """Ops that the census looked at: one of these that no row speaks of is left by XNNPACK."""
    kernel_versions: dict[str, int] = {}
    """Newest version of each builtin op that the runtime loads; an op without entry is not judged."""
    graph_rules: dict[str, bool] = {}
    """``all_subgraphs``: XNNPACK looks at branches, bodies and conditions like at the main subgraph.
    ``skips_decompositions``: not at the subgraph that a composite stands for. ``unpacks_with_all_readers``: it claims
    what ``unpacks`` only with every op that reads it. ``handles_follow_users``: it claims the handle of a variable
    with an op that uses it."""

    @cached_property
    def rows_of(self) -> Mapping[str, tuple[tuple[int, CensusRow], ...]]:
        """Op -> its census rows in order, each with its number in the census."""
        found: dict[str, list[tuple[int, CensusRow]]] = {}
        for number, row in enumerate(self.census):
            found.setdefault(row.op, []).append((number, row))
        return {op: tuple(rows) for op, rows in found.items()}
