# SPDX-License-Identifier: Apache-2.0
"""What a profile file says, as frozen values. Every number carries its source."""

# ruff: noqa: RUF012 - msgspec copies such defaults, and ruff cannot see that a Value is a Struct

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

from msgspec import structs

from edgedeploy_profiles.tables import Backend as Backend
from edgedeploy_profiles.tables import Evidence as Evidence
from edgedeploy_profiles.tables import Fusion as Fusion
from edgedeploy_profiles.tables import Refusal as Refusal
from edgedeploy_profiles.tables import Requirement as Requirement
from edgedeploy_profiles.tables import Rule as Rule
from edgedeploy_profiles.tables import TransposeBound as TransposeBound
from edgedeploy_profiles.values import Quantity as Quantity
from edgedeploy_profiles.values import Rate as Rate
from edgedeploy_profiles.values import Value as Value

KERNELS = ("xnnpack", "builtin")
"""The CPU kernels of the stock runtime: every core and the kernel costs have a row for each."""
MAC_CLASSES = ("conv", "depthwise")
ISA = ("asimd", "fp16", "dotprod", "i8mm", "bf16", "sve", "sve2")
"""Extensions of ARM cores that a C kernel may need, each in the core profiles of those that have it."""
RATE_SUFFIXES = ("_gb_s", "_ghz", "_macs_per_cycle", "efficiency", "fraction", "_block")
"""Constants of a stack that are named like this are rates."""


# --- cores/*.toml: what one kind of CPU core does per cycle ----------


class Core(Value, frozen=True):
    """One CPU core type.

    Ops that multiply are priced by ``macs_per_cycle[kernel][op_class][dtype]`` (one thread, the loop over products),
    and everything by instructions per output element (``costs/cpu-kernels.toml``) and ``ipc``. ``kernel`` is
    ``xnnpack`` or ``builtin``.
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
    isa: tuple[str, ...] = ()
    """Extensions that kernels are chosen by: ``asimd``, ``fp16`` (arithmetic), ``dotprod``, ``i8mm``."""

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
    """The row ``output`` is what ops that multiply spend per output element beside their MACs."""

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
    l3_bytes: int | None = None
    """Of the cluster, shared or not, as L2."""

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
    memory: dict[str, Quantity] = {}
    """How the driver's memory follows from the model, and ``pool_limit_bytes``, the most that it can have. What is not
    given is assumed."""


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


# --- kernels.toml: the C kernels of libedgedeploy.so ----------


class Variant(Value, frozen=True):
    """One build of a kernel. Its time is ``overhead + max(elements x instructions / (IPC x clock), elements x bytes /
    bandwidth)``, elements being those of the outputs, or of the largest input for the ops that
    ``costs/cpu-kernels.toml`` lists as ``per_input``. Without ``bytes_per_elem`` every operand is read or written once.
    """

    symbol: str
    """The C function."""
    isa: tuple[str, ...]
    """What the core must have, e.g. ``["asimd", "dotprod"]``; of several variants the fastest that fits is planned."""
    instr_per_elem: Quantity
    overhead_us: Quantity
    bytes_per_elem: Quantity | None = None
    """Read plus written."""


class Kernel(Value, frozen=True):
    """One kernel: the ops it computes, on which types and layouts, and what must hold for them.

    ``require`` are the predicates of the support tables. ``numerics`` names the stock path whose bits it gives, on
    ``runtime`` (``NAME==VERSION``).
    """

    name: str
    ops: tuple[str, ...]
    dtypes: tuple[str, ...]
    """Element types of all data inputs and outputs."""
    numerics: Literal["xnnpack", "builtin", "ref"]
    runtime: str
    source: str
    variants: dict[str, Variant]
    layouts: tuple[str, ...] = ("NHWC",)
    """Others than NHWC only stand between NPU segments of the same layout."""
    require: dict[str, Any] = {}
    threaded: bool = False
    """Large ops are split over the threads."""
    fusion: Fusion | None = None
    """For a kernel that computes the op before too, which makes its first input: it never computes its own op alone."""

    def __post_init__(self) -> None:
        for key in ("ops", "dtypes", "layouts", "variants"):
            if not getattr(self, key):
                raise ValueError(f"{key}: expected at least one")
        if self.fusion is not None and (self.fusion.required, self.fusion.inputs) != (True, (0,)):
            raise ValueError("fusion: expected required = true and inputs = [0]")
        for name, variant in self.variants.items():
            if unknown := sorted(set(variant.isa) - set(ISA)):
                raise ValueError(f"variants.{name}.isa: expected some of {', '.join(ISA)}, got {unknown[0]!r}")


class Kernels(Value, frozen=True):
    """The manifest of the C kernels."""

    schema: Literal["edgedeploy.kernels/1"]
    sources: dict[str, str] = {}
    kernels: tuple[Kernel, ...] = ()

    def __post_init__(self) -> None:
        names = [kernel.name for kernel in self.kernels]
        if len(set(names)) < len(names):
            raise ValueError("expected every kernel under a name of its own")


# --- runtimes/*.toml: what XNNPACK takes ----------


Allowed = tuple[bool | int | str, ...] | dict[Literal["min", "max"], float]
"""Values of a feature, or the ends of a range; an end that is missing is open."""


class CensusRow(Value, frozen=True):
    """What XNNPACK does with one op in some circumstances, generalised from single-op models it was shown.

    ``takes``: claims and runs; ``fails``: claims, then refuses to prepare or run, and the model with it; ``undoes``:
    the same, but the runtime goes on without any delegate, undoing all claims; ``unpacks``: turns a constant into a
    constant by itself. Where no row fits, it does not claim the op.

    ``types``: element types of operands, ``float32 int8 -> float32`` with repetitions written once and ``-`` for an
    absent one; empty for any. ``when``: by feature of the op either the values or ``{min, max}`` that were seen;
    a feature that is not named makes no difference. The first row that fits decides.
    """

    op: str
    verdict: Literal["takes", "fails", "undoes", "unpacks"]
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
    with an op that uses it. ``dynamic_turns_off``: it looks at no subgraph from the first on in which an op gives its
    result a size only at run time. ``needs_floats``: nor at any of a model without a float32 tensor."""
    baseline_bytes: Quantity | None = None
    """Resident memory of a Python process that holds the runtime and no model, after it ran one of a single op."""

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"

    def switched(self, to: Switched) -> Runtime:
        """The runtime as it is with ``to``."""
        same = {name: getattr(to, name) for name in ("census", "taken_on", "graph_rules")}
        return structs.replace(self, **same, sources={**self.sources, **to.sources}, source=to.source)

    @cached_property
    def may_undo(self) -> bool:
        """There are ops for which the runtime undoes the claims of all delegates."""
        return any(row.verdict == "undoes" for row in self.census)

    @cached_property
    def rows_of(self) -> Mapping[str, tuple[tuple[int, CensusRow], ...]]:
        """Op -> its census rows in order, each with its number in the census."""
        found: dict[str, list[tuple[int, CensusRow]]] = {}
        for number, row in enumerate(self.census):
            found.setdefault(row.op, []).append((number, row))
        return {op: tuple(rows) for op, rows in found.items()}


class Switched(Value, frozen=True):
    """What XNNPACK takes in a runtime when ``libedgedeploy.so`` applies it with 8-bit kernels; the fields are those of
    :class:`Runtime`."""

    schema: Literal["edgedeploy.switched/1"]
    name: str
    version: str
    sources: dict[str, str]
    taken_on: str
    census: tuple[CensusRow, ...]
    source: str = ""
    graph_rules: dict[str, bool] = {}
