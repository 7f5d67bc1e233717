# SPDX-License-Identifier: Apache-2.0
"""The protocol between host and agent."""
