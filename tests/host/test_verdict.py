# SPDX-License-Identifier: Apache-2.0
"""When a measurement is to be trusted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgedeploy.measure.statistics import summarise
from edgedeploy.measure.verdict import judge

QUIET = list(range(1000, 1010)) * 20


def seen(load: float | None = 0.0, *throttled: str, now_khz: int | None = 2_000_000, **more: Any) -> dict[str, Any]:
    cluster = {"cpus": [4, 5], "max_khz": 2_400_000, "now_khz": now_khz, "governor": "schedutil", **more}
    return {"clusters": [cluster], "throttled": list(throttled), "load": load, "temperatures": []}


def verdict(samples: list[int], *conditions: dict[str, Any]) -> tuple[str, list[str]]:
    return judge(samples, summarise(samples), conditions or (seen(), seen()), 2)


def test_a_quiet_machine_gives_a_valid_measurement() -> None:
    assert verdict(QUIET) == ("valid", [])
    assert verdict(QUIET, seen(None, now_khz=None, max_khz=None), seen(None, now_khz=None, max_khz=None))[0] == "valid"


def test_a_load_from_before_the_measurement_does_not_count() -> None:
    assert verdict(QUIET, seen(2.0), seen(0.0))[0] == "valid"


@pytest.mark.parametrize(
    ("conditions", "expected", "words"),
    [
        ((seen(), seen(0.1), seen(0.5)), "busy", "0.30 of the 2 CPUs"),
        ((seen(), seen(0.0, "cooling by cpu-cooling")), "throttled", "cooling by cpu-cooling"),
        ((seen(0.0, "the firmware"), seen()), "throttled", "the firmware"),
        ((seen(), seen(max_khz=1_200_000), seen()), "throttled", "CPUs 4,5 went from 2.40 to 1.20 GHz"),
        ((seen(), seen(cpus=[4])), "valid", ""),
        ((seen(), {**seen(), "clusters": []}), "throttled", "CPUs 4,5 were turned off"),
        ((seen(), seen(cpus=[0])), "throttled", "CPUs 4,5 were turned off"),
        ((seen(), seen(max_khz=1_200_000)), "throttled", "CPUs 4,5 went from 2.40 to 1.20 GHz"),
        (
            (seen(governor="performance"), seen(governor="performance", now_khz=1_500_000)),
            "throttled",
            "2.00 to 1.50 GHz",
        ),
        ((seen(), seen(now_khz=1_500_000)), "valid", ""),  # a governor that follows the load
    ],
)
def test_conditions_decide(conditions: tuple[dict[str, Any], ...], expected: str, words: str) -> None:
    found, reasons = verdict(QUIET, *conditions)
    assert found == expected
    assert any(words in reason for reason in reasons) or not words


def test_what_was_to_cool_down_and_did_not_is_told() -> None:
    summary = summarise(QUIET)
    zones = [{"zone": "a", "celsius": 40.0}, {"zone": "b", "celsius": 55.4}]
    hot = [{**seen(), "temperatures": zones}, seen()]
    assert judge(QUIET, summary, hot, 2, 50.0) == ("throttled", ["it began at 55 C, not 50"])
    assert judge(QUIET, summary, hot, 2, 56.0) == judge(QUIET, summary, hot, 2) == ("valid", [])
    assert judge(QUIET, summary, [seen(), seen()], 2, 50.0)[1] == ["it tells no temperature to cool down to"]


def test_samples_decide() -> None:
    random = np.random.default_rng(1)
    found, reasons = verdict([int(x) for x in random.lognormal(10, 1, 60)])
    assert (found, "the median is known to" in reasons[0]) == ("noisy", True)
    assert verdict([1000] * 5) == ("noisy", ["5 samples are too few for a confidence interval"])
    found, reasons = verdict([1000 + i for i in range(200)])
    assert (found, reasons) == ("noisy", ["it got 13% slower while it ran"])
    assert verdict([1200 - i for i in range(200)])[1] == ["it got 11% faster while it ran"]


def test_every_reason_is_told_and_the_worst_names_it() -> None:
    found, reasons = verdict([1000] * 5, seen(), seen(1.0, "cooling by cpu"))
    assert (found, len(reasons)) == ("throttled", 3)
    assert verdict([1000] * 5, seen(), seen(1.0))[0] == "busy"
