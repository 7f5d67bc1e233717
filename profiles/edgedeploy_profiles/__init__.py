# SPDX-License-Identifier: Apache-2.0
"""Boards, CPU cores, back ends and runtimes as data, and their typed loader."""
