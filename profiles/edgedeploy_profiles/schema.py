# SPDX-License-Identifier: Apache-2.0
"""What a profile file says, as frozen values. Every number carries its source."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of everything in a profile; an unknown key is an error."""


class Quantity(Value, frozen=True):
    """A number with bounds and source. In TOML: ``{ value = 2.4, low = 2.2, high = 2.4, source = "sbc-bench" }``.

    ``source`` is a key of the file's ``[sources]`` table, or ``assumed: why``. Without ``low`` and ``high`` the
    value is taken as exact.
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


# --- cores/*.toml: what one kind of CPU core does per cycle ----------


class OpRate(Value, frozen=True):
    """CPU cost of one class of ops on one core: ``max(work / rate, bytes / bandwidth) + overhead``.

    ``macs_per_cycle`` for classes counted in multiply-accumulates, ``elements_per_cycle`` (output elements) for
    the others; exactly one of them. ``threaded`` false: one thread whatever is asked for.
    """

    threaded: bool
    macs_per_cycle: Quantity | None = None
    elements_per_cycle: Quantity | None = None


class Core(Value, frozen=True):
    """One CPU core type. ``rates[kernel][op_class][dtype]``; kernel is ``xnnpack`` or ``builtin``."""

    schema: Literal["edgedeploy.core/1"]
    name: str
    title: str
    sources: dict[str, str]
    isa: dict[str, bool]
    ipc: Quantity
    op_overhead_us: dict[str, Quantity]
    """Fixed time per op, by kernel."""
    thread_efficiency: Quantity
    """Speed-up per added thread: n threads run 1 + (n - 1) * efficiency times as fast."""
    rates: dict[str, dict[str, dict[str, OpRate]]]


# --- boards/*.toml ----------


class Cluster(Value, frozen=True):
    name: str
    core: str
    """Name of a ``cores/*.toml`` file."""
    cpus: tuple[int, ...]
    clock_ghz: Quantity
    bandwidth_gb_s: Quantity
    """What one core of the cluster can move, read plus written bytes."""
    l1d_bytes: int | None = None
    l2_bytes: int | None = None


class Ram(Value, frozen=True):
    bandwidth_gb_s: Quantity
    """What all cores together can move."""


class Stack(Value, frozen=True):
    """One NPU software stack of a board: its back end, table section and costs."""

    backend: str
    """Name of a ``backends/*.toml`` file."""
    soc: str
    """The section of the table that applies, e.g. ``rk3588``."""
    device_nodes: tuple[str, ...]
    costs: dict[str, Quantity]
    """Constants of the back end's cost model, by name; the model says which it needs."""


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
    software: dict[str, str] = {}
    """Usual OS, kernel, Python and libc, for people."""
    notes: tuple[str, ...] = ()


# --- backends/*.toml: support tables ----------


class Rule(Value, frozen=True):
    """One row of a support table: a TFLite op and what must hold for it.

    ``maps_to`` is what the op becomes on the NPU; ``kernel`` which of the back end's kernels runs it;
    ``require`` are predicates by name with their numbers, all of which must hold. Several rows of one op are
    alternatives, tried in order.
    """

    op: str
    maps_to: str
    source: str
    kernel: str = "npu"
    require: dict[str, Any] = {}
    verdict: Literal["supported", "unknown"] = "supported"
    """What to say when everything holds; ``unknown`` where the table gives no limits."""
    note: str = ""
    socs: tuple[str, ...] = ()
    """Only for these SoCs; empty for all of the table."""


class Refusal(Value, frozen=True):
    """Ops that the table is known to refuse, with the reason in words."""

    ops: tuple[str, ...]
    reason: str
    source: str


class Backend(Value, frozen=True):
    schema: Literal["edgedeploy.backend/1"]
    name: str
    title: str
    sdk_version: str
    sources: dict[str, str]
    delegate: str
    """Who claims the ops in TFLite: ``edgedeploy`` for libedgedeploy.so, or the stock delegate's name."""
    library: str
    cost_model: str
    """Name of the cost model that prices this back end."""
    kernels: tuple[str, ...]
    layouts: dict[str, str]
    """Native layout by element type, e.g. ``int8 = "NC1HWC2/16"``."""
    socs: tuple[str, ...]
    rules: tuple[Rule, ...]
    refusals: tuple[Refusal, ...] = ()
    vendor_axes: str = "NHWC"
    """Axis order the vendor's rules are written in, e.g. ``NCHW``."""
    transposes: tuple[dict[str, Any], ...] = ()
    hardware_note: str = ""


# --- runtimes/*.toml: what XNNPACK takes ----------


class CensusRow(Value, frozen=True):
    """One observation: single-op models with this key, and what XNNPACK did with them.

    ``takes``: claims and runs; ``leaves``: does not claim; ``fails``: claims, then refuses to prepare.
    """

    op: str
    verdict: Literal["takes", "leaves", "fails"]
    when: dict[str, Any] = {}


class Runtime(Value, frozen=True):
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
    graph_rules: dict[str, bool] = {}
