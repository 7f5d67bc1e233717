# SPDX-License-Identifier: Apache-2.0
"""The user's devices: which there are, what they are, and what has been put on them."""
