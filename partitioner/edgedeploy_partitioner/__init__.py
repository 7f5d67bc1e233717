# SPDX-License-Identifier: Apache-2.0
"""Pure planning: read a model, decide support, price, solve, check. No network, no subprocess, no terminal."""
