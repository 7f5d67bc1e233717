# SPDX-License-Identifier: Apache-2.0
"""What the stock TFLite runtime does: which ops XNNPACK claims, and how claims change the execution plan."""
