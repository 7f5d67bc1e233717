# SPDX-License-Identifier: Apache-2.0
"""Boards, CPU cores, back ends and runtimes as data, and their typed loader."""

from edgedeploy_profiles.errors import ProfileError as ProfileError
from edgedeploy_profiles.load import arm_cores as arm_cores
from edgedeploy_profiles.load import backend_names as backend_names
from edgedeploy_profiles.load import board_names as board_names
from edgedeploy_profiles.load import board_sha256 as board_sha256
from edgedeploy_profiles.load import kernels_sha256 as kernels_sha256
from edgedeploy_profiles.load import load_backend as load_backend
from edgedeploy_profiles.load import load_board as load_board
from edgedeploy_profiles.load import load_core as load_core
from edgedeploy_profiles.load import load_kernel_costs as load_kernel_costs
from edgedeploy_profiles.load import load_kernels as load_kernels
from edgedeploy_profiles.load import load_runtime as load_runtime
from edgedeploy_profiles.load import load_switched as load_switched
from edgedeploy_profiles.load import runtime_names as runtime_names
from edgedeploy_profiles.load import runtime_sha256 as runtime_sha256
from edgedeploy_profiles.load import switched_names as switched_names
from edgedeploy_profiles.load import table_sha256 as table_sha256

__all__ = [
    "ProfileError",
    "arm_cores",
    "backend_names",
    "board_names",
    "board_sha256",
    "kernels_sha256",
    "load_backend",
    "load_board",
    "load_core",
    "load_kernel_costs",
    "load_kernels",
    "load_runtime",
    "load_switched",
    "runtime_names",
    "runtime_sha256",
    "switched_names",
    "table_sha256",
]
