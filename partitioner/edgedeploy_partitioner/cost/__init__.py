# SPDX-License-Identifier: Apache-2.0
"""What an op, a transition and a hand-over cost on a board: ``overhead + max(work / throughput, bytes / bandwidth)``.

One module per cost model of a back end; ``Backend.cost_model`` names it.
"""

from edgedeploy_partitioner.cost.cpu import CpuCost as CpuCost
from edgedeploy_partitioner.cost.neon import NeonCost as NeonCost
from edgedeploy_partitioner.cost.npu import NpuCost as NpuCost
from edgedeploy_partitioner.cost.npu import npu_cost as npu_cost
from edgedeploy_partitioner.cost.ranges import FREE as FREE
from edgedeploy_partitioner.cost.ranges import Cost as Cost
from edgedeploy_partitioner.cost.ranges import Range as Range
from edgedeploy_partitioner.cost.ranges import fixed as fixed

__all__ = ["FREE", "Cost", "CpuCost", "NeonCost", "NpuCost", "Range", "fixed", "npu_cost"]
