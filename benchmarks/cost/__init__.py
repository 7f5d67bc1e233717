# SPDX-License-Identifier: Apache-2.0
"""How far the predicted latencies are from published ones: ``python -m benchmarks.cost``."""

GROUPS = {"yes": "fitted", "bounds": "bounds", "no": "unfitted"}
"""Column ``fitted``: what a row was used for (values of constants, bounds of constants, nothing), and its name here."""
