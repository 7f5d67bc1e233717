# SPDX-License-Identifier: Apache-2.0
"""Predicted memory against what real runtimes take: arena, heap, and the peak of the process.

    python -m benchmarks.memory [DIR] [-v] [--emulated] [--runtime NAME==VERSION] [--xnnpack on|off] [--threads N]
                                 [--repeats N]

Runs every .tflite file in DIR (``examples/`` if not given) in each runtime that is there (tests/support/runtimes.py),
with XNNPACK and without. Arena: that of the main subgraph; "exact" counts the models for which
the product says that it knows them to the byte, and of those the ones where it does. Heap: what malloc gave out, after
two runs. Peak: VmHWM less the resident bytes before, in a process that ran another model first and has every page of
the libraries resident, so that code which a model is the first to touch does not count as its own; the median of N
processes, 3 if not given. The peak is that of the process with the whole file mapped. On emulated arm64 boards
(``--emulated``) resident memory is the emulator's:
there only arena and heap are compared.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from benchmarks.memory.measure import Pair, Result, Setting, Skipped, compare
from edgedeploy_profiles.load import load_core
from support.runtimes import Runtime, present
from support.userland import userland

_EXAMPLES = Path(__file__).parents[2] / "examples"
_TINY = _EXAMPLES / "dscnn_kws.int8.tflite"
_KB = 1000
_REASON = 80


def main() -> int:
    options = _parser().parse_args()
    models = sorted(options.folder.rglob("*.tflite"))
    if not models:
        sys.exit(f"{options.folder}: no .tflite file there")
    try:
        there = [*present(), *(emulated() if options.emulated else ())]
    except LookupError as error:
        sys.exit(f"--emulated: {error}")
    runtimes = [r for r in there if options.runtime in (None, f"{r.name}=={r.version}")]
    if not runtimes:
        sys.exit(f"--runtime {options.runtime}: there are {', '.join(f'{r.name}=={r.version}' for r in there)}")
    settings = [x == "on" for x in ("on", "off") if options.xnnpack in (None, x)]
    wrong = 0
    print(f"{len(models)} models in {options.folder.name}/; errors are predicted/measured - 1")
    for setting in (Setting(r, xnnpack, options.threads) for r in runtimes for xnnpack in settings):
        found = list(
            track(
                compare(models, setting, _TINY, options.repeats),
                setting.title,
                len(models),
                disable=not sys.stderr.isatty(),
            )
        )
        results = [r for r in found if isinstance(r, Result)]
        print(f"\n{setting.title}: {len(results)} models", flush=True)
        if options.verbose:
            _details(results)
        print("\n".join(_summary(results)) if results else "  none of them runs")
        skipped = [s for s in found if isinstance(s, Skipped)]
        if options.verbose:
            print("\n".join(f"  left out: {s.model.name} {s.reason[:_REASON]}" for s in skipped))
        elif skipped:
            print(f"  {len(skipped)} left out: the runtime does not run them, or they cannot be planned (-v: why)")
        wrong += sum(r.is_exact and r.arena.error != 0 for r in results)
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=_EXAMPLES, metavar="DIR")
    parser.add_argument("-v", "--verbose", action="store_true", help="every model, and why others are left out")
    parser.add_argument("--xnnpack", choices=("on", "off"), help="only so")
    parser.add_argument("--emulated", action="store_true", help="on emulated arm64 boards as well")
    parser.add_argument("--runtime", metavar="NAME==VERSION", help="only this one")
    parser.add_argument(
        "--repeats", type=int, choices=range(1, 10, 2), default=3, metavar="N", help="processes a model"
    )
    parser.add_argument("--threads", type=int, choices=range(1, 65), default=1, metavar="N")
    return parser


def emulated() -> list[Runtime]:
    """The runtime on an emulated board of each kind of core that its kernels are chosen by."""
    board = userland()
    return [board.runtime(load_core(core)) for core in ("cortex-a53", "cortex-a76")]


def _details(results: Iterable[Result]) -> None:
    print(f"  {'model':42} {'arena':>20} {'heap KB':>18} {'':>6} {'peak KB':>18}")
    for r in sorted(results, key=lambda r: r.model.name):
        arena = f"{r.arena.predicted}" if r.arena.error == 0 else f"{r.arena.predicted} / {r.arena.measured}"
        mark = "" if r.is_exact else "bound"
        peak = "" if r.peak is None else _both(r.peak) + ("" if r.is_inside else " outside")
        print(f"  {r.model.stem[-42:]:42} {arena:>20} {mark:5} {_both(r.heap)} {peak}")


def _both(pair: Pair) -> str:
    return f"{pair.predicted / _KB:8.0f} / {pair.measured / _KB:8.0f} {pair.error:+7.1%}"


def _summary(results: Sequence[Result]) -> list[str]:
    exact = [r for r in results if r.is_exact]
    hit = sum(r.arena.error == 0 for r in exact)
    held = sum(r.has_arena_inside for r in results if not r.is_exact)
    peaks = [r for r in results if r.peak is not None]
    others = len(results) - len(exact)
    lines = [
        f"  arena  {hit} of {len(exact)} exact to the byte; the bounds of the other {others} hold for {held}",
        f"  heap   {_errors(results, lambda r: r.heap)}",
    ]
    if peaks:
        inside = sum(r.is_inside for r in peaks)
        lines.append(f"  peak   {_errors(peaks, lambda r: r.peak)}; {inside} of {len(peaks)} inside their bounds")
    return lines


def _errors(results: Sequence[Result], of: Callable[[Result], Pair | None]) -> str:
    errors = sorted(abs(pair.error) for r in results if (pair := of(r)) is not None)
    p90 = errors[min(len(errors) - 1, int(len(errors) * 0.9))]
    return f"|error| median {statistics.median(errors):.1%}, p90 {p90:.1%}, worst {errors[-1]:.0%}"


if __name__ == "__main__":
    sys.exit(main())
