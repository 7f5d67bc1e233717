# SPDX-License-Identifier: Apache-2.0
"""One benchmark: run a model on a device until enough is known, and say how far that can be trusted."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

from edgedeploy.measure.claims import read_report, runtime_json
from edgedeploy.measure.errors import Garbled
from edgedeploy.measure.messages import plain
from edgedeploy.measure.session import Session, Settings
from edgedeploy.measure.statistics import Summary, summarise
from edgedeploy.measure.subject import Subject, entry_json
from edgedeploy.measure.verdict import Verdict, judge
from edgedeploy_partitioner.model.build import Model
from edgedeploy_partitioner.plan import Plan

SCHEMA = "edgedeploy.bench/1"
BUDGET_S = 10.0
COOLING_S = 300.0
TIGHT = 0.01
"""Half the confidence interval, as a share of the median, that ends a measurement."""
LEAST_RUNS = 50
LEAST_BATCHES = 4
LOOK_AGAIN = 1.2
"""Times more samples: sorting them all after every batch would take time from what is measured on this machine."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How long to go on: exactly ``runs``, or at least ``min_time_s``, or until the median is known well enough."""

    runs: int = 0
    min_time_s: float = 0.0
    warmup: int = 1

    @property
    def most_s(self) -> float:
        return 0.0 if self.runs else self.min_time_s or BUDGET_S

    @property
    def is_open(self) -> bool:
        """Does it end when enough is known?"""
        return not (self.runs or self.min_time_s)


@dataclass(frozen=True, slots=True)
class Bench:
    """A measurement. Times in nanoseconds; ``conditions`` and ``memory`` as in the JSON."""

    device: str
    subject: Subject
    runtime: dict[str, Any]
    threads: int
    cpus: list[int]
    load_ns: int
    first_run_ns: int
    samples: list[int]
    summary: Summary
    conditions: list[dict[str, Any]]
    verdict: Verdict
    reasons: list[str]
    memory: dict[str, Any] | None
    plan: Plan | None = None
    """The prediction that stands beside it."""


@dataclass
class _Seen:
    """What a measurement's events have told so far."""

    runtime: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] | None = None
    effective: dict[str, Any] = field(default_factory=dict)
    start: dict[str, Any] = field(default_factory=dict)
    samples: list[int] = field(default_factory=list)
    conditions: list[dict[str, Any]] = field(default_factory=list)


def bench(
    session: Session,
    subject: Subject,
    settings: Settings,
    extent: Extent,
    *,
    memory: bool = False,
    governor: str = "",
    cool_c: float | None = None,
) -> Bench:
    """Measure. Raises what :meth:`Session.measure` does."""
    seen = _Seen()
    asked = {
        "warmup": extent.warmup,
        "most_runs": extent.runs,
        "most_s": extent.most_s,
        "first": _one_op() if memory else b"",
        "governor": governor,
        "cool_c": cool_c,
        "cooling_s": COOLING_S,
    }
    look_at = LEAST_RUNS
    with contextlib.closing(session.measure(settings, **asked)) as events:
        for event in events:
            try:
                _take(seen, event)
            except ValueError:
                raise Garbled(session.device) from None
            if extent.is_open and len(seen.samples) >= look_at and len(seen.conditions) > LEAST_BATCHES:
                if summarise(seen.samples).half_width <= TIGHT:
                    break
                look_at = round(LOOK_AGAIN * len(seen.samples))
    has_report = settings.delegate is None or "report" in seen.runtime
    if not (seen.runtime and has_report and seen.effective and seen.start and seen.samples):
        raise Garbled(session.device)
    summary = summarise(seen.samples)
    cpus = seen.effective["cpus"]
    verdict, reasons = judge(seen.samples, summary, seen.conditions, len(cpus), cool_c)
    return Bench(
        device=session.device,
        subject=subject,
        runtime=seen.runtime,
        threads=seen.effective["threads"],
        cpus=cpus,
        load_ns=seen.start["load_ns"],
        first_run_ns=seen.start["first_run_ns"],
        samples=seen.samples,
        summary=summary,
        conditions=seen.conditions,
        verdict=verdict,
        reasons=reasons,
        memory=seen.memory,
    )


def _one_op() -> bytes:
    """A model of one op, for what any model needs of the runtime."""
    model = Model()
    g = model.subgraph()
    g.outputs(g.apply("NEG", [g.input((1,))], (1,)))
    return model.build()


def _take(seen: _Seen, event: Any) -> None:
    """Raises ValueError for an event that lacks something."""
    kind = event.WhichOneof("event")
    value = plain(getattr(event, kind))
    seen_then = {"start": "before", "batch": "after"}.get(kind)
    if seen_then and value[seen_then] is None:
        raise ValueError(f"{kind} without conditions")
    if kind == "claims":
        seen.runtime["report"] = read_report(value["report"])
    if kind in ("runtime", "memory", "effective", "start"):
        setattr(seen, kind, value)
    if kind == "start":
        seen.conditions.append({"when": "before", **value["before"]})
    if kind == "batch":
        seen.samples += value["samples_ns"]
        seen.conditions.append({"when": f"after {len(seen.samples)} runs", **value["after"]})


def bench_json(found: Bench) -> dict[str, Any]:
    """``edgedeploy.bench/1``."""
    summary = found.summary
    return {
        "schema": SCHEMA,
        "device": found.device,
        "model": {"name": found.subject.name, "sha256": found.subject.sha256},
        "plan_sha256": found.subject.plan_sha256,
        **entry_json(found.subject),
        "runtime": runtime_json(found.runtime, found.subject.plan),
        "threads": found.threads,
        "cpus": found.cpus,
        "load_us": _us(found.load_ns),
        "first_run_us": _us(found.first_run_ns),
        "warm": {
            "samples_us": [_us(sample) for sample in found.samples],
            "median_us": _us(summary.median),
            "p95_us": _us(summary.p95),
            "p99_us": None if summary.p99 is None else _us(summary.p99),
            "min_us": _us(summary.min),
            "ci95_us": None if summary.ci95 is None else [_us(end) for end in summary.ci95],
        },
        "conditions": [_condition(each) for each in found.conditions],
        "verdict": found.verdict,
        "reasons": found.reasons,
        "memory": found.memory,
        "predicted": None if found.plan is None else _predicted(found.plan),
    }


def _condition(seen: dict[str, Any]) -> dict[str, Any]:
    clusters = [
        {key: value for key, value in cluster.items() if key not in ("core", "isa")} for cluster in seen["clusters"]
    ]
    return {
        **seen,
        "clusters": clusters,
        "throttled": bool(seen["throttled"]),
        "throttled_by": seen["throttled"],
    }


def _predicted(plan: Plan) -> dict[str, Any]:
    low, high = plan.predicted.low_ns, plan.predicted.high_ns
    return {
        "latency_us": _us(plan.predicted.latency_ns),
        "low_us": _us(low),
        "high_us": None if high is None else _us(high),
        "peak_bytes": plan.memory.peak_bytes,
    }


def _us(ns: float) -> float:
    return round(ns / 1000, 3)
