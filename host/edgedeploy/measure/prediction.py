# SPDX-License-Identifier: Apache-2.0
"""The prediction that stands beside a measurement."""

from __future__ import annotations

from edgedeploy import api
from edgedeploy.measure.subject import Subject
from edgedeploy_partitioner.errors import PlanningError
from edgedeploy_partitioner.plan import Plan
from edgedeploy_profiles import ProfileError

BOARD = "local"


def prediction(subject: Subject, threads: int | None, cpus: str | None) -> Plan | None:
    """A bundle's own plan, or one for this machine without NPU; None where the model cannot be planned for it."""
    if subject.plan is not None:
        return subject.plan
    try:
        return api.partition(subject.file, BOARD, npu="none", name=subject.name, threads=threads, cpus=cpus)
    except (PlanningError, ProfileError):
        return None
