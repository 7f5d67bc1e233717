# SPDX-License-Identifier: Apache-2.0
"""Can a measurement be trusted? What the conditions and the samples themselves say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from edgedeploy.measure.statistics import Summary, summarise

Verdict = Literal["valid", "noisy", "throttled", "busy"]

WIDEST = 0.05
"""Half the confidence interval, as a share of the median."""
DRIFT = 0.05
"""Between the medians of the first and the last third."""
SLOWER_CLOCK = 0.95
OTHERS = 0.10
"""What other programs may keep busy of the CPUs in use."""
_DRIFT_FROM = 30
_HOT = "the clock of CPUs {} went from {:.2f} to {:.2f} GHz"


def judge(
    samples: Sequence[int],
    summary: Summary,
    conditions: Sequence[dict[str, Any]],
    cpus: int,
    cool_c: float | None = None,
) -> tuple[Verdict, list[str]]:
    """The verdict and everything that speaks against the measurement; throttling goes before load, load before noise.

    ``conditions`` as in ``edgedeploy.bench/1``, the first from before it; ``cpus`` is how many it may use, ``cool_c``
    what the machine was to cool down to.
    """
    throttled = [*dict.fromkeys(reason for each in conditions for reason in each["throttled"]), *_slowed(conditions)]
    throttled += _hot(conditions[0], cool_c)
    busy = _busy(conditions, cpus)
    noisy = _noisy(samples, summary)
    verdict: Verdict = "throttled" if throttled else "busy" if busy else "noisy" if noisy else "valid"
    return verdict, [*throttled, *busy, *noisy]


def _hot(before: dict[str, Any], cool_c: float | None) -> list[str]:
    """It did not cool down in time to what was asked for."""
    degrees = max((each["celsius"] for each in before["temperatures"]), default=None)
    if cool_c is None or (degrees is not None and degrees <= cool_c):
        return []
    return [
        "it tells no temperature to cool down to" if degrees is None else f"it began at {degrees:.0f} C, not {cool_c:g}"
    ]


def _slowed(conditions: Sequence[dict[str, Any]]) -> list[str]:
    """Clusters whose limit sank, whose clock sank under a governor that keeps it, or that were turned off meanwhile."""
    found = []
    for first in conditions[0]["clusters"]:
        cpus = ",".join(map(str, first["cpus"]))
        later = [c for each in conditions[1:] for c in each["clusters"] if set(c["cpus"]) & set(first["cpus"])]
        if not later:
            found.append(f"CPUs {cpus} were turned off")
            continue
        fixed = first["governor"] == later[-1]["governor"] == "performance"
        lowest = min((each["max_khz"] for each in later if each["max_khz"]), default=None)
        for before, after in ((first["max_khz"], lowest), (first["now_khz"], later[-1]["now_khz"] if fixed else None)):
            if before and after and after < SLOWER_CLOCK * before:
                found.append(_HOT.format(cpus, before / 1e6, after / 1e6))
                break
    return found


def _busy(conditions: Sequence[dict[str, Any]], cpus: int) -> list[str]:
    """The load while it ran, which the later conditions have."""
    loads = [each["load"] for each in conditions[1:] if each["load"] is not None]
    mean = sum(loads) / len(loads) if loads else 0.0
    return [f"other programs kept {mean:.2f} of the {cpus} CPUs in use busy"] if mean > OTHERS * cpus else []


def _noisy(samples: Sequence[int], summary: Summary) -> list[str]:
    found = []
    if summary.ci95 is None:
        found.append(f"{summary.count} samples are too few for a confidence interval")
    elif summary.half_width > WIDEST:
        found.append(f"the median is known to {100 * summary.half_width:.1f}% only")
    if len(samples) >= _DRIFT_FROM:
        third = len(samples) // 3
        first, last = summarise(samples[:third]), summarise(samples[-third:])
        change = last.median / first.median - 1 if first.median else 0.0
        if abs(change) > DRIFT and _apart(first, last):
            found.append(f"it got {100 * abs(change):.0f}% {'slower' if change > 0 else 'faster'} while it ran")
    return found


def _apart(a: Summary, b: Summary) -> bool:
    """Do the intervals not overlap?"""
    return a.ci95 is not None and b.ci95 is not None and (a.ci95[1] < b.ci95[0] or b.ci95[1] < a.ci95[0])
