# SPDX-License-Identifier: Apache-2.0
"""How far the predicted latencies are from published ones: ``python -m benchmarks.cost``."""
