# SPDX-License-Identifier: Apache-2.0
"""``partition``: one model, one board, one request -> the plan."""

from __future__ import annotations

from edgedeploy_partitioner.planning.planner import partition as partition
from edgedeploy_partitioner.planning.request import Request as Request
from edgedeploy_partitioner.planning.request import parse_cpus as parse_cpus

__all__ = ["Request", "parse_cpus", "partition"]
