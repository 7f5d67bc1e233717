# SPDX-License-Identifier: Apache-2.0
"""The planning problem as numbers, the integer program and the fixed point."""
