# SPDX-License-Identifier: Apache-2.0
"""The prediction that stands beside a measurement."""

from __future__ import annotations

import contextlib
from typing import Any

from edgedeploy import api
from edgedeploy.measure.bench import Bench
from edgedeploy_partitioner.errors import PlanningError
from edgedeploy_partitioner.plan import Plan
from edgedeploy_profiles import ProfileError


def prediction(found: Bench, board: str | None, cpus: str | None) -> Plan | None:
    """A bundle's own plan, or one for ``board`` without NPU, as it was measured: the same signature, shapes and threads
    and, where its census is known, the same runtime. None where there is no such board or it cannot take the model."""
    subject = found.subject
    if subject.plan is not None or board is None:
        return subject.plan
    runtime = f"{found.runtime['name']}=={found.runtime['version']}"
    options: dict[str, Any] = {
        "npu": "none",
        "name": subject.name,
        "threads": found.threads,
        "cpus": cpus,
        "signature": subject.signature,
        "input_shapes": dict(subject.input_shapes),
    }
    for wanted in (runtime, None):
        with contextlib.suppress(PlanningError, ProfileError):
            return api.partition(subject.file, board, runtime=wanted, **options)
    return None
