# SPDX-License-Identifier: Apache-2.0
"""In what blocks XNNPACK's kernels read their weights, by core.

Read off the allocations of ai-edge-litert 2.3.0 for single ops of seeded shapes: for x86-64 with AVX2 on a machine that
has it; for arm64 in QEMU's user mode, where the library sees the extensions of the emulated CPU and the part number of
the core. Nothing was measured on an ARM machine; on x86-64 the emulated CPU gave the tiles of the real one. Of older
releases only x86-64 was looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from edgedeploy_partitioner.memory.release import LITERT_2_3, Release
from edgedeploy_profiles.schema import Core

Arithmetic = Literal["float32", "int8", "uint8", "dynamic", "dynamic4"]
"""What the products are made of; ``dynamic`` is a float input that is quantised while it runs, by int8 weights or
those of fewer bits."""

_CORTEX_A53, _CORTEX_A55, _CORTEX_A72, _CORTEX_A73 = 0xD03, 0xD05, 0xD08, 0xD09


class Tile(NamedTuple):
    """A matrix kernel makes ``nr`` results at a time out of ``kr`` products each, for one of ``rows`` rows at once."""

    nr: int
    kr: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tiles:
    """``filters`` are for convolutions with a filter larger than 1x1, ``products`` for the rest. Floats with fewer
    results than a tile use ``narrow``, and so does what wastes much of the last tile.

    ``channels`` is how many a depthwise kernel takes at once, by the taps of its filter; a smaller one is padded.
    """

    filters: Mapping[Arithmetic, Tile]
    products: Mapping[Arithmetic, Tile]
    narrow: Tile
    channels: Mapping[Arithmetic, Mapping[int, int]]
    alignment_bytes: int
    reads_half: bool
    """Convolutions and FULLY_CONNECTED read weights in half precision; else the delegate unpacks and keeps them."""
    multiplies_sparse: bool
    """Sparse weights may stay sparse, which takes less than is modelled."""
    delegate_bytes: int
    """Of the heap, whatever it takes."""
    fills_start: bool = True
    """A value in the workspace may lie below the lowest that is alive with it."""
    fuses: bool = False
    """An activation whose input nobody else reads is done by the operator before it."""
    op_bytes: int = 400
    """Of the heap for an operator that neither convolves nor multiplies matrices."""
    border_bytes: int = 12_000
    """By which resident memory grows beyond the heap."""


def _x86_64() -> Tiles:
    int8, dynamic = Tile(8, 8, (1, 3)), Tile(8, 8, (1, 4))
    filters: dict[Arithmetic, Tile] = {
        "float32": Tile(16, 1, (1, 5)), "int8": int8, "uint8": int8, "dynamic": dynamic
    }  # fmt: skip
    return Tiles(
        filters=filters,
        products={**filters, "dynamic4": Tile(8, 16, (1, 4))},
        narrow=Tile(8, 1, (1, 5, 10)),
        channels={"float32": {3: 16, 4: 16, 9: 16, 25: 16}, "int8": {3: 16, 9: 16, 25: 16}, "uint8": {9: 16, 25: 16}},
        alignment_bytes=64,
        reads_half=True,
        multiplies_sparse=False,
        delegate_bytes=6000,
    )


X86_64 = _x86_64()


def tiles(core: Core | None, release: Release = LITERT_2_3) -> Tiles:
    """The tiles of a machine whose fastest core is ``core``: XNNPACK asks no other. None is an x86-64 with AVX2."""
    newest = X86_64 if core is None or "asimd" not in core.isa else _arm64(core)
    if release >= LITERT_2_3:
        return newest
    older = replace(newest, fills_start=False)
    # By the first partition of any model its configuration is set up already: the delegate does it when it is created.
    return older if release.is_litert else replace(
        older, reads_half=False, fuses=True, delegate_bytes=0, op_bytes=2050, border_bytes=4000
    )  # fmt: skip


def _arm64(core: Core) -> Tiles:
    has_dot, has_matrix, part = "dotprod" in core.isa, "i8mm" in core.isa, core.arm_part
    lanes = Tile(16, 1, (1, 4))
    if has_dot or has_matrix:
        int8 = Tile(16, 8 if has_matrix else 4, (1, 4))
    else:
        int8 = lanes if part == _CORTEX_A53 else Tile(8, 8, (1, 2))
    rows = {_CORTEX_A72: (1, 4), _CORTEX_A73: (1, 6)}.get(part or 0, (1, 4, 6))
    filters: dict[Arithmetic, Tile] = {"float32": Tile(8, 1, rows), "int8": int8, "uint8": lanes, "dynamic": int8}
    # KleidiAI's kernels: quantised rows of a multiple of 32 products.
    dynamic: dict[Arithmetic, Tile] = {
        "dynamic": Tile(4, 32, (16,)) if has_dot else int8,
        "dynamic4": Tile(16, 2, (6,)) if not has_dot else Tile(8, 32, (8,)) if has_matrix else Tile(4, 32, (16,)),
    }
    return Tiles(
        filters=filters,
        products=filters | dynamic,
        narrow=Tile(2, 1, (4,)),
        channels={
            "float32": {3: 8, 4: 8, 9: 4 if part in (_CORTEX_A53, _CORTEX_A55) else 8, 25: 8},
            "int8": {3: 16, 9: 16, 25: 16},
            "uint8": {9: 16, 25: 8},
        },
        alignment_bytes=16,
        reads_half="fp16" in core.isa,
        multiplies_sparse=True,
        delegate_bytes=7000,
    )
