# SPDX-License-Identifier: Apache-2.0
"""What a back end says about an op: tables, predicates, verdicts."""
