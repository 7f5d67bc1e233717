# SPDX-License-Identifier: Apache-2.0
"""What is in a model, beyond its ops: its kind, what is odd about it, and what a stock runtime would refuse."""

from edgedeploy_partitioner.model.facts.finding import Finding
from edgedeploy_partitioner.model.facts.kind import compiled_for, dtype_class
from edgedeploy_partitioner.model.facts.oddities import oddities
from edgedeploy_partitioner.model.facts.refusals import runtime_refusals

__all__ = ["Finding", "compiled_for", "dtype_class", "oddities", "runtime_refusals"]
