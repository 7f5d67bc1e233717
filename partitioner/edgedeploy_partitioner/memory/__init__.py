# SPDX-License-Identifier: Apache-2.0
"""The runtime's memory planner replayed, and the named lines of the report."""
