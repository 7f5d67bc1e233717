# SPDX-License-Identifier: Apache-2.0
"""Instructions per element of our kernels and of the stock runtime, in one emulated run.

    python -m benchmarks.kernels [KERNEL ...] [--core cortex-a76]

Every op and type of every kernel in the manifest, on a 40x40x64 image or what else is usual for the op, one thread;
the stock runtime as it comes, with XNNPACK, with the kernels that it chooses for that core. These are instructions in
emulation, not time on silicon: a count says nothing of caches, and of two kernels for different cores the longer one
may be the faster. Of the stock runtime, what an invoke of a one-element op takes is left out.

Ends with 1 if a kernel is not better than the stock runtime, or takes other than the manifest says.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import edgedeploy_kernels
from benchmarks.kernels.measure import Counted, Work, count
from edgedeploy_profiles import load_kernels
from edgedeploy_profiles.load import load_core
from edgedeploy_profiles.schema import Kernel
from support.userland import userland

_IMAGE = ("1x40x40x64",)
SHAPES = {
    "STRIDED_SLICE": (*_IMAGE, "1x320x320x3"),
    "SOFTMAX": ("1x128x128x4", "1x40x40x16", *_IMAGE, "1x1000"),
    "LOG_SOFTMAX": ("1x128x128x4", "1x40x40x16", *_IMAGE, "1x40x80", "1x1000"),
    "CONV_2D": ("1x4x2100x16",),
    "AVERAGE_POOL_2D": ("1x40x40x24", *_IMAGE),
    "MAX_POOL_2D": ("1x40x40x24", *_IMAGE),
    "RESIZE_BILINEAR": ("1x40x40x1", "1x40x40x3", "1x40x40x8", "1x40x40x24", *_IMAGE, "1x33x33x21x16"),
    "PRELU": ("1x40x40x3", "1x40x40x24", *_IMAGE),
    "CONCATENATION": ("1x40x40x24", "1x40x40x96", "1x40x40x384"),
    "TOPK_V2": ("1x6400", "400x80", "1x1x6400", "1x40x80", "1x1x1x8400"),
    "NON_MAX_SUPPRESSION_V4": ("1000",),
    "NON_MAX_SUPPRESSION_V5": ("1000",),
    "CUSTOM:TFLite_Detection_PostProcess": ("1917x91", "1917x91x1"),
}
"""By op, where an image is not what it is usually given: five of a row, half of it, an eighth; boxes and their scores,
once more by class; images that become 16 times as large, not twice."""
BORDERS = tuple(
    Work(kernel, "neon", f"edgedeploy.{kernel}", dtype, "1x40x40x64", "xnnpack")
    for kernel, types in (("to_blocks", ("int8", "uint8", "float32")), ("from_blocks", ("int8", "uint8", "int16")))
    for dtype in types
)
"""Conversions that stand between layouts: no ops of TFLite, and so neither planned nor known to the stock runtime."""
_CORES = ("cortex-a76", "cortex-a53")
_TOLERANCE = 0.1
"""Of the manifest's number of instructions."""


def works(kernel: Kernel, manifest: Mapping[str, Kernel]) -> Iterator[Work]:
    by_op = kernel.require.get("types_by_op", {})
    for op in kernel.ops:
        for dtype in by_op.get(op, kernel.dtypes):
            for shape in SHAPES.get(op, _IMAGE):
                work = Work(kernel.name, "neon", op, dtype, shape, "xnnpack")
                host = host_of(work, manifest)
                yield from (work,) if host is None else (host, work)


def host_of(work: Work, manifest: Mapping[str, Kernel]) -> Work | None:
    """The op before by itself, of a kernel that computes that too."""
    fusion = manifest[work.kernel].fusion
    into = fusion.into if fusion else ()
    hosts = ((kernel.name, op) for kernel in manifest.values() for op in kernel.ops if op in into)
    return next((replace(work, kernel=name, op=op) for name, op in hosts), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("kernels", nargs="*", metavar="KERNEL")
    parser.add_argument("--core", action="append", help=f"default: {' and '.join(_CORES)}")
    options = parser.parse_args()
    manifest = {kernel.name: kernel for kernel in load_kernels(edgedeploy_kernels.manifest()).kernels}
    if unknown := sorted(set(options.kernels) - set(manifest)):
        sys.exit(f"no kernel {unknown[0]!r}; there are {', '.join(manifest)}")
    chosen = [kernel for name, kernel in manifest.items() if name in (options.kernels or manifest)]
    wrong = []
    try:
        board = userland()
        for core in options.core or _CORES:
            print(f"\nInstructions in emulation, not time on silicon: {board.runtime(load_core(core)).title}, {core}")
            print("kernel            op                  type     shape           stock  kernel  ratio   copy")
            planned = [work for kernel in chosen for work in works(kernel, manifest)]
            found = count([*planned, *(() if options.kernels else BORDERS)], board, load_core(core))
            for row in found:
                print(_line(row), flush=True)
            by_work = {row.work: row for row in found}
            for row in found[: len(planned)]:
                before = host_of(row.work, manifest)
                host = None if before is None else by_work[before]
                wrong += [f"{core}: {_name(row.work)}: {problem}" for problem in _problems(row, manifest, host)]
    except LookupError as error:
        sys.exit(f"benchmarks.kernels: {error}")
    print("\n" + "\n".join(wrong or ["every kernel is better than the stock runtime, by what the manifest says"]))
    return 1 if wrong else 0


def _line(row: Counted) -> str:
    stock, ours = (None if n is None else n / row.elements for n in (row.stock, row.kernel))
    ratio = f"{stock / ours:6.1f}" if stock is not None and ours else "     -"
    shown = [f"{value:7.2f}" if value is not None else "      -" for value in (stock, ours)]
    what = f"{row.work.kernel:17} {row.work.op:19} {row.work.type:8} {row.work.shape:12}"
    return f"{what} {shown[0]} {shown[1]} {ratio} {row.copy / row.elements:6.3f}"


def _name(work: Work) -> str:
    return f"{work.kernel} for {work.op} of {work.type} {work.shape}"


def _problems(row: Counted, manifest: Mapping[str, Kernel], host: Counted | None) -> Iterator[str]:
    told = manifest[row.work.kernel].variants[row.work.variant].instr_per_elem
    if row.kernel is None:
        yield "the kernel does not take it"
        return
    if row.stock is None:
        yield f"the stock runtime refuses: {row.refusal}"
    elif row.kernel >= row.stock:
        yield f"{row.kernel} instructions, the stock runtime takes {row.stock}"
    ours = (row.kernel - (host.kernel or 0 if host else 0)) / row.elements
    if not told.lowest * (1 - _TOLERANCE) <= ours <= told.highest * (1 + _TOLERANCE):
        yield f"{ours:.2f} instructions an element, the manifest says {told.lowest:g} to {told.highest:g}"


if __name__ == "__main__":
    sys.exit(main())
