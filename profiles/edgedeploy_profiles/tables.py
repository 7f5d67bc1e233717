# SPDX-License-Identifier: Apache-2.0
"""What a support table (``backends/*.toml``) says, as frozen values."""

# ruff: noqa: RUF012 - msgspec copies such defaults, and ruff cannot see that a Value is a Struct

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from edgedeploy_profiles.values import Value

_LAYOUT = re.compile(r"NHWC|NC1HWC2/[1-9]\d{0,3}")


class Requirement(Value, frozen=True):
    """What must hold for every op of the back end, or for some: predicates by name with their numbers."""

    require: dict[str, Any]
    source: str
    otherwise: Literal["refused", "unknown"] = "refused"
    """What to say when it does not hold; ``unknown`` where nobody has written it down, or where versions differ."""
    kernels: tuple[str, ...] = ()
    """Only for these kernels; empty for all."""
    socs: tuple[str, ...] = ()
    """Only for these SoCs; empty for all of the table."""
    ops: tuple[str, ...] = ()
    """Only for these TFLite ops; empty for all."""
    except_ops: tuple[str, ...] = ()
    """Not for these TFLite ops."""
    sdk_version: str = ""
    """The version that asks for it, where the table's does not."""


Evidence = Literal["table", "compile", "measurement"]
"""What says so, weakest first: a vendor's list or code is a claim, a compile is evidence, a measurement is proof."""


class Fusion(Value, frozen=True):
    """An op that can run inside the one that makes an operand of it, e.g. ADD inside CONV_2D.

    That is only possible in one segment, and where nobody else reads the tensor between the two. With ``required``
    the op cannot run there in any other way.
    """

    into: tuple[str, ...]
    required: bool = False
    inputs: tuple[int, ...] = ()
    """Which inputs the host may make; empty for any."""


class Rule(Value, frozen=True):
    """One row of a support table: TFLite ops and what must hold for them.

    ``maps_to`` is what each op becomes on the NPU, e.g. ``{ CONV_2D = "Conv" }``; ``kernel`` which of the back end's
    kernels runs it; ``require`` are predicates by name with their numbers, all of which must hold. Several rows of
    one op are alternatives, tried in order until one is supported. Where rows of different evidence say different
    things of one op, the stronger wins and the reason names both.
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
    fusion: Fusion | None = None
    """Into which producers the ops of this row can be fused."""
    evidence: Evidence = "table"


class Refusal(Value, frozen=True):
    """Ops that are known not to run, with the reason in words."""

    ops: tuple[str, ...]
    reason: str
    source: str
    sdk_version: str = ""
    socs: tuple[str, ...] = ()
    evidence: Evidence = "table"


class TransposeBound(Value, frozen=True):
    """One bound on one permutation, in the vendor's axis order: the product of the sizes of the named axes is
    ``less_than`` a number or a ``multiple_of`` one. A permutation without a row (for that SoC) is not supported."""

    perm: tuple[int, ...]
    product: str = ""
    less_than: int | None = None
    multiple_of: int | None = None
    dtype: str = ""
    """Only for this computed type; empty for all."""
    socs: tuple[str, ...] = ()
    """Only for these SoCs; empty for all of the table."""

    def __post_init__(self) -> None:
        if sorted(self.perm) != [0, 1, 2, 3]:
            raise ValueError(f"expected perm to order the axes 0 to 3, got {list(self.perm)}")
        if not set(self.product) <= set("NHWC"):
            raise ValueError(f"expected product to name axes among N, H, W and C, got {self.product!r}")
        if self.multiple_of is not None and self.multiple_of < 1:
            raise ValueError(f"expected multiple_of of at least 1, got {self.multiple_of}")


class Software(Value, frozen=True):
    """What shows on a device of an NPU's software, beside the back end's ``library``. Files may be patterns."""

    nodes: tuple[str, ...] = ()
    """Device files. In folders that GPUs use too, only those of one of ``drivers`` count."""
    drivers: tuple[str, ...] = ()
    """Of the kernel, as ``/sys/module`` names them."""
    driver_versions: tuple[str, ...] = ()
    """Files that say the driver's version; none where it has none but the kernel's."""
    libraries: dict[str, str] = {}
    """Name -> a regular expression whose group is the version in the file's bytes; empty if it has none."""

    def __post_init__(self) -> None:
        if loose := [path for path in (*self.nodes, *self.driver_versions) if not path.startswith("/")]:
            raise ValueError(f"expected a path from the root, got {loose[0]!r}")
        for name, pattern in self.libraries.items():
            try:
                groups = re.compile(pattern.encode()).groups
            except re.error as error:
                raise ValueError(f"expected a regular expression for {name}, got {pattern!r}: {error}") from None
            if pattern and groups != 1:
                raise ValueError(f"expected one group, the version of {name}, in {pattern!r}")


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
    max_partitions: int | None = None
    """Most partitions of this back end in one model, where its compiler or runtime has a limit."""
    compiler: str = ""
    """Who compiles a segment beforehand, and where, for people."""
    artifact: str = ""
    """What the file of a compiled segment ends with, e.g. ``.rknn``; empty where nothing is compiled beforehand."""
    layouts_by_soc: dict[str, dict[str, str]] = {}
    """``layouts`` of the SoCs that differ from the others, whole."""
    software: Software = Software()

    def __post_init__(self) -> None:
        if sorted(self.vendor_axes) != sorted("NHWC"):
            raise ValueError(f"expected vendor_axes to order N, H, W and C, got {self.vendor_axes!r}")
        if not self.kernels or len(set(self.kernels)) < len(self.kernels):
            raise ValueError(f"expected at least one kernel and none twice, got {list(self.kernels)}")
        if self.delegate in ("", "xnnpack"):
            raise ValueError(f"expected the delegate of an NPU, got {self.delegate!r}")
        if self.max_partitions is not None and self.max_partitions < 1:
            raise ValueError(f"expected max_partitions of at least 1, got {self.max_partitions}")
        every = (self.layouts, *self.layouts_by_soc.values())
        if wrong := [layout for layouts in every for layout in layouts.values() if not _LAYOUT.fullmatch(layout)]:
            raise ValueError(f"expected layouts like NHWC or NC1HWC2/16, got {wrong[0]!r}")
        for i, rule in enumerate(self.rules):
            if rule.kernel not in self.kernels:
                raise ValueError(f"rules[{i}].kernel {rule.kernel!r} is not in kernels {list(self.kernels)}")
        rows: tuple[Rule | Refusal | Requirement | TransposeBound, ...]
        rows = (*self.rules, *self.refusals, *self.every_op, *self.transposes)
        named = {soc for row in rows for soc in row.socs} | self.layouts_by_soc.keys()
        if unknown := sorted(named - set(self.socs)):
            raise ValueError(f"rows for {', '.join(unknown)}, which is not in socs {list(self.socs)}")

    def native_layouts(self, soc: str) -> Mapping[str, str]:
        """Native layout by computed type on ``soc``."""
        return self.layouts_by_soc.get(soc, self.layouts)
